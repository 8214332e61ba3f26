"""to_compact(): the rows of a DGLGraph, made once and kept as long as the graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from dgl import DGLGraph

from gttf_dgl import _check
from gttf_dgl._check import EdgeType
from gttf_sampler import CompactAdj
from gttf_sampler._backends.streams import streams_of
from gttf_sampler.graph.weak_cache import kept_of

# "turned" are the rows of "out", taken as edges into a node of the reversed graph
FORMATS = {"in": "csc", "out": "csr", "turned": "csr"}


def to_compact(
    g: DGLGraph,
    etype: str | EdgeType | None = None,
    *,
    direction: str = "in",
    prob: str | None = None,
    mask: str | None = None,
) -> CompactAdj:
    """The `CompactAdj` of one edge type of a DGLGraph, on DGL's own arrays.

    >>> import dgl
    >>> from gttf_dgl import to_compact
    >>> g = dgl.graph(([0, 2, 3], [1, 1, 2]))
    >>> adj = to_compact(g)
    >>> adj.neighbor(1, 0).item(), adj.neighbor(1, 1).item()
    (0, 2)
    >>> to_compact(g) is adj
    True

    `adj.edge_id` are DGL's edge ids. The result is kept as long as the structure of the
    graph lives, and made anew if edges were added or removed, or the edge data changed.
    Call it before a DataLoader forks workers, and they find it ready.

    Args:
        g: the graph, on any device.
        etype: the edge type; not needed if there is one only.
        direction: "in" for message passing, "out" for walks.
        prob: name of edge data that become the edge weights.
        mask: the same for boolean data: one where it is true.
    """
    _check.graph(g)
    _check.one_of("direction", direction, _check.EDGE_DIRS)
    if etype is None and len(g.canonical_etypes) != 1:
        rule = "must name one of the edge types of the graph"
        _check.fail_like_dgl("etype", rule, None)
    kind = g.canonical_etypes[0] if etype is None else etype
    kind = _check.edge_type("etype", g, kind)
    _check.one_column(prob, mask)
    if prob is None and mask is None:
        return rows(g, kind, direction)
    kinds = kinds_with(g, prob, mask)
    if kind not in kinds:
        got = repr(prob or mask)
        _check.fail("mask" if prob is None else "prob", f"must be data of {kind}", got)
    return weighted_rows(g, kind, direction, prob, mask)


def rows(g: DGLGraph, kind: EdgeType, direction: str) -> CompactAdj:
    """The rows of one canonical edge type, kept with the structure of the graph.

    DGL replaces the structure when edges or nodes are added or removed in place.
    """
    place = kind, direction
    return kept_of(g._graph).get(place, lambda: _make_rows(g, kind, direction))


def _make_rows(g: DGLGraph, kind: EdgeType, direction: str) -> CompactAdj:
    """DGL's arrays as they are; sorted anew if the graph is kept from having them."""
    allowed = {form for forms in g.formats().values() for form in forms}
    way = "out" if direction == "out" else "in"
    if FORMATS[direction] in allowed:
        indptr, indices, eids = g.adj_tensors(FORMATS[direction], kind)
        num_cols = g.num_nodes(kind[0] if direction == "in" else kind[2])
        edge_id = eids if len(eids) else None
        # DGL has checked these arrays; checking again would be O(m) in every worker
        return CompactAdj(indptr.long(), indices, num_cols, way, edge_id).trusted()
    if "coo" in allowed:
        ends = torch.stack(g.edges(order="eid", etype=kind))
    else:
        ends = rows(g, kind, "in" if direction != "in" else "out").to_edge_index()
    sizes = g.num_nodes(kind[0]), g.num_nodes(kind[2])
    if direction == "turned":
        ends, sizes = ends.flip(0), sizes[::-1]
    return CompactAdj.from_edge_index(ends, sizes, direction=way)


def weighted_rows(
    g: DGLGraph, kind: EdgeType, direction: str, prob: str | None, mask: str | None
) -> CompactAdj:
    """Rows with edge data as weights, made anew when the data have changed."""
    argument, name = ("mask", mask) if prob is None else ("prob", prob)
    if name is None:
        return rows(g, kind, direction)
    data = g.edges[kind].data[name]

    def make() -> CompactAdj:
        weight = _check.weights(argument, name, data, boolean=prob is None)
        adj = rows(g, kind, direction)
        if adj.edge_id is not None:
            weight = weight.index_select(0, adj.edge_id)
        return replace(adj, edge_weight=weight.to(adj.device)).trusted()

    place = kind, direction, argument, name
    return kept_of(g._graph).get(place, make, data)


def read_by(adj: CompactAdj, device: torch.device) -> CompactAdj:
    """Rows of a pinned graph for kernels of `device`, which read the edges in place.

    Where rows start is copied: it is read twice for every edge that is, and small.
    """
    streams = streams_of(device)
    if streams is None:
        return adj.to(device)
    there: dict[str, Any] = {"rowptr": adj.rowptr.to(device)}
    for name in ("col", "edge_id", "edge_weight"):
        array = getattr(adj, name)
        there[name] = None if array is None else streams.mapped(array)
    return replace(adj, **there).trusted()


def kinds_with(g: DGLGraph, prob: str | None, mask: str | None) -> list[EdgeType]:
    """The edge types that have the named data; there must be one at least."""
    argument, name = ("mask", mask) if prob is None else ("prob", prob)
    if name is None:
        return []
    _check.one_column(prob, mask)
    kinds = [kind for kind in g.canonical_etypes if name in g.edges[kind].data]
    if not kinds:
        rule = "must be the name of edge data of the graph"
        known = sorted(
            {key for kind in g.canonical_etypes for key in g.edges[kind].data}
        )
        _check.fail(argument, rule, repr(name), f"there are {known}")
    return kinds
