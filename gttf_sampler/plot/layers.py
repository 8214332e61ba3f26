"""Layers: a sampled neighbourhood cut and ordered so that it can be looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from gttf_sampler import _check

if TYPE_CHECKING:
    from gttf_sampler.graph.compact import CompactAdj
    from gttf_sampler.subgraph import HeteroSubgraph, Subgraph

ONLY = ("", "", "")


class Spot(NamedTuple):
    """A node of the picture.

    Attributes:
        label: what it is called.
        kind: the number of its type.
        hop: how many steps it is from a seed, its column.
        place: where it stands in that column, from 0 to 1.
    """

    label: str
    kind: int
    hop: int
    place: float


class Link(NamedTuple):
    """An edge of the picture, from sender to receiver.

    Attributes:
        sender, receiver: numbers of spots.
        kind: the number of its type.
        time: as given, or None.
    """

    sender: int
    receiver: int
    kind: int
    time: float | None


@dataclass(frozen=True)
class Layers:
    """What a picture shows.

    Attributes:
        spots: the nodes, hop by hop.
        links: the edges between them.
        kinds: names of node types; one empty name if there are none.
        relations: names of edge types.
        missing: per hop, how many nodes there was no room for.
    """

    spots: list[Spot]
    links: list[Link]
    kinds: list[str]
    relations: list[str]
    missing: list[int]

    @property
    def hops(self) -> int:
        """How many columns there are."""
        return len(self.missing)

    @property
    def times(self) -> tuple[float, float] | None:
        """The first and the last time of an edge; None if edges have none."""
        known = [link.time for link in self.links if link.time is not None]
        return (min(known), max(known)) if known else None

    @classmethod
    def of(cls, subgraph: Any, adj: Any, most: int) -> Layers:
        """Of every hop at most `most` nodes, near to those that they were reached from.

        Args:
            subgraph: a `Subgraph` or a `HeteroSubgraph` that knows its hops.
            adj: what it was drawn from, for names and times; per edge type if there
                are types; or None.
            most: nodes per hop.
        """
        if subgraph.num_sampled_nodes is None:
            cure = "draw what 'sample_rooted' returned"
            _check.fail("subgraph", "must know its hops", repr(subgraph), cure)
        parts = _parts(subgraph, adj)
        hops = [
            [hop for hop, count in enumerate(counts) for _ in range(count)]
            for counts in parts.counts.values()
        ]
        return _ordered(parts, hops, most)


class _Parts(NamedTuple):
    """A sample as plain lists, per node type and per edge type."""

    labels: dict[str, list[str]]
    counts: dict[str, list[int]]
    ends: dict[Any, tuple[list[int], list[int]]]
    times: dict[Any, list[float] | None]


def _parts(subgraph: Subgraph | HeteroSubgraph, adj: Any) -> _Parts:
    """What both kinds of samples have in common."""
    one = isinstance(subgraph.node, Tensor)
    wrap: Any = (lambda value, key: {key: value}) if one else (lambda value, key: value)
    rows = {} if adj is None else wrap(adj, ONLY)
    _check.mapping("adj", rows)
    ids = {kind[2]: rows[kind].node_id for kind in rows}
    nodes, counts = wrap(subgraph.node, ""), wrap(subgraph.num_sampled_nodes, "")
    labels = {name: _labels(node, ids.get(name)) for name, node in nodes.items()}
    row, col, edge = (
        wrap(x, ONLY) for x in (subgraph.row, subgraph.col, subgraph.edge)
    )
    ends = {kind: (row[kind].tolist(), col[kind].tolist()) for kind in row}
    times = {kind: _times(rows.get(kind), edge[kind]) for kind in edge}
    return _Parts(labels, counts, ends, times)


def _labels(node: Tensor, node_id: Any) -> list[str]:
    """What nodes are called."""
    numbers = node.tolist()
    return [str(i if node_id is None else node_id[i]) for i in numbers]


def _times(adj: CompactAdj | None, edge: Tensor) -> list[float] | None:
    """The times of edges, where they are known."""
    if adj is None or adj.edge_time is None:
        return None
    found: list[float] = adj.edge_time.index_select(0, edge).to(torch.float64).tolist()
    return found


def _ordered(parts: _Parts, hops: list[list[int]], most: int) -> Layers:
    """Column by column: who was reached from what is shown, near to that.

    Of a column that is too long, an even choice is left, so that none of those in
    front of it loses all that it has reached.
    """
    kinds = list(parts.labels)
    links: list[Any] = []
    parents: dict[Any, list[Any]] = {}
    for which, (kind, (row, col)) in enumerate(parts.ends.items()):
        by, to = (kinds.index(kind[end]) for end in (0, 2))
        time: Any = parts.times[kind] or [None] * len(row)
        for u, v, when in zip(row, col, time, strict=True):
            links.append(((by, u), (to, v), which, when))
            if hops[to][v] < hops[by][u]:
                parents.setdefault((by, u), []).append((to, v))
    columns: list[list[Any]] = [[] for _ in range(_depth(hops))]
    for own, some in enumerate(hops):
        for local, hop in enumerate(some):
            columns[hop].append((own, local))
    place: dict[Any, float] = {}
    spots: list[Spot] = []
    order: dict[Any, int] = {}
    missing = []
    for hop, here in enumerate(columns):
        mean = {}
        for key in here:
            near = [place[p] for p in parents.get(key, ()) if p in place]
            if near or hop == 0:
                mean[key] = sum(near) / max(len(near), 1)
        shown = _evenly(sorted(mean, key=lambda key: mean[key]), most)  # stable
        for turn, (own, local) in enumerate(shown):
            middle = (turn + 0.5) / len(shown)
            place[own, local], order[own, local] = middle, len(spots)
            spots.append(Spot(parts.labels[kinds[own]][local], own, hop, middle))
        missing.append(len(here) - len(shown))
    drawn = [
        Link(order[u], order[v], which, when)
        for u, v, which, when in links
        if u in order and v in order
    ]
    relations = ["" if kind == ONLY else " → ".join(kind) for kind in parts.ends]
    return Layers(spots, drawn, kinds, relations, missing)


def _depth(hops: list[list[int]]) -> int:
    """How many columns there are, one at least."""
    return 1 + max((hop for some in hops for hop in some), default=0)


def _evenly(keys: list[Any], most: int) -> list[Any]:
    """At most so many of them, at equal distances."""
    if len(keys) <= most:
        return keys
    return [keys[turn * len(keys) // most] for turn in range(most)]
