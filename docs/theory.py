"""The pictures of paper.md, of what `python -m examples.theory` has found."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

RESULT = Path(__file__).parents[1] / "examples" / "theory" / "results" / "theory.json"
GREEN, GREY, BROWN, BLUE = "#2a7f62", "#7d8894", "#c0703f", "#1d4e89"
COLORS = {
    **{"unbiased": GREEN, "paper": BROWN, "sampled": GREY},
    **{"independent": GREY, "without replacement": BROWN},
    **{"a number per part": BLUE, "systematic": GREEN},
    **{"each row its own draws": GREY, "LABOR-0": BLUE},
    **{"LABOR-1": BROWN, "LABOR-*": GREEN},
    **{"uniform draws": GREY, "by attention, √a alone": BROWN},
    **{"by attention, weighed back": BLUE, "the same, stratified": GREEN},
}
Rows = list[dict[str, Any]]


def read(path: Path = RESULT) -> dict[str, Any]:
    """Reads the results."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def draw(found: dict[str, Any], folder: Path) -> None:
    """All pictures of the page."""
    pictures: dict[str, Callable[[dict[str, Any]], Figure]] = {
        "powers": powers,
        "gradients": gradients,
        "layers": layers,
        "branching": branching,
        "minimizers": minimizers,
        "reduction": reduction,
    }
    for name, picture in pictures.items():
        picture(found).savefig(folder / f"paper_{name}.svg")


def powers(found: dict[str, Any]) -> Figure:
    """𝒯̂ᵏ: the mean of many trees, the worst case, and one graph at all depths."""
    figure, (left, middle, right) = _panels(3)
    for name, color in (("made", GREEN), ("Cora", BLUE)):
        rows = found["convergence"].get(name, [])
        _line(left, rows, "trees", "error", "o", color, name)
        _line(left, rows, "trees", "expected", ":", color, "")
    _log(left, "trees per seed", "error of the mean of T³")
    rows = found["fork"]
    _line(middle, rows, "fanout", "ours", "-", GREEN, "1 / (4 f)")
    _line(middle, rows, "fanout", "measured", "o", GREEN, "measured")
    _line(middle, rows, "fanout", "paper", "--", BROWN, "printed, 1 / (4 f²)")
    _log(middle, "fanout f", "variance of T²(0, 5) of a fork")
    rows = [row for row in spread(found) if row["fanout"] == 3]
    _line(right, rows, "k", "ours", "-", GREEN, "Σ p (1 - p) / f")
    _line(right, rows, "k", "measured", "o", GREEN, "measured, f = 3")
    _line(right, rows, "k", "exact", ":", GREEN, "Σ gⱼ / fʲ")
    _line(right, rows, "k", "paper", "--", BROWN, "printed, Σ p (1 - p) / fᵏ")
    right.set_yscale("log")
    right.set_xticks([1, 2, 3, 4])
    _plain(right.yaxis)
    _labels(right, "steps k", f"variance of a row of Tᵏ, {graph(found)}")
    return figure


def gradients(found: dict[str, Any]) -> Figure:
    """Table of errors of the mean gradients, beside those expected by chance."""
    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    names = list(dict.fromkeys(row["objective"] for row in found["gradients"]))
    marks = {"[1, 1, 1]": ("o", -0.14), "[3, 2, 1]": ("s", 0.14)}
    for fanouts, (mark, shift) in marks.items():
        rows = [row for row in found["gradients"] if str(row["fanouts"]) == fanouts]
        places = [names.index(row["objective"]) + shift for row in rows]
        chance = [row["chance"] for row in rows]
        label = "chance alone" if shift < 0 else None
        axes.barh(places, chance, height=0.24, color="#d8dde2", label=label)
        color = GREEN if mark == "o" else BLUE
        shown = f"fanouts {fanouts}"
        axes.plot([row["bias"] for row in rows], places, mark, color=color, label=shown)
    axes.set_yticks(range(len(names)), names, size=9)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xscale("log")
    axes.set_xlim(0.05, None)
    axes.xaxis.set_major_formatter("{x:g}")
    _labels(axes, "bias of the gradient, % of its norm", "")
    return figure


def layers(found: dict[str, Any]) -> Figure:
    """The GCN estimator: the loop of a star, and two layers on a graph."""
    figure, (left, middle, right) = _panels(3)
    for scheme, style in (("unbiased", "o-"), ("paper", "s--"), ("sampled", "v:")):
        _line(left, found["star"], "fanout", scheme, style, COLORS[scheme], scheme)
    _labels(left, "fanout, of 8 neighbours", "mean weight of the self-loop")
    left.axhline(1 / 9, color="#333333", lw=0.8, ls=":")
    left.set_ylim(0, None)
    for scheme, style in (("unbiased", "o-"), ("paper", "s--"), ("sampled", "v:")):
        rows = of_scheme(found, scheme)
        color = COLORS[scheme]
        _line(middle, rows, "fanout", "bias", style, color, f"{scheme}")
        _line(right, rows, "fanout", "error", style, color, f"{scheme}")
    rows = of_scheme(found, "unbiased")
    _line(middle, rows, "fanout", "chance", ":", "#333333", "chance alone")
    rows = of_scheme(found, "unbiased", replace=True)
    _line(right, rows, "fanout", "error", "x-", BLUE, "unbiased, with repl.")
    _log(middle, "fanout", f"bias of two layers, %, {graph(found)}")
    _log(right, "fanout", "error of one batch, %")
    return figure


def branching(found: dict[str, Any]) -> Figure:
    """Table of the value of a step in trees, against plain walks."""
    figure, panels = _panels(len(found["spread"]), height=2.5)
    for axes, (name, every) in zip(panels, found["spread"].items(), strict=True):
        for k, color in ((2, GREY), (3, BLUE), (4, GREEN)):
            rows = [row for row in every if row["k"] == k]
            _line(axes, rows, "fanout", "cost", "o-", color, f"k = {k}")
            axes.axhline(rows[0]["best"], color=color, lw=0.9, ls=":")
        axes.set_ylim(0.4, 1.8)
        axes.set_xticks([1, 2, 3, 5])
        _labels(axes, f"fanout f at every step, {name}", "variance × steps")
    return figure


def minimizers(found: dict[str, Any]) -> Figure:
    """Table of zeros of sampled gradients, against a convex loss's minimizer."""
    figure, panels = _panels(len(found["minimizers"]), height=2.5)
    ways = {
        "unbiased, one sample": ("o-", BLUE),
        "paper, one sample": ("s--", BROWN),
        "unbiased, two samples": ("o-", GREEN),
    }
    for axes, (name, every) in zip(panels, found["minimizers"].items(), strict=True):
        for way, (style, color) in ways.items():
            rows = [row for row in every if row["way"] == way]
            _line(axes, rows, "fanout", "off", style, color, way)
        axes.set_ylim(0.01, 100)
        _log(axes, f"fanout, {name}", "distance from the minimizer, %")
    return figure


def reduction(found: dict[str, Any]) -> Figure:
    """Error against cost: spread draws, shared numbers, importance weights."""
    figure, (left, middle, right) = _panels(3)
    pairs = (
        (left, "strata", "steps", "error", "steps per seed", "error of a gradient, %"),
        (middle, "labor", "nodes", "variance", "nodes reached", "variance of a mean"),
        (right, "attention", "draws", "error", "draws per node", "error of Σ a m, %"),
    )
    for axes, name, x, y, xlabel, ylabel in pairs:
        ways = list(dict.fromkeys(row["way"] for row in found[name]))
        for way, style in zip(ways, ("o-", "s--", "d-", "o-"), strict=True):
            rows = [row for row in found[name] if row["way"] == way]
            _line(axes, rows, x, y, style, COLORS[way], way)
        _log(axes, xlabel, ylabel)
    return figure


def graph(found: dict[str, Any]) -> str:
    """Cora, unless it was not there."""
    return "Cora" if "Cora" in found["spread"] else "made"


def spread(found: dict[str, Any]) -> Rows:
    """Variances of rows of 𝒯̂ᵏ on the graph that is shown."""
    rows: Rows = found["spread"][graph(found)]
    return rows


def of_scheme(found: dict[str, Any], scheme: str, *, replace: bool = False) -> Rows:
    """Layers on that graph by one way to weigh a sample."""
    every = found["layers"][graph(found)]
    return [r for r in every if r["scheme"] == scheme and r["replace"] == replace]


def _panels(count: int, height: float = 3.0) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(9 if count == 3 else 7, height), layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def _line(
    axes: Axes, rows: Rows, x: str, y: str, style: str, color: str, label: str
) -> None:
    places, heights = [row[x] for row in rows], [row[y] for row in rows]
    how = {"color": color, "ms": 4.5, "lw": 1.4}
    axes.plot(places, heights, style, label=label or None, **how)


def _log(axes: Axes, xlabel: str, ylabel: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        _plain(axis)
    _labels(axes, xlabel, ylabel)


def _plain(axis: Axis) -> None:
    """Numbers as one writes them, no more of them than there is room for."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 150 * low else (1,)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def _labels(axes: Axes, xlabel: str, ylabel: str) -> None:
    axes.set_xlabel(xlabel)
    axes.set_title(ylabel, loc="left", size=10)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
