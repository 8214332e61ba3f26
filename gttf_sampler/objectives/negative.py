"""NegativeSampler: nodes in proportion to a power of their degree, O(1) per draw."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler.graph.compact import CompactAdj

DIGITS = 1 << 40  # of a power of a degree: fewer than libraries may differ in


class NegativeSampler:
    """Draws nodes v with probability ∝ δ_v ^ power; P_n(V) of the paper.

    >>> import torch
    >>> from gttf_sampler import CompactAdj
    >>> from gttf_sampler.objectives import NegativeSampler
    >>> adj = CompactAdj.from_edge_index([[0, 1, 1], [1, 0, 2]], direction="out")
    >>> NegativeSampler(adj).probability.tolist()  # node 2 has no neighbour
    [0.372..., 0.627..., 0.0]
    >>> NegativeSampler(adj).draw((2, 5), generator=0).shape
    torch.Size([2, 5])

    An alias table in integers (Walker 1977, built by prefix sums): a draw takes one
    random word, one row of the table and no floating-point number, so that the same
    seed gives the same nodes on every backend and device. A graph without any edge
    gives all nodes alike.

    Args:
        adj: the graph; the table is made once and kept with it.
        power: of the degree, >= 0; word2vec's 3/4 by default, 0 is uniform.
    """

    def __init__(self, adj: CompactAdj, power: float = 0.75) -> None:
        _check.of_type("adj", adj, CompactAdj)
        self.power = _check.number("power", power)
        if not 0 <= self.power <= 4:
            _check.fail("power", "must lie between 0 and 4", power)
        if adj.num_rows == 0:
            _check.fail("adj", "must have nodes to draw from", "none")
        self.num_nodes = adj.num_rows
        self._coin_bits = 62 - self.num_nodes.bit_length()
        self._share, self._alias = adj.cached(
            f"negative {self.power}",
            lambda: alias_table(self._mass(adj.degree), self._coin_bits),
        )

    def draw(
        self, shape: int | Sequence[int], *, generator: random.Randomness = None
    ) -> Tensor:
        """Draws nodes independently of each other; int64 of the given shape."""
        randomness = _check.randomness(generator)
        key = random.new_key(randomness, self._share.device, random.NEGATIVE)
        size = shape if isinstance(shape, tuple | list) else (shape,)
        sides = [_check.size("shape", side) for side in size]
        _check.fits("shape", 40 * math.prod(sides))
        return self.at(key, torch.Size(sides))

    def at(self, key: random.Key, shape: torch.Size, first: int = 0) -> Tensor:
        """Draws number `first`, `first` + 1, … of a key, as nodes of a given shape."""
        table = self._share, self._alias, self._coin_bits
        return ops.draw_alias(*table, key, first, shape.numel()).view(shape)

    @property
    def probability(self) -> Tensor:
        """float64 [n]: how likely each node is, read back from the table."""
        full = 1 << self._coin_bits
        share = self._share.double() / full
        total: Tensor = share.index_add(0, self._alias, 1 - share)
        return total / self.num_nodes

    def _mass(self, degree: Tensor) -> Tensor:
        """Integer masses [n] that add up to n · 2^bits; Python's exact integers."""
        value, index, count = degree.unique(return_inverse=True, return_counts=True)
        degrees, counts = value.tolist(), count.tolist()
        if degrees == [0]:
            degrees = [1]
        powers = [math.frexp(d**self.power) for d in degrees]
        parts = [round(part * DIGITS) << exponent for part, exponent in powers]
        total = sum(p * c for p, c in zip(parts, counts, strict=True))
        whole = self.num_nodes << self._coin_bits
        masses = [p * whole // total for p in parts]
        mass = torch.tensor(masses, device=degree.device)[index]
        left = whole - sum(m * c for m, c in zip(masses, counts, strict=True))
        largest = (index == len(degrees) - 1).nonzero()[:1, 0]
        return mass.index_add(0, largest, torch.full_like(largest, left))

    def __repr__(self) -> str:
        """Says what is drawn."""
        return f"NegativeSampler({self.num_nodes:,} nodes ∝ degree^{self.power:g})"


def alias_table(mass: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """The share [n] of each row that is its own, of 2^bits, and who has the rest [n].

    `mass` adds up to n · 2^bits. Rows below 2^bits are filled by those above, both in
    order: small row i by the first large row whose cumulated surplus exceeds what the
    small rows before i lacked. A large row that has given too much is filled by the
    next one. (Hübschle-Schneider and Sanders 2019 build in parallel the same way.)
    """
    full = 1 << bits
    share, alias = mass.clone(), torch.arange(mass.numel(), device=mass.device)
    small, large = ((mass < full).nonzero()[:, 0], (mass >= full).nonzero()[:, 0])
    lack = (full - mass[small]).cumsum(0)
    surplus = (mass[large] - full).cumsum(0)
    before = lack - (full - mass[small])
    giver = torch.searchsorted(surplus, before, right=True)
    alias[small] = large[giver]
    # The first small row that takes a large row's surplus to zero or below.
    last = torch.searchsorted(lack, surplus)
    given = torch.cat([lack.new_zeros(1), lack])[(last + 1).clamp_(max=lack.numel())]
    given = given.where(surplus > 0, torch.zeros_like(given))
    share[large] = full + surplus - given
    alias[large[:-1]] = large[1:]
    return share, alias
