"""Where to walk: the biases that plug into `traverse` and `sample_rooted`.

Each is a BiasFn, so that any two can be multiplied (`a * b`, also with a plain
function); those with a `draw` method are fast on their own, see `gttf_sampler.draw`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gttf_sampler import _check, _ops, _tables
from gttf_sampler._scratch import relabel
from gttf_sampler.compact import CompactAdj
from gttf_sampler.draw import (
    BiasFn,
    Neighborhood,
    Walkers,
    draw_within,
    draw_within_weighted,
)


class Bias:
    """What all biases here share: they can be multiplied."""

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """Weights >= 0 [e] of the entries of the neighbourhood; see `BiasFn`."""
        raise NotImplementedError

    def __mul__(self, other: BiasFn) -> ProductBias:
        """Both biases at once: the product of their weights."""
        return ProductBias(self, other)

    def __rmul__(self, other: BiasFn) -> ProductBias:
        """The same for a plain function on the left."""
        return ProductBias(other, self)


class ProductBias(Bias):
    """The product of two biases, what `a * b` makes."""

    def __init__(self, left: BiasFn, right: BiasFn) -> None:
        for name, part in (("left", left), ("right", right)):
            if not callable(part) or isinstance(part, type):
                got = _check.shown(part)
                _check.mistyped(name, "must be a bias, a callable", got)
            strategy = getattr(part, "strategy", "uniform")
            if strategy != "uniform":  # depends on the fanout, which no weight knows
                rule = "must be 'uniform' in a product"
                _check.fail("strategy", rule, repr(strategy))
        self.left, self.right = left, right

    @property
    def per_root(self) -> bool:
        """Whether either part treats the trees of different seeds differently."""
        return any(getattr(part, "per_root", False) for part in (self.left, self.right))

    @property
    def one_type(self) -> bool:
        """Whether either part needs all nodes to be of one type."""
        return any(getattr(part, "one_type", False) for part in (self.left, self.right))

    def where_no_node_returns(self) -> BiasFn | None:
        """What is left of it where every node is expanded once anyway."""
        left, right = map(where_no_node_returns, (self.left, self.right))
        if left is None or right is None:
            return right if left is None else left
        return ProductBias(left, right)

    def begin(self, adj: CompactAdj, seeds: Tensor) -> None:
        """Passes the start of a traversal on to the parts."""
        for part in (self.left, self.right):
            if hasattr(part, "begin"):
                part.begin(adj, seeds)

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """The product of both weights."""
        left, right = (
            _check.bias_weights(
                part(path, node, neighborhood), neighborhood.edge.numel()
            )
            for part in (self.left, self.right)
        )
        return left * right

    def __repr__(self) -> str:
        """Reads like the expression that made it."""
        return f"{self.left!r} * {self.right!r}"


def where_no_node_returns(bias: BiasFn | None) -> BiasFn | None:
    """`bias` without what rooted sampling does by itself."""
    simpler = getattr(bias, "where_no_node_returns", None)
    return bias if simpler is None else simpler()


class EdgeWeightBias(Bias):
    """Neighbours in proportion to `adj.edge_weight`; weight zero is never drawn.

    >>> from gttf_sampler import CompactAdj, traverse
    >>> adj = CompactAdj.from_edge_index([[0, 1], [2, 2]], edge_weight=[0.0, 1.0])
    >>> traverse(adj, [2, 2, 2], [1], bias=EdgeWeightBias()).nodes[1].tolist()
    [[1], [1], [1]]

    Weights are kept to 2⁻⁶¹ · degree of the largest in their row; smaller positive ones
    are rounded up to that.
    """

    whole_rows = True

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """The weights of the edges."""
        weight = _tables.edge_weight(neighborhood.adj)
        return _ops.take(weight, neighborhood.edge)

    def draw(self, walkers: Walkers, fanout: int, replace: bool) -> Tensor:
        """Searches the graph's table of cumulative weights: O(log δ) per draw."""
        start, count = walkers.adj.row_range(walkers.node)
        return draw_within_weighted(walkers, start, count, fanout, replace)

    def __repr__(self) -> str:
        """The call that makes it."""
        return "EdgeWeightBias()"


class NoRevisitBias(Bias):
    """Uniform where a node is first reached, nothing where it was reached before.

    With `RootedAdjAcc` this is the paper's message passing: a node is expanded once. Of
    several walkers that reach a node at the same depth, the first goes on.
    """

    def where_no_node_returns(self) -> None:
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
        return _ops.take(new.to(torch.float32), neighborhood.walker)

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
        here = _ops.take(node, neighborhood.walker)
        score = self.score_fn(here, neighborhood.neighbor)
        entries = neighborhood.edge.numel()
        return _check.bias_weights(score, entries, "score_fn").sqrt()

    def __repr__(self) -> str:
        """The call that makes it."""
        return f"AttentionBias({self.score_fn!r})"
