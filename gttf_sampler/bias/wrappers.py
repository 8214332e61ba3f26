"""Biases around another one: a share of the neighbours, draws spread over a row."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler._backends.record import UNIFORM
from gttf_sampler.bias.base import Bias, inner_bias, wrap
from gttf_sampler.draw import (
    BiasFn,
    Neighborhood,
    Walkers,
    admitted,
    draw_by_law,
    neighborhood,
    weights_of,
)
from gttf_sampler.graph.compact import CompactAdj

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
        word = (random.bits(stream, slot) >> 11).bitwise_and_((1 << 53) - 1)
        rank: Tensor = word
        if self.bias is not None:  # a race: who has more weight comes earlier
            rank = -torch.log1p(-word.to(torch.float64) / (1 << 53)) / weight
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
