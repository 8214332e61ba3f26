"""A case for every layer of DGL, and for every way it can be made to aggregate."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import dgl
import torch
from dgl import nn

from gttf_dgl import GTTFSampler, GTTFSubgraphSampler, check_unbiased, unbiased

NODES, RELATIONS = 60, 3


class Case(NamedTuple):
    """One way to use a layer.

    Attributes:
        layer: its class.
        make: makes one.
        status: what `unbiased` makes of it: exact, ratio or warned.
        call: of the layer, a graph and x, its output.
        options: the arguments that make it this case, for people.
        blocks: whether DGL computes it on blocks, or on graphs only.
    """

    layer: str
    make: Callable[[], Any]
    status: str = "exact"
    call: Callable[[Any, Any, Any], Any] | None = None
    options: str = ""
    blocks: bool = True

    @property
    def name(self) -> str:
        """The layer's name on the page."""
        return f"{self.layer}({self.options})" if self.options else self.layer


def graph(directed: bool = True) -> dgl.DGLGraph:
    """A graph with a hub, multi-edges and, at every node, a loop."""
    generator = torch.Generator().manual_seed(0)
    some = torch.randint(0, NODES - 3, (2, 300), generator=generator)
    hub = torch.stack([torch.arange(1, 50), torch.zeros(49, dtype=torch.long)])
    edges = torch.cat([some, hub, hub[:, :9]], dim=1)
    if not directed:
        edges = torch.cat([edges, edges.flip(0)], dim=1)
    row, col = torch.cat([edges, torch.arange(NODES).expand(2, -1)], dim=1)
    g = dgl.graph((row, col), num_nodes=NODES)
    count = g.num_edges()
    g.ndata["x"] = torch.randn(NODES, 8, generator=generator)
    g.edata["w"] = torch.rand(count, generator=generator) + 0.1
    g.edata["a"] = torch.randn(count, 8, generator=generator)
    g.edata["t"] = torch.randint(0, RELATIONS, (count,), generator=generator)
    return g


def _edges(layer, g, x):
    return layer(g, x, g.edata["a"])


def _typed(layer, g, x):
    return layer(g, x, g.edata["t"])


def _pseudo(layer, g, x):
    return layer(g, x, g.edata["a"][:, :2].sigmoid())


def _twice(layer, g, x):
    return layer(g, x, x)


def _largest(layer, g, x):
    return layer(g, x, [2.0])


def _first(layer, g, x):
    pair = (x, x[: g.num_dst_nodes()]) if g.is_block else x
    return layer(g, pair, g.edata["a"])[0]


def _placed(layer, g, x):
    return layer(g, x, x[:, :3])[0]


def _far(layer, g, x):
    return layer(g, x[:, :1].abs() + 1, g.edata["w"].view(-1, 1))


def _weights(layer, g, x):
    weight = layer(g, g.edata["w"])
    return nn.GraphConv(8, 8, "none", weight=False, bias=False)(
        g, x, edge_weight=weight
    )


def _kinds(layer, g, x):
    return layer(g, x, torch.zeros(len(x), dtype=torch.long), g.edata["t"])


def _pna(aggregators: list[str]) -> Any:
    scalers = ["identity", "amplification", "attenuation"]
    return nn.PNAConv(8, 4, aggregators, scalers, delta=1.5, residual=False)


ON_GRAPHS = {"blocks": False}
CASES = [
    Case("GraphConv", lambda: nn.GraphConv(8, 4)),
    Case("GraphConv", lambda: nn.GraphConv(8, 4, norm="left"), options='norm="left"'),
    Case("GraphConv", lambda: nn.GraphConv(8, 4, norm="none"), options='norm="none"'),
    Case("SAGEConv", lambda: nn.SAGEConv(8, 4, "mean"), options='"mean"'),
    Case("SAGEConv", lambda: nn.SAGEConv(8, 4, "gcn"), options='"gcn"'),
    Case("SAGEConv", lambda: nn.SAGEConv(8, 4, "pool"), "warned", options='"pool"'),
    Case("SGConv", lambda: nn.SGConv(8, 4), **ON_GRAPHS),
    Case("TAGConv", lambda: nn.TAGConv(8, 4, k=1), **ON_GRAPHS),
    Case("APPNPConv", lambda: nn.APPNPConv(1, 0.1), **ON_GRAPHS),
    Case("GCN2Conv", lambda: nn.GCN2Conv(8, 1), call=_twice, **ON_GRAPHS),
    Case("ChebConv", lambda: nn.ChebConv(8, 4, 2), call=_largest, **ON_GRAPHS),
    Case("GINConv", lambda: nn.GINConv(torch.nn.Linear(8, 4))),
    Case("GINConv", lambda: nn.GINConv(None, "max"), "warned", options='"max"'),
    Case("GINEConv", lambda: nn.GINEConv(torch.nn.Linear(8, 4)), call=_edges),
    Case(
        "NNConv",
        lambda: nn.NNConv(8, 4, torch.nn.Linear(8, 32), "sum"),
        call=_edges,
        options='"sum"',
    ),
    Case(
        "NNConv",
        lambda: nn.NNConv(8, 4, torch.nn.Linear(8, 32), "max"),
        "warned",
        _edges,
        '"max"',
    ),
    Case("GMMConv", lambda: nn.GMMConv(8, 4, 2, 2, "sum"), call=_pseudo),
    Case(
        "GMMConv",
        lambda: nn.GMMConv(8, 4, 2, 2, "mean"),
        call=_pseudo,
        options='"mean"',
    ),
    Case("RelGraphConv", lambda: nn.RelGraphConv(8, 4, RELATIONS), call=_typed),
    Case(
        "GatedGraphConv",
        lambda: nn.GatedGraphConv(8, 8, 1, RELATIONS),
        call=_typed,
        **ON_GRAPHS,
    ),
    Case(
        "AtomicConv",
        lambda: nn.AtomicConv(torch.full((2,), 2.0), torch.rand(2), torch.rand(2)),
        call=_far,
        **ON_GRAPHS,
    ),
    Case("CFConv", lambda: nn.CFConv(8, 8, 8, 4), call=_edges, **ON_GRAPHS),
    Case("EGNNConv", lambda: nn.EGNNConv(8, 8, 4), call=_placed, **ON_GRAPHS),
    Case("PNAConv", lambda: _pna(["mean", "sum"]), "warned", **ON_GRAPHS),
    Case("PNAConv", lambda: _pna(["max"]), "warned", options='["max"]', **ON_GRAPHS),
    Case("GATConv", lambda: nn.GATConv(8, 4, 2), "ratio"),
    Case("GATv2Conv", lambda: nn.GATv2Conv(8, 4, 2), "ratio"),
    Case("EGATConv", lambda: nn.EGATConv(8, 8, 4, 4, 2), "ratio", _first),
    Case("EdgeGATConv", lambda: nn.EdgeGATConv(8, 8, 4, 2), "ratio", _edges),
    Case("DotGatConv", lambda: nn.DotGatConv(8, 4, 2), "ratio"),
    Case("AGNNConv", lambda: nn.AGNNConv(), "ratio"),
    Case("HGTConv", lambda: nn.HGTConv(8, 4, 2, 1, RELATIONS), "ratio", _kinds),
    Case("HeteroGraphConv", lambda: nn.HeteroGraphConv({"_E": nn.GraphConv(8, 4)})),
    Case("EdgeWeightNorm", lambda: nn.EdgeWeightNorm(), "warned", _weights),
    Case("EdgeConv", lambda: nn.EdgeConv(8, 4), "warned"),
    Case(
        "DGNConv",
        lambda: nn.DGNConv(8, 4, ["mean"], ["identity"], 1.5),
        "warned",
        **ON_GRAPHS,
    ),
    Case("TWIRLSConv", lambda: nn.TWIRLSConv(8, 4, 8, 1), "warned", **ON_GRAPHS),
    Case(
        "TWIRLSUnfoldingAndAttention",
        lambda: nn.TWIRLSUnfoldingAndAttention(8, 1.0, 0.5, 1),
        "warned",
        **ON_GRAPHS,
    ),
    Case("DenseGraphConv", lambda: nn.DenseGraphConv(8, 4), "warned"),
    Case("DenseSAGEConv", lambda: nn.DenseSAGEConv(8, 4), "warned"),
    Case("DenseChebConv", lambda: nn.DenseChebConv(8, 4, 2), "warned"),
]
# Layers that this machine cannot make.
NOT_RUN = {
    "GroupRevRes": "frees the memory of its inputs",
    "CuGraphGATConv": "needs cuGraph",
    "CuGraphRelGraphConv": "needs cuGraph",
    "CuGraphSAGEConv": "needs cuGraph",
}


def called(case: Case) -> Callable[[Any, Any, Any], Any]:
    """Arguments of a layer: on a block, a sampled graph, or the whole graph."""

    def forward(layer: Any, batch: Any, x: Any) -> Any:
        g = batch[0] if isinstance(batch, list) else batch
        if case.layer == "HeteroGraphConv":
            return layer(g, {"_N": x})["_N"]
        return layer(g, x) if case.call is None else case.call(layer, g, x)

    return forward


def sampler(case: Case, fanout: int) -> Any:
    """Draws what the layer of a case is computed on."""
    kind = GTTFSampler if case.blocks else GTTFSubgraphSampler
    return kind([fanout], seed=1)


def measured(case: Case, cured: bool, rounds: int, directed: bool = True) -> Any:
    """The report on a case, as it is or unbiased."""
    torch.manual_seed(0)
    layer, g = case.make(), graph(directed)
    if cured:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            unbiased(layer, scale="sum")
    if hasattr(layer, "set_allow_zero_in_degree"):
        layer.set_allow_zero_in_degree(True)
    how = {"forward": called(case), "seeds": NODES, "rounds": rounds}
    return check_unbiased(layer, sampler(case, 3), g, g.ndata["x"], **how)
