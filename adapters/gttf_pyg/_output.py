"""SamplerOutput of PyG, from the subgraphs of the engine."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

from gttf_pyg._compat import row_type
from gttf_pyg._rows import EdgeType
from gttf_sampler import CompactAdj, HeteroSubgraph, Neighborhood, Subgraph


def from_subgraph(
    found: Subgraph | HeteroSubgraph,
    adjs: Mapping[EdgeType, CompactAdj],
    backward: bool,
    *,
    original: bool = False,
) -> SamplerOutput | HeteroSamplerOutput:
    """A sample in the words of PyG: edges are positions in the caller's edge_index.

    Args:
        found: what was drawn.
        adjs: the rows of the relations that the output has.
        backward: whether rows are those of the reversed graph.
        original: whether edges have the caller's positions already.
    """
    row: Any = found.col if backward else found.row
    col: Any = found.row if backward else found.col
    counts: Any = found.num_sampled_edges
    if isinstance(found, Subgraph):
        (adj,) = adjs.values()
        edge = found.edge if original else adj.original_edge(found.edge).long()
        return SamplerOutput(
            node=found.node,
            row=row,
            col=col,
            edge=edge,
            batch=found.batch,
            num_sampled_nodes=found.num_sampled_nodes,
            num_sampled_edges=counts,
        )
    name = {kind: row_type(kind, backward) for kind in adjs}
    edges = found.edge
    if not original:
        edges = {k: adj.original_edge(edges[k]).long() for k, adj in adjs.items()}
    return HeteroSamplerOutput(
        node=dict(found.node),
        row={name[kind]: row[kind] for kind in adjs},
        col={name[kind]: col[kind] for kind in adjs},
        edge={name[kind]: edges[kind] for kind in adjs},
        batch=None if found.batch is None else dict(found.batch),
        num_sampled_nodes=found.num_sampled_nodes,
        num_sampled_edges=counts and {name[kind]: counts[kind] for kind in adjs},
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


def induced(
    found: Subgraph | HeteroSubgraph,
    adjs: Mapping[EdgeType, CompactAdj],
    loose: Mapping[EdgeType, CompactAdj],
    biases: Mapping[EdgeType, Any],
    backward: bool,
) -> SamplerOutput | HeteroSamplerOutput:
    """All edges among the nodes of a sample that its biases admit.

    Args:
        found: what was drawn.
        adjs: the rows of every relation.
        loose: relations without edges, of nodes that have no other.
        biases: per relation; None admits all of its edges.
        backward: whether rows are those of the reversed graph.
    """
    if isinstance(found, Subgraph):
        (only,) = adjs
        one = found.induced(adjs[only])
        kept = _admitted(biases[only], adjs[only], one.node, one.batch, one)
        one = replace(one, row=one.row[kept], col=one.col[kept], edge=one.edge[kept])
        return from_subgraph(one, adjs, backward)
    every = found.induced({**adjs, **loose})
    row, col, edge = dict(every.row), dict(every.col), dict(every.edge)
    for kind, adj in adjs.items():
        node = every.node[kind[2]]
        tree = None if every.batch is None else every.batch[kind[2]]
        ends = Ends(col[kind], edge[kind])
        kept = _admitted(biases[kind], adj, node, tree, ends)
        row[kind], col[kind], edge[kind] = (
            part[kind][kept] for part in (row, col, edge)
        )
    every = replace(every, row=row, col=col, edge=edge)
    return from_subgraph(every, adjs, backward)


class Ends(NamedTuple):
    """The receivers of edges [e] and their positions in `adj.col`."""

    col: Tensor
    edge: Tensor


def _admitted(
    bias: Any, adj: CompactAdj, node: Tensor, tree: Tensor | None, ends: Any
) -> Tensor:
    """A mask [e] of the edges that have a weight above zero at their nodes [n]."""
    if bias is None:
        return torch.ones_like(ends.edge, dtype=torch.bool)
    every = torch.arange(node.numel() + 1, device=node.device)
    root = every[:-1] if tree is None else tree
    hood = Neighborhood(
        adj=adj,
        walker=ends.col,
        neighbor=adj.col[ends.edge].long(),
        edge=ends.edge,
        ptr=torch.searchsorted(ends.col, every),
        root=root,
    )
    weight: Tensor = bias(node.new_empty(node.numel(), 0), node, hood)
    return weight > 0
