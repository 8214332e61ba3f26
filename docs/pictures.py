"""Draws docs/images: `python -m docs.pictures`, from the root of the project.

Pictures of results are drawn from the tables of the pages that show them, so that the
two cannot disagree; nothing is measured here.
"""

import os
import re
from pathlib import Path

os.environ["SOURCE_DATE_EPOCH"] = "0"  # the same bytes whenever they are drawn

import matplotlib
from matplotlib.figure import Figure

from examples import walk_forest
from gttf_sampler import CompactAdj, traverse

HERE = Path(__file__).parent
IMAGES = HERE / "images"
OURS, THEIRS = "#2a7f62", "#9aa5b1"


def tables(page: str, heading: str) -> list[list[list[str]]]:
    """The cells of every table of a section of a page, without their heads."""
    text = (HERE / page).read_text("utf-8")
    section = re.split(r"\n##+ ", text.split(f"# {heading}\n")[1])[0]
    found = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)
    lines = [table.splitlines()[2:] for table in found]
    return [[_cells(line) for line in table] for table in lines]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def number(cell: str) -> float:
    """A cell as a number."""
    return float(cell.replace(",", ""))


def loaders(path: Path) -> None:
    """Bars of ms per batch, a panel per table of "Loaders"."""
    graphs = ["23 million edges"] * 2 + ["124 million edges"] * 2
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    panels = figure.subplots(2, 2)
    found = tables("benchmarks.md", "Loaders")
    for axes, graph, rows in zip(panels.T.flat, graphs, found, strict=True):
        for place, (name, best, *_) in enumerate(rows):
            color = OURS if name.startswith("gttf") else THEIRS
            axes.barh(place, number(best), color=color, height=0.6)
            axes.text(number(best), place, f" {best}", va="center", size=9)
        names = [name.replace(" (torch", "\n(torch") for name, *_ in rows]
        axes.set_yticks(range(len(rows)), names, size=8)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.margins(x=0.15)
        axes.set_title(graph, loc="left", size=10)
        axes.spines[["top", "right", "left"]].set_visible(False)
    figure.supxlabel(
        "ms per batch of 1,024 seeds with 100 features, best round", size=9
    )
    figure.savefig(path)


def scale(path: Path) -> None:
    """Lines of ms per batch against edges, from the table of "Scale"."""
    (rows,) = tables("benchmarks.md", "Scale")
    columns = [[number(row[place]) for row in rows] for place in (0, 2, 6)]
    edges, batch, reading = columns
    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    axes.plot(edges, batch, "o-", color=OURS, label="a batch, best round")
    axes.plot(edges, reading, "s:", color=THEIRS, label="reading as many edges")
    axes.set_xscale("log")
    axes.set_xlabel("edges of the graph, which stays on disk")
    axes.set_ylabel("ms per batch")
    axes.set_ylim(0, None)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path)


def accuracy(path: Path) -> None:
    """Mean ± standard deviation of every way, from the table of "Accuracy"."""
    (rows,) = tables("reproduce.md", "Accuracy")
    ways = ("PyG, full batch", "PyG, GTTF", "DGL, full batch", "DGL, GTTF")
    styles = zip(ways, (THEIRS, OURS) * 2, "oo^^", strict=True)
    figure = Figure(figsize=(7, 5.2), layout="constrained")
    axes = figure.subplots()
    for turn, (way, color, marker) in enumerate(styles):
        cells = [(i, row[1 + turn]) for i, row in enumerate(rows) if row[1 + turn]]
        means, errors = zip(
            *(map(float, c.split(" ± ")) for _, c in cells), strict=True
        )
        places = [i + 0.18 * (turn - 1.5) for i, _ in cells]
        style = {"fmt": marker, "color": color, "capsize": 2, "ms": 4.5, "lw": 1.2}
        axes.errorbar(means, places, xerr=errors, label=way, **style)
    marks = [(float(row[5]), i) for i, row in enumerate(rows) if row[5]]
    axes.plot(*zip(*marks, strict=True), "kx", ms=6, label="the paper, GTTF")
    axes.set_yticks(range(len(rows)), [row[0] for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel("test accuracy, %")
    axes.grid(axis="x", alpha=0.25)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=5, frameon=False, fontsize=8)
    figure.savefig(path)


def main() -> None:
    """Draws all of them."""
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "gttf"})
    IMAGES.mkdir(exist_ok=True)
    adj = CompactAdj.from_edge_index(walk_forest.EDGES)
    forest = traverse(adj, seeds=[4, 0], fanouts=[2, 2], generator=21874)
    walk_forest.draw(adj, forest, IMAGES / "figure1.svg")
    forest.draw().savefig(IMAGES / "forest.svg")
    loaders(IMAGES / "loaders.svg")
    scale(IMAGES / "scale.svg")
    accuracy(IMAGES / "accuracy.svg")


if __name__ == "__main__":
    main()
