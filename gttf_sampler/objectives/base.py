"""Base class of losses on a walk forest; groups of trees, and vector lookup."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gttf_sampler import _check
from gttf_sampler.forest import ForestAcc, WalkForest
from gttf_sampler.random import NEGATIVE, Key, new_key

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
