"""The models, made of DGL's own layers; input dropout is done by `Features`.

A model takes one graph or block per layer, or one graph that all layers share. What it
needs to be unbiased is in there: weights `norm` of the edges, or a factor `scale` of
the nodes.
"""

from collections.abc import Sequence

import dgl
import torch
from dgl.nn.pytorch import GATConv, GCN2Conv, GraphConv, SAGEConv, SGConv
from torch import Tensor, nn
from torch.nn import functional as F

from examples.reproduce.config import Method


class GCN(nn.Module):
    def __init__(self, inputs: int, outputs: int, method: Method) -> None:
        super().__init__()
        own = {"norm": "none", "allow_zero_in_degree": True}
        self.first = GraphConv(inputs, method.hidden, **own)
        self.last = GraphConv(method.hidden, outputs, **own)
        self.dropout = method.dropout

    def forward(self, graphs: Sequence[dgl.DGLGraph], x: Tensor) -> Tensor:
        first, last = (g.edata["norm"] for g in graphs)
        x = x.to_dense() if graphs[0].is_block else x
        h = self.first(graphs[0], x, edge_weight=first).relu()
        h = F.dropout(h, self.dropout, self.training)
        return self.last(graphs[1], h, edge_weight=last)


class MessageDropout(nn.Dropout):
    """Drops attention, as GATConv asks, and entries of what is summed up by it.

    GATConv has no place for the second one of GAT's authors; here its features lie in
    the graph already, and its scores are made.
    """

    graph: dgl.DGLGraph

    def forward(self, attention: Tensor) -> Tensor:
        self.graph.srcdata["ft"] = super().forward(self.graph.srcdata["ft"])
        return super().forward(attention)


class GAT(nn.Module):
    def __init__(self, inputs: int, outputs: int, method: Method) -> None:
        super().__init__()
        heads, drop = int(method.options["heads"]), method.dropout
        own = {"attn_drop": drop, "allow_zero_in_degree": True}
        self.first = GATConv(inputs, method.hidden // heads, heads, **own)
        last = method.options.get("out_heads", 1)
        self.last = GATConv(method.hidden, outputs, last, feat_drop=drop, **own)
        if method.options.get("drop_messages"):
            for conv in (self.first, self.last):
                conv.attn_drop = MessageDropout(drop)

    def forward(self, graphs: Sequence[dgl.DGLGraph], x: Tensor) -> Tensor:
        x = x.to_dense() if graphs[0].is_block else x
        for conv, graph in zip((self.first, self.last), graphs, strict=True):
            conv.attn_drop.graph = graph
        h = F.elu(self.first(graphs[0], x).flatten(1))
        return self.last(graphs[1], h).mean(1)


class GCNII(nn.Module):
    """Without a bias, so that rows may be scaled: relu keeps positive factors."""

    def __init__(self, inputs: int, outputs: int, method: Method) -> None:
        super().__init__()
        alpha, theta = method.options["alpha"], method.options["theta"]
        self.first = nn.Linear(inputs, method.hidden)
        self.convs = nn.ModuleList(
            GCN2Conv(method.hidden, layer, alpha, theta, bias=False)
            for layer in range(1, method.layers + 1)
        )
        bound = method.hidden**-0.5  # DGL starts from N(0, 1), which never learns
        for conv in self.convs:
            nn.init.uniform_(conv.weight1, -bound, bound)
        self.last = nn.Linear(method.hidden, outputs)
        self.dropout = method.dropout

    def forward(self, graph: dgl.DGLGraph, x: Tensor) -> Tensor:
        scale = graph.ndata["scale"]
        h = start = self.first(x).relu() * scale
        for conv in self.convs:
            h = F.dropout(h, self.dropout, self.training)
            h = conv(graph, h, start).relu()
        return self.last(F.dropout(h / scale, self.dropout, self.training))


class SGC(nn.Module):
    """Without a bias, so that its rows may be scaled before and after."""

    def __init__(self, inputs: int, outputs: int, method: Method) -> None:
        super().__init__()
        hops, cached = int(method.options["hops"]), bool(method.options.get("cached"))
        self.conv = SGConv(inputs, outputs, k=hops, cached=cached, bias=False)

    def forward(self, graph: dgl.DGLGraph, x: Tensor) -> Tensor:
        scale = graph.ndata["scale"]
        return self.conv(graph, x.to_dense() * scale) / scale


class SAGE(nn.Module):
    def __init__(self, inputs: int, outputs: int, method: Method) -> None:
        super().__init__()
        self.first = SAGEConv(inputs, method.hidden, "mean")
        self.last = SAGEConv(method.hidden, outputs, "mean")
        self.dropout = method.dropout

    def forward(self, graphs: Sequence[dgl.DGLGraph], x: Tensor) -> Tensor:
        # DGL projects wide rows first, which need not be dense for that
        sliced = graphs[0].is_block or x.shape[1] <= self.first._out_feats
        h = self.first(graphs[0], x.to_dense() if sliced else x).relu()
        h = F.dropout(h, self.dropout, self.training)
        return self.last(graphs[1], h)


MODELS = {"gcn": GCN, "gat": GAT, "gcnii": GCNII, "sgc": SGC, "sage": SAGE}
SHARED = ("gcnii", "sgc")  # their layers do not take blocks: all share one graph


def set_norm(graph: dgl.DGLGraph) -> None:
    """The weights of `GraphConv(norm="both")`, from the degrees of `graph` itself."""
    source, target = graph.edges()
    out, into = (
        d.clamp(min=1).float() for d in (graph.out_degrees(), graph.in_degrees())
    )
    graph.edata["norm"] = (out[source] * into[target]).rsqrt()


def closed(graph: dgl.DGLGraph, degree: Tensor | None) -> dgl.DGLGraph:
    """`graph` with a loop at nodes that have no edge, and with `scale` of its nodes.

    DGL's layers divide by √(sᵤ sᵥ), s being degrees in the sample, where √(δᵤ δᵥ) and
    a mean over the sample were meant. With rows multiplied by √(s / δ) before and
    divided by it afterwards, that is what they compute.
    """
    bare = (graph.in_degrees() == 0).nonzero().view(-1)
    graph = dgl.add_edges(graph, bare, bare)
    sampled = graph.in_degrees().float()
    scale = torch.ones_like(sampled) if degree is None else (sampled / degree).sqrt()
    graph.ndata["scale"] = scale[:, None]
    return graph
