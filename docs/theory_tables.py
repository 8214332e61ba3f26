"""The tables of paper.md, of what `python -m examples.theory` has found."""

from collections.abc import Sequence
from typing import Any

from docs.theory import Rows, graph, of_scheme, spread

Found = dict[str, Any]


def tables(found: Found) -> dict[str, str]:
    """Per mark of the page, the text that goes there."""
    return {
        "theory variance": variance(found),
        "theory gradients": gradients(found),
        "theory layers": layers(found),
        "theory storage": storage(found),
        "theory strata": by_way(found["strata"], "fanout", "error", "fanout f", 2),
        "theory labor": by_way(found["labor"], "fanout", "nodes", "fanout", 0),
        "theory attention": by_way(found["attention"], "draws", "error", "draws", 0),
    }


def variance(found: Found) -> str:
    """Variances of rows of 𝒯̂ᵏ, and the bounds around them."""
    head = ["k", "f", "measured", "Σ gⱼ / fʲ", "printed", "Σ p (1 − p) / f"]
    rows = [row for row in spread(found) if row["k"] > 1 and row["fanout"] > 1]
    names = ("measured", "exact", "paper", "ours")
    lines = [
        [str(row["k"]), str(row["fanout"]), *(f"{row[name]:.4f}" for name in names)]
        for row in rows
    ]
    for line, row in zip(lines, rows, strict=True):
        line.append(f"{row['cost']:.2f}")
    return _table([*head, "variance × steps"], lines)


def gradients(found: Found) -> str:
    """Bias of every gradient, and what chance alone would show."""
    every: Rows = found["gradients"]
    lines = []
    for name in dict.fromkeys(row["objective"] for row in every):
        own = [row for row in every if row["objective"] == name]
        cells = [f"{row['bias']:.2f} ({row['chance']:.2f})" for row in own]
        lines.append([name, *cells])
    fanouts = [str(row["fanouts"]) for row in every if row["objective"] == name]
    head = ["objective", *(f"bias (chance), %, {each}" for each in fanouts)]
    return _table(head, lines)


def layers(found: Found) -> str:
    """Bias and error of two layers by scheme."""
    columns = [
        ("unbiased: bias", "unbiased", False, "bias"),
        ("chance", "unbiased", False, "chance"),
        ("error", "unbiased", False, "error"),
        ("paper: bias", "paper", False, "bias"),
        ("error", "paper", False, "error"),
        ("sampled: bias", "sampled", False, "bias"),
        ("error", "sampled", False, "error"),
    ]
    picked = [of_scheme(found, s, replace=replace) for _, s, replace, _ in columns]
    lines = []
    for place, row in enumerate(picked[0]):
        values = zip(columns, picked, strict=True)
        cells = [f"{rows[place][column[3]]:.1f}" for column, rows in values]
        lines.append([str(row["fanout"]), *cells])
    head = [f"fanout, {graph(found)}", *(name for name, *_ in columns)]
    return _table(head, lines)


def storage(found: Found) -> str:
    """Table of the memory that rows take."""
    lines = [
        [
            f"{row['edges']:,}",
            f"{row['bytes']:,}",
            f"{row['per entry']:.2f}",
            f"{row['walkers']:,}",
        ]
        for row in found["storage"]
    ]
    return _table(["edges", "bytes", "bytes / (n + m)", "walkers of a batch"], lines)


def by_way(rows: Rows, x: str, y: str, head: str, digits: int) -> str:
    """A column per way, and the largest bias that each has shown."""
    ways = list(dict.fromkeys(row["way"] for row in rows))
    lines = []
    for value in dict.fromkeys(row[x] for row in rows):
        own = {row["way"]: row for row in rows if row[x] == value}
        lines.append([str(value), *(f"{own[way][y]:,.{digits}f}" for way in ways)])
        if "variance" in own[ways[0]]:
            lines[-1].append(f"{min(r['variance'] for r in own.values()):.2f}")
            lines[-1][-1] += f" – {max(r['variance'] for r in own.values()):.2f}"
    if "bias" in rows[0]:
        last = [row for row in rows if row[x] == rows[-1][x]]
        cells = [f"{row['bias']:.2f} ({row['chance']:.2f})" for row in last]
        lines.append([f"bias (chance) at {rows[-1][x]}", *cells])
        return _table([f"{head}: {y}, %", *ways], lines)
    return _table([f"{head}: {y}", *ways, "variance"], lines)


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    marks = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join([_line(head), f"|{'|'.join(marks)}|", *map(_line, lines), ""])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
