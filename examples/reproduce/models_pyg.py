"""The models, made of PyG's own layers; input dropout is done by `Features`."""

from typing import Any

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
from examples.reproduce.sparse import Matrix, Product, csr, dropout


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
    """As its authors have it, who drop entries of what is summed up once more."""

    def __init__(self, inputs: int, outputs: int, method: Method) -> None:
        super().__init__()
        heads = int(method.options["heads"])
        drop = method.dropout
        self.first = GATConv(inputs, method.hidden // heads, heads, dropout=drop)
        last = {"heads": method.options.get("out_heads", 1), "concat": False}
        self.last = GATConv(method.hidden, outputs, dropout=drop, **last)
        self.dropout = drop
        if method.options.get("drop_messages"):
            for conv in (self.first, self.last):
                conv.register_propagate_forward_pre_hook(self._drop)

    def _drop(self, conv: GATConv, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        *rest, given = inputs
        source, target = given["x"]
        source = F.dropout(source, self.dropout, self.training)
        return *rest, {**given, "x": (source, target)}

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor | None) -> Tensor:
        h = F.elu(self.first(x, edge_index))
        h = F.dropout(h, self.dropout, self.training)
        return self.last(h, edge_index)


class DeepConv(GCN2Conv):
    """GCN2Conv whose products with the graph have quick gradients."""

    transpose: Tensor

    def reset_parameters(self) -> None:
        """As GCNII's authors start; PyG from weights √3 times as large."""
        super().reset_parameters()
        bound = self.channels**-0.5
        nn.init.uniform_(self.weight1, -bound, bound)

    def message_and_aggregate(self, adj_t: Tensor, x: Tensor) -> Tensor:
        return Product.apply(adj_t, self.transpose, x)


class GCNII(nn.Module):
    """Its many layers do not normalise, each anew: as in PyG's example, it is done."""

    def __init__(self, inputs: int, outputs: int, method: Method) -> None:
        super().__init__()
        alpha, theta = method.options["alpha"], method.options["theta"]
        self.first = nn.Linear(inputs, method.hidden)
        self.convs = nn.ModuleList(
            DeepConv(method.hidden, alpha, theta, layer, normalize=False)
            for layer in range(1, method.layers + 1)
        )
        self.last = nn.Linear(method.hidden, outputs)
        self.dropout = method.dropout

    def forward(
        self, x: Tensor, edge_index: Tensor | Matrix, weight: Tensor | None
    ) -> Tensor:
        if isinstance(edge_index, Tensor):
            edge_index = Matrix.of(edge_index, weight, x.shape[0])
        h = start = self.first(x).relu()
        for conv in self.convs:
            h = dropout(h, self.dropout, self.training)
            conv.transpose = edge_index.backward
            h = conv(h, start, edge_index.forward).relu()
        return self.last(dropout(h, self.dropout, self.training))


class Mix(MixHopConv):
    """MixHopConv with as many units per power as its authors give it.

    It takes the weights of edges as they are, and projects before it propagates,
    Aᵖ (X W) and not (Aᵖ X) W, as rows of words are sparse and units are few.
    """

    def __init__(self, inputs: int, units: list[int]) -> None:
        super().__init__(inputs, 1, list(range(len(units))), bias=False)
        self.lins = nn.ModuleList(
            nn.Linear(inputs, own, bias=False) if own else nn.Identity()
            for own in units
        )
        self.units = units
        for kernel in self.parameters():
            nn.init.xavier_uniform_(kernel)

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor | None) -> Tensor:
        done: list[Tensor] = []  # of this power and higher ones, propagated so far
        for power in reversed(self.powers):
            if self.units[power]:
                done = [self.lins[power](x), *done]
            if power:
                h = torch.cat(done, dim=1)
                h = self.propagate(edge_index, x=h, edge_weight=weight)
                done = list(h.split([part.shape[1] for part in done], dim=1))
        return torch.cat(done, dim=1)


class MixHop(nn.Module):
    """As its authors have it, whose normalisation has no memory of batches."""

    def __init__(self, inputs: int, outputs: int, method: Method) -> None:
        super().__init__()
        first, last = method.options["units"]
        self.first, self.last = Mix(inputs, first), Mix(sum(first), last)
        self.norm = nn.BatchNorm1d(sum(first), eps=1e-3, track_running_stats=False)
        self.norm.weight.requires_grad_(False)
        self.mix = nn.Parameter(torch.zeros(sum(last) // outputs))
        self.dropout, self.decay = (
            method.options["hidden_dropout"],
            method.options["l2"],
        )

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor | None) -> Tensor:
        h = self.norm(self.first(unit_rows(x), edge_index, weight)).relu()
        h = F.dropout(h, self.dropout, self.training)
        parts = self.last(h, edge_index, weight).unflatten(1, (self.mix.numel(), -1))
        return (parts * self.mix.softmax(0)[:, None]).sum(1)

    def penalty(self) -> Tensor:
        """L2 and group lasso, by columns, of all kernels, with the same factor."""
        kernels = [*self.first.parameters(), *self.last.parameters()]
        terms = [w.square().sum() + w.norm(dim=1).sum() for w in kernels]
        return self.decay * torch.stack(terms).sum() + 1e-3 * self.mix.square().mean()


def unit_rows(x: Tensor) -> Tensor:
    """CSR rows of length one, or zero."""
    pointer, value = x.crow_indices(), x.values()
    row = torch.arange(x.shape[0]).repeat_interleave(pointer.diff())
    square = torch.zeros(x.shape[0]).index_add_(0, row, value.square())
    value = value * square.clamp(min=1e-12).rsqrt()[row]
    return torch.sparse_csr_tensor(
        pointer, x.col_indices(), value, x.shape, check_invariants=False
    )


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
    return csr(edge_index.flip(0), weight, num_nodes)
