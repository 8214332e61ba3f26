"""Draws docs/images: `python -m docs.pictures`, from the root of the project.

Pictures of results are drawn from the tables of the pages that show them, so that the
two cannot disagree; nothing is measured here. `python -m docs.pictures FILE ...` takes
what these have written, and fills in their tables first:

    gttf bench modes --json FILE
    gttf bench step --json FILE
    gttf bench embedding --graph ca-HepTh.txt --rounds 2 --json FILE
    python -m examples.bench.embedding_scale --scale 1 --rounds 1 --json FILE
    python examples/bench_embedding.py --edges EDGES --seeds 0 1 2 --json FILE
    gttf bench disk --features 128 --json FILE
    gttf bench disk --features 128 --scale 1 --tmp DIR --json FILE
    python -m examples.bench.disk --what rows --features 128 --json FILE
    python -m examples.bench.disk --what sweep --features 128 --json FILE
    python -m examples.bench.chunks --scale 1 --tmp DIR --json FILE

The fifth takes both of its files, of PPI and of ca-HepTh, at once, and draws AUC
against seconds as well. paper.md is filled in from what is kept of the
first, reproduce.md and the README from what is kept of the second:

    python -m examples.theory --root DIR --rounds 200 --json FILE
    python -m examples.reproduce --root DIR --results examples/reproduce/results
"""

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ["SOURCE_DATE_EPOCH"] = "0"  # the same bytes whenever they are drawn

import matplotlib
from matplotlib.figure import Figure

from docs import reproduced, theory
from docs.theory_tables import tables as theory_tables
from examples import walk_forest
from examples.bench import tables as scripts  # noqa: F401  # adds its columns
from examples.reproduce import larger_pages
from gttf_sampler import CompactAdj, traverse
from gttf_sampler.bench import report

HERE = Path(__file__).parent
IMAGES = HERE / "images"
OURS, THEIRS = "#2a7f62", "#9aa5b1"
MODES, EPOCHS, AUC = "gttf bench modes", "gttf bench embedding", "bench_embedding"
# task of a result → the page and the marks between which its tables stand
PLACES = {
    "modes": ("benchmarks.md", MODES),
    "step": ("benchmarks.md", "gttf bench step"),
    "embedding": ("embeddings.md", EPOCHS),
    "embedding scale": ("embeddings.md", "embedding_scale"),
    "disk": ("disk.md", "gttf bench disk"),
    "disk large": ("disk.md", "gttf bench disk --scale 1"),
    "disk rows": ("disk.md", "disk rows"),
    "disk sweep": ("disk.md", "disk sweep"),
    "chunks": ("disk.md", "chunks"),
}
DRAWN = {
    "step": ("step.svg", "Milliseconds per training step of each model"),
    "disk": ("disk.svg", "Rows and batches from a disk"),
    "disk large": ("disk_large.svg", "Rows and batches from a disk"),
}
PAPER = {"DeepWalk, f = 1": "87.9 / 89.9", "Watch Your Step": "90.5 / 93.5"}


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
    rows, *_ = tables("benchmarks.md", "Scale")
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


def marks(name: str) -> tuple[str, str]:
    """The lines between which `fill` writes."""
    return f"<!-- begin: {name} -->\n", f"<!-- end: {name} -->\n"


def fill(page: str, name: str, text: str) -> str:
    """The text of a page with another text between the marks of a name."""
    begin, end = marks(name)
    before, _, rest = page.partition(begin)
    after = rest.partition(end)[2]
    return f"{before}{begin}\n{text}\n{end}{after}"


def markdown(result: dict[str, Any]) -> str:
    """A result of `gttf bench` as tables of Markdown, each below its title."""
    command = re.sub(r"(--graph )\S*/", r"\1", result["command"])
    machine, lines = result["machine"], [f"`{command}`"]
    lines[0] += f" ({machine['cpu']}, {machine['cores']} cores):\n"
    for group in result["groups"]:
        table = report.table_of(group, result["task"])
        marks = ["---"] + ["---:"] * (len(table.columns) - 1)
        lines += [f"{group['title']}:\n", _line([c.head for c in table.columns])]
        lines.append(f"|{'|'.join(marks)}|")
        lines += [_line(table.cells(row)) for row in group["rows"]]
        lines[-1] += "\n"
        other = [row for row in group["rows"] if row.get("differs")]
        lines += [
            f"No ratio: {row.get('mode') or row['peer']}: {row['differs']}.\n"
            for row in other
        ]
    lines += [f"Left out: {e['peer']}: {e['why']}.\n" for e in result["left_out"]]
    lines += [f"Note: {note}.\n" for note in result["notes"]]
    return "\n".join(lines)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def modes(page: str) -> list[dict[str, Any]]:
    """The groups of the tables that `fill` has written into a page."""
    begin, end = marks(MODES)
    part = page.partition(begin)[2].partition(end)[0]
    found = []
    for title, text in re.findall(r"^(\w+: .*):\n\n((?:^\|.*\n)+)", part, re.MULTILINE):
        heads, _, *rows = text.splitlines()
        columns = "workers" if "| ours s |" in heads else "modes"
        keys = [column.key for column in report.TABLES[columns].columns]
        group = [dict(zip(keys, _cells(row), strict=True)) for row in rows]
        for row in group:
            for key in ("best", "theirs", "ratio"):
                row[key] = number(row[key].rstrip(" ×")) if row[key] else None
        found.append({"title": title, "columns": columns, "rows": group})
    return found


def draw_modes(path: Path) -> None:
    """Draws the peers' times in every mode over ours, from the table of modes."""
    groups = modes((HERE / "benchmarks.md").read_text("utf-8"))
    heights = [0.8 + report.INCH_PER_BAR * len(group["rows"]) for group in groups]
    figure = Figure(figsize=(9, sum(heights)), layout="constrained")
    how = {"sharex": True, "gridspec_kw": {"height_ratios": heights}}
    panels = figure.subplots(len(groups), 1, **how)
    for axes, group in zip(panels, groups, strict=True):
        report.bars(axes, group, report.TABLES["modes"])
    figure.savefig(path)


def degrees(path: Path) -> None:
    """Accuracy of every way to normalise, a panel per graph of "Accuracy"."""
    (rows,) = tables("normalise.md", "Accuracy")
    graphs = list(dict.fromkeys(row[0] for row in rows))
    ways = {
        "full batch": ("#555555", "_"),
        "PyG's NeighborLoader": (THEIRS, "v"),
        "ours, degrees of the sample": ("#c98b6b", "v"),
        "ours, unbiased": (OURS, "o"),
        "ours, unbiased, layerwise": ("#1d4e89", "D"),
    }
    figure = Figure(figsize=(10, 3), layout="constrained")
    panels = figure.subplots(1, len(graphs))
    for axes, graph in zip(panels, graphs, strict=True):
        part = [row for row in rows if row[0] == graph]
        for turn, (way, (color, marker)) in enumerate(ways.items()):
            cells = [(i, row[2 + turn]) for i, row in enumerate(part)]
            cells = [(i, cell.split(" ± ")) for i, cell in cells if cell != "–"]
            found = [(i, float(mean), float((*e, 0)[0])) for i, (mean, *e) in cells]
            places = [i + 0.15 * (turn - 2) for i, *_ in found]
            style = {"fmt": marker, "color": color, "ms": 6, "capsize": 2, "lw": 1.2}
            axes.errorbar(
                *(places, *list(zip(*found, strict=True))[1:]), **style, label=way
            )
            for i, mean, _ in found if turn == 0 else ():
                axes.plot([i - 0.4, i + 0.4], [mean] * 2, ":", color=color, lw=1)
        axes.set_xticks(range(len(part)), [row[1] for row in part], size=8)
        axes.set_xlim(-0.5, len(part) - 0.5)
        axes.set_title(graph, loc="left", size=10)
        axes.grid(axis="y", alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("test accuracy, %")
    handles = {}
    for axes in panels:
        handles.update(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    shown = [handles[way] for way in ways], list(ways)
    where = {"loc": "outside lower center", "ncols": 5, "frameon": False}
    figure.legend(*shown, fontsize=8, **where)
    figure.savefig(path)


def aucs(results: list[dict[str, Any]]) -> str:
    """Results of examples/bench_embedding.py, a column per graph, as Markdown."""
    lines = [f"| | {' | '.join(r['graph'] for r in results)} | the paper |"]
    lines.append("|---|" + "---:|" * (len(results) + 1))
    for name in results[0]["curves"]:
        cells = [_spread([c[-1][2] for c in r["curves"][name]]) for r in results]
        lines.append(_line([name, *cells, PAPER.get(name, "")]))
    cells = [_spread(result["degrees"]) for result in results]
    lines.append(_line(["product of the degrees, nothing learned", *cells, ""]))
    return "\n".join([*lines, ""])


def _spread(values: list[float]) -> str:
    """The mean ± half of the range."""
    mean, half = sum(values) / len(values), (max(values) - min(values)) / 2
    return f"{mean:.1f} ± {half:.1f}"


def auc_of_seconds(results: list[dict[str, Any]], path: Path) -> None:
    """The paper's figure: what seconds of training are worth, a panel per graph."""
    figure = Figure(figsize=(4.5 * len(results), 3.8), layout="constrained")
    panels = figure.subplots(1, len(results), squeeze=False)[0]
    for axes, result in zip(panels, results, strict=True):
        for turn, (name, runs) in enumerate(result["curves"].items()):
            seconds, _, values = zip(*runs[0], strict=True)
            axes.plot(seconds, values, "o-", ms=3, lw=1.2, color=f"C{turn}", label=name)
        axes.set(xscale="log", xlabel="seconds of training", title=result["graph"])
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("ROC-AUC of hidden edges, %")
    panels[-1].legend(frameon=False, fontsize=8)
    figure.savefig(path)


def propositions() -> None:
    """The tables and pictures of paper.md, from examples/theory/results."""
    found, page = theory.read(), HERE / "paper.md"
    text = page.read_text("utf-8")
    for mark, table in theory_tables(found).items():
        text = fill(text, mark, table)
    page.write_text(text, "utf-8")
    theory.draw(found, IMAGES)


def place_of(result: dict[str, Any]) -> str:
    """The key of `PLACES` where a result belongs."""
    task, groups = str(result["task"]), result["groups"]
    if task != "disk":
        return task
    columns = groups[0].get("columns", task)
    if columns != task:
        return str(columns)
    first = groups[-1]["rows"][0]["peer"]
    return "disk" if first.endswith("in memory") else "disk large"


def take(files: Sequence[str]) -> None:
    """Writes what files hold into the pages that show it."""
    results = [json.loads(Path(file).read_text("utf-8")) for file in files]
    learned = [result for result in results if "curves" in result]
    texts = [("embeddings.md", AUC, aucs(learned))] if learned else []
    if learned:
        auc_of_seconds(learned, IMAGES / "embedding.svg")
    for result in results:
        if "task" in result:
            place, text = place_of(result), markdown(result)
            if place in DRAWN:
                image, words = DRAWN[place]
                report.draw(result).savefig(IMAGES / image)
                text = f"![{words}](images/{image})\n\n{text}"
            texts.append((*PLACES[place], text))
    for name, mark, text in texts:
        page = HERE / name
        page.write_text(fill(page.read_text("utf-8"), mark, text), "utf-8")


def main(*files: str) -> None:
    """Fills in the tables of reports, if there are any, and draws all pictures."""
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "gttf"})
    IMAGES.mkdir(exist_ok=True)
    take(files)
    adj = CompactAdj.from_edge_index(walk_forest.EDGES)
    forest = traverse(adj, seeds=[4, 0], fanouts=[2, 2], generator=21874)
    walk_forest.draw(adj, forest, IMAGES / "figure1.svg")
    forest.draw().savefig(IMAGES / "forest.svg")
    loaders(IMAGES / "loaders.svg")
    draw_modes(IMAGES / "modes.svg")
    scale(IMAGES / "scale.svg")
    reproduced.write(fill)
    larger_pages.write(fill)
    reproduced.draw(IMAGES / "accuracy.svg")
    reproduced.curves(IMAGES)
    degrees(IMAGES / "degrees.svg")
    propositions()


if __name__ == "__main__":
    main(*sys.argv[1:])
