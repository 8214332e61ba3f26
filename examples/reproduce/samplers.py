"""Other people's samplers, as what they are in GTTF: a bias, or a forest.

FastGCN and LADIES are biases over the batch, GraphSAINT is a forest of walks. They all
serve the same PyG layers.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from examples.reproduce.config import Method
from examples.reproduce.data import Dataset
from gttf_sampler import CompactAdj, FastGCNBias, LADIESBias, sample_rooted, traverse
from gttf_sampler.rooted import walk_subgraph

LAYERWISE = {"ladies": LADIESBias, "fastgcn": FastGCNBias}
WAYS = (*LAYERWISE, "saint")


class Batch(NamedTuple):
    """Ids of nodes, seeds first; local edges; weights or None; the number of seeds."""

    node: Tensor
    edge_index: Tensor
    weight: Tensor | None
    size: int


def batches(method: Method, data: Dataset, way: str, seed: int) -> Iterator[Batch]:
    """One batch of all training nodes per epoch, without end."""
    adj = CompactAdj.from_edge_index(data.edge_index, data.num_nodes)
    generator = torch.Generator().manual_seed(seed)
    if way == "saint":
        walk = [1] * int(method.options["walk"])
        while True:
            sub = walk_subgraph(traverse(adj, data.train, walk, generator=generator))
            yield Batch(sub.node, sub.edge_index, None, data.train.numel())
    bias = LAYERWISE[way](int(method.options["layer"]))
    hops = [-1] * len(method.fanouts)
    while True:
        sub = sample_rooted(adj, data.train, hops, bias=bias, generator=generator)
        factor = bias.factor(sub).float()
        edge_index, weight = with_loops(sub.edge_index, adj.degree[sub.node], factor)
        yield Batch(sub.node, edge_index, weight, data.train.numel())


def with_loops(
    edge_index: Tensor, degree: Tensor, factor: Tensor
) -> tuple[Tensor, Tensor]:
    """GCN's weights 1 / √(δ'ᵤ δ'ᵥ) of edges, times `factor`, and of self-loops."""
    loop = torch.arange(degree.numel())
    root = (degree.float() + 1).rsqrt()
    row, col = edge_index
    weight = torch.cat([factor * root[row] * root[col], root.square()])
    return torch.cat([edge_index, loop.expand(2, -1)], dim=1), weight
