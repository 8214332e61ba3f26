"""Base of losses on a walk forest: vector lookup, groups of trees, negative samples."""

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler.forest import ForestAcc, WalkForest
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.random import NEGATIVE, Key, Randomness, new_key

Lookup = Callable[[Tensor], Tensor]
SCHEMES = ("unbiased", "paper")
GROUP = 1 << 16  # vectors that are looked up at a time


class LossAcc(ForestAcc):
    """An accumulator whose result is a loss: define `loss`, get the rest.

    It is not called during the traversal: the loss is computed from the finished forest
    when `result` is asked for, or from any other forest by `loss`.
    """

    generator: torch.Generator | None = None
    _per_depth: tuple[str, int] | None = None  # an argument, and how many entries

    def begin(self, forest: WalkForest) -> None:
        """Starts over, in a forest as deep as the arguments ask for."""
        self._check_depth(len(forest.fanouts))
        super().begin(forest)

    def _check_depth(self, depth: int) -> None:
        """Refuses forests of another depth than an argument has entries."""
        if self._per_depth is not None and depth != self._per_depth[1]:
            name, entries = self._per_depth
            rule = f"must have one entry per depth of the forest, {depth}"
            _check.fail(name, rule, entries)

    def result(self) -> Tensor:
        """The loss of the last traversal, []; every call draws new negatives."""
        return self.loss(_check.traversed(self._forest))

    def loss(self, forest: WalkForest) -> Tensor:
        """The loss of a forest, [], differentiable."""
        raise NotImplementedError

    def _new_key(self, forest: WalkForest) -> Key:
        """A key for what is drawn beside the forest."""
        return new_key(self.generator, forest.adj.device, NEGATIVE)


def vectors(name: str, value: object) -> "Vectors":
    """`value` as a function from nodes to vectors."""
    if isinstance(value, Tensor):
        table = _check.floats(name, value)
        if table.dim() != 2 or not table.numel():
            _check.fail(name, "must be a matrix [n, d]", f"shape {list(table.shape)}")
        return Vectors(name, lambda node: F.embedding(node, table), table)
    if not callable(value) or isinstance(value, type):
        rule = "must be an embedding: a module, a function of nodes, or a matrix"
        _check.mistyped(name, rule, _check.shown(value))
    return Vectors(name, value)


class Vectors:
    """A function from nodes to vectors that knows by what name it was passed."""

    def __init__(self, name: str, lookup: Lookup, owner: object = None) -> None:
        self.name, self.lookup = name, lookup
        # what was passed: the function, a module, or a matrix [n, d]
        self.owner = lookup if owner is None else owner

    def __call__(self, node: Tensor) -> Tensor:
        """The vectors [..., d] of the nodes [...]."""
        try:
            found = self.lookup(node)
        except IndexError:
            rule = "must have a vector for every node of the forest"
            _check.fail(self.name, rule, f"none for node {int(node.max())}")
        return _check.looked_up(self.name, found, node)

    def must_match(self, other: "Vectors", ours: Tensor, theirs: Tensor) -> None:
        """Refuses vectors that cannot be multiplied with those of another one."""
        if ours.shape[-1] != theirs.shape[-1]:
            rule = f"must have vectors as long as those of {other.name!r}, "
            _check.fail(self.name, f"{rule}{theirs.shape[-1]}", ours.shape[-1])


def look_up(embedding: Vectors, nodes: Sequence[Tensor]) -> list[Tensor]:
    """The vectors [..., d] of several arrays of nodes, by one call of the embedding."""
    every = torch.cat([level.reshape(-1) for level in nodes])
    flat = embedding(every)
    parts = zip(flat.split([level.numel() for level in nodes]), nodes, strict=True)
    return [part.view(*level.shape, flat.shape[-1]) for part, level in parts]


def complete(forest: WalkForest) -> WalkForest:
    """`forest`, which must be one."""
    _check.of_type("forest", forest, WalkForest)
    return forest


def standing(forest: WalkForest) -> list[Tensor]:
    """The nodes [b, width] of every depth; walkers that stopped are at their seed."""
    home = forest.nodes[0]
    return [level.where(level >= 0, home) for level in forest.nodes]


def over_trees(
    work: Callable[..., Tensor],
    levels: Sequence[Sequence[Tensor]],
    each: int,
    most: int | None = None,
) -> Tensor:
    """The sum of `work` over groups of trees that look up `each` vectors per tree.

    It is given the rows of the group, of every level [b, ...] of some lists of levels.

    A group looks up `most` at a time, or has as many scores; `GROUP` by default. Of
    more than one group, the backward pass works out again what it needs, so that the
    vectors of one group are in memory at a time.
    """
    trees, size = levels[0][0].shape[0], max(1, (most or GROUP) // max(1, each))
    groups = [slice(low, low + size) for low in range(0, max(1, trees), size)]
    parts = [[[level[g] for level in own] for own in levels] for g in groups]
    if len(groups) == 1 or not torch.is_grad_enabled():
        return torch.stack([work(*own) for own in parts]).sum()
    # with the same random numbers
    return torch.stack([checkpoint(work, *p, use_reentrant=False) for p in parts]).sum()


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
        self, shape: int | Sequence[int], *, generator: Randomness = None
    ) -> Tensor:
        """Draws nodes independently of each other; int64 of the given shape."""
        randomness = _check.randomness(generator)
        key = new_key(randomness, self._share.device, NEGATIVE)
        size = shape if isinstance(shape, tuple | list) else (shape,)
        sides = [_check.size("shape", side) for side in size]
        _check.fits("shape", 40 * math.prod(sides))
        return self.at(key, torch.Size(sides))

    def at(self, key: Key, shape: torch.Size, first: int = 0) -> Tensor:
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
