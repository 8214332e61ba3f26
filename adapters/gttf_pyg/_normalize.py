"""GCN weights and self-loops for a batch, so that a GCNConv needs none of its own."""

from typing import Any

import torch
from torch import Tensor

from gttf_sampler import CompactAdj, Subgraph


class GCNWeights:
    """Adds `edge_weight` and self-loops to a batch, for `GCNConv(normalize=False)`.

    The loop of a node stands behind the edges into it, and counts among the edges of
    its hop: `col` still never decreases, and `trim_to_layer` keeps the loops of exactly
    the nodes that are still computed.

    Args:
        adj: the rows of the whole graph.
        scheme: of `Subgraph.gcn_weight`.
        names: the edge-level attributes of the data; loops have zeros for them.
    """

    def __init__(self, adj: CompactAdj, scheme: str, names: list[str]) -> None:
        self.adj, self.scheme, self.names = adj, scheme, names

    def __call__(self, data: Any) -> Any:
        """`data`, changed; loops have the edge id -1."""
        index = data.edge_index
        found = Subgraph(data.n_id, index[0], index[1], data.e_id)
        weight = found.gcn_weight(self.adj, self.scheme)
        loop = torch.arange(data.n_id.numel(), device=index.device)
        place = _places(index[1], loop)
        for name in self.present(data):
            value = data[name]
            data[name] = _merged(value, value.new_zeros(loop.numel()), place)
        data.e_id = _merged(data.e_id, torch.full_like(data.n_id, -1), place)
        row, col = (_merged(ends, loop, place) for ends in index)
        data.edge_index = torch.stack([row, col])
        data.edge_weight = _merged(*weight, place)
        if "num_sampled_edges" in data:
            counts = [*data.num_sampled_edges]
            for hop in range(len(counts)):
                counts[hop] += data.num_sampled_nodes[hop]
            if counts:  # nodes that were not expanded go with the last hop
                counts[-1] += data.num_sampled_nodes[-1]
            data.num_sampled_edges = counts
        return data

    def present(self, data: Any) -> list[str]:
        """Which of the attributes the edges of this batch have, too."""
        count = data.edge_index.shape[1]
        return [name for name in self.names if _is_column(data.get(name), count)]


def edge_columns(data: Any) -> list[str]:
    """The edge-level attributes of the data that are tensors, beside its edges."""
    count = data.num_edges
    names = [name for name in data.keys() if _is_column(data[name], count)]  # noqa: SIM118
    return [name for name in names if name != "edge_index" and data.is_edge_attr(name)]


def _is_column(value: Any, count: int) -> bool:
    """Whether `value` is a plain tensor with one row per edge."""
    if not isinstance(value, Tensor) or value.is_nested or value.is_quantized:
        return False
    dense = value.layout is torch.strided and value.dim() > 0
    return dense and value.shape[0] == count


def _places(col: Tensor, loop: Tensor) -> Tensor:
    """Where the edges [e], sorted by `col`, and the loops [n] go among each other."""
    edge = torch.arange(col.numel(), device=col.device)
    return torch.cat([edge + col, torch.searchsorted(col, loop, right=True) + loop])


def _merged(edge: Tensor, loop: Tensor, place: Tensor) -> Tensor:
    """The values of edges and of loops, every one in its place."""
    place = place.to(edge.device)
    loop = loop.to(edge.device).view(-1, *[1] * (edge.dim() - 1))
    both = torch.cat([edge, loop.expand(-1, *edge.shape[1:])])
    return torch.empty_like(both).index_copy_(0, place, both)
