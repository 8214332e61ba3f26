"""PyG in `gttf bench step`: a training step of each model, fused and as it was."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import (
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GraphSAGE,
    HeteroConv,
    SAGEConv,
)
from torch_geometric.utils import to_torch_csr_tensor, trim_to_layer

from gttf_pyg._bench_modes import LABEL, NO_BACKEND, backend, data_of
from gttf_pyg.fused import fused
from gttf_pyg.inference import inference
from gttf_sampler.bench.graphs import SEED_TYPE, Typed
from gttf_sampler.bench.hosts import Stepper, StepSetting
from gttf_sampler.bench.machine import Missing
from gttf_sampler.bench.measure import CPU

HEADS = 4
OWN = ", PyG's own layers"
OTHER_DEGREES = "GCNConv would divide by degrees after trimming: other outputs"


def _mlp(size: int, out: int, hidden: int) -> nn.Module:
    return nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, out))


def _attention(kind: Any) -> Callable[[int, int, int], nn.Module]:
    """Several heads of a hidden layer, and one of the last."""

    def make(size: int, out: int, hidden: int) -> nn.Module:
        heads = HEADS if out == hidden else 1
        layer: nn.Module = kind(size, out // heads, heads=heads)
        return layer

    return make


LAYERS: dict[str, Callable[[int, int, int], nn.Module]] = {
    "sage": lambda size, out, hidden: SAGEConv(size, out),
    "gcn": lambda size, out, hidden: GCNConv(size, out),
    "gin": lambda size, out, hidden: GINConv(_mlp(size, out, hidden)),
    "max": lambda size, out, hidden: SAGEConv(size, out, aggr="max"),
    "gat": _attention(GATConv),
    "gatv2": _attention(GATv2Conv),
}


class Model(nn.Module):
    """Two layers, trimmed by PyG if they are given the numbers of each hop."""

    def __init__(self, setting: StepSetting) -> None:
        super().__init__()
        size, hidden, classes = setting.sizes
        make, adj = LAYERS[setting.layer], setting.batches.adj
        self.convs = nn.ModuleList()
        for ends in ((size, hidden), (hidden, classes)):
            if isinstance(adj, Typed):
                layers = {kind: make(*ends, hidden) for kind in adj.edges}
                self.convs.append(HeteroConv(layers))
            else:
                self.convs.append(make(*ends, hidden))

    def forward(self, x: Any, edge_index: Any, hops: Any = None) -> Any:
        """Logits of all nodes that were computed, seeds first."""
        for depth, conv in enumerate(self.convs):
            if hops is not None:
                x, edge_index, _ = trim_to_layer(depth, *hops, x, edge_index)
            x = conv(x, edge_index)
            if depth == 0 and isinstance(x, dict):
                x = {kind: rows.relu() for kind, rows in x.items()}
            elif depth == 0:
                x = x.relu()
        return x


def steppers(setting: StepSetting, missing: Missing) -> dict[str, Stepper]:
    """A model on our loader, fused and not, and on PyG's if it can run."""
    if setting.layer == "inference":
        return _inferences(setting, missing)
    torch.manual_seed(0)
    typed = isinstance(setting.batches.adj, Typed)
    model = Model(setting).to(setting.batches.device)
    row = partial(_stepper, model, typed)
    found: dict[str, Stepper] = {}
    for name, loader in setting.loaders.items():
        if name.startswith("gttf"):
            if not found:
                found["gttf_pyg.fused"] = _fused(row(loader, like=name + OWN))
            found[name + OWN] = row(loader)
        else:
            found[name] = row(loader, tuned=setting.batches.device == CPU)
            trimmed = f"{name}, trim_to_layer"
            if setting.layer == "gcn":
                missing.add(f"GCN, {trimmed}", OTHER_DEGREES)
            else:
                found[trimmed] = row(loader, trimmed=True, like=name)
    return found


def _stepper(
    model: nn.Module, typed: bool, loader: Any, trimmed: bool = False, **more: Any
) -> Stepper:
    """Steps of a copy of a model."""
    model = deepcopy(model)

    def seeds(batch: Any) -> Any:
        return batch[SEED_TYPE] if typed else batch

    def logits(batch: Any) -> Tensor:
        end, size = "_dict" if typed else "", seeds(batch).batch_size
        given = [getattr(batch, name + end) for name in ("x", "edge_index")]
        if trimmed:
            names = "num_sampled_nodes", "num_sampled_edges"
            given.append(tuple(getattr(batch, name + end) for name in names))
        out = model(*given)
        rows: Tensor = out[SEED_TYPE] if typed else out
        return rows[:size]

    def labels(batch: Any) -> Tensor:
        target: Tensor = seeds(batch).y[: seeds(batch).batch_size]
        return target

    return Stepper(loader, logits, labels, model, **more)


@torch.no_grad()
def _fused(row: Stepper) -> Stepper:
    """With a model that has seen a batch, so that it trims the next one."""
    fused(row.model)
    row.logits(next(iter(row.loader)))
    return row


@torch.no_grad()
def _inferences(setting: StepSetting, missing: Missing) -> dict[str, Stepper]:
    """GraphSAGE for all nodes: ours, PyG's batches of all neighbours, a full batch."""
    torch.manual_seed(0)
    size, hidden, classes = setting.sizes
    model = GraphSAGE(size, hidden, num_layers=2, out_channels=classes).eval()
    data = data_of(setting.batches)
    nodes = data.num_nodes
    adj = to_torch_csr_tensor(data.edge_index.flip(0), size=(nodes, nodes))
    full = f"{LABEL} GraphSAGE, full batch, torch CSR"
    row = partial(Stepper, [None], labels=None, model=model)
    found = {
        "gttf_pyg.inference": row(lambda _: inference(model, data), like=full),
        full: row(torch.no_grad()(lambda _: model(data.x, adj))),
    }
    name = f"{LABEL} GraphSAGE.inference"
    if backend() is None:
        missing.add(name, NO_BACKEND)
        return found
    batch = setting.batches.seeds.shape[1]
    loader = NeighborLoader(data, [-1], input_nodes=None, batch_size=batch)
    found[f"{name} ({backend()})"] = row(
        lambda _: model.inference(loader), like=full, rounds=1
    )
    return found
