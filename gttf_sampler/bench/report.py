"""Results as tables and as figures: both show the columns of `TABLES`."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from gttf_sampler import _files
from gttf_sampler.bench.measure import Group, Row

SIGNATURE = "drawn by gttf bench"  # in the metadata of a figure
OURS, THEIRS = "#2a7f62", "#9aa5b1"
INCH_PER_BAR = 0.34
LETTERS = 66  # of a line above a panel
TALL = 5  # panels above each other; more stand in two columns

Result = dict[str, Any]


def _number(value: Any) -> str:
    """Three digits that matter."""
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _megabytes(value: Any) -> str:
    return _number(max(value, 0) / 1e6)


# how a field of a row is written, unless it is a number of three digits
WRITERS: dict[str, Callable[[Any], str]] = {
    **dict.fromkeys(("peer", "mode"), str),
    **dict.fromkeys(("nodes", "edges", "drawn", "count"), "{:,.0f}".format),
    **dict.fromkeys(
        ("held", "making", "sampling", "private", "peak", "MB"), _megabytes
    ),
    **dict.fromkeys(("auc", "cut", "share"), lambda value: f"{100 * value:.1f} %"),
    "ratio": "{:.2f} ×".format,
}


class Column(NamedTuple):
    """A field of a row and its heading."""

    key: str
    head: str

    def write(self, value: Any) -> str:
        """A value as text; a missing one is empty."""
        return "" if value is None else WRITERS.get(self.key, _number)(value)


class Table(NamedTuple):
    """The columns of a group."""

    columns: list[Column]  # the first one names the rows
    bar: str  # the key of the column that a figure draws

    @classmethod
    def of(cls, heads: str, bar: str = "best") -> "Table":
        """Columns as `key` or `key: heading`, with bars between them."""
        parts = [part.partition(":") for part in heads.split("|")]
        columns = [(key.strip(), head.strip(), colon) for key, colon, head in parts]
        return cls([Column(k, h if colon else k) for k, h, colon in columns], bar)

    def cells(self, row: Row) -> list[str]:
        """The cells of a row."""
        return [column.write(row.get(column.key)) for column in self.columns]


TIMES = "peer: | best: best ms | median: median ms | "
EPOCHS = "peer: | best: epoch s | median: median s | "
TABLES = {
    "loader": Table.of(TIMES + "nodes | edges | ratio: × first"),
    "step": Table.of(TIMES + "MB: extra MB | nodes | edges | ratio: × first"),
    "modes": Table.of(
        "mode: | best: ours ms | theirs: peer ms | ratio: peer / ours | nodes | "
        "edges | peer",
        bar="ratio",
    ),
    "workers": Table.of(
        "mode: | best: ours s | best_alone: 0 workers | theirs: peer s | "
        "theirs_alone: 0 workers | ratio: peer / ours | peer",
        bar="ratio",
    ),
    "walks": Table.of(
        TIMES + "edges: steps | rate: M steps/s | ratio: × first", bar="rate"
    ),
    "embedding": Table.of(
        EPOCHS + "edges: pairs an epoch | rate: M pairs/s | count: epochs | auc: AUC | "
        "ratio: × first"
    ),
    "memory": Table.of(
        "peer: | held: held MB | per_edge: bytes / edge | "
        "making: peak MB beyond the input | sampling: sampling MB | ratio: × first",
        bar="held",
    ),
    "scale": Table.of(
        "edges | nodes | best: best ms | median: median ms | drawn | "
        "ns_per_edge: ns each | gather: reading ms | per_edge: bytes / edge | "
        "private: memory MB | ratio: × first"
    ),
    "distributed": Table.of(
        TIMES + "ratio: speed | messages | MB | cut: edges cut | share: held of all"
    ),
    "disk": Table.of(
        TIMES + "rate: rows/s | MB: MB read a batch | share: from the cache | "
        "ratio: × first"
    ),
}


def table_of(group: Group, task: str) -> Table:
    """The columns of a group of a task's result."""
    return TABLES[group.get("columns", task)]


def render(result: Result) -> str:
    """All tables of a result, with a line about graph and machine above."""
    machine = result["machine"]
    backend = machine["backend"].partition(":")[0]
    parts = [title(result), f"{machine['cpu']}, {machine['cores']} cores; {backend}"]
    for group in result["groups"]:
        table = table_of(group, result["task"])
        heads = [column.head for column in table.columns]
        cells = [heads, *map(table.cells, group["rows"])]
        parts += ["", group["title"], *_aligned(cells)]
        parts += [
            f"  {row.get('mode') or row['peer']}: no ratio, {row['differs']}"
            for row in group["rows"]
            if row.get("differs")
        ]
    parts += [f"left out: {e['peer']}: {e['why']}" for e in result["left_out"]]
    parts += [f"note: {note}" for note in result.get("notes", [])]
    return "\n".join(parts) + "\n"


def title(result: Result) -> str:
    """The task and its graph, where all groups are about one."""
    graph, words = result.get("graph"), f"gttf bench {result['task']}"
    if not graph:
        return words
    size = f"{graph['nodes']:,} nodes, {graph['edges']:,} edges"
    return f"{words}: {graph['name']}, {size}"


def _aligned(cells: list[list[str]]) -> list[str]:
    """Lines whose columns are as wide as they need to be, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for line in cells:
        first, *rest = (text.rjust(w) for text, w in zip(line, widths, strict=True))
        words = [first.strip().ljust(widths[0]), *rest]
        lines.append("  " + "  ".join(words).rstrip())
    return lines


def save(result: Result, path: str) -> None:
    """Draws a result into a file; its name says the format."""
    kind = Path(path).suffix[1:]
    signed = {"Software" if kind == "png" else "Creator": SIGNATURE}
    with _files.replacing(path) as (out,):
        draw(result).savefig(out, format=kind, dpi=150, metadata=signed)


def is_ours(file: Path) -> bool:
    """Tells a file that `save` has written."""
    return SIGNATURE.encode() in file.read_bytes()


def draw(result: Result) -> Any:
    """A matplotlib figure of any result: a panel of bars per group."""
    figures, groups = import_module("matplotlib.figure"), result["groups"]
    width = 1 if len(groups) <= TALL else 2
    lines = [groups[i : i + width] for i in range(0, len(groups), width)]
    most = [max(len(group["rows"]) for group in line) for line in lines]
    heights = [1.0 + INCH_PER_BAR * rows for rows in most]
    size = (9.0 * width, sum(heights) + 1.0)
    figure = figures.Figure(figsize=size, layout="constrained")
    figure.suptitle(title(result), size=12)
    machine = result["machine"]
    foot = [f"{machine['cpu']}, {machine['cores']} cores"]
    if result["left_out"]:
        foot += [f"left out: {', '.join(e['peer'] for e in result['left_out'])}"]
    figure.supxlabel("\n".join([*foot, *result.get("notes", [])]), size=7)
    tables = [table_of(group, result["task"]) for group in groups]
    how = {"squeeze": False, "gridspec_kw": {"height_ratios": heights}}
    how["sharex"] = all(table.bar == "ratio" for table in tables)
    panels = figure.subplots(len(lines), width, **how).flat
    for axes, group, table in zip(panels, groups, tables, strict=False):
        bars(axes, group, table)
    for axes in list(figure.axes)[len(groups) :]:
        axes.remove()
    return figure


def bars(axes: Any, group: Group, table: Table) -> None:
    """One group as bars of the table's `bar`, each with its ratio."""
    rows, first = group["rows"], table.columns[0]
    names = [first.write(row[first.key]) for row in rows]
    column = next(column for column in table.columns if column.key == table.bar)
    values = [row.get(column.key) or 0.0 for row in rows]
    unit = 1e6 if WRITERS.get(column.key) is _megabytes else 1.0
    mine = [column.key == "ratio" or name.startswith("gttf") for name in names]
    colours = [OURS if own else THEIRS for own in mine]
    drawn = axes.barh(range(len(rows)), [v / unit for v in values], color=colours)
    axes.bar_label(drawn, [_label(row, column) for row in rows], padding=4, size=8)
    axes.set_yticks(range(len(rows)), names, size=8)
    axes.invert_yaxis()
    axes.margins(x=0.45)
    if column.key == "ratio":
        axes.axvline(1.0, color="k", lw=0.8)
    words = fill(group["title"], LETTERS)
    axes.set_title(words, loc="left", size=10, weight="bold")
    axes.set_xlabel(column.head, size=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _label(row: Row, column: Column) -> str:
    """The text behind a bar: its value, and how it compares."""
    words = column.write(row.get(column.key))
    if column.key == "ratio":
        theirs = row.get("theirs")
        beside = "" if theirs is None else f" beside {_number(theirs)}"
        words += f"  ({_number(row['best'])}{beside})"
    elif row.get("ratio") is not None:
        words += f"  ({row['ratio']:.2f} ×)"
    return words + ("  other work: no ratio" if row.get("differs") else "")
