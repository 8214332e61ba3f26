"""What the engine sampled, in the words of PyG."""

import copy
from typing import Any

from torch import Tensor
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

from gttf_pyg._compat import reverse_edge_type
from gttf_pyg._rows import EdgeType
from gttf_sampler import CompactAdj, HeteroSubgraph, Subgraph


def from_subgraph(found: Subgraph, adj: CompactAdj, backward: bool) -> SamplerOutput:
    """A SamplerOutput whose edges are positions in the caller's edge_index."""
    row, col = (found.col, found.row) if backward else (found.row, found.col)
    return SamplerOutput(
        node=found.node,
        row=row,
        col=col,
        edge=_original(adj, found.edge),
        batch=found.batch,
        num_sampled_nodes=found.num_sampled_nodes,
        num_sampled_edges=found.num_sampled_edges,
    )


def from_hetero_subgraph(
    found: HeteroSubgraph,
    adjs: dict[EdgeType, CompactAdj],
    backward: bool,
) -> HeteroSamplerOutput:
    """The same for several types; only the relations of `adjs` are kept."""
    name = reverse_edge_type if backward else (lambda kind: kind)
    row, col = (found.col, found.row) if backward else (found.row, found.col)
    counts = found.num_sampled_edges
    return HeteroSamplerOutput(
        node=dict(found.node),
        row={name(kind): row[kind] for kind in adjs},
        col={name(kind): col[kind] for kind in adjs},
        edge={name(kind): _original(adjs[kind], found.edge[kind]) for kind in adjs},
        batch=None if found.batch is None else dict(found.batch),
        num_sampled_nodes=found.num_sampled_nodes,
        num_sampled_edges=counts and {name(kind): counts[kind] for kind in adjs},
    )


def to_bidirectional(out: Any, keep_orig_edges: bool) -> Any:
    """`out` with the reverse of every edge.

    Differs from PyG: where several edges connect two nodes, an edge has the id of the
    first one that was sampled in its own direction, and not of any of them.
    """
    if not isinstance(out, SamplerOutput):
        return out.to_bidirectional(keep_orig_edges=keep_orig_edges)
    both = Subgraph(out.node, out.row, out.col, out.edge).bidirectional()
    result = copy.copy(out)
    result.row, result.col, result.edge = both.row, both.col, both.edge
    if keep_orig_edges:
        result.orig_row, result.orig_col = out.row, out.col
    else:
        result.num_sampled_nodes = result.num_sampled_edges = None
    return result


def _original(adj: CompactAdj, edge: Tensor) -> Tensor:
    """int64 [e], positions in the caller's edge_index."""
    return adj.original_edge(edge).long()
