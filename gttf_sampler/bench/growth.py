"""The picture of `gttf bench scale`: time and memory while the graph grows."""

from typing import Any

OURS, THEIRS = "#2a7f62", "#9aa5b1"
SOLID = {"marker": "o", "color": OURS}
DOTTED = {"marker": "s", "color": THEIRS, "linestyle": ":"}
TIME = (
    ("best", SOLID, "a batch, best round"),
    ("median", {**SOLID, "linestyle": "--", "alpha": 0.5}, "a batch, median round"),
    ("gather", DOTTED, "reading as many edges"),
)
SPACE = (
    ("bytes", DOTTED, "arrays of the graph"),
    ("private", SOLID, "memory of the process"),
)


def draw(result: dict[str, Any], figure: Any) -> Any:
    """`figure` with time per batch, and memory, against the number of edges."""
    group = result["groups"][0]
    rows = group["rows"]
    edges = [row["edges"] for row in rows]
    left, right = figure.subplots(1, 2)
    for key, style, name in TIME:
        left.plot(edges, [row[key] for row in rows], label=name, **style)
    left.set(ylabel="ms per batch", ylim=(0, None), title=group["title"])
    for side, (key, style, name) in zip((-13, 6), SPACE, strict=True):
        values = [row[key] / 1e6 for row in rows]
        right.plot(edges, values, label=name, **style)
        for place, value in zip(edges, values, strict=True):
            note = {"xytext": (0, side), "textcoords": "offset points", "ha": "center"}
            right.annotate(f"{value:,.0f}", (place, value), size=7.5, **note)
    right.set(ylabel="MB", yscale="log", title="graph and memory")
    right.margins(y=0.15)
    for axes in (left, right):
        axes.set(xscale="log", xlabel="edges of the graph")
        axes.title.set_size(9)
        axes.set_xticks(edges, [_short(count) for count in edges])
        axes.minorticks_off()
        axes.margins(x=0.1)
        axes.grid(alpha=0.25)
        axes.legend(fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _short(count: float) -> str:
    """A large number as a person says it."""
    for unit, name in ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count:.0f}"
