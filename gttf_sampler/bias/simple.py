"""Biases by one number per edge or node: weights, visits, attention."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._backends.plan import Law
from gttf_sampler._backends.scratch import relabel
from gttf_sampler.bias.base import Bias
from gttf_sampler.draw import Neighborhood, Walkers, draw_within
from gttf_sampler.graph import tables
from gttf_sampler.graph.compact import CompactAdj


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
        return Law(mass=tables.weight_table(adj), gaps=tables.has_gaps(adj))

    def __repr__(self) -> str:
        """The call that makes it."""
        return "EdgeWeightBias()"


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
        """Whether each node [w] is seen for the first time, now and in this array."""
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

    def __repr__(self) -> str:
        """The call that makes it."""
        return f"AttentionBias({self.score_fn!r})"
