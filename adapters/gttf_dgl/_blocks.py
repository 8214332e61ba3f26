"""Samples as blocks or as one graph, with the degrees and weights of estimates."""

from collections.abc import Mapping
from typing import Any

import torch
from dgl import DGLGraph
from dgl.heterograph import DGLBlock
from torch import Tensor

from gttf_dgl import _check, _frames
from gttf_dgl._check import EdgeType
from gttf_dgl._source import Source
from gttf_sampler import CompactAdj, HeteroSubgraph
from gttf_sampler.estimate import share

NORMS = ("both", "right", "left", "none")
COLUMN = "norm"

# Columns of node data: the edges that arrive, those of them that could be drawn, and
# the edges that leave; one of each per edge type.
ARRIVE, DRAWABLE, LEAVE = "_gttf_arrive", "_gttf_drawable", "_gttf_leave"
BIASED = "_gttf_biased"  # instead of these, where edges were not drawn uniformly


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
    block = _frames.make_block(source.g, kinds, ends, eids, senders, receivers)
    store_degrees(block, source, senders, receivers)
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
    graph = _frames.make_graph(source.g, kinds, ends, eids, nodes)
    store_degrees(graph, source, nodes, nodes)
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


class Wanted:
    """Says whether a model of this process asks for degrees.

    A sampler keeps one: pickled with it, the answer reaches workers that are spawned,
    as it reaches those that are forked by itself.
    """

    answer = False  # of the process, not of one object

    def __getstate__(self) -> dict[str, bool]:
        return {"answer": Wanted.answer}

    def __setstate__(self, state: dict[str, bool]) -> None:
        Wanted.answer = Wanted.answer or state["answer"]


def column(name: str, kind: EdgeType) -> str:
    """The name of a column for one edge type, as a slice of the graph knows it."""
    return f"{name}:{kind[1]}"


def store_degrees(
    batch: DGLGraph,
    source: Source,
    senders: dict[str, Tensor],
    receivers: dict[str, Tensor],
) -> None:
    """Puts the degrees into the node data of a batch, if they are asked for.

    Of a graph in parts nobody knows them all: an unbiased model will say so.
    """
    if not Wanted.answer or source.remote:
        return
    for kind, adj in source.adjs.items():
        arrived, sent = batch.dstnodes[kind[2]].data, batch.srcnodes[kind[0]].data
        nodes = receivers[kind[2]]
        degree, admitted = degrees_of(adj, source.excluded.get(kind), nodes)
        if not source.choice.uniform:
            arrived[column(BIASED, kind)] = degree
            continue
        arrived[column(ARRIVE, kind)] = degree
        arrived[column(DRAWABLE, kind)] = admitted
        leave = out_degree(adj).index_select(0, senders[kind[0]])
        sent[column(LEAVE, kind)] = leave


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


def carries(graph: Any, name: str) -> bool:
    """True if the graph that a layer was given has a column."""
    kinds = graph.canonical_etypes
    return len(kinds) == 1 and column(name, kinds[0]) in graph.dstdata
