"""Samples as DGL's blocks and graphs, with their data, degrees and weights.

The only place that builds on DGL's own constructors instead of `dgl.create_block` and
`dgl.heterograph`: those sort the types, and check every id again.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from dgl import EID, NID, DGLGraph
from torch import Tensor

from gttf_dgl import _check
from gttf_dgl._check import EdgeType
from gttf_dgl._compat import (
    DGLBlock,
    LazyFeature,
    columns_of,
    extract_edge_subframes,
    extract_node_subframes,
    extract_node_subframes_for_block,
    frames_of,
    graph_index,
    heterograph_index,
    set_new_frames,
    toindex,
)
from gttf_dgl._source import Source, devices_of
from gttf_sampler import HeteroSubgraph
from gttf_sampler.estimate import share
from gttf_sampler.gather import gather_columns

FORMATS = ["coo", "csr", "csc"]
NORMS = ("both", "right", "left", "none")
COLUMN = "norm"

Ends = tuple[Tensor, Tensor]


class Degrees(NamedTuple):
    """Degrees in the whole graph of the nodes of a batch, by one edge type.

    Attributes:
        arrive: [receivers], the edges into each.
        drawable: [receivers], those of them that could be drawn.
        leave: [senders], the edges out of each.
    """

    arrive: Tensor
    drawable: Tensor
    leave: Tensor


class Origin:
    """The rows that a batch was drawn from, which know the degrees of its nodes.

    Args:
        source: the rows; those in other processes are not asked, and know none.

    Attributes:
        uniform: whether every neighbour was as likely as any other.
        known: whether degrees are known.
    """

    def __init__(self, source: Source) -> None:
        self.uniform, self.known = source.choice.uniform, not source.adjs.remote
        self._source: Source | None = source
        self._degrees: dict[EdgeType, Degrees] = {}

    def degrees(self, batch: Any, kind: EdgeType) -> Degrees:
        """The degrees of the nodes of `batch`, the one it is of or a part of that."""
        found = self._degrees.get(kind)
        if found is None:
            found = self._count(batch, kind)
        return Degrees(*(part.to(batch.device) for part in found))

    def _count(self, batch: Any, kind: EdgeType) -> Degrees:
        source: Any = self._source
        adj, excluded = source.adjs[kind], source.excluded.get(kind)
        how = {"device": adj.device, "dtype": torch.int64}
        receivers = batch.dstnodes[kind[2]].data[NID].to(**how)
        senders = batch.srcnodes[kind[0]].data[NID].to(**how)
        start, degree = adj.row_range(receivers)
        drawable = degree
        if excluded is not None:
            hidden = excluded.unique()
            low, high = (torch.searchsorted(hidden, x) for x in (start, start + degree))
            drawable = degree - (high - low)
        leave: Tensor = adj.cached(
            "out_degree", lambda: torch.bincount(adj.col, minlength=adj.num_cols)
        )
        return Degrees(degree, drawable, leave.index_select(0, senders))

    def without_rows(self, batch: Any) -> Origin:
        """A copy for another process, which has the degrees of a batch instead."""
        found = copy.copy(self)
        found._source = None
        if self._source is not None and self.uniform and self.known:
            kinds = batch.canonical_etypes
            found._degrees = {kind: self._count(batch, kind) for kind in kinds}
        return found


class Sampled:
    """A graph of DGL's that knows where it was drawn, and whose parts do as well."""

    origin: Origin | None = None

    def __getitem__(self, key: Any) -> Any:
        found: Any = super().__getitem__(key)  # type: ignore[misc]
        found.origin = self.origin
        return found

    def __getstate__(self) -> dict[str, Any]:
        origin = self.origin
        return {
            **vars(self),
            "origin": None if origin is None else origin.without_rows(self),
        }


class SampledBlock(Sampled, DGLBlock):
    """A block of sampled edges."""


class SampledGraph(Sampled, DGLGraph):
    """A graph of sampled edges."""


def block_of(
    source: Source,
    drawn: HeteroSubgraph,
    sizes: dict[str, int],
    depth: int = 1,
    norm: str | None = None,
) -> DGLBlock:
    """The first `depth` hops as a block whose targets are the first `sizes` nodes.

    As in DGL's blocks, data of the graph are columns that are gathered when first read.
    """
    g, kinds = source.g, list(source.adjs)
    nodes, edges = drawn.num_sampled_nodes or {}, drawn.num_sampled_edges or {}
    counts = {name: sum(nodes[name][: depth + 1]) for name in sizes}
    senders = [drawn.node[name][:n].to(g.idtype) for name, n in counts.items()]
    receivers = [x[:n] for x, n in zip(senders, sizes.values(), strict=True)]
    stops = {kind: sum(edges[kind][:depth]) for kind in kinds}
    ends = [(drawn.row[k][:stop], drawn.col[k][:stop]) for k, stop in stops.items()]
    eids = [drawn.edge[k][:stop].to(g.idtype) for k, stop in stops.items()]
    index = _structure(g, kinds, ends, counts, sizes)
    names = list(sizes)
    block = SampledBlock(index, (names, names), [kind[1] for kind in kinds])
    set_new_frames(
        block,
        node_frames=extract_node_subframes_for_block(g, senders, receivers),
        edge_frames=extract_edge_subframes(g, eids),
    )
    return _with_origin(block, source, norm)


def graph_of(
    source: Source, drawn: HeteroSubgraph, norm: str | None = None
) -> DGLGraph:
    """The whole sample as one graph, seeds first."""
    g, kinds = source.g, list(source.adjs)
    none = torch.empty(0, dtype=g.idtype, device=source.device)
    nodes = {name: drawn.node.get(name, none).to(g.idtype) for name in g.ntypes}
    ends = [(drawn.row[kind], drawn.col[kind]) for kind in kinds]
    index = _structure(g, kinds, ends, {name: len(x) for name, x in nodes.items()})
    graph = SampledGraph(index, list(nodes), [kind[1] for kind in kinds])
    eids = [drawn.edge[kind].to(g.idtype) for kind in kinds]
    set_new_frames(
        graph,
        node_frames=extract_node_subframes(g, list(nodes.values())),
        edge_frames=extract_edge_subframes(g, eids),
    )
    return _with_origin(graph, source, norm)


def frontier_of(
    source: Source, drawn: HeteroSubgraph, copy_ndata: Any, copy_edata: Any
) -> DGLGraph:
    """All nodes of the graph with the sampled edges, in the direction they have there.

    Args:
        source: what they were drawn from.
        drawn: one hop.
        copy_ndata: whether nodes have the data of the graph.
        copy_edata: whether edges have them, beside their ids.
    """
    _check.yes_or_no("copy_ndata", copy_ndata)
    _check.yes_or_no("copy_edata", copy_edata)
    g, kinds = source.g, source.g.canonical_etypes
    inward, ends = source.choice.edge_dir == "in", []
    for kind in source.adjs:
        sender = drawn.node[kind[0]][drawn.row[kind]]
        receiver = drawn.node[kind[2]][drawn.col[kind]]
        ends.append((sender, receiver) if inward else (receiver, sender))
    index = _structure(g, kinds, ends, {name: g.num_nodes(name) for name in g.ntypes})
    graph = DGLGraph(index, g.ntypes, g.etypes)
    eids = [drawn.edge[kind].to(g.idtype) for kind in source.adjs]
    if copy_ndata:
        set_new_frames(graph, node_frames=extract_node_subframes(g, None))
    if copy_edata:
        set_new_frames(graph, edge_frames=extract_edge_subframes(g, eids))
    else:
        for kind, own in zip(kinds, eids, strict=True):
            graph.edges[kind].data[EID] = own
    return graph


def _structure(
    g: DGLGraph,
    kinds: Sequence[EdgeType],
    ends: Sequence[Ends],
    senders: dict[str, int],
    receivers: dict[str, int] | None = None,
) -> Any:
    """DGL's index of a graph or block with these edges and numbers of nodes."""
    number = {name: i for i, name in enumerate(senders)}
    shift = 0 if receivers is None else len(senders)
    sizes = [*senders.values(), *(receivers or {}).values()]
    starts = [number[kind[0]] for kind in kinds]
    stops = [shift + number[kind[2]] for kind in kinds]
    relations = []
    for start, stop, (row, col) in zip(starts, stops, ends, strict=True):
        row, col = row.to(g.idtype).contiguous(), col.to(g.idtype).contiguous()
        shape = 1 if start == stop else 2, sizes[start], sizes[stop]
        make = heterograph_index.create_unitgraph_from_coo
        relations.append(make(*shape, row, col, FORMATS))
    meta = _types(len(sizes), tuple(starts), tuple(stops))
    return heterograph_index.create_heterograph_from_relations(
        meta, relations, toindex(sizes, "int64")
    )


@lru_cache(maxsize=64)
def _types(count: int, starts: tuple[int, ...], stops: tuple[int, ...]) -> Any:
    """DGL's graph of node types and relations, which graphs can share."""
    return graph_index.from_coo(count, list(starts), list(stops), True)


def _with_origin(batch: Any, source: Source, norm: str | None) -> Any:
    """`batch`, which knows its rows, with the weights of the estimator if asked for.

    They are float32 [e]: what `GraphConv(norm=norm)` multiplies messages by, times
    δ / |S|. Of the δ edges of a receiver, |S| were sampled uniformly, so each stands
    for δ / |S| of them. Degrees are those of the whole graph, at least one as in
    GraphConv; of the excluded edges nothing is estimated.
    """
    batch.origin = Origin(source)
    for kind in source.adjs if norm is not None else ():
        degrees = batch.origin.degrees(batch, kind)
        row, col = batch.edges(etype=kind)
        each = share(degrees.drawable.float(), col)
        arrive, leave = (
            x.clamp(min=1).float() for x in (degrees.arrive, degrees.leave)
        )
        if norm == "both":
            each = each * arrive.rsqrt()
        elif norm == "right":
            each = each / arrive
        weight = each.index_select(0, col)
        if norm in ("both", "left"):
            sent = leave.rsqrt() if norm == "both" else leave.reciprocal()
            weight = weight * sent.index_select(0, row)
        batch.edges[kind].data[COLUMN] = weight
    return batch


def check_norm(norm: str | None, uniform: bool, prefetched: Any) -> str | None:
    """Checks `norm`, which needs uniform draws and an edge data column of its own."""
    if norm is None:
        return None
    _check.one_of("normalize", norm, NORMS)
    if not uniform:
        rule = "needs uniform draws, without 'prob', 'mask' and 'bias'"
        _check.fail("normalize", rule, repr(norm))
    groups = prefetched.values() if isinstance(prefetched, Mapping) else [prefetched]
    if any(COLUMN in (names or ()) for names in groups):
        rule = f"must not be given where edge data named '{COLUMN}' are prefetched"
        _check.fail("normalize", rule, repr(norm), "name them otherwise")
    return norm


def output_device(asked: Any, seed_nodes: Any, g: DGLGraph) -> torch.device:
    """The device of a batch: as asked, else that of the seeds."""
    if asked is not None:
        return torch.device(asked)
    return next(iter(devices_of(seed_nodes)), g.device)


def fetch_marked(g: DGLGraph, batches: Sequence[DGLGraph]) -> None:
    """Replaces the marks of prefetched features by the features, in place."""
    places, columns = [], []
    for batch in batches:
        of_nodes, of_edges = frames_of(batch)
        types = [*g.ntypes * 2][: len(of_nodes)]  # senders, then receivers
        nodes = zip(of_nodes, types, strict=True)
        frames = [(frame, g.nodes, kind, NID) for frame, kind in nodes]
        edges = zip(of_edges, g.canonical_etypes, strict=True)
        frames += [(frame, g.edges, kind, EID) for frame, kind in edges]
        for frame, views, kind, ids in frames:
            for key, column in columns_of(frame).items():
                if not isinstance(column, LazyFeature) or column.id_ is not None:
                    continue
                values = views[kind].data.get(column.name or key)
                if isinstance(values, Tensor) and values.device == frame[ids].device:
                    places.append((frame, key))
                    columns.append((values, frame[ids]))
    for (frame, key), rows in zip(places, gather_columns(columns), strict=True):
        frame[key] = rows
