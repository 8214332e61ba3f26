"""All edges among the sampled nodes, but those that could not have been drawn."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gttf_pyg._rows import EdgeType
from gttf_sampler import CompactAdj, HeteroSubgraph, Neighborhood, Subgraph


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
    """The same for several types, with a bias for some of the relations."""
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
