"""Models of `gttf bench step`: two layers of a host, trained, and their products."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gttf_sampler import sample_rooted
from gttf_sampler.bench.graphs import SEED_TYPE, Typed
from gttf_sampler.bench.hosts import Host, MakeLayer, StepModels, Stepper, StepSetting
from gttf_sampler.bench.loader import HIDDEN
from gttf_sampler.bench.machine import Missing
from gttf_sampler.bench.measure import CPU

HEADS = 4  # of attention in the hidden layer
OTHER_DEGREES = "GCN would divide by degrees after trimming: other outputs"

Step = Callable[[Any], Any]  # of a batch


def mlp(ins: int, outs: int, hidden: int) -> nn.Module:
    """The network within a layer of GIN."""
    return nn.Sequential(nn.Linear(ins, hidden), nn.ReLU(), nn.Linear(hidden, outs))


def attention(kind: Any, **how: Any) -> MakeLayer:
    """Layers of class `kind`: several heads if hidden, one if last."""

    def make(ins: int, outs: int, hidden: int) -> nn.Module:
        heads = HEADS if outs == hidden else 1
        layer: nn.Module = kind(ins, outs // heads, heads, **how)
        return layer

    return make


class TwoLayers(nn.Module):
    """Two layers of a host, each one per relation where there are types."""

    def __init__(self, host: StepModels, setting: StepSetting) -> None:
        super().__init__()
        ins, hidden, outs = setting.sizes
        make, adj = host.layers[setting.layer], setting.batches.adj
        self.call, self.convs = host.call, nn.ModuleList()
        for ends in ((ins, hidden), (hidden, outs)):
            if isinstance(adj, Typed):
                layers = {kind: make(*ends, hidden) for kind in adj.edges}
                self.convs.append(host.typed(layers))
            else:
                self.convs.append(make(*ends, hidden))

    def forward(self, x: Any, edges: Any, trim: Any = None) -> Any:
        """Logits of the nodes that were computed, seeds first."""
        for depth, conv in enumerate(self.convs):
            if trim is not None:
                x, edges = trim(depth, x, edges)
            x = self.call(conv, x, edges, depth)
            typed = isinstance(x, dict)
            x = x if typed else x.flatten(1)  # heads beside each other
            if depth == 0:
                x = {k: rows.relu() for k, rows in x.items()} if typed else x.relu()
        return x


def steppers(host: Host, setting: StepSetting, missing: Missing) -> dict[str, Stepper]:
    """A model on our loader, fused and not, and on the host's own."""
    how, layer = host.step, setting.layer
    if layer == "inference":
        return how.inferences(setting, missing)
    own, found = f", {host.name}'s own layers", dict[str, Stepper]()
    torch.manual_seed(0)
    model = TwoLayers(how, setting).to(setting.batches.device)
    row = partial(_stepper, how, model)
    for name, loader in setting.loaders.items():
        if name.startswith("gttf"):
            fused = f"{name.partition('.')[0]}.fused"
            twin = row(loader, like=name + own)
            if fused in found:
                pass  # the first of several places of features stands for all
            elif why := how.fuse(twin.model):
                missing.add(f"{fused}, {layer}", why)
            else:
                with torch.no_grad():  # has seen a batch: so it trims the next one
                    twin.logits(next(iter(loader)))
                found[fused] = twin
            found[name + own] = row(loader)
            continue
        found[name] = row(loader, tuned=how.tuned and setting.batches.device == CPU)
        for way, trim in how.trims.items():
            if layer == "gcn":
                missing.add(f"GCN, {name}, {way}", OTHER_DEGREES)
            else:
                found[f"{name}, {way}"] = row(loader, trim, like=name)
    return found


def _stepper(
    how: StepModels, model: nn.Module, loader: Any, trim: Any = None, **more: Any
) -> Stepper:
    """Steps of a copy of a model."""
    model = deepcopy(model)

    def logits(batch: Any) -> Tensor:
        given = how.read(batch)
        trimmed = () if trim is None else (partial(trim, batch),)
        out = model(given.x, given.edges, *trimmed)
        rows: Tensor = out[SEED_TYPE] if isinstance(out, dict) else out
        return rows[: len(given.labels)]

    def labels(batch: Any) -> Tensor:
        return how.read(batch).labels

    return Stepper(loader, logits, labels, model, **more)


def step_of(row: Stepper) -> Step:
    """A training step with Adam, or the forward pass where nothing is trained."""
    labels = row.labels
    if labels is None:
        return row.logits
    optimizer = torch.optim.Adam(row.model.parameters(), 1e-3)

    def step(batch: Any) -> None:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(row.logits(batch), labels(batch))
        loss.backward()
        optimizer.step()

    return step


class Product(NamedTuple):
    """[rows, ins] times [ins, outs], and the gradient of the weight."""

    rows: int
    ins: int
    outs: int
    hidden: bool  # whether the rows have a gradient as well


def products(setting: StepSetting) -> list[Product]:
    """Those of a layer on the rows that the next one reads: the first on two hops."""
    batches, (ins, hidden, outs) = setting.batches, setting.sizes
    typed = isinstance(batches.adj, Typed)
    rows = batches.adj.rows(False) if typed else batches.adj
    seeds: Any = {SEED_TYPE: batches.seeds[0]} if typed else batches.seeds[0]
    counts: Any = sample_rooted(rows, seeds, batches.fanouts).num_sampled_nodes
    if typed:
        found = []
        for kind, (first, second, *_) in counts.items():
            width = 1 + sum(target == kind for _, _, target in rows)
            found.append(Product(first + second, width * ins, hidden, False))
            found.append(Product(first, width * hidden, outs, True))
        return [product for product in found if product.rows]
    near, far, last = counts
    first_layer = _of_layer(setting.layer, near + far, last, ins, hidden, False)
    return first_layer + _of_layer(setting.layer, near, far, hidden, outs, True)


def _of_layer(
    layer: str, rows: int, more: int, ins: int, outs: int, hidden: bool
) -> list[Product]:
    """The products of a layer for `rows` nodes that read `more` others."""
    own, every = Product(rows, ins, outs, hidden), rows + more
    if layer == "gin":
        return [own._replace(outs=HIDDEN), Product(rows, HIDDEN, outs, True)]
    if layer == "gat" and not hidden:  # heads weigh rows before they are multiplied
        return [Product(rows, ins, outs // HEADS, True)] * HEADS
    if layer == "gat":
        return [own._replace(rows=every)]
    if layer == "gatv2":
        return [own, own._replace(rows=every)]
    return [own] if layer == "gcn" else [own, own]  # its own rows, and its neighbours'


class Products(nn.Module):
    """Random rows and weights, whose products are made forward and backward."""

    def __init__(self, wanted: list[Product], device: torch.device) -> None:
        super().__init__()
        self.rows, self.gradients = list[Tensor](), list[Tensor]()
        self.weights = nn.ParameterList()
        for rows, ins, outs, hidden in wanted:
            x = torch.rand(rows, ins, device=device, requires_grad=hidden)
            self.rows.append(x)
            self.weights.append(torch.rand(ins, outs, device=device))
            self.gradients.append(torch.rand(rows, outs, device=device))
        self.optimizer = torch.optim.Adam(self.weights, 1e-3)

    def step(self, batch: Any) -> None:
        """A training step, whatever the batch."""
        self.optimizer.zero_grad()
        for x in self.rows:
            x.grad = None
        found = [x @ w for x, w in zip(self.rows, self.weights, strict=True)]
        torch.autograd.backward(found, self.gradients)
        self.optimizer.step()
