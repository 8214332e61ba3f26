"""The systems as a table and a picture: accuracy against seconds."""

from pathlib import Path
from statistics import mean, stdev
from typing import Any

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
        f"| {found['dataset']}, {budget:g} s | test % | validation % after "
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
    return "\n".join(lines) + "\n"


def _at(curve: list[list[float]], seconds: float) -> float:
    """The best score that was seen until then; 0 if nobody had looked yet."""
    return max((val for spent, val in curve if spent <= 1.1 * seconds), default=0.0)


def draw(found: dict[str, Any], path: Path) -> None:
    """Mean validation accuracy against seconds, a line per system."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from examples.reproduce.systems import LABELS

    figure, axes = plt.subplots(figsize=(7.2, 4.2))
    for way, runs in by_way(found).items():
        curves = zip(*(run["curve"] for run in runs), strict=True)
        points = [[mean(x) for x in zip(*column, strict=True)] for column in curves]
        seconds, score = zip(*points, strict=True)
        width = 2.4 if way == "gttf" else 1.4
        axes.plot(
            *(seconds, score, "o-"),
            **{"color": COLORS[way], "lw": width, "ms": 3.5, "label": LABELS[way]},
        )
    axes.set(xscale="log", xlabel="seconds of one thread, sampler included")
    axes.set_ylabel("validation accuracy, %")
    title = f"two-layer GCN, {found['dataset']}, mean of {_seeds(found)} seeds"
    axes.set_title(title, loc="left", fontsize=11)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _seeds(found: dict[str, Any]) -> int:
    return len({run["seed"] for run in found["runs"]})
