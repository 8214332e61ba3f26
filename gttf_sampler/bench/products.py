"""The matrix products of a training step alone, which no step can do without."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gttf_sampler import sample_rooted
from gttf_sampler.bench.graphs import SEED_TYPE, Typed
from gttf_sampler.bench.hosts import StepSetting
from gttf_sampler.bench.loader import HIDDEN

HEADS = 4  # of attention in the hidden layer


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
