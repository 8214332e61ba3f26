"""FractionBias: as many neighbours as are a share of the degree."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler._backends.record import UNIFORM
from gttf_sampler.bias.base import TRAITS, Bias, as_bias
from gttf_sampler.draw import BiasFn, Neighborhood, Walkers, draw_by_law
from gttf_sampler.graph.compact import CompactAdj

ROUNDING = 1e-9  # 0.1 of 30 neighbours are 3, whatever floats make of it


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
        self.bias = as_bias(bias)
        self.disjoint = _check.yes_or_no("disjoint", disjoint)
        if self.bias is None:
            self.takes_whole_rows = True
            return
        if not self.bias.multiplies:
            rule = "must be a bias whose weights say all"
            _check.fail("bias", rule, self.bias)
        for trait in TRAITS:
            if trait != "multiplies":
                setattr(self, trait, getattr(self.bias, trait))

    def begin(self, adj: CompactAdj, seeds: Tensor) -> None:
        """Passes the start of a traversal on."""
        if self.bias is not None:
            self.bias.begin(adj, seeds)

    def draw(self, walkers: Walkers, fanout: int, replace: bool) -> Tensor:
        """As the bias draws, in a hop that has a fanout."""
        if self.bias is None:
            return draw_by_law(walkers, UNIFORM, fanout, replace)
        return self.bias.draw(walkers, fanout, replace)

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """The weights of the neighbours that are taken, zero for the others."""
        weight = torch.ones(neighborhood.edge.numel(), device=node.device)
        if self.bias is not None:
            weight = _check.bias_weights(
                self.bias(path, node, neighborhood), neighborhood.edge.numel()
            )
        hop = path.shape[1]
        share = self.shares[hop] if hop < len(self.shares) else None
        if share is None:
            return weight
        return weight.where(self._taken(node, neighborhood, weight, share), 0)

    def _taken(
        self, node: Tensor, hood: Neighborhood, weight: Tensor, share: float
    ) -> Tensor:
        """Which entries [e] are among the first of their rows, in a random order."""
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
        """The call that makes it."""
        return f"FractionBias({self.shares}, {self.bias!r}, disjoint={self.disjoint})"


def _share(value: float) -> float:
    """A part of a whole."""
    found = _check.finite("shares", value)
    if not 0 < found <= 1:
        _check.fail("shares", "must be in (0, 1]", value)
    return float(found)
