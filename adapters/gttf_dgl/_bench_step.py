"""DGL in `gttf bench step`: a training step of each model, fused and as it was."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from dgl import function
from dgl.nn import GATConv, GATv2Conv, GINConv, GraphConv, HeteroGraphConv, SAGEConv
from torch import Tensor, nn

from gttf_dgl.fused import fused, fused_layers
from gttf_sampler.bench.graphs import SEED_TYPE, Typed
from gttf_sampler.bench.hosts import Stepper, StepSetting
from gttf_sampler.bench.machine import Missing

HEADS = 4
OWN = ", DGL's own layers"


class MaxConv(nn.Module):
    """The largest of the neighbours, as PyG's SAGEConv has it and DGL's has not."""

    def __init__(self, size: int, out: int) -> None:
        super().__init__()
        self.near, self.own = nn.Linear(size, out), nn.Linear(size, out, bias=False)

    def forward(self, block: Any, x: Tensor) -> Tensor:
        """The rows of the receivers."""
        with block.local_scope():
            block.srcdata["x"] = x
            block.update_all(function.copy_u("x", "m"), function.max("m", "largest"))
            found: Tensor = self.near(block.dstdata["largest"])
            own: Tensor = self.own(x[: block.num_dst_nodes()])
            return found + own


def _mlp(size: int, out: int, hidden: int) -> nn.Module:
    layers = nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, out)
    conv: nn.Module = GINConv(nn.Sequential(*layers), "sum")
    return conv


def _attention(kind: Any) -> Callable[[int, int, int], nn.Module]:
    """Several heads of a hidden layer, and one of the last."""

    def make(size: int, out: int, hidden: int) -> nn.Module:
        heads = HEADS if out == hidden else 1
        layer: nn.Module = kind(size, out // heads, heads, allow_zero_in_degree=True)
        return layer

    return make


LAYERS: dict[str, Callable[[int, int, int], nn.Module]] = {
    "sage": lambda size, out, hidden: SAGEConv(size, out, "mean"),
    "gcn": lambda size, out, hidden: GraphConv(size, out, allow_zero_in_degree=True),
    "gin": _mlp,
    "max": lambda size, out, hidden: MaxConv(size, out),
    "gat": _attention(GATConv),
    "gatv2": _attention(GATv2Conv),
}


class Model(nn.Module):
    """Two layers on two blocks."""

    def __init__(self, setting: StepSetting) -> None:
        super().__init__()
        size, hidden, classes = setting.sizes
        make, adj = LAYERS[setting.layer], setting.batches.adj
        self.convs = nn.ModuleList()
        for ends in ((size, hidden), (hidden, classes)):
            if isinstance(adj, Typed):
                layers = {kind: make(*ends, hidden) for kind in adj.edges}
                self.convs.append(HeteroGraphConv(layers))
            else:
                self.convs.append(make(*ends, hidden))

    def forward(self, blocks: Any, x: Any) -> Any:
        """Logits of the seeds, of every type if there are types."""
        for depth, (conv, block) in enumerate(zip(self.convs, blocks, strict=True)):
            x = conv(block, x)
            if depth == 0 and isinstance(x, dict):
                x = {kind: rows.relu() for kind, rows in x.items()}
            elif depth == 0:
                x = x.relu().flatten(1)  # heads beside each other
        return x if isinstance(x, dict) else x.flatten(1)


def steppers(setting: StepSetting, missing: Missing) -> dict[str, Stepper]:
    """A model on our DataLoader, fused and not, and on DGL's."""
    if setting.layer not in LAYERS:
        return {}
    torch.manual_seed(0)
    model = Model(setting).to(setting.batches.device)
    row = partial(_stepper, isinstance(setting.batches.adj, Typed))
    twin, found = fused(deepcopy(model)), dict[str, Stepper]()
    verdicts = [(kind, verdict) for _, kind, verdict in fused_layers(twin).layers]
    any_fused = any(verdict.startswith("fused") for _, verdict in verdicts)
    if not any_fused:
        why = f"DGL has no such layer ({setting.layer})"
        if verdicts:
            why = "{}: {}".format(*verdicts[0])
        missing.add(f"gttf_dgl.fused, {setting.layer}", why)
    for name, loader in setting.loaders.items():
        if name.startswith("gttf"):
            if any_fused:
                found["gttf_dgl.fused"] = row(twin, loader, like=name + OWN)
            found[name + OWN] = row(deepcopy(model), loader)
        else:
            found[name] = row(deepcopy(model), loader)
    return found


def _stepper(typed: bool, model: nn.Module, loader: Any, **more: Any) -> Stepper:
    """Steps of a model on what DGL's DataLoader gives: nodes, seeds and blocks."""

    def logits(made: Any) -> Tensor:
        out = model(made[2], made[2][0].srcdata["feat"])
        rows: Tensor = out[SEED_TYPE] if typed else out
        return rows

    def labels(made: Any) -> Tensor:
        found = made[2][-1].dstdata["label"]
        rows: Tensor = found[SEED_TYPE] if typed else found
        return rows

    return Stepper(loader, logits, labels, model, **more)
