"""The picture of `gttf bench modes`: how many times as long the peer takes."""

from typing import Any, NamedTuple

HOST_COLORS = {"PyG": "#2a7f62", "DGL": "#30638e"}
ALONE = "#d9dee3"  # there is no peer, or it did other work
THICK = 0.72


class Bar(NamedTuple):
    """A mode; its ratio is None if there is none to show.

    Attributes:
        graph: what it was measured on, host first: "PyG: one node type, ...".
        name: which mode.
        ratio: the peer's time by ours.
        note: both times.
    """

    graph: str
    name: str
    ratio: float | None
    note: str


def bars(result: dict[str, Any]) -> list[Bar]:
    """The modes of a result, from top to bottom."""
    found = []
    for group in result["groups"]:
        unit = "s" if group.get("columns") == "workers" else "ms"
        for row in group["rows"]:
            note = f"{row['best']:.3g} {unit}"
            if row.get("theirs") is not None:
                note += f", peer {row['theirs']:.3g} {unit}"
            if row.get("differs"):
                note += " for other work"
            found.append(Bar(group["title"], row["mode"], row["ratio"], note))
    return found


def height(entries: list[Bar]) -> float:
    """Inches that the bars and the headings of their graphs take."""
    return 0.9 + 0.22 * (len(entries) + len({entry.graph for entry in entries}))


def draw(axes: Any, entries: list[Bar]) -> None:
    """A bar per mode under its graph, and a line where both take the same time."""
    widest = max([entry.ratio or 0.0 for entry in entries] + [1.0])
    place, graph, places = -1, None, []
    for entry in entries:
        place += 1
        if entry.graph != graph:
            graph = entry.graph
            axes.text(1.0, place, f" {graph}", va="center", size=8, weight="bold")
            place += 1
        places.append(place)
        _bar(axes, place, entry)
    last = place + 0.6
    axes.plot([1.0, 1.0], [-0.6, last], color="k", lw=0.8, zorder=0)
    axes.set_yticks(places, [entry.name for entry in entries], size=8)
    axes.set_ylim(last, -0.6)
    axes.set_xlim(0, 1.5 * widest)
    axes.set_xlabel("time of the peer by ours; the line is 1 ×", size=8)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    for host, color in HOST_COLORS.items():
        if any(_host(entry) == host for entry in entries):
            axes.barh(places[0], 0, color=color, label=f"beside {host}")
    above = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": 2}
    axes.legend(fontsize=8, frameon=False, **above)


def _bar(axes: Any, place: int, entry: Bar) -> None:
    """One bar with its numbers, which stand beyond the line of 1 ×."""
    text = entry.note
    if entry.ratio is None:
        color, length = ALONE, 1.0
    else:
        color, length = HOST_COLORS[_host(entry)], entry.ratio
        text = f"{entry.ratio:.2g} ×    {text}"
    axes.barh(place, length, THICK, color=color)
    axes.text(max(length, 1.0), place, f" {text}", va="center", size=7.5)


def _host(entry: Bar) -> str:
    return entry.graph.partition(":")[0]
