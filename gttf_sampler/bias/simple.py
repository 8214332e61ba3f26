"""Biases by one number per edge or node: weights, exclusion, visits, attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._backends.record import Law
from gttf_sampler._backends.scratch import relabel
from gttf_sampler.bias.base import Bias
from gttf_sampler.draw import Neighborhood, Walkers, draw_within
from gttf_sampler.estimate import share
from gttf_sampler.graph import tables
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.subgraph import Subgraph


class EdgeWeightBias(Bias):
    """Neighbours in proportion to `adj.edge_weight`; weight zero is never drawn.

    >>> from gttf_sampler import CompactAdj, traverse
    >>> adj = CompactAdj.from_edge_index([[0, 1], [2, 2]], edge_weight=[0.0, 1.0])
    >>> traverse(adj, [2, 2, 2], [1], bias=EdgeWeightBias()).nodes[1].tolist()
    [[1], [1], [1]]

    Weights are kept to 2⁻⁶¹ · degree of the largest in their row; smaller positive ones
    are rounded up to that.
    """

    needs_weights = True
    takes_whole_rows = True

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """The weights of the edges."""
        weight = tables.edge_weight(neighborhood.adj)
        return ops.take(weight, neighborhood.edge)

    def law(self, adj: CompactAdj) -> Law:
        """The graph's table of cumulative weights, which is searched in O(log δ)."""
        return Law(
            cumulative_weight=tables.weight_table(adj),
            has_zero_weight=tables.has_gaps(adj),
        )

    def __repr__(self) -> str:
        """The call that makes it."""
        return "EdgeWeightBias()"


class ExcludeBias(Bias):
    """Uniform over the neighbours, as if the given edges had been taken out.

    >>> from gttf_sampler import CompactAdj, ExcludeBias, sample_rooted
    >>> adj = CompactAdj.from_edge_index([[1, 2, 3], [0, 0, 0]])
    >>> which, edge = adj.edges_between([0], [2])  # the edge 2 → 0
    >>> sample_rooted(adj, [0], [2], bias=ExcludeBias(edge)).node.tolist()
    [0, 1, 3]

    They are left out before anything is drawn, so that a node still gets its full
    fanout: what a link predictor needs to hide the edges it is asked about.

    Args:
        edge: [k], positions in `adj.col`, in any order; `adj.edges_between` finds them.
    """

    takes_whole_rows = True

    def __init__(self, edge: Any) -> None:
        edge = _check.integers("edge", edge).to(torch.int64)
        self.edge: Tensor = edge.unique()  # sorted
        self._ends = self.edge[[0, -1]].cpu() if self.edge.numel() else self.edge[:0]

    def begin(self, adj: CompactAdj, seeds: Tensor) -> None:
        """Checks that the positions are positions in this graph."""
        _check.within("edge", self._ends, adj.num_edges, "edges")  # without waiting

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """Zero for the excluded edges, one for the others."""
        edge = neighborhood.edge
        own = self.edge.to(edge.device)
        first = torch.searchsorted(own, edge)
        found = torch.searchsorted(own, edge, right=True) > first
        return (~found).to(torch.float64)

    def law(self, adj: CompactAdj) -> Law:
        """The edges that are not there; they are stepped over in O(log k)."""
        return Law(excluded_edges=self.edge)

    def __repr__(self) -> str:
        """Shows how many edges it hides."""
        return f"ExcludeBias({self.edge.numel()} edges)"


class NoRevisitBias(Bias):
    """Uniform where a node is first reached, nothing where it was reached before.

    With `RootedAdjAcc` this is the paper's message passing: a node is expanded once. Of
    several walkers that reach a node at the same depth, the first goes on.
    """

    def in_rooted_sampling(self) -> None:
        """Nothing: there is nothing for it to do."""
        return None

    def begin(self, adj: CompactAdj, seeds: Tensor) -> None:
        """Forgets the nodes of the last traversal."""
        self._seen = seeds.new_empty(0)

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """One for all neighbours of a node that is new, else zero."""
        new = self._note(neighborhood.adj, node)
        return ops.take(new.to(torch.float32), neighborhood.walker)

    def draw(self, walkers: Walkers, fanout: int, replace: bool) -> Tensor:
        """Draws uniformly where the node is new: O(1) per draw."""
        start, count = walkers.adj.row_range(walkers.node)
        count = count.masked_fill_(~self._note(walkers.adj, walkers.node), 0)
        return draw_within(walkers, start, count, fanout, replace)

    def _note(self, adj: CompactAdj, node: Tensor) -> Tensor:
        """Marks nodes [w] seen for the first time, and remembers them."""
        with adj.borrow_table(adj.num_rows) as table:
            new = relabel(self._seen, node, table)[1]
        self._seen = torch.cat([self._seen, node])
        return new

    def __repr__(self) -> str:
        """The call that makes it."""
        return "NoRevisitBias()"


class AttentionBias(Bias):
    """Neighbours by the square root of an attention value; GatBias of the paper.

    Samples spend little on negligible edges. A model that multiplies the message of a
    sampled neighbour v by √a_v · Σ√a / f, where the sum goes over all neighbours of the
    node and f draws were made with replacement, gets Σ a_v m_v in expectation: the
    attention it asked for. √a_v alone is off by that factor, which differs per node.
    `factor` has what a_v m_v is to be multiplied by.

    Differs from the paper: does not contain `NoRevisitBias`; multiply the two.

    Args:
        score_fn: (node [e], neighbor [e]) → attention values >= 0 [e]; it is called
            without gradients.
    """

    def __init__(self, score_fn: Callable[[Tensor, Tensor], Tensor]) -> None:
        if not callable(score_fn) or isinstance(score_fn, type):
            got = _check.shown(score_fn)
            _check.mistyped("score_fn", "must be callable", got)
        self.score_fn = score_fn

    @torch.no_grad()
    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """√attention of every edge in front of the walkers."""
        here = ops.take(node, neighborhood.walker)
        score = self.score_fn(here, neighborhood.neighbor)
        entries = neighborhood.edge.numel()
        return _check.bias_weights(score, entries, "score_fn").sqrt()

    @torch.no_grad()
    def factor(self, adj: CompactAdj, subgraph: Subgraph) -> Tensor:
        """[e]: how many edges each edge of a sample stands for, Σ√a / (f √a_v).

        The sum over a sample of a_v m_v times this is unbiased for the sum over all
        neighbours. So is that of a_v alone: where attention is normalised by it, as a
        softmax is, the quotient of the two is consistent, and not unbiased.

        For samples drawn by this bias alone and with replacement, stratified or not;
        without, √a is no longer in proportion to how often an edge is drawn.
        """
        _check.of_type("adj", adj, CompactAdj)
        _check.of_type("subgraph", subgraph, Subgraph)
        _check.sampled_from(subgraph.node, adj.num_rows)
        receiver, place = subgraph.col.unique(return_inverse=True)
        node = ops.take(subgraph.node, receiver)  # those that have drawn
        start, count = adj.row_range(node)
        inside = subgraph.edge - ops.take(start, place)
        if bool(((inside < 0) | (inside >= ops.take(count, place))).any()):
            rule = "must be the graph that the sample was drawn from"
            _check.fail("adj", rule, adj)
        ptr = torch.cat([count.new_zeros(1), count.cumsum(0)])
        walker, edge = ops.expand(start, count, int(ptr[-1]))
        neighbor = ops.take(adj.col, edge).to(torch.int64)
        hood = Neighborhood(adj, walker, neighbor, edge, ptr, torch.zeros_like(node))
        root = self(node[:, None], node, hood).to(torch.float64)
        total = torch.zeros(node.numel(), dtype=root.dtype, device=root.device)
        total.scatter_add_(0, walker, root)
        own = ops.take(root, ops.take(ptr, place) + inside)
        return ops.take(share(total, place), place) / own

    def __repr__(self) -> str:
        """The call that makes it."""
        return f"AttentionBias({self.score_fn!r})"
