"""The models, made of PyG's own layers; input dropout is done by `Features`."""

import warnings

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import (
    GATConv,
    GCN2Conv,
    GCNConv,
    MixHopConv,
    SAGEConv,
    SGConv,
)
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from examples.reproduce.config import Method


class GCN(nn.Module):
    def __init__(self, inputs: int, outputs: int, method: Method) -> None:
        super().__init__()
        self.first = GCNConv(inputs, method.hidden)
        self.last = GCNConv(method.hidden, outputs)
        self.dropout = method.dropout

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor | None) -> Tensor:
        h = self.first(x, edge_index, weight).relu()
        h = F.dropout(h, self.dropout, self.training)
        return self.last(h, edge_index, weight)


class GAT(nn.Module):
    def __init__(self, inputs: int, outputs: int, method: Method) -> None:
        super().__init__()
        heads = int(method.options["heads"])
        drop = method.dropout
        self.first = GATConv(inputs, method.hidden // heads, heads, dropout=drop)
        self.last = GATConv(method.hidden, outputs, dropout=drop)
        self.dropout = drop

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor | None) -> Tensor:
        h = F.elu(self.first(x, edge_index))
        h = F.dropout(h, self.dropout, self.training)
        return self.last(h, edge_index)


class GCNII(nn.Module):
    """Its many layers do not normalise, each anew: as in PyG's example, it is done."""

    def __init__(self, inputs: int, outputs: int, method: Method) -> None:
        super().__init__()
        alpha, theta = method.options["alpha"], method.options["theta"]
        self.first = nn.Linear(inputs, method.hidden)
        self.convs = nn.ModuleList(
            GCN2Conv(method.hidden, alpha, theta, layer, normalize=False)
            for layer in range(1, method.layers + 1)
        )
        self.last = nn.Linear(method.hidden, outputs)
        self.dropout = method.dropout

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor | None) -> Tensor:
        h = start = self.first(x).relu()
        for conv in self.convs:
            h = F.dropout(h, self.dropout, self.training)
            h = conv(h, start, edge_index, weight).relu()
        return self.last(F.dropout(h, self.dropout, self.training))


class MixHop(nn.Module):
    def __init__(self, inputs: int, outputs: int, method: Method) -> None:
        super().__init__()
        powers = list(range(int(method.options["hops"]) + 1))
        wide = len(powers) * method.hidden
        sizes = [inputs] + [wide] * method.layers
        self.mixes = nn.ModuleList(
            MixHopConv(size, method.hidden, powers) for size in sizes[:-1]
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(wide) for _ in self.mixes)
        self.last = nn.Linear(wide, outputs)
        self.dropout = method.dropout

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor | None) -> Tensor:
        h = x.to_dense()
        for mix, norm in zip(self.mixes, self.norms, strict=True):
            h = norm(mix(h, edge_index, weight))
            h = F.dropout(h, self.dropout, self.training)
        return self.last(h)


class SGC(nn.Module):
    def __init__(self, inputs: int, outputs: int, method: Method) -> None:
        super().__init__()
        hops, cached = int(method.options["hops"]), bool(method.options.get("cached"))
        self.conv = SGConv(inputs, outputs, K=hops, cached=cached)

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor | None) -> Tensor:
        return self.conv(x.to_dense(), edge_index, weight)


class SAGE(nn.Module):
    def __init__(self, inputs: int, outputs: int, method: Method) -> None:
        super().__init__()
        self.first = SAGEConv(inputs, method.hidden, project=False)
        self.last = SAGEConv(method.hidden, outputs)
        self.dropout = method.dropout

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor | None) -> Tensor:
        h = self.first(x.to_dense(), edge_index).relu()
        h = F.dropout(h, self.dropout, self.training)
        return self.last(h, edge_index)


MODELS = {
    model.__name__.lower(): model for model in (GCN, GAT, GCNII, MixHop, SGC, SAGE)
}


def full_matrix(edge_index: Tensor, num_nodes: int, normalized: bool) -> Tensor:
    """The graph as a sparse matrix, with which PyG's layers multiply; much faster."""
    weight = torch.ones(edge_index.shape[1])
    if normalized:
        edge_index, weight = gcn_norm(edge_index, weight, num_nodes)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR")
        size = (num_nodes, num_nodes)
        matrix = torch.sparse_coo_tensor(
            edge_index.flip(0), weight, size, check_invariants=False
        )
        return matrix.coalesce().to_sparse_csr()
