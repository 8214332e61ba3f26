"""The tables of docs/reproduce.md on larger graphs, other systems and Table 4.

`python -m docs.pictures` fills them in, from the records in `results`;
no number of them is typed.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from examples.reproduce import race_chart, table4
from examples.reproduce.compare import paired
from examples.reproduce.costs import DATASETS, MODELS, WAYS
from examples.reproduce.datasets.catalog import SOURCES
from examples.reproduce.pages import NAMES, interval, of_cell
from examples.reproduce.protocol import seeds_of
from examples.reproduce.store import Store

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[2] / "docs"
HOSTS = ("pyg", "dgl")
RACES = ("cora", "computers")
HEADS = ("full batch", "GTTF", "the host's sampler")
NOTHING = "Not measured yet.\n"

Run = dict[str, Any]


def accuracies(runs: Iterable[Run]) -> str:
    """A line per graph, model and host: three ways of training, and a difference."""
    runs = list(runs)
    tail = ("GTTF − full batch", "95 % interval", "verdict", "splits")
    lines = [_line(["", *HEADS, *tail]), "|---|---:|---:|---:|---:|---:|---|---:|"]
    for dataset in DATASETS:
        for model in MODELS:
            for host in HOSTS:
                own = of_cell(runs, model, dataset, host)
                if not own:
                    continue
                cells = [_spread(own, way) for way in WAYS]
                found, known = paired(own), ["", "", ""]
                if found is not None:
                    middle = f"{found.difference:+.1f}".replace("-", "−")
                    known = [middle, interval(found), found.verdict]
                some = len({run["seed"] for run in own})
                done, asked = found.pairs if found else some, seeds_of(dataset)
                count = str(done) if done == asked else f"{done} of {asked}"
                lines.append(
                    _line([_name(dataset, model, host), *cells, *known, count])
                )
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
        lines.append(_line([_name(dataset, model, host), *cells]))
    notes = [f"Left out: {who}: {why}." for who, why in found["left out"].items()]
    notes += [f"Note: {note}." for note in found["notes"]]
    told = [f"`{found['command']}`:", "\n".join(lines), *notes]
    return "\n\n".join(told) + "\n"


def blocks(results: Path = RESULTS) -> dict[str, str]:
    """The text of every block, by its name on the page."""
    larger = results / "larger"
    found = {"larger graphs": accuracies(Store(larger).all())}
    for name, source in {
        "costs of larger graphs": (larger / "costs.json", costs),
        "table 4": (results / "table4.json", table4.markdown),
        **{
            f"systems on {name}": (
                results / f"systems_{name}.json",
                race_chart.markdown,
            )
            for name in RACES
        },
    }.items():
        path, text = source
        there = path.exists()
        found[name] = text(json.loads(path.read_text("utf-8"))) if there else NOTHING
    return found


def _spread(runs: list[Run], way: str) -> str:
    scores = [run["test"] for run in runs if run["way"] == way]
    if not scores:
        return ""
    spread = f" ± {stdev(scores):.1f}" if len(scores) > 1 else ""
    return f"{mean(scores):.1f}{spread}"


def _name(dataset: str, model: str, host: str) -> str:
    return f"{SOURCES[dataset].title}, {NAMES[model]}, {NAMES[host]}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def write(fill: Callable[[str, str, str], str]) -> None:
    """Fills in the page and draws the races; `fill` is that of docs.pictures."""
    page = DOCS / "reproduce.md"
    text = page.read_text("utf-8")
    for name, block in blocks().items():
        text = fill(text, name, block)
    page.write_text(text, "utf-8")
    files = [RESULTS / f"systems_{name}.json" for name in RACES]
    found = [json.loads(file.read_text("utf-8")) for file in files if file.exists()]
    if found:
        race_chart.draw(found, DOCS / "images" / "systems.svg")
