"""Tables of docs/reproduce.md on larger graphs, other systems and Table 4.

    python -m examples.reproduce.larger_pages

fills them in from the records in `examples/reproduce/results`, between the marks on the
page; no number of them is typed.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from examples.reproduce import race_chart, table4
from examples.reproduce.compare import Comparison, paired
from examples.reproduce.costs import DATASETS, MODELS, WAYS
from examples.reproduce.datasets.catalog import SOURCES
from examples.reproduce.protocol import seeds_of
from examples.reproduce.store import Store

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[2] / "docs" / "reproduce.md"
NAMES = {"gcn": "GCN", "gat": "GAT", "gcnii": "GCNII", "sgc": "SGC", "sage": "SAGE"}
HOSTS = {"pyg": "PyG", "dgl": "DGL"}
HEADS = ("full batch", "GTTF", "the host's sampler")
NOTHING = "Not measured yet.\n"

Run = dict[str, Any]


def accuracies(runs: Iterable[Run]) -> str:
    """A line per graph, model and host: three ways of training, and a difference."""
    runs = [run for run in runs if "test" in run]
    tail = ("GTTF − full batch, 95 %", "verdict", "splits")
    lines = [_line(["", *HEADS, *tail]), "|---|---:|---:|---:|---:|---|---:|"]
    for dataset in DATASETS:
        for model in MODELS:
            for host, title in HOSTS.items():
                key = (model, dataset, host)
                own = [r for r in runs if (r["method"], r["dataset"], r["host"]) == key]
                if not own:
                    continue
                what = f"{SOURCES[dataset].title}, {NAMES[model]}, {title}"
                cells = [_spread(own, way) for way in WAYS]
                found = paired(own)
                known = ["", ""] if found is None else [_interval(found), found.verdict]
                done = len({run["seed"] for run in own})
                asked = seeds_of(dataset)
                count = str(done) if done == asked else f"{done} of {asked}"
                lines.append(_line([what, *cells, *known, count]))
    return "\n".join([*lines, ""]) if len(lines) > 2 else NOTHING


def costs(found: dict[str, Any]) -> str:
    """A line per graph, model and host: seconds of an epoch, and peaks of memory."""
    heads = [f"{what}, {way}" for what in ("s/epoch", "MB") for way in HEADS]
    lines = [_line(["", *heads]), "|---|---:|---:|---:|---:|---:|---:|"]
    groups: dict[tuple[str, ...], dict[str, Run]] = {}
    for row in found["rows"]:
        key = row["dataset"], row["method"], row["host"]
        groups.setdefault(key, {})[row["way"]] = row
    for (dataset, model, host), ways in groups.items():
        cells = [
            f"{ways[way][field]:.{digits}f}" if way in ways else ""
            for field, digits in (("s per epoch", 3), ("peak MB", 0))
            for way in WAYS
        ]
        what = f"{SOURCES[dataset].title}, {NAMES[model]}, {HOSTS[host]}"
        lines.append(_line([what, *cells]))
    notes = [f"Left out: {who}: {why}." for who, why in found["left out"].items()]
    notes += [f"Note: {note}." for note in found["notes"]]
    told = [f"`{found['command']}`:", "\n".join(lines), *notes]
    return "\n\n".join(told) + "\n"


def blocks(results: Path = RESULTS) -> dict[str, str]:
    """The text of every block, by its name on the page."""
    larger = results / "larger"
    found = {"larger graphs": accuracies(Store(larger).all())}
    for name, write in {
        "costs of larger graphs": (larger / "costs.json", costs),
        "systems on cora": (results / "systems-cora.json", race_chart.markdown),
        "systems on computers": (
            *(results / "systems-computers.json", race_chart.markdown),
        ),
        "table 4": (results / "table4.json", table4.markdown),
    }.items():
        path, text = write
        there = path.exists()
        found[name] = text(json.loads(path.read_text("utf-8"))) if there else NOTHING
    return found


def _spread(runs: list[Run], way: str) -> str:
    scores = [run["test"] for run in runs if run["way"] == way]
    if not scores:
        return ""
    spread = f" ± {stdev(scores):.1f}" if len(scores) > 1 else ""
    return f"{mean(scores):.1f}{spread}"


def _interval(found: Comparison) -> str:
    numbers = (found.difference, found.low, found.high)
    middle, low, high = (f"{x:+.1f}".replace("-", "−") for x in numbers)
    return f"{middle} [{low}, {high}]"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    from docs.pictures import fill

    page = PAGE.read_text("utf-8")
    for name, text in blocks().items():
        page = fill(page, name, text)
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
