"""The tables of reproduce.md and of the README, and their picture, from the records."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from examples.reproduce import curve
from examples.reproduce.compare import paired
from examples.reproduce.config import HOSTS, METHODS
from examples.reproduce.pages import (
    CLASSIFIED,
    NAMES,
    comparison,
    of_cell,
    summary,
)
from examples.reproduce.protocol import MARGIN
from examples.reproduce.store import Store

HERE = Path(__file__).parent
RESULTS = HERE.parent / "examples" / "reproduce" / "results"
MARK, AUTHORS = "make reproduce", "settings of the authors"
STYLES = {"pyg": ("o", "#2a7f62"), "dgl": ("^", "#4c6ef5")}


def write(fill: Callable[[str, str, str], str]) -> None:
    """Fills in both pages; `fill` is that of docs.pictures."""
    runs = Store(RESULTS).all()
    tables = {
        HERE / "reproduce.md": {MARK: comparison(runs), AUTHORS: as_published()},
        HERE.parent / "README.md": {MARK: summary(runs)},
    }
    for page, texts in tables.items():
        text = page.read_text("utf-8")
        for mark, table in texts.items():
            text = fill(text, mark, table)
        page.write_text(text, "utf-8")


def as_published() -> str:
    """The cells whose authors' settings were run, and given up for others."""
    return comparison(Store(RESULTS / "authors").all())


def curves(folder: Path) -> None:
    """A picture per learning curve that is kept."""
    for path in sorted((RESULTS / "curves").glob("*.json")):
        curve.draw(json.loads(path.read_text("utf-8")), folder / f"{path.stem}.svg")


def draw(path: Path) -> None:
    """Differences with their intervals, a row per model and graph, and the margin."""
    runs, rows = Store(RESULTS).all(), []
    for method in METHODS:
        for dataset in CLASSIFIED:
            found = {
                host: paired(of_cell(runs, method, dataset, host)) for host in HOSTS
            }
            if any(found.values()):
                rows.append((f"{NAMES[method]}, {NAMES[dataset]}", found))
    figure = Figure(figsize=(7, 0.36 * len(rows) + 1.2), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(-MARGIN, MARGIN, color="#e9ecef", zorder=0, label="the margin")
    axes.axvline(0, color="#868e96", lw=0.8)
    for host, (marker, color) in STYLES.items():
        shown = [(i, found[host]) for i, (_, found) in enumerate(rows) if found[host]]
        style: dict[str, Any] = {"fmt": marker, "color": color, "capsize": 3, "ms": 5}
        if shown:
            axes.errorbar(
                [c.difference for _, c in shown],
                [i + (0.12 if host == "dgl" else -0.12) for i, _ in shown],
                xerr=[c.high - c.difference for _, c in shown],
                label=NAMES[host],
                **style,
            )
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel("GTTF − full batch, points of test accuracy, 95 % interval")
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    figure.savefig(path)
