"""The systems as a table and a picture: accuracy against seconds."""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from examples.reproduce.datasets.catalog import SOURCES

COLORS = {
    "full": "#6f6f6f",
    "gttf": "#2166ac",
    "nodewise": "#b8860b",
    "fastgcn": "#c2a5cf",
    "ladies": "#7b3294",
    "saint": "#e08214",
    "cluster": "#1b7837",
}


def by_way(found: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The runs of every system, in the order in which they were made."""
    ways: dict[str, list[dict[str, Any]]] = {}
    for run in found["runs"]:
        ways.setdefault(run["way"], []).append(run)
    return ways


def markdown(found: dict[str, Any]) -> str:
    """A line per system."""
    from examples.reproduce.systems import LABELS

    budget = found["budget"]
    lines = [
        f"| {_title(found)}, {budget:g} s | test % | validation % after "
        f"{budget / 8:.2g} s | steps | ms/step | nodes/step | first step after, s |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for way, runs in by_way(found).items():
        test = [run["test"] for run in runs]
        spread = stdev(test) if len(test) > 1 else 0.0
        early = mean(_at(run["curve"], budget / 8) for run in runs)
        steps = mean(run["steps"] for run in runs)
        pace = mean(
            1000 * (run["seconds"] - run["first step"]) / max(1, run["steps"] - 1)
            for run in runs
        )
        nodes = mean(run["nodes per step"] for run in runs)
        first = mean(run["first step"] for run in runs)
        lines.append(
            f"| {LABELS[way]} | {mean(test):.1f} ± {spread:.1f} | {early:.1f} | "
            f"{steps:,.0f} | {pace:.1f} | {nodes:,.0f} | {first:.2f} |"
        )
    lines += [f"\n{LABELS[way]}: {why}." for way, why in found["left out"].items()]
    lines += [f"\nNote: {note}." for note in found.get("notes", ())]
    return "\n".join(lines) + "\n"


def _at(curve: list[list[float]], seconds: float) -> float:
    """The best score that was seen until then; 0 if nobody had looked yet."""
    return max((val for spent, val in curve if spent <= 1.1 * seconds), default=0.0)


def draw(races: Sequence[dict[str, Any]], path: Path) -> None:
    """Mean validation accuracy against seconds: a panel per race, a line per system.

    Nothing without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    size = (5.6 * len(races), 3.8)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(races), squeeze=False)[0]
    for axes, found in zip(panels, races, strict=True):
        _panel(axes, found)
    panels[0].set_ylabel("validation accuracy, %")
    panels[-1].legend(frameon=False, fontsize=9, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _panel(axes: Any, found: dict[str, Any]) -> None:
    """The systems on one dataset."""
    from examples.reproduce.systems import LABELS

    for way, runs in by_way(found).items():
        curves = zip(*(run["curve"] for run in runs), strict=True)
        points = [[mean(x) for x in zip(*column, strict=True)] for column in curves]
        seconds, score = zip(*points, strict=True)
        width = 2.4 if way == "gttf" else 1.4
        how = {"color": COLORS[way], "lw": width, "ms": 3.5, "label": LABELS[way]}
        axes.plot(seconds, score, "o-", **how)
    seeds = len({run["seed"] for run in found["runs"]})
    axes.set(xscale="log", xlabel="seconds of one thread, sampler included")
    title = f"two-layer GCN, {_title(found)}, mean of {seeds} seeds"
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _title(found: dict[str, Any]) -> str:
    """The title of a dataset; one that is made here has only its name."""
    source = SOURCES.get(found["dataset"])
    return source.title if source else found["dataset"]
