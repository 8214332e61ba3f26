"""The models, made of PyG's layers as its own examples make them."""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import APPNP, GCN2Conv, GCNConv, SGConv

HIDDEN, DROPOUT = 64, 0.5
DEEP = [10, 10, 5, 5]
# Neighbours per hop of a sample that layers share, and of one per layer.
FANOUTS = {
    "gcn": ([10, 10], [10, 10]),
    "sgc": ([10, 10], [10, 10]),
    "gcnii": ([10, 10], DEEP),
    "appnp": ([10, 10], DEEP),
}
TITLES = {"gcn": "GCN", "sgc": "SGC", "gcnii": "GCNII", "appnp": "APPNP"}


class GCN(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = GCNConv(inputs, HIDDEN)
        self.last = GCNConv(HIDDEN, outputs)

    def forward(self, x: Tensor, edges: Any) -> Tensor:
        h = self.first(x, edges).relu()
        return self.last(F.dropout(h, DROPOUT, self.training), edges)


class SGC(nn.Module):
    """Its linear map comes first: the same product, and no dense features."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.lin = nn.Linear(inputs, outputs)
        self.conv = SGConv(outputs, outputs, K=2)
        self.conv.lin = nn.Identity()

    def forward(self, x: Tensor, edges: Any) -> Tensor:
        return self.conv(self.lin(x), edges)


class GCNII(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, HIDDEN)
        self.convs = nn.ModuleList(
            GCN2Conv(HIDDEN, alpha=0.1, theta=0.5, layer=layer + 1)
            for layer in range(len(DEEP))
        )
        self.last = nn.Linear(HIDDEN, outputs)

    def forward(self, x: Tensor, edges: Any) -> Tensor:
        h = start = self.first(x).relu()
        for conv in self.convs:
            h = F.dropout(h, DROPOUT, self.training)
            h = conv(h, start, edges).relu()
        return self.last(F.dropout(h, DROPOUT, self.training))


class PPNP(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(inputs, HIDDEN), nn.Linear(HIDDEN, outputs)
        self.propagate = APPNP(K=len(DEEP), alpha=0.1)

    def forward(self, x: Tensor, edges: Any) -> Tensor:
        h = F.dropout(self.first(x).relu(), DROPOUT, self.training)
        return self.propagate(self.last(h), edges)


MODELS = {"gcn": GCN, "sgc": SGC, "gcnii": GCNII, "appnp": PPNP}
