"""A case for every layer of PyG, and for every way it can be made to aggregate."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric import nn
from torch_geometric.data import Data
from torch_geometric.nn.models import PMLP

from gttf_pyg import GTTFLoader, check_unbiased, unbiased

NODES, RELATIONS = 60, 3
KIND = ("a", "to", "a")


class Case(NamedTuple):
    """One way to use a layer.

    Attributes:
        layer: its class.
        make: makes one.
        status: what `unbiased` makes of it: exact, ratio, warned or refused.
        call: of the layer and a batch, its output; by default of x and the edges.
        options: the arguments that make it this case, for people.
    """

    layer: str
    make: Callable[[], Any]
    status: str = "exact"
    call: Callable[[Any, Any], Any] | None = None
    options: str = ""

    @property
    def name(self) -> str:
        """The layer's name on the page."""
        return f"{self.layer}({self.options})" if self.options else self.layer


def graph(directed: bool = True) -> Data:
    """A graph with a hub, multi-edges, loops, one twice, and lone nodes."""
    generator = torch.Generator().manual_seed(0)
    some = torch.randint(0, NODES - 3, (2, 300), generator=generator)
    hub = torch.stack([torch.arange(1, 50), torch.zeros(49, dtype=torch.long)])
    loops = torch.tensor([[3, 5, 5, 0], [3, 5, 5, 0]])
    edges = torch.cat([some, hub, hub[:, :9], loops], dim=1)
    if not directed:
        edges = torch.cat([edges, edges.flip(0)], dim=1)
    edges = edges[:, torch.randperm(edges.shape[1], generator=generator)]
    count = edges.shape[1]
    return Data(
        x=torch.randn(NODES, 8, generator=generator),
        pos=torch.randn(NODES, 3, generator=generator),
        edge_index=edges,
        edge_weight=torch.rand(count, generator=generator) + 0.1,
        edge_attr=torch.randn(count, 8, generator=generator),
        edge_type=torch.randint(0, RELATIONS, (count,), generator=generator),
    )


def mlp(size: int = 16) -> Any:
    return torch.nn.Linear(size, 4)


def _twice(layer, b):
    return layer(b.x, b.x, b.edge_index)


def _typed(layer, b):
    return layer(b.x, b.edge_index, b.edge_type)


def _attributed(layer, b):
    return layer(b.x, b.edge_index, b.edge_attr)


def _pseudo(layer, b):
    return layer(b.x, b.edge_index, b.edge_attr[:, :2].sigmoid())


def _placed(layer, b):
    return layer(b.x, b.pos, b.edge_index)


def _normals(layer, b):
    return layer(b.x, b.pos, b.pos, b.edge_index)


def _several(layer, b):
    return layer({"a": b.x}, {KIND: b.edge_index})["a"]


def _signed(layer, b):
    return layer(b.x, b.edge_index, b.edge_index)


def _history(layer, b):
    return layer(torch.stack([b.x, b.x.relu()], dim=1), b.edge_index)


def _heat(layer, b):
    node_type = torch.zeros(b.num_nodes, dtype=torch.long)
    return layer(b.x, b.edge_index, node_type, b.edge_type, b.edge_attr)


def _labels(layer, b):
    return layer(b.x.softmax(-1), b.edge_index)


def _weighted(layer, b):
    return layer(b.x, b.edge_index, b.edge_weight)


def _pna(aggregators: list[str]) -> Any:
    scalers = ["identity", "amplification", "attenuation", "linear"]
    return nn.PNAConv(8, 4, aggregators, scalers, deg=torch.tensor([3, 9, 20, 28]))


METADATA = (["a"], [KIND])
CASES = [
    Case("GCNConv", lambda: nn.GCNConv(8, 4)),
    Case(
        "GCNConv",
        lambda: nn.GCNConv(8, 4, normalize=False),
        call=_weighted,
        options="normalize=False",
    ),
    Case("GCN2Conv", lambda: nn.GCN2Conv(8, 0.3), call=_twice),
    Case("SGConv", lambda: nn.SGConv(8, 4)),
    Case("SSGConv", lambda: nn.SSGConv(8, 4, alpha=0.2)),
    Case("TAGConv", lambda: nn.TAGConv(8, 4, K=1)),
    Case("APPNP", lambda: nn.APPNP(1, 0.1)),
    Case("ARMAConv", lambda: nn.ARMAConv(8, 4)),
    Case("MixHopConv", lambda: nn.MixHopConv(8, 4, powers=[0, 1])),
    Case("LGConv", lambda: nn.LGConv()),
    Case("DNAConv", lambda: nn.DNAConv(8), call=_history),
    Case("FAConv", lambda: nn.FAConv(8, dropout=0.0), call=_twice),
    Case(
        "LabelPropagation",
        lambda: nn.LabelPropagation(1, 0.9),
        call=_labels,
    ),
    Case("ChebConv", lambda: nn.ChebConv(8, 4, K=2)),
    Case("ClusterGCNConv", lambda: nn.ClusterGCNConv(8, 4)),
    Case("SAGEConv", lambda: nn.SAGEConv(8, 4)),
    Case(
        "SAGEConv",
        lambda: nn.SAGEConv(8, 4, ["mean", "sum"]),
        options='["mean", "sum"]',
    ),
    Case("SAGEConv", lambda: nn.SAGEConv(8, 4, "max"), "warned", options='"max"'),
    Case("GraphConv", lambda: nn.GraphConv(8, 4)),
    Case("GatedGraphConv", lambda: nn.GatedGraphConv(8, 1)),
    Case("ResGatedGraphConv", lambda: nn.ResGatedGraphConv(8, 4)),
    Case("GINConv", lambda: nn.GINConv(mlp(8))),
    Case("GINEConv", lambda: nn.GINEConv(mlp(8)), call=_attributed),
    Case("NNConv", lambda: nn.NNConv(8, 4, torch.nn.Linear(8, 32)), call=_attributed),
    Case("CGConv", lambda: nn.CGConv(8, 8), call=_attributed),
    Case("LEConv", lambda: nn.LEConv(8, 4)),
    Case("EdgeConv", lambda: nn.EdgeConv(mlp(), "add"), options='"add"'),
    Case("EdgeConv", lambda: nn.EdgeConv(mlp(), "max"), "warned", options='"max"'),
    Case("GMMConv", lambda: nn.GMMConv(8, 4, 2, 2), call=_pseudo),
    Case(
        "PointGNNConv",
        lambda: nn.PointGNNConv(
            torch.nn.Linear(8, 3), torch.nn.Linear(11, 8), torch.nn.Linear(8, 8)
        ),
        "warned",
        call=_placed,
    ),
    Case("GeneralConv", lambda: nn.GeneralConv(8, 4)),
    Case(
        "GeneralConv",
        lambda: nn.GeneralConv(8, 4, attention=True),
        "ratio",
        options="attention=True",
    ),
    Case(
        "SimpleConv",
        lambda: nn.SimpleConv("mean", combine_root="self_loop"),
        options='"mean", combine_root="self_loop"',
    ),
    Case(
        "SimpleConv",
        lambda: nn.SimpleConv("sum", combine_root="self_loop"),
        options='"sum", combine_root="self_loop"',
    ),
    Case("PMLP", lambda: PMLP(8, 8, 4, 2, norm=False)),
    Case("FeaStConv", lambda: nn.FeaStConv(8, 4)),
    Case(
        "PointNetConv",
        lambda: nn.PointNetConv(torch.nn.Linear(11, 4), aggr="mean"),
        call=_placed,
        options='aggr="mean"',
    ),
    Case(
        "PointNetConv",
        lambda: nn.PointNetConv(torch.nn.Linear(11, 4)),
        "warned",
        call=_placed,
    ),
    Case(
        "PPFConv",
        lambda: nn.PPFConv(torch.nn.Linear(12, 4), aggr="add"),
        call=_normals,
        options='aggr="add"',
    ),
    Case("EGConv", lambda: nn.EGConv(8, 8)),
    Case(
        "EGConv",
        lambda: nn.EGConv(8, 8, aggregators=["mean", "symnorm", "sum"]),
        options='["mean", "symnorm", "sum"]',
    ),
    Case("EGConv", lambda: nn.EGConv(8, 8, ["max"]), "warned", options='["max"]'),
    Case("PNAConv", lambda: _pna(["mean", "sum"]), options='["mean", "sum"]'),
    Case("PNAConv", lambda: _pna(["mean", "max", "std"]), "warned", options='"max"'),
    Case("MFConv", lambda: nn.MFConv(8, 4)),
    Case("RGCNConv", lambda: nn.RGCNConv(8, 4, RELATIONS), call=_typed),
    Case(
        "RGCNConv",
        lambda: nn.RGCNConv(8, 4, RELATIONS, aggr="add"),
        call=_typed,
        options='aggr="add"',
    ),
    Case("FastRGCNConv", lambda: nn.FastRGCNConv(8, 4, RELATIONS), call=_typed),
    Case(
        "FastRGCNConv",
        lambda: nn.FastRGCNConv(8, 4, RELATIONS, aggr="add"),
        call=_typed,
        options='aggr="add"',
    ),
    Case("FiLMConv", lambda: nn.FiLMConv(8, 4, RELATIONS), call=_typed),
    Case("GATConv", lambda: nn.GATConv(8, 4), "ratio"),
    Case("GATv2Conv", lambda: nn.GATv2Conv(8, 4), "ratio"),
    Case("SuperGATConv", lambda: nn.SuperGATConv(8, 4), "ratio"),
    Case("AGNNConv", lambda: nn.AGNNConv(), "ratio"),
    Case(
        "PointTransformerConv",
        lambda: nn.PointTransformerConv(8, 4),
        "ratio",
        call=_placed,
    ),
    Case("TransformerConv", lambda: nn.TransformerConv(8, 4), "ratio"),
    Case("HEATConv", lambda: nn.HEATConv(8, 4, 1, RELATIONS, 4, 8, 4), "ratio", _heat),
    Case("HGTConv", lambda: nn.HGTConv(8, 8, METADATA), "ratio", _several),
    Case("RGATConv", lambda: nn.RGATConv(8, 4, RELATIONS), "ratio", _typed),
    Case(
        "RGATConv",
        lambda: nn.RGATConv(8, 4, RELATIONS, mod="f-scaled"),
        "warned",
        _typed,
        'mod="f-scaled"',
    ),
    Case("GENConv", lambda: nn.GENConv(8, 4), "ratio"),
    Case("HANConv", lambda: nn.HANConv(8, 8, METADATA), "ratio", _several),
    Case("WLConvContinuous", lambda: nn.WLConvContinuous()),
    Case("SignedConv", lambda: nn.SignedConv(8, 4, first_aggr=True), call=_signed),
    Case(
        "HeteroConv",
        lambda: nn.HeteroConv({KIND: nn.GCNConv(8, 4)}),
        call=_several,
    ),
    Case("AntiSymmetricConv", lambda: nn.AntiSymmetricConv(8)),
    Case("PDNConv", lambda: nn.PDNConv(8, 4, 8, 8), "refused", _attributed),
    Case("DirGNNConv", lambda: nn.DirGNNConv(nn.SAGEConv(8, 4)), "refused"),
    Case("GPSConv", lambda: nn.GPSConv(8, nn.SAGEConv(8, 8)), "warned"),
]
# Layers that this machine cannot make, for lack of what they need; and PyG's own base.
NOT_RUN = {
    "MessagePassing": "the base of all",
    "SplineConv": "needs torch-spline-conv",
    "GravNetConv": "needs torch-cluster",
    "DynamicEdgeConv": "needs torch-cluster",
    "XConv": "needs torch-cluster",
    "PANConv": "needs torch-sparse",
    "WLConv": "takes colours, and has no messages",
    "MeshCNNConv": "needs a mesh",
    "FusedGATConv": "needs dgNN",
    "CuGraphSAGEConv": "needs cuGraph",
    "CuGraphGATConv": "needs cuGraph",
    "CuGraphRGCNConv": "needs cuGraph",
    "HypergraphConv": "takes hyperedges, which no loader samples",
    "GATEConv": "is within AttentiveFP",
}


def forward(layer: Any, batch: Any) -> Tensor:
    """A layer on x and the edges."""
    return layer(batch.x, batch.edge_index)


def measured(case: Case, cured: bool, rounds: int, directed: bool = True, **how: Any):
    """The report on a case, as it is or unbiased."""
    torch.manual_seed(0)
    layer, data = case.make(), graph(directed)
    if cured:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            unbiased(layer, scale="sum")
    loader = GTTFLoader(data, [3], seed=1, **how)
    return check_unbiased(
        layer, loader, forward=case.call or forward, seeds=NODES, rounds=rounds
    )
