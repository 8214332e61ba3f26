"""The results as a table and as a chart."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from examples.degrees.data import TITLES as GRAPHS
from examples.degrees.models import TITLES as MODELS
from examples.degrees.train import WAYS

COLORS = {
    "full": "#6f6f6f",
    "neighbor": "#b8860b",
    "sampled": "#d6604d",
    "unbiased": "#2166ac",
    "layerwise": "#1b9e77",
}


def tests(runs: Sequence[dict[str, Any]], *key: str) -> list[float]:
    """The accuracies of a (graph, model, way), one per split."""
    names = ("graph", "model", "way")
    return [run["test"] for run in runs if tuple(run[n] for n in names) == key]


def markdown(runs: Sequence[dict[str, Any]]) -> str:
    """Mean ± standard deviation of the accuracy per graph, model and way."""
    ways = [way for way in WAYS if any(run["way"] == way for run in runs)]
    lines = [
        "| graph | model | " + " | ".join(WAYS[way] for way in ways) + " |",
        "|---|---|" + "---:|" * len(ways),
    ]
    for graph, model in present(runs):
        cells = [cell(tests(runs, graph, model, way)) for way in ways]
        lines.append(f"| {GRAPHS[graph]} | {MODELS[model]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def cell(found: list[float]) -> str:
    """A mean and its spread, or a dash."""
    if not found:
        return "–"
    spread = f" ± {np.std(found, ddof=1):.1f}" if len(found) > 1 else ""
    return f"{np.mean(found):.1f}{spread}"


def present(runs: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """The (graph, model) pairs that were run, in the order of the tables."""
    there = {(run["graph"], run["model"]) for run in runs}
    return [(g, m) for g in GRAPHS for m in MODELS if (g, m) in there]


def draw(runs: Sequence[dict[str, Any]], path: Path) -> None:
    """Writes a chart: a panel per graph; nothing without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    graphs = list(dict.fromkeys(graph for graph, _ in present(runs)))
    if not graphs:
        return
    size = (3.4 * len(graphs), 3.6)
    figure, line = plt.subplots(1, len(graphs), figsize=size, squeeze=False)
    for axes, graph in zip(line[0], graphs, strict=True):
        models = [model for name, model in present(runs) if name == graph]
        for place, model in enumerate(models):
            ways = [way for way in WAYS if tests(runs, graph, model, way)]
            for turn, way in enumerate(ways):
                found = tests(runs, graph, model, way)
                x = place + (turn - (len(ways) - 1) / 2) * 0.16
                dot = {"color": COLORS[way], "label": WAYS[way]}
                axes.plot(
                    [x] * len(found), found, ".", ms=4, alpha=0.4, color=COLORS[way]
                )
                axes.plot([x], [np.mean(found)], "o", ms=7, **dot)
        axes.set_xticks(range(len(models)), [MODELS[model] for model in models])
        axes.set_xlim(-0.6, len(models) - 0.4)
        axes.set_title(GRAPHS[graph], loc="left", fontsize=11)
        axes.grid(axis="y", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    line[0][0].set_ylabel("test accuracy, %")
    handles: dict[str, Any] = {}
    for axes in line[0]:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    shown = {name: handles[name] for name in WAYS.values() if name in handles}
    figure.legend(
        shown.values(), shown.keys(), loc="lower center", ncol=len(shown), frameon=False
    )
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
