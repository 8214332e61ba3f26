"""Results as tables: rich ones where rich is installed, plain ones elsewhere."""

import io
from collections.abc import Callable
from typing import Any, NamedTuple

from gttf_sampler.bench.peers import load

WIDEST = 200  # columns

Row = dict[str, Any]


class Column(NamedTuple):
    """A field of a row, its heading, and how it is written."""

    key: str
    head: str
    write: Callable[[Any], str]


def _text(value: Any) -> str:
    return str(value)


def _whole(value: Any) -> str:
    return f"{value:,.0f}"


def _number(value: Any) -> str:
    """Three digits that matter."""
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _ratio(value: Any) -> str:
    return f"{value:.2f} ×"


def _megabytes(value: Any) -> str:
    return _number(max(value, 0) / 1e6)


def _percent(value: Any) -> str:
    return f"{100 * value:.1f} %"


PEER = Column("peer", "", _text)
RATIO = Column("ratio", "× first", _ratio)
TIMES = [
    PEER,
    Column("best", "best ms", _number),
    Column("median", "median ms", _number),
]
MODE = Column("mode", "", _text)
SAMPLED = [Column("nodes", "nodes", _whole), Column("edges", "edges", _whole)]
ROWS_READ = [
    PEER,
    Column("rate", "best rows/s", _whole),
    Column("median", "median rows/s", _whole),
    Column("cpu", "CPU µs a row", _number),
    Column("bytes", "bytes a row", _whole),
]
COLUMNS = {
    "sampling": [*TIMES, *SAMPLED, RATIO],
    "loader": [*TIMES, *SAMPLED, RATIO],
    "distributed": [
        *TIMES,
        Column("ratio", "speed", _ratio),
        Column("messages", "messages", _number),
        Column("bytes", "MB", _megabytes),
        Column("cut", "edges cut", _percent),
        Column("share", "held of all", _percent),
    ],
    "disk rows": [*ROWS_READ, RATIO],
    "disk sweep": [*ROWS_READ, Column("ratio", "of the best median", _percent)],
    "chunks": [
        PEER,
        Column("edges", "edges", _whole),
        Column("best", "s", _number),
        Column("first", "s to spread", _number),
        Column("rate", "M edges/s", _number),
        Column("peak", "peak MB", _megabytes),
        Column("disk", "MB of disk", _megabytes),
        Column("bytes", "MB of rows", _megabytes),
    ],
    "disk batches": [
        *TIMES,
        Column("rate", "rows/s", _whole),
        Column("bytes", "MB read a batch", _megabytes),
        Column("share", "from the cache", _percent),
        RATIO,
    ],
    "disk epochs": [
        PEER,
        Column("best", "epoch s", _number),
        Column("median", "median s", _number),
        Column("batch", "ms a batch", _number),
        Column("share", "waiting", _percent),
        Column("peak", "peak MB", _megabytes),
        RATIO,
    ],
    "modes": [
        MODE,
        Column("best", "ours ms", _number),
        Column("theirs", "peer ms", _number),
        Column("ratio", "peer / ours", _ratio),
        *SAMPLED,
        Column("peer", "peer", _text),
    ],
    "workers": [
        MODE,
        Column("best", "ours s", _number),
        Column("best_alone", "0 workers", _number),
        Column("theirs", "peer s", _number),
        Column("theirs_alone", "0 workers", _number),
        Column("ratio", "peer / ours", _ratio),
        Column("peer", "peer", _text),
    ],
    "walks": [
        *TIMES,
        Column("edges", "steps", _whole),
        Column("rate", "M steps/s", _number),
        RATIO,
    ],
    "training": [
        PEER,
        Column("best", "epoch s", _number),
        Column("median", "median s", _number),
        Column("edges", "pairs a batch", _whole),
        Column("rate", "M pairs/s", _number),
        RATIO,
    ],
    "embedding": [
        PEER,
        Column("best", "epoch s", _number),
        Column("median", "median s", _number),
        Column("edges", "pairs an epoch", _whole),
        Column("rate", "M pairs/s", _number),
        Column("auc", "AUC", _percent),
        RATIO,
    ],
    "trained": [
        PEER,
        Column("count", "epochs", _whole),
        Column("total", "seconds", _number),
        Column("auc", "AUC", _percent),
        Column("reached", "reached after s", _number),
        RATIO,
    ],
    "embedding scale": [
        PEER,
        Column("nodes", "nodes", _whole),
        Column("edges", "edges", _whole),
        Column("best", "epoch s", _number),
        Column("per_node", "µs a node", _number),
        Column("rate", "M pairs/s", _number),
        Column("peak", "peak MB", _megabytes),
        Column("first", "AUC, 1 epoch", _percent),
        Column("count", "epochs", _whole),
        Column("auc", "AUC", _percent),
        Column("rank", "mean rank", _number),
        RATIO,
    ],
    "build": [*TIMES, Column("edges", "edges", _whole), RATIO],
    "kernels": [
        *TIMES,
        Column("edges", "edges or steps", _whole),
        Column("rate", "M / s", _number),
        RATIO,
    ],
    "train": [
        PEER,
        Column("best", "epoch s", _number),
        Column("median", "median s", _number),
        Column("sampling", "sampling s", _number),
        Column("gather", "gather s", _number),
        Column("compute", "model s", _number),
        Column("share", "sampling", _percent),
        RATIO,
    ],
    "gcn": [
        PEER,
        Column("peak", "peak MB beyond the input", _megabytes),
        Column("input", "input MB", _megabytes),
        RATIO,
    ],
    "memory": [
        PEER,
        Column("held", "held MB", _megabytes),
        Column("per_edge", "bytes / edge", _number),
        Column("making", "peak MB beyond the input", _megabytes),
        Column("sampling", "sampling MB", _megabytes),
        RATIO,
    ],
    "scale": [
        Column("edges", "edges", _whole),
        Column("nodes", "nodes", _whole),
        Column("best", "best ms", _number),
        Column("median", "median ms", _number),
        Column("drawn", "drawn", _whole),
        Column("ns_per_edge", "ns each", _number),
        Column("gather", "reading ms", _number),
        Column("per_edge", "bytes / edge", _number),
        Column("private", "memory MB", _megabytes),
        RATIO,
    ],
}


def render(result: dict[str, Any]) -> str:
    """All tables of a result, with a line about graph and machine above."""
    parts = [heading(result)]
    for group in result["groups"]:
        columns = COLUMNS[group.get("columns", result["task"])]
        parts.append(table(group["title"], columns, group["rows"]))
        parts += [
            f"  {row.get('mode') or row['peer']}: no ratio, {row['differs']}"
            for row in group["rows"]
            if row.get("differs")
        ]
    parts += [f"left out: {e['peer']}: {e['why']}" for e in result["left_out"]]
    parts += [f"note: {note}" for note in result.get("notes", [])]
    return "\n".join(parts) + "\n"


def heading(result: dict[str, Any]) -> str:
    """What was measured where, in two lines."""
    machine, first = result["machine"], f"gttf bench {result['task']}"
    if graphs := graphs_in(result):
        first += f": {'; '.join(graphs)}"
    backend = machine["backend"].partition(":")[0]
    second = f"{machine['cpu']}, {machine['cores']} cores; {backend}"
    return f"{first}\n{second}"


def graphs_in(result: dict[str, Any]) -> list[str]:
    """The graphs that the groups are about: that of the result, or their own."""
    graphs = [group.get("graph", result.get("graph")) for group in result["groups"]]
    named = [
        f"{graph['name']}, {graph['nodes']:,} nodes, {graph['edges']:,} edges"
        for graph in graphs
        if graph
    ]
    return list(dict.fromkeys(named))


def table(title: str, columns: list[Column], rows: list[Row]) -> str:
    """One table; a missing value is an empty cell."""
    cells = [
        ["" if row.get(c.key) is None else c.write(row[c.key]) for c in columns]
        for row in rows
    ]
    if load("rich") is None:
        return _plain(title, [c.head for c in columns], cells)
    return _rich(title, [c.head for c in columns], cells)


def _plain(title: str, heads: list[str], cells: list[list[str]]) -> str:
    """Columns of the width they need, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    lines = []
    for line in (heads, *cells):
        first, *rest = zip(line, widths, strict=True)
        words = [first[0].ljust(first[1]), *(text.rjust(size) for text, size in rest)]
        lines.append("  " + "  ".join(words).rstrip())
    return "\n".join(["", title, *lines])


def _rich(title: str, heads: list[str], cells: list[list[str]]) -> str:
    """A table by rich, as wide as it needs to be: no number is ever cut."""
    box, tables, console = (
        load(f"rich.{name}") for name in ("box", "table", "console")
    )
    made = tables.Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for place, head in enumerate(heads):
        made.add_column(head, justify="right" if place else "left", no_wrap=place == 0)
    for line in cells:
        made.add_row(*line)
    sheet = io.StringIO()
    console.Console(file=sheet, width=WIDEST).print(made)
    lines = [line.rstrip() for line in sheet.getvalue().splitlines()]
    return "\n".join(["", *(line for line in lines if line)])
