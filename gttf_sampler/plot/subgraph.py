"""A sampled neighbourhood, a column per hop: as a matplotlib figure, and as a page."""

from __future__ import annotations

import html
import re
from importlib.resources import files
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from gttf_sampler import _check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which people with any kind of eyes can tell apart
COLOURS = ("#3f9a45", "#0072b2", "#d55e00", "#cc79a7", "#e69f00", "#56b4e9", "#888888")
PALE, DARK, UNTIMED = 0.82, 0.15, 0.6  # shades of grey of edges
ON_FIGURE, ON_PAGE = 24, 200  # nodes of a column, at most
LONGEST = 18  # letters of a label
ONLY = ("", "", "")

Key = tuple[str, int]  # the type of a node, and its local id


class Spot(NamedTuple):
    """A node of the picture."""

    label: str
    kind: int  # the number of its type
    hop: int  # its column: steps from a seed
    place: float  # in that column, from 0 to 1


class Link(NamedTuple):
    """An edge of the picture."""

    sender: Any  # a `Key`, or the number of a spot
    receiver: Any
    time: float | None


class Layers(NamedTuple):
    """The nodes and edges that a picture shows."""

    spots: list[Spot]  # hop by hop
    links: list[Link]
    kinds: list[str]  # names of node types; one empty name if there are none
    missing: list[int]  # per hop, how many nodes there was no room for

    @property
    def times(self) -> tuple[float, float] | None:
        """The first and the last time of an edge; None if edges have none."""
        known = [link.time for link in self.links if link.time is not None]
        return (min(known), max(known)) if known else None


def layers(subgraph: Any, adj: Any, most: int) -> Layers:
    """Of every hop at most `most` nodes, in the order in which they were reached.

    Of a column that is too long, an even choice is left, so that none of those in front
    of it loses all that it has reached. Names and times are those of `adj`, if any.
    """
    if subgraph.num_sampled_nodes is None:
        cure = "draw what 'sample_rooted' returned"
        _check.fail("subgraph", "must know its hops", repr(subgraph), cure)
    rows = {} if adj is None else _typed(subgraph, adj, ONLY)
    _check.mapping("adj", rows)
    nodes = _typed(subgraph, subgraph.node, "")
    names = {kind[2]: rows[kind].node_id for kind in rows}
    hops = {
        (kind, local): hop
        for kind, counts in _typed(subgraph, subgraph.num_sampled_nodes, "").items()
        for local, hop in enumerate(k for k, c in enumerate(counts) for _ in range(c))
    }
    edges = _edges(subgraph, rows)
    parents: dict[Key, list[Key]] = {}
    for edge in edges:
        if hops[edge.receiver] < hops[edge.sender]:
            parents.setdefault(edge.sender, []).append(edge.receiver)
    order, spots, missing = dict[Key, int](), list[Spot](), list[int]()
    for hop in range(1 + max(hops.values(), default=0)):
        column = [key for key, own in hops.items() if own == hop]
        near = [key for key in column if any(p in order for p in parents.get(key, ()))]
        shown = near if hop else column
        count = min(most, len(shown))
        shown = [shown[turn * len(shown) // count] for turn in range(count)]
        for turn, (kind, local) in enumerate(shown):
            order[kind, local], number = len(spots), int(nodes[kind][local])
            label = number if names.get(kind) is None else names[kind][number]
            place = (turn + 0.5) / len(shown)
            spots.append(Spot(str(label), list(nodes).index(kind), hop, place))
        missing.append(len(column) - len(shown))
    links = [
        edge._replace(sender=order[edge.sender], receiver=order[edge.receiver])
        for edge in edges
        if edge.sender in order and edge.receiver in order
    ]
    return Layers(spots, links, list(nodes), missing)


def _typed(subgraph: Any, value: Any, key: Any) -> Any:
    """A value per type, also where there is only one."""
    return {key: value} if isinstance(subgraph.node, Tensor) else value


def _edges(subgraph: Any, rows: Any) -> list[Link]:
    """The edges of all types."""
    parts = (subgraph.row, subgraph.col, subgraph.edge)
    row, col, edge = (_typed(subgraph, part, ONLY) for part in parts)
    found = []
    for kind in row:
        adj, times = rows.get(kind), [None] * len(edge[kind])
        if adj is not None and adj.edge_time is not None:
            times = adj.edge_time[edge[kind]].to(torch.float64).tolist()
        ends = row[kind].tolist(), col[kind].tolist()
        for u, v, time in zip(*ends, times, strict=True):
            found.append(Link((kind[0], u), (kind[2], v), time))
    return found


def draw(subgraph: Any, adj: Any = None) -> Figure:
    """The figure; edges are darker the later they are."""
    _check.library("matplotlib", "draw")
    return figure(layers(subgraph, adj, ON_FIGURE))


def page(subgraph: Any, adj: Any = None, title: str = "") -> str:
    """The figure as a page, to zoom and to point at; it asks for no other file."""
    _check.library("matplotlib", "html")
    from matplotlib import rc_context

    found = layers(subgraph, adj, ON_PAGE)
    nodes = len(found.spots) + sum(found.missing)
    title = title or f"{nodes:,} nodes sampled in {len(found.missing) - 1} hops"
    told, picture = tips(found), StringIO()
    unsaid = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with rc_context({"svg.fonttype": "none"}):
        figure(found).savefig(picture, format="svg", metadata=unsaid)

    def with_tip(mark: re.Match[str]) -> str:
        return f"{mark[0]}<title>{html.escape(told[int(mark[1])])}</title>"

    drawn = re.sub(r'<g id="spot_(\d+)">', with_tip, picture.getvalue())
    text = files("gttf_sampler.plot").joinpath("page.html").read_text("utf-8")
    # at once: a node may be called like one of the places
    parts = {
        "__TITLE__": html.escape(title),
        "__FIGURE__": drawn[drawn.index("<svg") :],
    }
    return re.sub("__TITLE__|__FIGURE__", lambda place: parts[place[0]], text)


def figure(found: Layers) -> Figure:
    """A column per hop; nodes, names and edges are groups of their own in an SVG."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import FancyArrowPatch

    hops = [spot.hop for spot in found.spots]
    tallest = max((hops.count(hop) for hop in range(len(found.missing))), default=1)
    size = max(5.0, 2.4 * len(found.missing)), 0.38 * max(tallest, 3) + 1.0
    drawn = Figure(figsize=size, layout="constrained")
    axes, times = drawn.add_subplot(), found.times
    at = [(spot.hop, spot.place) for spot in found.spots]
    for number, link in enumerate(found.links):
        bend = 0.45 if hops[link.sender] == hops[link.receiver] else 0.08
        ends = at[link.sender], at[link.receiver]
        how: dict[str, Any] = {"shrinkA": 5, "shrinkB": 6, "mutation_scale": 10}
        how |= {"color": str(shade(link.time, times)), "arrowstyle": "-|>"}
        how |= {"gid": f"link_{link.sender}_{link.receiver}_{number}"}
        how |= {"connectionstyle": f"arc3,rad={bend}", "clip_on": False}
        axes.add_patch(FancyArrowPatch(*ends, **how))
    label: dict[str, Any] = {"textcoords": "offset points", "size": 8, "zorder": 4}
    label |= {"bbox": {"facecolor": "white", "alpha": 0.75, "lw": 0, "pad": 0.5}}
    for number, spot in enumerate(found.spots):
        how = {"color": COLOURS[spot.kind % len(COLOURS)], "zorder": 3}
        how |= {"ms": 8 if spot.hop else 11, "gid": f"spot_{number}"}
        axes.plot(*at[number], "o", **how)
        name = axes.annotate(short(spot.label), at[number], (7, 4), **label)
        name.set(gid=f"name_{number}", parse_math=False)
    titles = [
        ("seeds" if hop == 0 else f"hop {hop}") + (f" (+{more:,})" if more else "")
        for hop, more in enumerate(found.missing)
    ]
    axes.set_xticks(range(len(titles)), titles, size=9, color="#777777")
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set(xlim=(-0.15, len(titles) - 0.4), ylim=(1, 0), yticks=[])
    axes.spines[:].set_visible(False)
    marks = [
        Line2D([], [], marker="o", ls="", color=COLOURS[i % len(COLOURS)], label=name)
        for i, name in enumerate(found.kinds)
        if name
    ]
    for time in times or ():
        colour = str(shade(time, times))
        marks.append(Line2D([], [], color=colour, label=f"time {time:g}"))
    if marks:
        how = {"ncols": 6, "frameon": False, "fontsize": 8}
        drawn.legend(handles=marks, loc="outside upper left", **how)
    return drawn


def tips(found: Layers) -> list[str]:
    """The words about every node: its whole name, type, hop, edges and times."""
    words = []
    for number, spot in enumerate(found.spots):
        out = [link for link in found.links if link.sender == number]
        into = sum(link.receiver == number for link in found.links)
        times = [f"{link.time:g}" for link in out if link.time is not None]
        parts = [spot.label, found.kinds[spot.kind]]
        parts += [f"hop {spot.hop}" if spot.hop else "seed"]
        parts += [f"{into} in, {len(out)} out"]
        parts += [f"time {', '.join(times[:4])}"] if times else []
        words.append(" · ".join(filter(None, parts)))
    return words


def shade(time: float | None, times: tuple[float, float] | None) -> float:
    """The lightness of an edge, from 0 for black to 1: the later the darker."""
    if time is None or times is None:
        return UNTIMED
    first, last = times
    share = 1.0 if last == first else (time - first) / (last - first)
    return PALE + (DARK - PALE) * share


def short(label: str) -> str:
    """A label that has room."""
    return label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"
