"""What the engine sampled, in the words of PyG."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

from gttf_pyg._compat import reverse_edge_type
from gttf_pyg._rows import EdgeType
from gttf_sampler import CompactAdj, HeteroSubgraph, Neighborhood, Subgraph
from gttf_sampler.rooted import Rooted


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
    """A heterogeneous sample in the words of PyG, with the relations of `adjs`."""
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


def from_rooted(
    found: Rooted, names: list[EdgeType] | None, kinds: list[str], backward: bool
) -> SamplerOutput | HeteroSamplerOutput:
    """What was drawn by laws; `names` are those of the relations, None if untyped."""
    row, col = (found.col, found.row) if backward else (found.row, found.col)
    if names is None:
        return SamplerOutput(
            node=found.node[0],
            row=row[0],
            col=col[0],
            edge=found.edge[0],
            batch=None if found.root is None else found.root[0],
            num_sampled_nodes=found.num_nodes[0],
            num_sampled_edges=found.num_edges[0],
        )
    roots = found.root
    return HeteroSamplerOutput(
        node=dict(zip(kinds, found.node, strict=True)),
        row=dict(zip(names, row, strict=False)),  # loose types have none
        col=dict(zip(names, col, strict=False)),
        edge=dict(zip(names, found.edge, strict=False)),
        batch=None if roots is None else dict(zip(kinds, roots, strict=True)),
        num_sampled_nodes=dict(zip(kinds, found.num_nodes, strict=True)),
        num_sampled_edges=dict(zip(names, found.num_edges, strict=False)),
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


def induced(found: Subgraph, adj: CompactAdj, bias: Any) -> Subgraph:
    """The subgraph with all edges among its nodes that the bias admits."""
    every = found.induced(adj)
    kept = _admitted(bias, adj, every.node, every.batch, every.col, every.edge)
    return replace(
        every, row=every.row[kept], col=every.col[kept], edge=every.edge[kept]
    )


def induced_types(
    found: HeteroSubgraph,
    adjs: Mapping[EdgeType, CompactAdj],
    biases: Mapping[EdgeType, Any],
) -> HeteroSubgraph:
    """All edges of a heterogeneous sample's nodes that could have been drawn."""
    every = found.induced(dict(adjs))
    row, col, edge = dict(every.row), dict(every.col), dict(every.edge)
    for kind, adj in adjs.items():
        node = every.node[kind[2]]
        tree = None if every.batch is None else every.batch[kind[2]]
        kept = _admitted(biases.get(kind), adj, node, tree, col[kind], edge[kind])
        row[kind], col[kind], edge[kind] = (
            part[kind][kept] for part in (row, col, edge)
        )
    return replace(every, row=row, col=col, edge=edge)


def _admitted(
    bias: Any,
    adj: CompactAdj,
    node: Tensor,
    tree: Tensor | None,
    col: Tensor,
    edge: Tensor,
) -> Tensor:
    """Which edges [e] have a weight above zero for walkers at the nodes [n]."""
    if bias is None:
        return torch.ones_like(edge, dtype=torch.bool)
    every = torch.arange(node.numel() + 1, device=node.device)
    root = every[:-1] if tree is None else tree
    ends = adj.col[edge].long(), edge, torch.searchsorted(col, every)
    hood = Neighborhood(adj, col, *ends, root)
    weight: Tensor = bias(node.new_empty(node.numel(), 0), node, hood)
    return weight > 0
