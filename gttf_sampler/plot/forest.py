"""Walk forests to look at: as text, and as a figure where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gttf_sampler import _check
from gttf_sampler.forest import WalkForest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TREES, LEAVES, DEPTH = 8, 60, 10  # how much is shown; of leaves, roughly
STOPPED, HIDDEN = -1, -2  # what a twig may be instead of a node
NODE = {"boxstyle": "circle,pad=0.3", "ec": "#3f9a45"}
SEED, CHILD, LINE, GREY = "#8fcf94", "#d9eeda", "#3f9a45", "#777777"


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
        """Its node, or one of these words for a mark."""
        if self.node >= 0:
            return str(self.node)
        if self.node == HIDDEN:
            return hidden.format(self.size)
        return stopped if self.size == 1 else f"{stopped} ×{self.size}"


def text(forest: WalkForest, tree: int | None = None) -> str:
    """The trees as lines of text; `·` is a walker that has stopped."""
    twigs, missing = trees(forest, tree)
    lines = [line for twig in twigs for line in _lines(twig, forest.fanouts[:DEPTH])]
    return "\n".join([*lines, *(f"… (+{some})" for some in missing)])


def draw(forest: WalkForest, tree: int | None = None) -> Figure | str:
    """The trees as a figure, or as text if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return text(forest, tree)
    twigs, missing = trees(forest, tree)
    leaves = sum(twig.leaves + 1 for twig in twigs)
    steps = min(forest.depth, DEPTH)
    slot = 0.28 + 0.05 * len(str(forest.adj.num_cols - 1))  # inches
    size = min(24.0, max(5.0, slot * leaves)), 1.2 + 0.8 * steps
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    x = 0
    for twig in twigs:
        _plant(axes, twig, x, 0)
        x += twig.leaves + 1
    what = f"{len(twigs)} tree{'s' * (len(twigs) != 1)}"
    if tree is not None:
        what = f"tree {tree}"
    axes.set_title(f"Walk forest: {what}" + "".join(f" (+{more})" for more in missing))
    axes.set(xlim=(-1, max(leaves - 1, 1)), ylim=(steps + 0.4, -0.4), xticks=[])
    axes.set_yticks(range(steps + 1), [f"depth {k}" for k in range(steps + 1)])
    axes.tick_params(length=0, labelsize=8, labelcolor=GREY)
    axes.grid(axis="y", color="#eeeeee")
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    return figure


def _plant(axes: Axes, twig: Twig, x: float, depth: int) -> float:
    """Draws a twig from `x` on to the right; returns where its own node is."""
    ends = []
    for child in twig.children:
        ends.append(_plant(axes, child, x, depth + 1))
        x += child.leaves
    x = (ends[0] + ends[-1]) / 2 if ends else x
    for end in ends:
        axes.plot([x, end], [depth, depth + 1], color=LINE, lw=1.1, zorder=1)
    label = axes.text(x, depth, twig.label("+{}", "•").replace(" ", ""), size=8)
    label.set(ha="center", va="center", zorder=2)
    label.set_bbox({**NODE, "fc": CHILD if depth else SEED})
    if twig.node < 0:
        label.set(color=GREY, bbox={"fc": "white", "ec": "white", "pad": 1})
    return x


def _lines(twig: Twig, fanouts: Sequence[int]) -> list[str]:
    """A twig as lines of text; where it does not split any more, as one line."""
    lines = [twig.label("… (+{} more)", "·")]
    for child in twig.children:
        head, *rest = _lines(child, fanouts[1:])
        if all(fanout == 1 for fanout in fanouts):
            return [f"{lines[0]} ─ {head}"]
        first, then = ("└─ ", "   ") if child is twig.children[-1] else ("├─ ", "│  ")
        lines += [first + head, *(then + line for line in rest)]
    return lines


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
