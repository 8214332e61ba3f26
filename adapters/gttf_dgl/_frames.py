"""Sampled nodes and edges as DGL's graphs, with the data of their parent.

The only place that builds on DGL's own constructors instead of `dgl.create_block` and
`dgl.heterograph`: those sort the types, and check every id again.
"""

from collections.abc import Sequence
from typing import Any

from dgl import EID, NID, DGLGraph, graph_index, heterograph_index
from dgl.frame import LazyFeature
from dgl.heterograph import DGLBlock
from dgl.utils import (
    extract_edge_subframes,
    extract_node_subframes,
    extract_node_subframes_for_block,
    set_new_frames,
    toindex,
)
from torch import Tensor

from gttf_dgl._check import EdgeType
from gttf_sampler import gather_rows

FORMATS = ["coo", "csr", "csc"]

Ends = tuple[Tensor, Tensor]


def make_block(
    g: DGLGraph,
    kinds: Sequence[EdgeType],
    ends: Sequence[Ends],
    eids: Sequence[Tensor],
    source: dict[str, Tensor],
    target: dict[str, Tensor],
) -> DGLBlock:
    """A block like DGL's: parent data are columns that are gathered when first read.

    Args:
        g: the parent; `source` and `target` follow its node types, and `kinds`, the
            types that edges have in the block, its edge types.
        kinds: the type of every relation.
        ends: (row, col) of every relation, local ids.
        eids: the parent's edge ids of every relation.
        source: global ids of the senders; those of `target` come first.
        target: global ids of the receivers.
    """
    number = {name: i for i, name in enumerate(source)}
    starts = [number[kind[0]] for kind in kinds]
    stops = [len(source) + number[kind[2]] for kind in kinds]
    sizes = [ids.numel() for ids in (*source.values(), *target.values())]
    index = _structure(g, starts, stops, sizes, ends)
    names = list(source)
    block = DGLBlock(index, (names, names), [kind[1] for kind in kinds])
    senders, receivers = (
        [ids.to(g.idtype) for ids in nodes.values()] for nodes in (source, target)
    )
    set_new_frames(
        block,
        node_frames=extract_node_subframes_for_block(g, senders, receivers),
        edge_frames=extract_edge_subframes(g, [e.to(g.idtype) for e in eids]),
    )
    return block


def make_graph(
    g: DGLGraph,
    kinds: Sequence[EdgeType],
    ends: Sequence[Ends],
    eids: Sequence[Tensor],
    nodes: dict[str, Tensor],
) -> DGLGraph:
    """A graph of sampled nodes and edges, with the data of their parent."""
    number = {name: i for i, name in enumerate(nodes)}
    starts, stops = ([number[kind[side]] for kind in kinds] for side in (0, 2))
    sizes = [ids.numel() for ids in nodes.values()]
    index = _structure(g, starts, stops, sizes, ends)
    graph = DGLGraph(index, list(nodes), [kind[1] for kind in kinds])
    ids = [ids.to(g.idtype) for ids in nodes.values()]
    set_new_frames(
        graph,
        node_frames=extract_node_subframes(g, ids),
        edge_frames=extract_edge_subframes(g, [e.to(g.idtype) for e in eids]),
    )
    return graph


def make_frontier(
    g: DGLGraph,
    ends: Sequence[Ends],
    eids: Sequence[Tensor],
    copy_nodes: bool,
    copy_edges: bool,
) -> DGLGraph:
    """All nodes of the parent with some of its edges: (source, target) and ids."""
    kinds, names = g.canonical_etypes, list(g.ntypes)
    eids = [ids.to(g.idtype) for ids in eids]
    starts, stops = ([names.index(kind[side]) for kind in kinds] for side in (0, 2))
    sizes = [g.num_nodes(name) for name in names]
    index = _structure(g, starts, stops, sizes, ends)
    frontier = DGLGraph(index, names, [kind[1] for kind in kinds])
    if copy_nodes:
        set_new_frames(frontier, node_frames=extract_node_subframes(g, None))
    if copy_edges:
        set_new_frames(frontier, edge_frames=extract_edge_subframes(g, eids))
    for kind, ids in zip(kinds, eids, strict=True):
        frontier.edges[kind].data[EID] = ids
    return frontier


def _structure(
    g: DGLGraph,
    starts: list[int],
    stops: list[int],
    sizes: list[int],
    ends: Sequence[Ends],
) -> Any:
    """DGL's index of a graph with `sizes` nodes and relations starts → stops."""
    relations = []
    for start, stop, (row, col) in zip(starts, stops, ends, strict=True):
        row, col = (x.to(g.idtype).contiguous() for x in (row, col))
        types = 1 if start == stop else 2
        relations.append(
            heterograph_index.create_unitgraph_from_coo(
                types, sizes[start], sizes[stop], row, col, FORMATS
            )
        )
    meta = graph_index.from_coo(len(sizes), starts, stops, True)
    return heterograph_index.create_heterograph_from_relations(
        meta, relations, toindex(sizes, "int64")
    )


def fetch_marked(g: DGLGraph, batch: DGLGraph) -> None:
    """Replaces the marks of prefetched features by the features, in place."""
    for number, frame in enumerate(batch._node_frames):
        name = g.ntypes[number % len(g.ntypes)]  # a block has senders, then receivers
        _fetch(frame, g.nodes[name].data, NID)
    for number, frame in enumerate(batch._edge_frames):
        _fetch(frame, g.edges[g.canonical_etypes[number]].data, EID)


def _fetch(frame: Any, parent: Any, ids: str) -> None:
    """Gathers the marked columns of one frame, where the parent has them here."""
    for key, column in list(frame._columns.items()):
        if not isinstance(column, LazyFeature) or column.id_ is not None:
            continue
        name = column.name or key
        values = parent.get(name)
        if isinstance(values, Tensor) and values.device == frame[ids].device:
            frame[key] = gather_rows(values, frame[ids])
