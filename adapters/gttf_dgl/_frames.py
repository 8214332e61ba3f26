"""Sampled nodes and edges as DGL's graphs, with the data of their parent.

The only place that builds on DGL's own constructors instead of `dgl.create_block` and
`dgl.heterograph`: those sort the types, and check every id again.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from dgl import EID, NID, DGLGraph
from torch import Tensor

from gttf_dgl._check import EdgeType
from gttf_dgl._compat import (
    DGLBlock,
    LazyFeature,
    extract_edge_subframes,
    extract_node_subframes,
    extract_node_subframes_for_block,
    graph_index,
    heterograph_index,
    set_new_frames,
    toindex,
)
from gttf_sampler.gather import gather_columns

FORMATS = ["coo", "csr", "csc"]

Ends = tuple[Tensor, Tensor]


def make_block(
    g: DGLGraph,
    kinds: Sequence[EdgeType],
    ends: Sequence[Ends],
    eids: Sequence[Tensor],
    source: dict[str, Tensor],
    target: dict[str, Tensor],
    made: type[DGLBlock] = DGLBlock,
) -> Any:
    """A block like DGL's: parent data are columns that are gathered when first read.

    Args:
        g: the parent; `source` and `target` follow its node types, and `kinds`, the
            types that edges have in the block, its edge types.
        kinds: the type of every relation.
        ends: (row, col) of every relation, local ids.
        eids: the parent's edge ids of every relation.
        source: global ids of the senders; those of `target` come first.
        target: global ids of the receivers.
        made: the class of the block.
    """
    sizes = [{name: x.numel() for name, x in ids.items()} for ids in (source, target)]
    names, relations = list(source), [kind[1] for kind in kinds]
    block = made(_structure(g, kinds, ends, *sizes), (names, names), relations)
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
    nodes: dict[str, Tensor] | None = None,
    copy_nodes: bool = True,
    copy_edges: bool = True,
    made: type[DGLGraph] = DGLGraph,
) -> Any:
    """A graph of sampled edges among `nodes`, or all nodes, with their parent's data.

    Edges have their ids in any case; `ends` are local ids where `nodes` are given.
    """
    sizes = {name: g.num_nodes(name) for name in g.ntypes}
    ids = None
    if nodes is not None:
        sizes = {name: x.numel() for name, x in nodes.items()}
        ids = [x.to(g.idtype) for x in nodes.values()]
    eids = [x.to(g.idtype) for x in eids]
    index = _structure(g, kinds, ends, sizes)
    graph = made(index, list(sizes), [kind[1] for kind in kinds])
    if copy_nodes:
        set_new_frames(graph, node_frames=extract_node_subframes(g, ids))
    if copy_edges:
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
    """DGL's index of a graph with so many nodes per type; two kinds in a block."""
    number = {name: i for i, name in enumerate(senders)}
    shift = 0 if receivers is None else len(senders)
    sizes = [*senders.values(), *(receivers or {}).values()]
    starts = [number[kind[0]] for kind in kinds]
    stops = [shift + number[kind[2]] for kind in kinds]
    relations = []
    for start, stop, (row, col) in zip(starts, stops, ends, strict=True):
        row, col = (x.to(g.idtype).contiguous() for x in (row, col))
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


def fetch_marked(g: DGLGraph, batches: Sequence[DGLGraph]) -> None:
    """Replaces the marks of prefetched features by the features, in place."""
    places, columns = [], []
    for frame, parent, ids in _frames_of(g, batches):
        for key, column in frame._columns.items():
            if not isinstance(column, LazyFeature) or column.id_ is not None:
                continue
            values = parent.get(column.name or key)
            if isinstance(values, Tensor) and values.device == frame[ids].device:
                places.append((frame, key))
                columns.append((values, frame[ids]))
    for (frame, key), rows in zip(places, gather_columns(columns), strict=True):
        frame[key] = rows


def _frames_of(
    g: DGLGraph, batches: Sequence[DGLGraph]
) -> Iterator[tuple[Any, Any, str]]:
    """The frames of some graphs, each with the data it comes from and its ids."""
    for batch in batches:
        for number, frame in enumerate(batch._node_frames):
            name = g.ntypes[number % len(g.ntypes)]  # senders, then receivers
            yield frame, g.nodes[name].data, NID
        for number, frame in enumerate(batch._edge_frames):
            yield frame, g.edges[g.canonical_etypes[number]].data, EID
