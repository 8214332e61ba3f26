"""The chart: accuracy of every method in every way, the paper's number marked."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.reproduce.config import HOSTS, METHODS
from examples.reproduce.table import rows

COLORS = {
    "full": "#6f6f6f",
    "walks": "#d6604d",
    "neighbor": "#b8860b",
    "gttf": "#2166ac",
    "attention": "#1b9e77",
    "ladies": "#7b3294",
    "fastgcn": "#c2a5cf",
    "saint": "#e08214",
    "nodewise": "#8c510a",
    "cluster": "#1b7837",
}


def draw(runs: Sequence[dict[str, Any]], path: Path) -> None:
    """Writes a picture, a row per dataset and a column per host.

    Every run is a dot, mean ± standard deviation a bar. Nothing without matplotlib.
    """
    try:
        import matplotlib
    except ImportError:
        return
    found = [row for row in rows(runs) if row["missing"] is None]
    if not found:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    datasets = list(dict.fromkeys(row["dataset"] for row in found))
    hosts = [host for host in HOSTS if any(row["host"] == host for row in found)]
    size = (6.4 * len(hosts), 3.2 * len(datasets) + 0.6)
    figure, grid = plt.subplots(
        len(datasets), len(hosts), figsize=size, sharey="row", squeeze=False
    )
    for line, dataset in zip(grid, datasets, strict=True):
        for axes, host in zip(line, hosts, strict=True):
            here = (dataset, host)
            part = [row for row in found if (row["dataset"], row["host"]) == here]
            _panel(axes, part, runs)
            axes.set_title(f"{dataset}, {host}", loc="left", fontsize=11)
            axes.set_visible(bool(part))
        line[0].set_ylabel("test accuracy or ROC-AUC, %")
    handles: dict[str, Any] = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        handles.values(), handles.keys(), loc="upper center", ncol=9, frameon=False
    )
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.4 / size[1]))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _panel(axes: Any, found: list[dict[str, Any]], runs: Sequence[Any]) -> None:
    """The methods of one host on one dataset, its ways side by side."""
    methods = [name for name in METHODS if any(row["method"] == name for row in found)]
    for place, method in enumerate(methods):
        own = [row for row in found if row["method"] == method]
        for turn, row in enumerate(own):
            x = place + (turn - (len(own) - 1) / 2) * min(0.25, 0.8 / len(own))
            color = COLORS[row["way"]]
            same = ("method", "dataset", "host", "way")
            dots = [r["test"] for r in runs if all(r[k] == row[k] for k in same)]
            axes.plot([x] * len(dots), dots, ".", color=color, alpha=0.35, ms=6)
            axes.errorbar(
                *(x, row["mean"], row["std"]),
                **{"fmt": "o", "ms": 6, "color": color, "capsize": 4, "lw": 1.5},
                label=row["way"],
            )
        paper = [row["paper"] for row in own if row["paper"] is not None]
        if paper:
            axes.hlines(
                *(paper[0], place - 0.42, place + 0.42),
                **{"color": "#b2182b", "lw": 1.5, "ls": "--"},
                label="GTTF in the paper",
            )
    axes.set_xlim(-0.6, len(methods) - 0.4)
    axes.set_xticks(range(len(methods)), methods)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelleft=True)
