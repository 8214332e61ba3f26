"""Other people's samplers, as what they are in GTTF: a bias, a forest, or parts.

GraphSAGE takes neighbours of every node as they come, FastGCN and LADIES are biases
over the batch, GraphSAINT is a forest of walks, ClusterGCN trains on parts of METIS.
They all serve the same PyG layers. GraphSAINT is without the coefficients with which
its authors correct sums and losses.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor

from examples.reproduce.config import Method
from examples.reproduce.data import Dataset
from gttf_sampler import CompactAdj, FastGCNBias, LADIESBias, sample_rooted, traverse
from gttf_sampler.rooted import walk_subgraph

LAYERWISE = {"ladies": LADIESBias, "fastgcn": FastGCNBias}
WAYS = (*LAYERWISE, "saint", "nodewise", "cluster")
PARTS, TOGETHER = 20, 5  # of ClusterGCN: how many parts, and how many are a batch


class Batch(NamedTuple):
    """Ids of nodes, seeds first; local edges; weights or None; the number of seeds."""

    node: Tensor
    edge_index: Tensor
    weight: Tensor | None
    size: int


def missing(way: str) -> str | None:
    """Why a way cannot be gone here, or None."""
    if way == "cluster" and not find_spec("pymetis"):
        return "ClusterGCN needs pymetis: pip install pymetis"
    return None


def batches(method: Method, data: Dataset, way: str, seed: int) -> Iterator[Batch]:
    """Batches without end: of all training nodes, or of those of some parts."""
    if way == "cluster":
        yield from _parts(method, data, seed)
    adj = CompactAdj.from_edge_index(data.edge_index, data.num_nodes)
    generator = torch.Generator().manual_seed(seed)
    seeds = data.train.numel()
    if way == "saint":
        walk = [1] * int(method.options["walk"])
        while True:
            sub = walk_subgraph(traverse(adj, data.train, walk, generator=generator))
            yield Batch(sub.node, sub.edge_index, None, seeds)
    if way == "nodewise":
        fanouts = list(method.fanouts)
        while True:
            sub = sample_rooted(adj, data.train, fanouts, generator=generator)
            yield Batch(sub.node, sub.edge_index, None, seeds)
    bias = LAYERWISE[way](int(method.options["layer"]))
    hops = [-1] * len(method.fanouts)
    while True:
        sub = sample_rooted(adj, data.train, hops, bias=bias, generator=generator)
        factor = bias.factor(sub).float()
        edge_index, weight = with_loops(sub.edge_index, adj.degree[sub.node], factor)
        yield Batch(sub.node, edge_index, weight, seeds)


def _parts(method: Method, data: Dataset, seed: int) -> Iterator[Batch]:
    """ClusterGCN: some parts at a time, with the edges between them."""
    from torch_geometric.data import Data

    from gttf_pyg import ClusterData, ClusterLoader

    graph = Data(edge_index=data.edge_index, num_nodes=data.num_nodes)
    graph.node = torch.arange(data.num_nodes)
    parts = ClusterData(graph, int(method.options.get("parts", PARTS)), log=False)
    together = int(method.options.get("together", TOGETHER))
    loader = ClusterLoader(parts, batch_size=together, shuffle=True, seed=seed)
    trained = torch.zeros(data.num_nodes, dtype=torch.bool)
    trained[data.train] = True
    while True:
        for part in loader:
            own = trained[part.node]
            if not own.any():
                continue
            order = (~own).to(torch.uint8).argsort(stable=True)  # seeds first
            place = torch.empty_like(order)
            place[order] = torch.arange(order.numel())
            seeds = int(own.sum())
            yield Batch(part.node[order], place[part.edge_index], None, seeds)


def with_loops(
    edge_index: Tensor, degree: Tensor, factor: Tensor
) -> tuple[Tensor, Tensor]:
    """GCN's weights 1 / √(δ'ᵤ δ'ᵥ) of edges, times `factor`, and of self-loops."""
    loop = torch.arange(degree.numel())
    root = (degree.float() + 1).rsqrt()
    row, col = edge_index
    weight = torch.cat([factor * root[row] * root[col], root.square()])
    return torch.cat([edge_index, loop.expand(2, -1)], dim=1), weight
