"""Samples as blocks or as one graph, with the degrees and weights of estimates."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from dgl import NID, DGLGraph
from torch import Tensor

from gttf_dgl import _check, _frames
from gttf_dgl._check import EdgeType
from gttf_dgl._compat import DGLBlock
from gttf_dgl._source import Source
from gttf_sampler import CompactAdj, HeteroSubgraph
from gttf_sampler.estimate import share

NORMS = ("both", "right", "left", "none")
COLUMN = "norm"


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
        self.uniform, self.known = source.choice.uniform, not source.remote
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
        adj = source.adjs[kind]
        how = {"device": adj.device, "dtype": torch.int64}
        receivers = batch.dstnodes[kind[2]].data[NID].to(**how)
        senders = batch.srcnodes[kind[0]].data[NID].to(**how)
        arrive, drawable = degrees_of(adj, source.excluded.get(kind), receivers)
        return Degrees(arrive, drawable, out_degree(adj).index_select(0, senders))

    def apart(self, batch: Any) -> Origin:
        """The same for another process, which has the degrees and no rows."""
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
        return {**vars(self), "origin": None if origin is None else origin.apart(self)}


class SampledBlock(Sampled, DGLBlock):
    """A block of sampled edges."""


class SampledGraph(Sampled, DGLGraph):
    """A graph of sampled edges."""


def block_of(
    source: Source,
    drawn: HeteroSubgraph,
    sizes: dict[str, int],
    depth: int,
    norm: str | None,
) -> DGLBlock:
    """The first `depth` hops as a block whose targets are the first `sizes` nodes."""
    nodes, edges = drawn.num_sampled_nodes or {}, drawn.num_sampled_edges or {}
    senders = {
        name: drawn.node[name][: sum(nodes[name][: depth + 1])] for name in sizes
    }
    receivers = {name: ids[: sizes[name]] for name, ids in senders.items()}
    stops = {kind: sum(edges[kind][:depth]) for kind in source.adjs}
    ends = [(drawn.row[k][:stop], drawn.col[k][:stop]) for k, stop in stops.items()]
    eids = [drawn.edge[kind][:stop] for kind, stop in stops.items()]
    kinds = list(source.adjs)
    nodes_of = senders, receivers
    block = _frames.make_block(source.g, kinds, ends, eids, *nodes_of, SampledBlock)
    block.origin = Origin(source)
    if norm is not None:
        _store_norm(block, norm, source, ends, senders, receivers)
    return block


def graph_of(source: Source, drawn: HeteroSubgraph, norm: str | None) -> DGLGraph:
    """All of it as one graph, seeds first."""
    none = torch.empty(0, dtype=torch.int64, device=source.device)
    nodes = {name: drawn.node.get(name, none) for name in source.g.ntypes}
    kinds = list(source.adjs)
    ends = [(drawn.row[kind], drawn.col[kind]) for kind in kinds]
    eids = [drawn.edge[kind] for kind in kinds]
    graph = _frames.make_graph(source.g, kinds, ends, eids, nodes, made=SampledGraph)
    graph.origin = Origin(source)
    if norm is not None:
        _store_norm(graph, norm, source, ends, nodes, nodes)
    return graph


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
    for name, value in (("copy_ndata", copy_ndata), ("copy_edata", copy_edata)):
        _check.yes_or_no(name, value)
    ends, eids = [], []
    for kind in source.adjs:
        sender = drawn.node[kind[0]][drawn.row[kind]]
        receiver = drawn.node[kind[2]][drawn.col[kind]]
        inward = source.choice.edge_dir == "in"
        ends.append((sender, receiver) if inward else (receiver, sender))
        eids.append(drawn.edge[kind])
    kinds = source.g.canonical_etypes
    copies = bool(copy_ndata), bool(copy_edata)
    return _frames.make_graph(source.g, kinds, ends, eids, None, *copies)


def output_device(asked: Any, seed_nodes: Any, g: DGLGraph) -> torch.device:
    """The device of a batch: as asked, else that of the seeds."""
    if asked is not None:
        return torch.device(asked)
    parts = seed_nodes.values() if isinstance(seed_nodes, Mapping) else [seed_nodes]
    found = [part.device for part in parts if isinstance(part, Tensor)]
    return found[0] if found else g.device


def _store_norm(
    batch: DGLGraph,
    norm: str,
    source: Source,
    ends: list[tuple[Tensor, Tensor]],
    senders: dict[str, Tensor],
    receivers: dict[str, Tensor],
) -> None:
    """Puts the weights of the estimator into the edge data."""
    for (kind, adj), (row, col) in zip(source.adjs.items(), ends, strict=True):
        hidden = source.excluded.get(kind)
        nodes = senders[kind[0]], receivers[kind[2]]
        weight = edge_norm(norm, adj, hidden, *nodes, row, col)
        batch.edges[kind].data[COLUMN] = weight


def edge_norm(
    norm: str,
    adj: CompactAdj,
    excluded: Tensor | None,
    senders: Tensor,
    receivers: Tensor,
    row: Tensor,
    col: Tensor,
) -> Tensor:
    """float32 [e]: what `GraphConv(norm=norm)` multiplies messages by, times δ / |S|.

    Of the δ edges of a receiver, |S| were sampled uniformly, so each stands for δ / |S|
    of them. Degrees are those of the whole graph, at least one as in GraphConv; of the
    excluded edges nothing is estimated.
    """
    degree, admitted = degrees_of(adj, excluded, receivers)
    each = share(admitted.float(), col)
    degree = degree.clamp(min=1).float()
    if norm == "both":
        each = each * degree.rsqrt()
    elif norm == "right":
        each = each / degree
    weight = each.index_select(0, col)
    if norm in ("both", "left"):
        sent = out_degree(adj).index_select(0, senders).clamp(min=1).float()
        sent = sent.rsqrt() if norm == "both" else sent.reciprocal()
        weight = weight * sent.index_select(0, row)
    return weight


def check(norm: str | None, uniform: bool, prefetched: Any) -> str | None:
    """`norm`, which asks for uniform draws and a column of its own."""
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


def degrees_of(
    adj: CompactAdj, excluded: Tensor | None, receivers: Tensor
) -> tuple[Tensor, Tensor]:
    """The in-degree of each node, and that of the edges that are not excluded."""
    start, degree = adj.row_range(receivers)
    if excluded is None:
        return degree, degree
    ordered = excluded.unique()
    low, high = (torch.searchsorted(ordered, x) for x in (start, start + degree))
    return degree, degree - (high - low)


def out_degree(adj: CompactAdj) -> Tensor:
    """The out-degree of each node, [num_cols]: how many rows name it."""
    found: Tensor = adj.cached(
        "out_degree", lambda: torch.bincount(adj.col, minlength=adj.num_cols)
    )
    return found
