"""One GraphSAGE for all loaders, so that they differ in nothing else."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Layer(NamedTuple):
    """The edges src → dst [e] of one layer, between local ids; targets come first."""

    src: Tensor
    dst: Tensor
    targets: int


class Batch(NamedTuple):
    """What the model sees of a batch: features, layers, labels of the seeds."""

    x: Tensor
    layers: list[Layer]
    y: Tensor


class SAGE(nn.Module):
    """Two layers, mean of the neighbours, plain torch."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        sizes = [(features, hidden), (hidden, classes)]
        self.own = nn.ModuleList(nn.Linear(*size) for size in sizes)
        self.near = nn.ModuleList(nn.Linear(*size, bias=False) for size in sizes)

    def forward(self, x: Tensor, layers: list[Layer]) -> Tensor:
        """Logits [seeds, classes]."""
        for depth, (src, dst, targets) in enumerate(layers):
            total = x.new_zeros(targets, x.shape[1]).index_add_(
                0, dst, x.index_select(0, src)
            )
            count = dst.bincount(minlength=targets).clamp_(min=1)
            mean = total / count[:, None]
            x = self.own[depth](x[:targets]) + self.near[depth](mean)
            if depth + 1 < len(layers):
                x = x.relu()
        return x


def from_data(batch: Any) -> Batch:
    """A batch of PyG, trimmed to what each layer needs if it says how far that is."""
    src, dst = batch.edge_index
    seeds = batch.batch_size
    nodes = getattr(batch, "num_sampled_nodes", None)
    edges = getattr(batch, "num_sampled_edges", None)
    if nodes is None or edges is None:
        everything = Layer(src, dst, batch.num_nodes)
        layers = [everything, everything]
    else:
        layers = [
            Layer(src[: sum(edges[:hops])], dst[: sum(edges[:hops])], sum(nodes[:hops]))
            for hops in range(len(edges), 0, -1)
        ]
    return Batch(batch.x, layers, batch.y[:seeds])


def from_blocks(made: Any) -> Batch:
    """A batch of DGL."""
    blocks = made[2]
    layers = []
    for block in blocks:
        src, dst = block.edges()
        layers.append(Layer(src, dst, block.num_dst_nodes()))
    return Batch(blocks[0].srcdata["feat"], layers, blocks[-1].dstdata["label"])


def step(model: SAGE, optimizer: torch.optim.Optimizer, batch: Batch) -> float:
    """One step of training; returns the loss."""
    optimizer.zero_grad()
    logits = model(batch.x, batch.layers)[: len(batch.y)]
    loss = nn.functional.cross_entropy(logits, batch.y)
    loss.backward()
    optimizer.step()
    return loss.item()
