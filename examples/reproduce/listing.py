"""`--list`: every cell of the paper's tables, what is known of it, and what to do."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from examples.reproduce.cells import CELLS, SECONDS, TABLE_4
from examples.reproduce.datasets.catalog import SOURCES, files_of, located
from examples.reproduce.store import Store

KEPT = Path(__file__).parent / "results"  # what the project has measured
BASELINES = ("full", "walks")
HEAD = ("table", "cell", "metric", "paper", "GTTF there", "here", "GTTF here", "how")
MAKE = "make reproduce ARGS="


def lines(
    root: str | None = None,
    edges: str | None = None,
    results: Sequence[str | Path] = (KEPT, KEPT / "larger"),
) -> list[tuple[str, ...]]:
    """A line per cell, below HEAD.

    Args:
        root, edges: folders of datasets; cells whose files are not there say so.
        results: folders of records; those of later ones count for cells of their own.
    """
    runs: dict[str, list[dict[str, Any]]] = {}
    for folder in results:
        for run in Store(folder).all():
            cell = f"{run['method']}-{run['dataset']}"
            runs.setdefault(cell, []).append(run)
    found = [HEAD]
    for cell in CELLS:
        own = runs.get(cell.name, [])
        found.append(
            (
                *(str(cell.table or "–"), cell.name, cell.metric),
                *(_number(cell.baseline), _number(cell.gttf)),
                *(_score(own, BASELINES), _score(own, ("gttf",))),
                how(cell.name, cell.dataset, root, edges),
            )
        )
    return found + _table_4([Path(folder) for folder in results])


def text(found: Iterable[tuple[str, ...]]) -> str:
    """The lines below each other, the last column as long as it is."""
    found = list(found)
    width = [max(map(len, column)) for column in zip(*found, strict=True)][:-1]
    out = []
    for line in found:
        words = [word.ljust(size) for word, size in zip(line[:-1], width, strict=True)]
        out.append("  ".join([*words, line[-1]]).rstrip())
    notes = [f"{cell.name}: {cell.note}." for cell in CELLS if cell.note]
    return "\n".join([*out, "", *dict.fromkeys(notes)])


def how(name: str, dataset: str, root: str | None, edges: str | None) -> str:
    """The command of a cell, or what it needs."""
    source = SOURCES[dataset]
    folder = edges if source.kind == "links" and edges is not None else root
    option = "edges" if source.kind == "links" else "root"
    lacking = [
        file
        for file in source.files
        if folder is None or located(Path(folder), file) is None
    ]
    if folder is not None:
        try:
            files_of(dataset, root, edges)
        except FileNotFoundError:
            return f"needs {lacking[0]} of {source.home}"
        lacking = []
    if lacking:
        return f"needs --{option} DIR with {lacking[0]}, of {source.home}"
    return f'{MAKE}"--{option} {folder} --only {name}"'


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _score(runs: list[dict[str, Any]], ways: Sequence[str]) -> str:
    """Mean ± deviation, the host and the number of runs, of the first host with any."""
    for host in ("pyg", "dgl"):
        own = [
            run["test"]
            for run in runs
            if run["host"] == host and run["way"] in ways and "test" in run
        ]
        if own:
            spread = f" ± {stdev(own):.1f}" if len(own) > 1 else ""
            return f"{mean(own):.1f}{spread} ({host}, {len(own)})"
    return ""


def _table_4(folders: Sequence[Path]) -> list[tuple[str, ...]]:
    """Speed and memory as times of GTTF: (DGL, PyG) there and here; then the curve."""
    kept = next(
        (f / "table4.json" for f in folders if (f / "table4.json").exists()), None
    )
    rows = json.loads(kept.read_text("utf-8"))["rows"] if kept else []
    known = {(row["metric"], row["dataset"]): row for row in rows}
    found = []
    for (metric, dataset), (dgl, pyg, gttf) in TABLE_4.items():
        row = known.get((metric, dataset), {})
        what = "sage" if metric == SECONDS else "gcn"
        here = [row.get(name) for name in ("DGL", "PyG", "GTTF")]
        ours = ["" if x is None else f"{x:.3g}" for x in here]
        found.append(
            (
                *("4", f"{what}-{dataset}", metric),
                f"DGL {_number(dgl) or 'out'}, PyG {_number(pyg) or 'out'}",
                _number(gttf),
                f"DGL {ours[0]}, PyG {ours[1] or 'not run'}" if row else "",
                ours[2],
                f"python -m examples.reproduce.table4 --only {dataset}",
            )
        )
    curve = (
        "python examples/bench_embedding.py --edges DIR/ppi.edgelist --png curve.png"
    )
    return [*found, ("4", "node2vec", "training curve", "", "", "", "", curve)]
