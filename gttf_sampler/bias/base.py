"""Bias: base class of all biases; products, and plain functions as a bias."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.record import Law
from gttf_sampler.draw import (
    BiasFn,
    Neighborhood,
    Walkers,
    draw_by_law,
    draw_by_weight,
    weights_by_law,
    weights_of,
)
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.random import Key

Steps = list[tuple[Tensor, Tensor]]


class Bias:
    """A rule that weighs neighbours, and declares what else holds for its draws.

    A subclass gives `__call__` or `law`, and says below what is different. Biases can
    be multiplied, `a * b`, also with a plain function, which has these very traits.

    Attributes:
        needs_weights: whether it reads `adj.edge_weight`.
        needs_times: whether it reads `adj.edge_time`.
        separates_trees: whether it treats seeds differently, so that a node reached
            from two of them has to be two nodes: sampling is then disjoint.
        looks_back: whether it asks where a walker came from, so that all nodes have to
            be of one type.
        takes_whole_rows: whether a row that is no longer than the fanout is taken as it
            stands, without replacement; else zero weights may hide in it.
        multiplies: whether its weights say all; False if its draws depend on the fanout
            in a way that no weights tell.
    """

    needs_weights: bool = False
    needs_times: bool = False
    separates_trees: bool = False
    looks_back: bool = False
    takes_whole_rows: bool = False
    multiplies: bool = True
    _parts: tuple[Bias, ...] = ()  # the biases inside it

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Takes back an inherited law from who weighs or draws in a way of its own."""
        super().__init_subclass__(**kwargs)
        for base in cls.__mro__:
            if "law" in base.__dict__:
                break
            if {"__call__", "draw"} & base.__dict__.keys():
                cls.law = Bias.law  # type: ignore[method-assign]
                break

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """Weights >= 0 [e] of the entries, those of its law if it has one."""
        law = self.law(neighborhood.adj)
        if law is None:
            raise NotImplementedError
        return weights_by_law(law, neighborhood)

    def begin(self, adj: CompactAdj, seeds: Tensor) -> None:
        """Called before the first step of every traversal."""
        for part in self._parts:
            part.begin(adj, seeds)

    def draw(self, walkers: Walkers, fanout: int, replace: bool) -> Tensor:
        """Positions in `adj.col` [w, fanout], -1 where nothing is drawn.

        By its law; without one every neighbour is weighed.
        """
        law = self.law(walkers.adj)
        if law is None:
            return draw_by_weight(walkers, self, fanout, replace)
        return draw_by_law(walkers, law, fanout, replace)

    def walk(
        self, adj: CompactAdj, seeds: Tensor, length: int, key: Key, stays: bool
    ) -> Steps | None:
        """(edges, nodes) [b, 1] of every step, or None: then it is done step by step.

        `stays` says whether a walker at a dead end stays there or stops.
        """
        return None

    def law(self, adj: CompactAdj) -> Law | None:
        """Returns its sampling spec as data; None if only a call gives the weights.

        Draws by a law look at O(log δ) entries of a row, and are fused with the rest of
        rooted sampling.
        """
        return None

    @property
    def draws_by_law(self) -> bool:
        """True if its law, if it has one, says all about its draws."""
        return "draw" not in vars(self) and type(self).draw is Bias.draw

    def in_rooted_sampling(self) -> Bias | None:
        """Returns the bias where every node is expanded once; None for uniform."""
        return self

    @property
    def factors(self) -> list[Bias]:
        """The biases that it is the product of."""
        return [self]

    def __mul__(self, other: BiasFn) -> ProductBias:
        return ProductBias(self, other)

    def __rmul__(self, other: BiasFn) -> ProductBias:
        return ProductBias(other, self)


TRAITS = [name for name in Bias.__annotations__ if not name.startswith("_")]
METHODS = ("begin", "draw", "walk", "law")
RENAMED = {  # since 0.1: an old name must not be passed over in silence
    "per_root": "separates_trees",
    "one_type": "looks_back",
    "whole_rows": "takes_whole_rows",
    "where_no_node_returns": "in_rooted_sampling",
    "edge_mass": "law",
}


class FunctionBias(Bias):
    """A plain function as a bias, or an object that is none but has some of its traits.

    The one place where traits are looked for: all others ask a `Bias`.
    """

    def __init__(self, function: Any) -> None:
        self.function = function
        for old, new in RENAMED.items():
            if hasattr(function, old):
                _check.fail("bias", f"must call {old!r} by its new name", new)
        for name in (*TRAITS, *METHODS):
            if hasattr(function, name):
                setattr(self, name, getattr(function, name))

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """Calls the function."""
        weights: Tensor = self.function(path, node, neighborhood)
        return weights

    def __repr__(self) -> str:
        return repr(self.function)


def as_bias(bias: Any, name: str = "bias") -> Bias | None:
    """`bias` with all its traits; None, which draws uniformly, stays None."""
    if bias is None or isinstance(bias, Bias):
        return bias
    _check.functions(name, bias)
    return FunctionBias(bias)


def wrap(own: Bias, *parts: Bias | None) -> None:
    """Puts biases inside another one, which takes over the traits of any of them."""
    own._parts = tuple(part for part in parts if part is not None)
    for trait in TRAITS:
        if trait not in ("takes_whole_rows", "multiplies"):
            setattr(own, trait, any(getattr(part, trait) for part in own._parts))


def inner_bias(bias: Any, name: str = "bias") -> Bias | None:
    """Returns the bias inside another one, which has to know all its weights."""
    found = as_bias(bias, name)
    if found is not None and not found.multiplies:
        _check.fail(name, "must be a bias whose weights say all", found)
    return found


class ProductBias(Bias):
    """The product of two biases, what `a * b` makes."""

    def __init__(self, left: BiasFn, right: BiasFn) -> None:
        parts = []
        for name, given in (("left", left), ("right", right)):
            part = inner_bias(given, name)
            if part is None:
                rule = "must be a function or an object that can be called"
                _check.mistyped(name, rule, None)
            parts.append(part)
        self.left, self.right = parts
        wrap(self, *parts)

    def in_rooted_sampling(self) -> Bias | None:
        """The product of what is left of its parts."""
        left, right = (part.in_rooted_sampling() for part in self._parts)
        if left is None or right is None:
            return right if left is None else left
        return ProductBias(left, right)

    @property
    def factors(self) -> list[Bias]:
        """The factors of both parts."""
        return [*self.left.factors, *self.right.factors]

    def law(self, adj: CompactAdj) -> Law | None:
        """Returns the sampling spec of both, if one can hold it."""
        left, right = (part.law(adj) for part in self._parts)
        return None if left is None or right is None else left.both(right)

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """The product of both weights."""
        left = weights_of(self.left, path, node, neighborhood)
        return left * weights_of(self.right, path, node, neighborhood)

    def __repr__(self) -> str:
        return f"{self.left!r} * {self.right!r}"
