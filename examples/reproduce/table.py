"""The table: mean ± standard deviation over seeds, seconds, nodes, memory."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import mean, stdev
from typing import Any

from examples.reproduce.config import METHODS

HEADER = (
    "method",
    "dataset",
    "host",
    "way",
    "test %",
    "paper",
    "epochs",
    "seconds",
    "nodes/step",
    "MB",
    "runs",
)


def rows(runs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per method, dataset, host and way, in the order of the configuration."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for run in runs:
        groups[run["method"], run["dataset"], run["host"], run["way"]].append(run)
    order = {name: place for place, name in enumerate(METHODS)}
    ways = {
        way: place for place, way in enumerate(("full", "walks", "neighbor", "gttf"))
    }

    def place(key: tuple[str, ...]) -> tuple[Any, ...]:
        return order[key[0]], key[1], key[2] != "pyg", ways.get(key[3], len(ways))

    found = []
    for key in sorted(groups, key=place):
        group = groups[key]
        row: dict[str, Any] = dict(zip(HEADER, key, strict=False))
        row["runs"] = len(group)
        row["missing"] = group[0].get("missing")
        if row["missing"] is None:
            score = [run["test"] for run in group]
            row["mean"] = mean(score)
            row["std"] = stdev(score) if len(score) > 1 else 0.0
            for name in ("epochs", "seconds", "nodes per step", "peak MB"):
                known = [run[name] for run in group if run.get(name) is not None]
                row[name] = mean(known) if known else None
            row["paper"] = (
                METHODS[key[0]].paper.get(key[1]) if key[3] == "gttf" else None
            )
        found.append(row)
    return found


def text(runs: Iterable[dict[str, Any]]) -> str:
    """The table as a block of text."""
    lines, notes = [HEADER], set()
    for row in rows(runs):
        head = tuple(row[name] for name in HEADER[:4])
        if row["missing"] is not None:
            notes.add(f"{row['host']} {row['way']}: not run, {row['missing']}.")
            continue
        score = f"{row['mean']:.1f} ± {row['std']:.1f}"
        numbers = row["paper"], row["epochs"], row["seconds"]
        numbers += row["nodes per step"], row["peak MB"]
        digits = (1, 0, 1, 0, 0)
        cells = (
            "" if number is None else f"{number:,.{digit}f}"
            for number, digit in zip(numbers, digits, strict=True)
        )
        lines.append((*head, score, *cells, str(row["runs"])))
    width = [max(map(len, column)) for column in zip(*lines, strict=True)]
    out = []
    for line in lines:
        words = [
            word.ljust(size) if place < 4 else word.rjust(size)
            for place, (word, size) in enumerate(zip(line, width, strict=True))
        ]
        out.append("  ".join(words).rstrip())
    return "\n".join([*out, *sorted(notes)])
