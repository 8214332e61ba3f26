"""Bias: what every bias declares, and what it does to others: products."""

from __future__ import annotations

from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.draw import BiasFn, Neighborhood
from gttf_sampler.graph.compact import CompactAdj


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
