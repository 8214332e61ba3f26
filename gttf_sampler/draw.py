"""One step of Algorithm 1: walkers at their nodes → the edges they take.

A BiasFn says how likely each neighbour is. It is a function of the walkers' paths and
of their ragged neighbourhoods, and every entry of those is looked at. A bias that can
do better (the uniform one looks at one entry per draw, whatever the degree) overrides
`Bias.draw`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, Union

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._backends.record import UNIFORM, Batch, Law, Plan
from gttf_sampler._backends.torch.draw import WeightedRows
from gttf_sampler._backends.torch.rows import positions
from gttf_sampler.graph import tables
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.random import Key, stream

if TYPE_CHECKING:  # which draws with what is here
    from gttf_sampler.bias.base import Bias


class Neighborhood(NamedTuple):
    """The rows of the graph in front of the walkers, end to end: e entries in all.

    Attributes:
        adj: the graph.
        walker: [e], which walker an entry is in front of.
        neighbor: [e], the node the entry leads to.
        edge: [e], the position of the entry in `adj.col`.
        ptr: [w + 1]; the entries of walker i are `ptr[i]` to `ptr[i + 1]`.
        root: [w], the number of the seed each walker started from.
        key: of this depth of this batch, for a bias that draws for all walkers at once;
            see `gttf_sampler.random`.
    """

    adj: CompactAdj
    walker: Tensor
    neighbor: Tensor
    edge: Tensor
    ptr: Tensor
    root: Tensor
    key: Key = 0


class BiasFn(Protocol):
    """BiasFn(T, u) of the paper, for all walkers at once.

    A subclass of `gttf_sampler.Bias` may also say how it draws, and what it needs.
    """

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """Weights >= 0, one per entry of the neighbourhood; no mass stops a walker.

        Args:
            path: [w, k], the nodes visited before `node`, seed first.
            node: [w], where the walkers stand, -1 where they have stopped.
            neighborhood: where each of them may go.
        """


Rule = Union["Bias", Law, None]
"""What draws: a bias, a law as data, or None, for which all neighbours are equal."""


class Walkers(NamedTuple):
    """Everything a draw may depend on.

    Attributes:
        adj: the graph.
        path: [w, k], the nodes visited before `node`, seed first.
        node: [w], where the walkers stand, -1 where they have stopped.
        root: [w], the number of the seed each walker started from.
        stream: [w], the random stream of each walker; see `gttf_sampler.random`.
        key: from which the streams were made.
    """

    adj: CompactAdj
    path: Tensor
    node: Tensor
    root: Tensor
    stream: Tensor
    key: Key

    def select(self, index: Tensor) -> Walkers:
        """The walkers at the given positions."""
        names = ("path", "node", "root", "stream")
        chosen = {name: getattr(self, name).index_select(0, index) for name in names}
        return self._replace(**chosen)


def draw_edges(walkers: Walkers, rule: Rule, fanout: int, replace: bool) -> Tensor:
    """The edges [w, fanout] taken, as positions in `adj.col`; -1 where none is."""
    longest = walkers.adj.max_degree
    if not replace and fanout > longest:  # more than there can be
        edge = draw_edges(walkers, rule, longest, replace)
        return torch.nn.functional.pad(edge, (0, fanout - longest), value=-1)
    if rule is None or isinstance(rule, Law):
        return draw_by_law(walkers, rule or UNIFORM, fanout, replace)
    edge = rule.draw(walkers, fanout, replace)
    edges = walkers.adj.num_edges
    return _check.drawn_edges(edge, walkers.node.numel(), fanout, edges)


def draw_by_law(walkers: Walkers, law: Law, fanout: int, replace: bool) -> Tensor:
    """Draws from the admitted part of every row: O(log δ) per walker and per draw."""
    adj, (start, count) = walkers.adj, admitted(walkers, law)
    own = None if law.excluded_edges is None else law.excluded_edges.to(start.device)
    if own is not None:  # rows as they would stand if hidden edges were gone
        low, high = (torch.searchsorted(own, end) for end in (start, start + count))
        start, count = start - low, count - (high - low)
    if law.most_recent:
        skipped = (count - fanout).clamp_(min=0)
        start, count = start + skipped, count - skipped
    table = law.cumulative_weight
    if table is not None:
        before = torch.zeros_like(start)
        whole = law.time is None and not law.most_recent
        if table.numel() and not whole:  # mass stands in front of what is admitted
            ahead = ops.take(table, (start - 1).clamp_(min=0))
            row_start = adj.row_range(walkers.node)[0]
            before = ahead.masked_fill_(start == row_start, 0)
        rows = WeightedRows(table, start, start + count, before, adj.max_degree)
        return ops.draw_weighted(walkers.stream, rows, fanout, replace)
    kept = draw_within(walkers, start, count, fanout, replace)
    if own is None:
        return kept
    low, high = (x[:, None].expand_as(kept) for x in (low, high))
    kept_before = own - torch.arange(own.numel(), device=own.device)
    passed = ops.upper_bound(kept_before, low, high, kept, own.numel())
    return (kept + passed).masked_fill_(kept < 0, -1)


def admitted(walkers: Walkers, law: Law) -> tuple[Tensor, Tensor]:
    """Start and length [w] of the part of every row that the times admit."""
    adj = walkers.adj
    start, count = adj.row_range(walkers.node)
    if law.time is None or law.time_max is None:
        return start, count
    longest = adj.max_degree
    latest = ops.take(law.time_max.to(start.device), walkers.root)
    stop = ops.upper_bound(law.time, start, start + count, latest, longest)
    if law.time_min is not None:
        before = ops.take(law.time_min.to(start.device), walkers.root)
        start = ops.upper_bound(law.time, start, stop, before, longest)
    return start, stop - start


def draw_within(
    walkers: Walkers, start: Tensor, count: Tensor, fanout: int, replace: bool
) -> Tensor:
    """Uniform draws from `count` edges that stand together from `start` on."""
    offset = ops.draw_uniform(walkers.stream, count, fanout, replace)
    return (start[:, None] + offset).masked_fill_(offset < 0, -1)


def draw_by_weight(
    walkers: Walkers, bias: BiasFn, fanout: int, replace: bool
) -> Tensor:
    """Draws by the weights that `bias` gives to every neighbour."""
    hood = neighborhood(walkers)
    table = ops.weight_table(
        weights_of(bias, walkers.path, walkers.node, hood), hood.ptr
    )
    low, high = hood.ptr[:-1], hood.ptr[1:]
    rows = WeightedRows(table, low, high, torch.zeros_like(low), walkers.adj.max_degree)
    position = ops.draw_weighted(walkers.stream, rows, fanout, replace)
    return ops.take_or_none(hood.edge, position)


def draw_by_mass(mass: Tensor, count: int, replace: bool, key: Key) -> Tensor:
    """Positions [count] in `mass` [c], drawn in proportion to it; -1 for none."""
    first = torch.zeros(1, dtype=torch.int64, device=mass.device)
    end = torch.full_like(first, mass.numel())
    table = ops.weight_table(mass, torch.cat([first, end]))
    rows = WeightedRows(table, first, end, first, mass.numel())
    return ops.draw_weighted(stream(key, first), rows, count, replace).view(-1)


def weights_of(
    rule: BiasFn | Law | None, path: Tensor, node: Tensor, neighborhood: Neighborhood
) -> Tensor:
    """The checked weights [e] of a bias or a law; ones if there is none."""
    entries = neighborhood.edge.numel()
    if rule is None:
        return torch.ones(entries, device=node.device)
    if isinstance(rule, Law):
        return weights_by_law(rule, neighborhood)
    return _check.bias_weights(rule(path, node, neighborhood), entries)


def weights_by_law(law: Law, hood: Neighborhood) -> Tensor:
    """Weights [e] of what a law admits, zero for the rest."""
    edge = hood.edge
    if law.cumulative_weight is None:
        weight = torch.ones(edge.numel(), dtype=torch.float64, device=edge.device)
    else:
        weight = ops.take(tables.edge_weight(hood.adj), edge)
    if law.time is not None and law.time_max is not None:
        time, root = ops.take(law.time, edge), ops.take(hood.root, hood.walker)
        weight = weight.where(time <= ops.take(law.time_max, root), 0)
        if law.time_min is not None:
            weight = weight.where(time > ops.take(law.time_min, root), 0)
    if law.excluded_edges is not None:
        excluded = law.excluded_edges.to(edge.device)
        first = torch.searchsorted(excluded, edge)
        there = torch.searchsorted(excluded, edge, right=True) > first
        weight = weight.masked_fill(there, 0)
    return weight


def all_edges(
    walkers: Walkers, rule: BiasFn | Law | None, total: int | None
) -> tuple[Tensor, Tensor]:
    """Every edge [total] in front of the walkers and its walker; -1 if it weighs 0."""
    hood = neighborhood(walkers, total)
    if rule is None:
        return hood.edge, hood.walker
    weight = weights_of(rule, walkers.path, walkers.node, hood)
    return hood.edge.masked_fill(weight <= 0, -1), hood.walker


def neighborhood(walkers: Walkers, total: int | None = None) -> Neighborhood:
    """The ragged neighbourhoods; waits for the device unless told their `total`."""
    adj = walkers.adj
    start, count = adj.row_range(walkers.node)
    ptr = torch.cat([count.new_zeros(1), count.cumsum(0)])
    walker, edge = ops.expand(start, count, int(ptr[-1]) if total is None else total)
    neighbor = ops.take(adj.col, edge).to(torch.int64)
    return Neighborhood(adj, walker, neighbor, edge, ptr, walkers.root, walkers.key)


class Frontier(Protocol):
    """Protocol of a draw's walkers: nodes of a type, or some from elsewhere."""

    @property
    def path(self) -> Tensor:
        """[w, k], how they came."""

    def frontier(self) -> tuple[int | Tensor, Tensor, Tensor]:
        """Local ids or the first of them, the rows [w] of walkers, and their roots."""

    def identity(self, node: Tensor, root: Tensor) -> Tensor:
        """[w], what the random stream of each depends on."""


class Draw(NamedTuple):
    """The edges that one relation drew in one hop.

    Attributes:
        walkers: one per node of the frontier.
        edge: [e], positions in `adj.col`; -1 where there was nothing to draw.
        to: [e], positions in the frontier.
        node: [e], the nodes at the other end.
    """

    walkers: Walkers
    edge: Tensor
    to: Tensor
    node: Tensor


def _draw(
    walkers: Walkers, rule: Rule, fanout: int, replace: bool, total: int | None
) -> Draw:
    """Draws for all walkers of one relation; `total` as in `draw_hop`."""
    node = walkers.node
    if fanout < 0:
        edge, to = all_edges(walkers, rule, total)
    elif fanout == 0 or node.numel() == 0:
        edge = to = node.new_empty(0)
    elif (
        total is not None
        and not replace
        and node.device.type == "cpu"  # where one can ask which rows are short
        and (rule is None or isinstance(rule, Law) or rule.takes_whole_rows)
    ):
        edge, to = _draw_ragged(walkers, rule, fanout)
    else:
        _check.fits("fanouts", 32 * node.numel() * fanout)
        edge = draw_edges(walkers, rule, fanout, replace).view(-1)
        to = torch.arange(node.numel(), device=node.device)
        to = to[:, None].expand(-1, fanout).reshape(-1)
    return Draw(walkers, edge, to, ops.take_or_none(walkers.adj.col, edge))


def draw_hop(
    plan: Plan,
    batch: Batch,
    hop: int,
    keys: Sequence[Key],
    nodes: Sequence[Frontier],
    totals: list[int] | None,
) -> list[Draw]:
    """The draws of all relations in one hop, with a key for each.

    `totals` are the edges in front of relations that take all; None for static shapes.
    """
    draws = []
    for number, relation in enumerate(plan.relations):
        bias, law = batch.biases[number], batch.laws[number]
        rule: Rule = None if law is None or law == UNIFORM else law
        if bias is not None and totals is not None:
            rule = bias
        here, key = nodes[relation.dst_type], keys[number]
        _, node, root = here.frontier()
        own = stream(key, here.identity(node, root))
        walkers = Walkers(relation.adj, here.path, node, root, own, key)
        total = None if totals is None else totals[number] if totals else 0
        draws.append(_draw(walkers, rule, relation.fanouts[hop], plan.replace, total))
    return draws


def _draw_ragged(walkers: Walkers, rule: Rule, fanout: int) -> tuple[Tensor, Tensor]:
    """Edges [e] drawn without replacement, and whose they are [e].

    Rows that are no longer than the fanout are taken whole, so that the cost follows
    what there is to draw and not the fanout. It waits for sizes: for the CPU only.
    """
    start, count = walkers.adj.row_range(walkers.node)
    size = count.clamp(max=fanout)
    last = size.cumsum(0)
    total = int(last[-1])
    _check.fits("fanouts", 32 * total)
    long = count > fanout
    some = positions(long)
    if not some.numel() and rule is not None:
        return all_edges(walkers, rule, total)
    to, edge = ops.expand(start, size, total)  # right for all rows that are taken whole
    if rule is not None:
        rest = walkers.select(positions(~long))
        whole = all_edges(rest, rule, total - some.numel() * fanout)[0]
        edge.masked_scatter_(~ops.take(long, to), whole)
    if some.numel():
        slot = torch.arange(fanout, device=count.device)
        first = ops.take(last, some)[:, None] - fanout
        edge[first + slot] = draw_edges(walkers.select(some), rule, fanout, False)
    return edge, to
