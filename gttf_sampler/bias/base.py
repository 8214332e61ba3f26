"""Bias, the base class of all biases; those made of others, and plain functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler._backends.record import UNIFORM, Law
from gttf_sampler.draw import (
    BiasFn,
    Neighborhood,
    Walkers,
    admitted,
    draw_by_law,
    draw_by_weight,
    neighborhood,
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
OF_ANY_PART = [n for n in TRAITS if n not in ("takes_whole_rows", "multiplies")]
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
    own._parts = tuple([part for part in parts if part is not None])
    for part in own._parts:
        for trait in OF_ANY_PART:
            if getattr(part, trait):
                setattr(own, trait, True)


def inner_bias(bias: Any, name: str = "bias") -> Bias | None:
    """Returns the bias inside another one, which has to know all its weights."""
    found = bias if isinstance(bias, Bias) else as_bias(bias, name)
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
        left, right = self.left.in_rooted_sampling(), self.right.in_rooted_sampling()
        if left is None or right is None:
            return right if left is None else left
        same = left is self.left and right is self.right
        return self if same else ProductBias(left, right)

    @property
    def factors(self) -> list[Bias]:
        """The factors of both parts."""
        return [*self.left.factors, *self.right.factors]

    def law(self, adj: CompactAdj) -> Law | None:
        """Returns the sampling spec of both, if one can hold it."""
        left, right = self.left.law(adj), self.right.law(adj)
        return None if left is None or right is None else left.both(right)

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """The product of both weights."""
        left = weights_of(self.left, path, node, neighborhood)
        return left * weights_of(self.right, path, node, neighborhood)

    def __repr__(self) -> str:
        return f"{self.left!r} * {self.right!r}"


ROUNDING = 1e-9  # 0.1 of 30 neighbours are 3, whatever floats make of it
WORDS = 1 << 64
HALF = (1 << 63) - 1


class FractionBias(Bias):
    """In some hops every walker takes a share of its neighbours, rounded up.

    >>> from gttf_sampler import CompactAdj, FractionBias, sample_rooted
    >>> star = CompactAdj.from_edge_index([[1, 2, 3, 4], [0, 0, 0, 0]])
    >>> bias = FractionBias([0.5])
    >>> sample_rooted(star, [0], [-1], bias=bias).num_nodes
    3

    Use it with a fanout of -1 in the hops that have a share; of the others it says
    nothing. Neighbours are drawn without replacement, uniformly or by the weights of
    `bias`; those of weight zero do not count among the degree.

    Args:
        shares: per hop a number in (0, 1], or None.
        bias: which neighbours there are, and how likely each is.
        disjoint: whether trees are, so that copies of a node draw independently.
    """

    multiplies = False  # the other factor would not know what counts

    def __init__(
        self,
        shares: Sequence[float | None],
        bias: BiasFn | None = None,
        *,
        disjoint: bool = False,
    ) -> None:
        self.shares = [None if part is None else _share(part) for part in shares]
        self.bias = inner_bias(bias)
        self.disjoint = _check.yes_or_no("disjoint", disjoint)
        self.takes_whole_rows = self.bias is None or self.bias.takes_whole_rows
        wrap(self, self.bias)

    def draw(self, walkers: Walkers, fanout: int, replace: bool) -> Tensor:
        """As the bias draws, in a hop that has a fanout."""
        if self.bias is None:
            return draw_by_law(walkers, UNIFORM, fanout, replace)
        return self.bias.draw(walkers, fanout, replace)

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """The weights of the neighbours that are taken, zero for the others."""
        weight = weights_of(self.bias, path, node, neighborhood)
        hop = path.shape[1]
        share = self.shares[hop] if hop < len(self.shares) else None
        if share is None:
            return weight
        return weight.where(self._taken(node, neighborhood, weight, share), 0)

    def _taken(
        self, node: Tensor, hood: Neighborhood, weight: Tensor, share: float
    ) -> Tensor:
        """Marks entries [e] that come first in their rows, in a random order."""
        walker, ptr = hood.walker, hood.ptr
        owner = node + hood.root * hood.adj.num_rows if self.disjoint else node
        slot = torch.arange(walker.numel(), device=node.device) - ops.take(ptr, walker)
        stream = ops.take(random.stream(hood.key, owner), walker)
        rank = random.fraction(random.bits(stream, slot))
        if self.bias is not None:  # a race: who has more weight comes earlier
            rank = -torch.log1p(-rank) / weight
        rank = rank.masked_fill(weight <= 0, torch.iinfo(torch.int64).max)
        order = rank.argsort(stable=True)
        order = order[ops.take(walker, order).argsort(stable=True)]
        open_ = torch.zeros_like(node).scatter_add_(0, walker, (weight > 0).long())
        wanted = (open_.to(torch.float64) * share - ROUNDING).ceil().to(torch.int64)
        place = torch.empty_like(order)
        place[order] = slot  # rows stay where they are
        return (place < ops.take(wanted, walker)) & (weight > 0)

    def __repr__(self) -> str:
        return f"FractionBias({self.shares}, {self.bias!r}, disjoint={self.disjoint})"


def _share(value: float) -> float:
    """A part of a whole."""
    found = _check.finite("shares", value)
    if not 0 < found <= 1:
        _check.fail("shares", "must be in (0, 1]", value)
    return float(found)


class StratifiedBias(Bias):
    """Spreads the `fanout` draws of a walker over its row: one per equal part of it.

    >>> from gttf_sampler import CompactAdj, EdgeWeightBias, StratifiedBias, traverse
    >>> adj = CompactAdj.from_edge_index([[0, 1], [2, 2]], edge_weight=[3.0, 1.0])
    >>> forest = traverse(adj, [2], [4], bias=StratifiedBias(EdgeWeightBias()))
    >>> sorted(forest.nodes[1][0].tolist())  # three quarters of them are 0
    [0, 0, 0, 1]

    Each draw alone has the law of `bias`, so all that is a mean over draws keeps its
    expectation; together they vary less. It is systematic sampling: draw i of f lands
    at (r + i / f) mod 1 of the row's cumulative weight, with one random r. A neighbour
    with share s of the weight is drawn ⌊f s⌋ or ⌈f s⌉ times.

    For draws with replacement, and not in a product: put that inside. Uniform draws
    without replacement spread as well; those by weight are biased.

    Args:
        bias: how likely each neighbour is; None draws uniformly.
        systematic: False takes a random number for each part of the row: the variance
            is never above that of independent draws, where one r for all can be, if the
            row repeats itself every 1 / f of its length.
    """

    multiplies = False  # no weights say that draws keep apart

    def __init__(self, bias: BiasFn | None = None, *, systematic: bool = True) -> None:
        self.bias = inner_bias(bias)
        self.systematic = _check.yes_or_no("systematic", systematic)
        wrap(self, self.bias)

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """The weights of the bias, where all neighbours are taken."""
        return weights_of(self.bias, path, node, neighborhood)

    def draw(self, walkers: Walkers, fanout: int, replace: bool) -> Tensor:
        """Positions in `adj.col` [w, fanout]; O(log δ) each if the bias has a law."""
        if not replace:
            rule = "must be True with StratifiedBias, which has its own way to spread"
            _check.fail("replace", rule, replace)
        word = spread(walkers.stream, fanout, self.systematic)
        law = UNIFORM if self.bias is None else self.bias.law(walkers.adj)
        if law is not None and law.excluded_edges is None:
            start, count = admitted(walkers, law)
            if law.cumulative_weight is None:
                offset = random.below(word, count[:, None])
                return offset.add_(start[:, None]).masked_fill_(count[:, None] == 0, -1)
            if law.time is None:
                return _aim(
                    word, law.cumulative_weight, start, start + count, walkers.adj
                )
        hood = neighborhood(walkers)
        table = ops.weight_table(self(walkers.path, walkers.node, hood), hood.ptr)
        place = _aim(word, table, hood.ptr[:-1], hood.ptr[1:], walkers.adj)
        return ops.take_or_none(hood.edge, place)

    def in_rooted_sampling(self) -> Bias:
        """Itself, around what is left of the bias."""
        if self.bias is None:
            return self
        inner = self.bias.in_rooted_sampling()
        same = inner is self.bias
        return self if same else StratifiedBias(inner, systematic=self.systematic)

    def __repr__(self) -> str:
        shown = [] if self.bias is None else [repr(self.bias)]
        shown += [] if self.systematic else ["systematic=False"]
        return f"StratifiedBias({', '.join(shown)})"


def spread(stream: Tensor, fanout: int, systematic: bool) -> Tensor:
    """Words [w, fanout], each uniform on its own, one in every part of all words.

    Integers alone, as everything that is drawn: the same on every device.
    """
    draw = torch.arange(fanout, device=stream.device)
    part = random.signed(WORDS // max(fanout, 1))  # of all words, one per draw
    if systematic:
        return random.bits(stream[:, None], 0) + draw * part
    turn = random.bits(stream[:, None], fanout)  # which part is whose
    turn = random.below(turn, torch.full_like(turn, fanout))
    inside = (random.bits(stream[:, None], draw) >> 1).bitwise_and_(HALF)
    inside = inside.div_(max(fanout, 1), rounding_mode="floor").mul_(2)
    return ((draw + turn) % max(fanout, 1)).mul_(part).add_(inside)


def _aim(
    word: Tensor, table: Tensor, low: Tensor, high: Tensor, adj: CompactAdj
) -> Tensor:
    """Positions [w, f] in [low, high) where words fall into the mass of whole rows."""
    if not table.numel():
        return torch.full_like(word, -1)
    total = ops.take(table, (high - 1).clamp_(min=0)).masked_fill_(high <= low, 0)
    target = random.below_wide(word, total[:, None])
    low, high = (end[:, None].expand_as(word).reshape(-1) for end in (low, high))
    place = ops.upper_bound(table, low, high, target.view(-1), adj.max_degree)
    return place.view(word.shape).masked_fill_(total[:, None] == 0, -1)
