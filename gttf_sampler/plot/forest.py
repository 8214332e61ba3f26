"""Walk forests to look at: as text, and as a figure where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gttf_sampler.forest import WalkForest
from gttf_sampler.plot.twigs import DEPTH, Twig, trees

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEED, FILL, LINE, GREY, GUIDE = "#8fcf94", "#d9eeda", "#3f9a45", "#777777", "#eeeeee"
LEFT, TOP, GAP, MARGIN, WIDTH = 0.95, 0.85, 0.8, 0.25, 11.0  # in inches


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
    figure = Figure()
    axes = figure.add_axes((0, 0, 1, 1))
    pen = Pen.fit(axes, twigs, longest_id=len(str(forest.adj.num_cols - 1)))
    steps = min(forest.depth, DEPTH)
    x, tops, right = LEFT, [TOP], 5.0
    for twig in twigs:
        if x > LEFT and x + twig.leaves * pen.slot > LEFT + WIDTH:  # another row
            x, tops = LEFT, [*tops, tops[-1] + steps * pen.drop + GAP]
        pen.plant(twig, x, tops[-1], SEED)
        x += (twig.leaves + 1) * pen.slot
        right = max(right, x - pen.slot)
    depths = [(k, top + k * pen.drop) for top in tops for k in range(steps + 1)]
    for k, y in depths:
        axes.plot([LEFT, right], [y, y], color=GUIDE, lw=1, zorder=0)
        axes.text(MARGIN, y, f"depth {k}", size=8, color=GREY, va="center")
    what = f"{len(twigs)} tree{'s' * (len(twigs) != 1)}"
    if tree is not None:
        what = f"tree {tree}"
    title = f"Walk forest: {what}" + "".join(f" (+{some})" for some in missing)
    axes.text(MARGIN, 0.35, title, va="center")
    width, height = right + MARGIN, depths[-1][1] + GAP / 2
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    figure.set_size_inches(width, height)
    return figure


class Pen(NamedTuple):
    """Draws nodes of `size`, `slot` apart, and depths `drop` apart, in inches."""

    axes: Axes
    size: float
    slot: float
    drop: float

    @classmethod
    def fit(cls, axes: Axes, twigs: list[Twig], longest_id: int) -> Pen:
        """A pen that can draw each of the trees in one row, if it is readable then."""
        leaves = max([twig.leaves for twig in twigs], default=1)
        stretch = 1.25 + 0.25 * max(longest_id - 2, 0)
        size = min(0.34, max(0.2, WIDTH / leaves / stretch))
        return cls(axes, size, size * stretch, max(0.8, leaves * size * stretch / 10))

    def plant(self, twig: Twig, x: float, y: float, fill: str) -> float:
        """Draws a twig from `x` on to the right; returns where its own node is."""
        from matplotlib.patches import Ellipse

        ends = []
        for child in twig.children:
            ends.append(self.plant(child, x, y + self.drop, FILL))
            x += child.leaves * self.slot
        x = (ends[0] + ends[-1]) / 2 if ends else x + self.slot / 2
        for end in ends:
            self.axes.plot([x, end], [y, y + self.drop], color=LINE, lw=1.1, zorder=1)
        label = self.axes.text(x, y, twig.label("+{}", "•"), size=31 * self.size)
        label.set(ha="center", va="center_baseline")
        if twig.node < 0:
            label.set(color=GREY, bbox={"fc": "white", "ec": "white", "pad": 1})
            label.set(
                text=label.get_text().replace(" ", ""), size=max(24 * self.size, 6)
            )
            return x
        shape = Ellipse((x, y), self.slot - self.size / 4, self.size, zorder=2)
        self.axes.add_patch(shape).set(facecolor=fill, edgecolor=LINE, linewidth=1.1)
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
