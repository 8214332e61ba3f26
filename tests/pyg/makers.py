"""Every loader of `gttf_pyg` on a small graph, for what all of them promise."""

from functools import cache
from typing import Any

import pytest
import torch
from torch.utils.data import DistributedSampler
from torch_geometric import seed_everything
from torch_geometric.data import Data, HeteroData
from torch_geometric.datasets import FakeDataset, FakeHeteroDataset, KarateClub

from gttf_pyg import (
    ClusterData,
    ClusterLoader,
    DeepWalk,
    GraphSAINTRandomWalkSampler,
    GTTFLinkLoader,
    GTTFLoader,
    HGTLoader,
    LinkNeighborLoader,
    NeighborLoader,
    Node2Vec,
    ShaDowKHopSampler,
)
from gttf_pyg.loader import NeighborSampler

KARATE = KarateClub()[0]
HETERO = FakeHeteroDataset(1, avg_num_nodes=30, avg_degree=5)[0]


@cache
def homogeneous() -> Data:
    with torch.random.fork_rng():
        seed_everything(3)
        data = FakeDataset(1, avg_num_nodes=60, avg_degree=6, edge_dim=0)[0]
    data.y = torch.arange(data.num_nodes)
    data.edge_attr = torch.arange(data.num_edges)
    return data


@cache
def heterogeneous() -> HeteroData:
    with torch.random.fork_rng():
        seed_everything(3)
        data = FakeHeteroDataset(1, avg_num_nodes=60, edge_dim=0)[0]
    for store in data.edge_stores:
        store.edge_attr = torch.arange(store.num_edges)
    return data


class Matrix:
    """As much of torch-sparse's SparseTensor as loaders and samplers ask for."""

    def __init__(self, row: Any, col: Any, value: Any = None, sparse_sizes: Any = None):
        order = (row * int(sparse_sizes[1]) + col).argsort(stable=True)
        self.row, self.col, self.sizes = row[order], col[order], sparse_sizes
        self.given = None if value is None else value[order]
        self.storage = self

    def value(self) -> Any:
        return self.given

    def csr(self) -> Any:
        ends = torch.arange(self.sizes[0] + 1)
        return torch.searchsorted(self.row, ends), self.col, self.given

    def csc(self) -> Any:
        return Matrix(self.col, self.row, self.given, self.sizes[::-1]).csr()

    def to(self, device: Any) -> "Matrix":
        return self

    def size(self, axis: int) -> int:
        return self.sizes[axis]

    def nnz(self) -> int:
        return self.row.numel()


def numbers(batch: Any) -> Any:
    """All that a batch holds, as what can be compared."""
    if isinstance(batch, tuple | list):
        return [numbers(part) for part in batch]
    if isinstance(batch, Data | HeteroData):
        stores = [sorted(store.items()) for store in batch.stores]
        return [[(key, numbers(value)) for key, value in part] for part in stores]
    if isinstance(batch, torch.Tensor):
        return batch.tolist()
    return numbers(batch.nodes) if hasattr(batch, "nodes") else batch  # of a forest


def node_loader(**how: Any) -> GTTFLoader:
    return GTTFLoader(KARATE, [3, 2], **{"batch_size": 8, "shuffle": True, **how})


def link_loader(**how: Any) -> GTTFLinkLoader:
    common = {"batch_size": 40, "shuffle": True, "neg_sampling": "triplet"}
    return GTTFLinkLoader(KARATE, [3, 2], exclude_edges=True, **common, **how)


def binary(**how: Any) -> LinkNeighborLoader:
    common = {"neg_sampling": "binary", "drop_last": True, "batch_size": 47}
    return LinkNeighborLoader(KARATE, [3], **{**common, "seed": 5, **how})


def typed(**how: Any) -> NeighborLoader:
    name = HETERO.node_types[0]
    return NeighborLoader(HETERO, [2, 2], name, batch_size=10, disjoint=True, **how)


def shared(**how: Any) -> GTTFLoader:
    sampler = DistributedSampler(range(34), 2, 1)
    return GTTFLoader(KARATE, [3, 2], batch_size=4, sampler=sampler, **how)


def hgt(**how: Any) -> HGTLoader:
    return HGTLoader(heterogeneous(), [3, 3], "v0", **FEW, **how)


def shadow(**how: Any) -> ShaDowKHopSampler:
    return ShaDowKHopSampler(homogeneous(), 2, 3, **FEW, **how)


def adjs(**how: Any) -> NeighborSampler:
    return NeighborSampler(homogeneous().edge_index, [3, 2], **FEW, **how)


def saint(**how: Any) -> GraphSAINTRandomWalkSampler:
    law = {"walk_length": 2, "num_steps": 6, "sample_coverage": 3, "log": False}
    return GraphSAINTRandomWalkSampler(homogeneous(), **law, **FEW, **how)


def cluster(**how: Any) -> ClusterLoader:
    pytest.importorskip("pymetis", reason="pymetis is not installed")
    return ClusterLoader(ClusterData(homogeneous(), 9, log=False), **FEW, **how)


def walks(**how: Any) -> Any:
    model = Node2Vec(KARATE.edge_index, 8, walk_length=4, context_size=3, q=2.0)
    return model.loader(batch_size=9, shuffle=True, **how)


def forests(**how: Any) -> Any:
    model = DeepWalk(KARATE.edge_index, 8, walk_length=4, context_size=3, fanout=2)
    return model.loader(batch_size=9, shuffle=True, **how)


FEW = {"batch_size": 4, "shuffle": True}
NEIGHBORS = [node_loader, link_loader, typed]
BESIDE = [hgt, shadow, adjs, saint, cluster]  # PyG's other loaders
