"""A sampled neighbourhood as a matplotlib figure: a column per hop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gttf_sampler import _check
from gttf_sampler.plot.layers import Layers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which people with any kind of eyes can tell apart
COLOURS = ("#3f9a45", "#0072b2", "#d55e00", "#cc79a7", "#e69f00", "#56b4e9", "#888888")
GREY, PALE, DARK = "#777777", 0.82, 0.15
MOST = 24  # nodes of a column
COLUMN, ROW, MARGIN, HEAD, LONGEST = 2.4, 0.38, 0.5, 1.0, 18  # inches, letters


def draw(subgraph: Any, adj: Any = None) -> Figure:
    """The figure; edges are darker the later they are."""
    _check.library("matplotlib", "draw")
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    layers = Layers.of(subgraph, adj, MOST)
    columns = [[s for s in layers.spots if s.hop == hop] for hop in range(layers.hops)]
    tallest = max((len(column) for column in columns), default=1)
    width, height = (layers.hops - 1) * COLUMN + 1.9, max(tallest, 3) * ROW + HEAD
    figure = Figure(figsize=(max(width, 5.0), height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    inside = height - HEAD
    at = [
        (MARGIN + spot.hop * COLUMN, HEAD - 0.1 + spot.place * inside)
        for spot in layers.spots
    ]
    for link in layers.links:
        flat = layers.spots[link.sender].hop == layers.spots[link.receiver].hop
        axes.annotate(
            "",
            xy=at[link.receiver],
            xytext=at[link.sender],
            arrowprops={
                "arrowstyle": "-|>",
                "color": str(shade(link.time, layers.times)),
                "lw": 1.0,
                "shrinkA": 5,
                "shrinkB": 6,
                "connectionstyle": f"arc3,rad={0.45 if flat else 0.08}",
            },
            zorder=1,
        )
    for spot, (x, y) in zip(layers.spots, at, strict=True):
        colour = COLOURS[spot.kind % len(COLOURS)]
        axes.plot(x, y, "o", ms=11 if spot.hop == 0 else 8, color=colour, zorder=3)
        axes.text(
            *(x + 0.12, y - 0.11, short(spot.label)),
            size=8,
            zorder=4,
            bbox={"facecolor": "white", "alpha": 0.75, "lw": 0, "pad": 0.5},
        )
    for hop, more in enumerate(layers.missing):
        title = "seeds" if hop == 0 else f"hop {hop}"
        title += f" (+{more:,})" if more else ""
        axes.text(MARGIN + hop * COLUMN - 0.1, HEAD - 0.3, title, size=9, color=GREY)
    marks = [
        Line2D([], [], marker="o", ls="", color=COLOURS[i % len(COLOURS)], label=name)
        for i, name in enumerate(layers.kinds)
        if name
    ]
    if layers.times is not None:
        for time in layers.times:
            colour = str(shade(time, layers.times))
            marks.append(Line2D([], [], color=colour, label=f"time {time:g}"))
    if marks:
        figure.legend(
            handles=marks, loc="upper left", ncols=6, frameon=False, fontsize=8
        )
    axes.set(xlim=(0, max(width, 5.0)), ylim=(height, 0))
    axes.set_axis_off()
    return figure


def shade(time: float | None, times: tuple[float, float] | None) -> float:
    """How light an edge is, from 0 for black to 1: the later the darker."""
    if time is None or times is None:
        return 0.6
    first, last = times
    share = 1.0 if last == first else (time - first) / (last - first)
    return PALE + (DARK - PALE) * share


def short(label: str) -> str:
    """A label that has room."""
    return label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"
