"""Node2VecBias: second-order walks, drawn by rejection."""

import math
from itertools import pairwise

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._backends.record import Law
from gttf_sampler._backends.torch.node2vec import (
    REFUSED,
    Envelope,
    SecondOrder,
)
from gttf_sampler.bias.base import Bias
from gttf_sampler.draw import (
    Neighborhood,
    Walkers,
    draw_by_law,
    draw_by_weight,
)
from gttf_sampler.graph import tables
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.random import Key, bits

ROUNDS = 64  # after so many refused proposals the neighbours are weighed exactly
FEW_ROUNDS = 8  # the same where some kind of step is refused nearly always,
RARE = 16  # that is, where it weighs so many times less than another
ENTRIES = 1 << 20  # neighbours that are weighed together, unless one row has more
MOST_CHANCES = 1 << 16  # of going back, per edge: leaves 2⁻³⁰ for the finest share


class Node2VecBias(Bias):
    """1/p for the way back, 1 for neighbours of the last node, 1/q for the others.

    >>> from gttf_sampler import CompactAdj, traverse
    >>> path = CompactAdj.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]], direction="out")
    >>> onward = Node2VecBias(p=1e9, q=1.0)  # hardly ever turns round
    >>> traverse(path, [0, 2], [1, 1], bias=onward).nodes[2].tolist()
    [[2], [0]]

    A neighbour counts as adjacent to the last node if its row holds that node, as in
    node2vec's own code and in DGL; it matters on directed graphs only.

    Differs from the paper: GTTF's N2vBias asks for a common neighbour, which the
    current node always is on an undirected graph, so that q cancels. This is node2vec's
    rule.

    Args:
        p: return parameter, > 0.
        q: in-out parameter, > 0.
        weighted: multiply by `adj.edge_weight`.
    """

    looks_back = True

    def __init__(
        self, p: float = 1.0, q: float = 1.0, *, weighted: bool = False
    ) -> None:
        self.p, self.q = _check.positive("p", p), _check.positive("q", q)
        self.needs_weights = _check.yes_or_no("weighted", weighted)

    def begin(self, adj: CompactAdj, seeds: Tensor) -> None:
        """Refuses graphs whose rows and columns are different nodes."""
        _check.one_node_set("adj", adj.num_rows, adj.num_cols)

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """The weights of all neighbours, by one search per neighbour."""
        adj, neighbor = neighborhood.adj, neighborhood.neighbor
        weight = torch.ones(neighbor.numel(), dtype=torch.float64, device=adj.device)
        if path.shape[1]:
            back, near, away = self._alpha()
            last = ops.take(path[:, -1], neighborhood.walker)
            adjacent = ops.has_edge(
                adj.rowptr, tables.sorted_col(adj), neighbor, last, adj.max_degree
            )
            weight.fill_(away).masked_fill_(adjacent, near)
            weight.masked_fill_(neighbor == last, back)
        if self.needs_weights:
            weight = weight * ops.take(tables.edge_weight(adj), neighborhood.edge)
        return weight

    def draw(self, walkers: Walkers, fanout: int, replace: bool) -> Tensor:
        """Proposes a neighbour, accepts it with its share of the largest weight.

        A proposal costs O(log δ). Whoever was refused too often, at a leaf with a
        large p for instance, counts its near neighbours and draws exactly: at most one
        pass over the row, or over those from which the last node can be reached.
        """
        if walkers.path.shape[1] == 0:
            return self._first(walkers, fanout, replace)
        if not replace:
            return draw_by_weight(walkers, self, fanout, replace)
        adj, draw = walkers.adj, torch.arange(fanout, device=walkers.node.device)
        stream = bits(walkers.stream[:, None], draw).view(-1)  # one per draw
        given = (
            self._second_order(adj),
            walkers.node.repeat_interleave(fanout),
            walkers.path[:, -1].repeat_interleave(fanout),
            stream,
        )
        edge = ops.draw_node2vec(*given)
        waiting = (edge == REFUSED).nonzero().view(-1)
        own = bits(stream[waiting], 2 * self._rounds)  # words that no round has used
        for part in _groups(walkers, waiting // fanout):
            some = walkers.select(waiting[part] // fanout)._replace(stream=own[part])
            edge[waiting[part]] = self._weighed(some)
        return edge.view(-1, fanout)

    def _weighed(self, walkers: Walkers) -> Tensor:
        """The edges [w] of walkers that rejection sampling has given up."""
        if self.needs_weights:
            return draw_by_weight(walkers, self, 1, replace=True)[:, 0]
        law = self._second_order(walkers.adj)
        return ops.weigh_node2vec(
            law, walkers.node, walkers.path[:, -1], walkers.stream
        )

    def _second_order(self, adj: CompactAdj) -> SecondOrder:
        """The graph and the weights of its steps, as backends take them."""
        many_refused = self._rounds == FEW_ROUNDS and not self.needs_weights
        return SecondOrder(
            rowptr=adj.rowptr,
            col=adj.col,
            sorted_col=tables.sorted_col(adj),
            order=lambda: tables.sorted_order(adj),
            bloom=tables.edge_filter(adj),
            table=tables.weight_table(adj) if self.needs_weights else None,
            weight=tables.edge_weight(adj) if self.needs_weights else None,
            reverse=tables.reverse_rows(adj) if many_refused else None,
            envelope=self._envelope(adj),
            rounds=self._rounds,
            alpha=self._alpha(),
            longest=adj.max_degree,
        )

    @property
    def _rounds(self) -> int:
        """The number of proposals before neighbours are weighed."""
        alpha = self._alpha()
        return FEW_ROUNDS if min(alpha) * RARE < max(alpha) else ROUNDS

    def walk(
        self, adj: CompactAdj, seeds: Tensor, length: int, key: Key, stays: bool
    ) -> list[tuple[Tensor, Tensor]] | None:
        """Whole walks at once, if the backend can; see `traverse`."""
        return ops.walk_node2vec(self._second_order(adj), seeds, length, key, stays)

    def _first(self, walkers: Walkers, fanout: int, replace: bool) -> Tensor:
        """Steps from the seeds, which have nothing behind them."""
        table = tables.weight_table(walkers.adj) if self.needs_weights else None
        return draw_by_law(walkers, Law(cumulative_weight=table), fanout, replace)

    def _alpha(self) -> tuple[float, float, float]:
        """The weight of the way back, of a common neighbour, of the rest."""
        return 1 / self.p, 1.0, 1 / self.q

    def _envelope(self, adj: CompactAdj) -> Envelope:
        """Returns the proposal distribution that is refused least often.

        Where the way back weighs more than the rest may, it gets the difference as
        second chances: proposals beyond the row. All masses of a row stay below 2⁶².
        """
        back, near, away = self._alpha()
        top, extra, copies = max(near, away), 0.0, 1
        if back > top and not self.needs_weights:
            copies = tables.most_copies(adj)
        # every row offers all chances: with more of them than edges, most are in vain
        if (
            back > top
            and not self.needs_weights
            and copies * adj.num_rows <= adj.num_edges
        ):
            top = max(top, back * min(1.0, copies / MOST_CHANCES))
            extra = back / top - 1
        else:
            top, copies = max(top, back), 1
        unit = 62 - math.ceil(adj.max_degree + extra * copies).bit_length()
        back, near, away = (
            int(min(alpha / top, 1) * 2**63) - 1 for alpha in (back, near, away)
        )
        return Envelope(back, near, away, unit, round(extra * 2**unit), copies)

    def __repr__(self) -> str:
        weighted = ", weighted=True" if self.needs_weights else ""
        return f"Node2VecBias(p={self.p:g}, q={self.q:g}{weighted})"


def _groups(walkers: Walkers, index: Tensor) -> list[slice]:
    """Some walkers [k], cut into groups that have few neighbours to be weighed."""
    if not index.numel():
        return []
    count = walkers.adj.row_range(ops.take(walkers.node, index))[1]
    number = (count.cumsum(0) - count).div(ENTRIES, rounding_mode="floor")
    sizes = number.unique_consecutive(return_counts=True)[1]
    ends = [0, *sizes.cumsum(0).tolist()]
    return [slice(first, last) for first, last in pairwise(ends)]
