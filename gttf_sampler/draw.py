"""One step of Algorithm 1: walkers at their nodes → the edges they take.

A BiasFn says how likely each neighbour is. It is a function of the walkers' paths and
of their ragged neighbourhoods, and every entry of those is looked at. A bias that can
do better (the uniform one looks at one entry per draw, whatever the degree) overrides
`Bias.draw`.
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._backends.record import Law
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.random import Key


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


class DrawingBias(Protocol):
    """Protocol of a bias in a step: `gttf_sampler.bias.Bias` has it."""

    def draw(self, walkers: "Walkers", fanout: int, replace: bool) -> Tensor:
        """Positions in `adj.col` [w, fanout], -1 where nothing is drawn."""


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

    def select(self, index: Tensor) -> "Walkers":
        """The walkers at the given positions."""
        names = ("path", "node", "root", "stream")
        chosen = {name: getattr(self, name).index_select(0, index) for name in names}
        return self._replace(**chosen)


def draw_edges(
    walkers: Walkers, bias: DrawingBias | None, fanout: int, replace: bool
) -> Tensor:
    """The edges [w, fanout] taken, as positions in `adj.col`; -1 where none is."""
    longest = walkers.adj.max_degree
    if not replace and fanout > longest:  # more than there can be
        edge = draw_edges(walkers, bias, longest, replace)
        return torch.nn.functional.pad(edge, (0, fanout - longest), value=-1)
    if bias is None:
        return draw_by_law(walkers, Law(), fanout, replace)
    edge = bias.draw(walkers, fanout, replace)
    edges = walkers.adj.num_edges
    return _check.drawn_edges(edge, walkers.node.numel(), fanout, edges)


def draw_by_law(walkers: Walkers, law: Law, fanout: int, replace: bool) -> Tensor:
    """Draws from the admitted part of every row: O(log δ) per walker and per draw."""
    start, count = admitted(walkers, law)
    own = None if law.excluded_edges is None else law.excluded_edges.to(start.device)
    if own is not None:  # rows as they would stand if hidden edges were gone
        low, high = (torch.searchsorted(own, end) for end in (start, start + count))
        start, count = start - low, count - (high - low)
    if law.most_recent:
        skipped = (count - fanout).clamp_(min=0)
        start, count = start + skipped, count - skipped
    if law.cumulative_weight is not None:
        whole = law.time is None and not law.most_recent
        rest = start, count, fanout, replace, whole
        return _draw_within_weighted(walkers, law.cumulative_weight, *rest)
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


def _draw_within_weighted(
    walkers: Walkers,
    table: Tensor,
    start: Tensor,
    count: Tensor,
    fanout: int,
    replace: bool,
    whole: bool,
) -> Tensor:
    """Draws by mass from `count` edges that stand together from `start` on.

    If those are `whole` rows, no mass stands in front of them.
    """
    adj = walkers.adj
    before = torch.zeros_like(start)
    if table.numel() and not whole:
        row_start = adj.row_range(walkers.node)[0]
        ahead = ops.take(table, (start - 1).clamp_(min=0))
        before = ahead.masked_fill_(start == row_start, 0)
    ends = start, start + count, before
    how = fanout, replace, adj.max_degree
    return ops.draw_weighted(walkers.stream, table, *ends, *how)


def draw_by_weight(
    walkers: Walkers, bias: BiasFn, fanout: int, replace: bool
) -> Tensor:
    """Draws by the weights that `bias` gives to every neighbour."""
    hood = neighborhood(walkers)
    weight = _check.bias_weights(
        bias(walkers.path, walkers.node, hood), hood.edge.numel()
    )
    low, high = hood.ptr[:-1], hood.ptr[1:]
    position = ops.draw_weighted(
        walkers.stream,
        ops.weight_table(weight, hood.ptr),
        low,
        high,
        torch.zeros_like(low),
        fanout,
        replace,
        walkers.adj.max_degree,
    )
    return ops.take_or_none(hood.edge, position)


def all_edges(
    walkers: Walkers, bias: BiasFn | None, total: int
) -> tuple[Tensor, Tensor]:
    """Every edge [total] in front of the walkers and its walker; -1 if it weighs 0."""
    hood = neighborhood(walkers, total)
    if bias is None:
        return hood.edge, hood.walker
    weight = _check.bias_weights(
        bias(walkers.path, walkers.node, hood), hood.edge.numel()
    )
    return hood.edge.masked_fill(weight <= 0, -1), hood.walker


def neighborhood(walkers: Walkers, total: int | None = None) -> Neighborhood:
    """The ragged neighbourhoods; waits for the device unless told their `total`."""
    adj = walkers.adj
    start, count = adj.row_range(walkers.node)
    ptr = torch.cat([count.new_zeros(1), count.cumsum(0)])
    walker, edge = ops.expand(start, count, int(ptr[-1]) if total is None else total)
    neighbor = ops.take(adj.col, edge).to(torch.int64)
    return Neighborhood(adj, walker, neighbor, edge, ptr, walkers.root, walkers.key)
