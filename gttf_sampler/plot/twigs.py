"""A walk forest cut down to what one can look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gttf_sampler import _check
from gttf_sampler.forest import WalkForest

TREES, LEAVES, DEPTH = 8, 60, 10  # how much is shown; of leaves, roughly
STOPPED, HIDDEN = -1, -2  # what a twig may be instead of a node


class Twig(NamedTuple):
    """A walker and those it became, or a mark that stands for `size` walkers."""

    node: int
    size: int = 1
    children: tuple[Twig, ...] = ()

    @property
    def leaves(self) -> int:
        """The number of twigs without children from here on."""
        return sum(child.leaves for child in self.children) or 1

    def label(self, hidden: str, stopped: str) -> str:
        """What is written for it, given the words for marks."""
        if self.node >= 0:
            return str(self.node)
        if self.node == HIDDEN:
            return hidden.format(self.size)
        return stopped if self.size == 1 else f"{stopped} ×{self.size}"


def trees(forest: WalkForest, tree: int | None) -> tuple[list[Twig], list[str]]:
    """The trees to show, all or that of one seed, and what has been left out."""
    total, fanouts = forest.nodes[0].shape[0], forest.fanouts[:DEPTH]
    if tree is not None and (tree := _check.size("tree", tree)) >= total:
        _check.fail("tree", f"must be below the number of trees {total}", tree)
    limit = LEAVES  # walkers to a family
    while limit > 1 and _width(fanouts, limit) > LEAVES:
        limit -= 1
    shown = slice(0, min(TREES, max(1, LEAVES // _width(fanouts, limit))))
    if tree is not None:
        shown, total = slice(tree, tree + 1), 1
    levels = [level[shown].tolist() for level in forest.nodes[: DEPTH + 1]]
    twigs = [_cut(rows, fanouts, limit) for rows in zip(*levels, strict=True)]
    missing = {"tree": total - len(twigs), "step": forest.depth - DEPTH}
    return twigs, [
        f"{size:,} more {what}{'s' * (size > 1)}"
        for what, size in missing.items()
        if size > 0
    ]


def _width(fanouts: Sequence[int], limit: int) -> int:
    """The leaves of a tree whose families show at most `limit` walkers."""
    if not fanouts:
        return 1
    shown = min(fanouts[0], limit)
    return shown * _width(fanouts[1:], limit) + (shown < fanouts[0])


def _cut(
    levels: Sequence[list[int]], fanouts: Sequence[int], limit: int, i: int = 0
) -> Twig:
    """Walker `i` of the first level and what became of it; the stopped come last."""
    if levels[0][i] < 0 or not fanouts:
        return Twig(levels[0][i])
    family = range(i * fanouts[0], (i + 1) * fanouts[0])
    alive = [child for child in family if levels[1][child] >= 0]
    twigs = [_cut(levels[1:], fanouts[1:], limit, child) for child in alive[:limit]]
    marks = (HIDDEN, len(alive) - limit), (STOPPED, len(family) - len(alive))
    twigs += [Twig(mark, size) for mark, size in marks if size > 0]
    return Twig(levels[0][i], 1, tuple(twigs))
