"""ClusterData, ClusterLoader: parts of a graph with few edges between them."""

import copy
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric import loader as theirs
from torch_geometric.data import Data
from torch_geometric.utils import select

from gttf_pyg._check import as_pairs
from gttf_pyg._compat import mapping_of, store_of
from gttf_pyg._options import seeded
from gttf_pyg._rows import ONLY
from gttf_pyg._seeded import SeededLoader
from gttf_sampler import CompactAdj
from gttf_sampler._check import count, fail, mistyped, one_of, shown, yes_or_no
from gttf_sampler.distributed import metis_parts


class ClusterData(theirs.ClusterData):
    """PyG's `ClusterData`: the same arguments, cut by pymetis, nothing to compile.

    >>> from torch_geometric.datasets import KarateClub
    >>> ClusterData(KarateClub()[0], num_parts=4, log=False)  # doctest: +SKIP
    ClusterData(4)

    Edges count in both directions, once, and self-loops not at all: directed graphs
    will do. Needs `pip install pymetis`; a partition that was saved by
    PyG is read without.

    Args:
        data: and all others: see PyG's `ClusterData`.
    """

    def __init__(
        self,
        data: Data,
        num_parts: int,
        recursive: bool = False,
        save_dir: str | None = None,
        filename: str | None = None,
        log: bool = True,
        keep_inter_cluster_edges: bool = False,
        sparse_format: str = "csr",
    ) -> None:
        if not isinstance(data, Data):
            mistyped("data", "must be a Data", shown(data))
        if data.edge_index is None:
            fail("data", "must have an edge_index", "none")
        for name, value in data.to_dict().items():
            nested = isinstance(value, Tensor) and value.is_nested
            if isinstance(value, np.ndarray) or nested:  # PyG cannot cut these
                mistyped("data", f"must hold tensors, also as {name!r}", shown(value))
        num_parts = count("num_parts", num_parts)
        for name, flag in (("recursive", recursive), ("log", log)):
            yes_or_no(name, flag)
        yes_or_no("keep_inter_cluster_edges", keep_inter_cluster_edges)
        for name, path in (("save_dir", save_dir), ("filename", filename)):
            if not isinstance(path, str | PathLike | None):
                mistyped(name, "must be a path or None", shown(path))
        if num_parts > max(int(data.num_nodes), 1):
            rule = f"must be at most the number of nodes, {data.num_nodes}"
            fail("num_parts", rule, num_parts)
        one_of("sparse_format", sparse_format, ("csr", "csc"))
        where = save_dir, filename, log
        super().__init__(
            data, num_parts, recursive, *where, keep_inter_cluster_edges, sparse_format
        )

    def _metis(self, edge_index: Tensor, num_nodes: int) -> Tensor:
        """The part of every node, [n]."""
        pairs = as_pairs("edge_index", edge_index).cpu()
        adjs = {ONLY: CompactAdj.from_edge_index(pairs, num_nodes)}
        for recursive in dict.fromkeys((self.recursive, True)):  # which fills more
            found = metis_parts(adjs, self.num_parts, recursive=recursive)[""]
            filled = found.unique().numel()
            if filled == self.num_parts:
                break
        if filled < self.num_parts and num_nodes:
            rule = "must be as many as METIS can fill with nodes"
            got = f"{self.num_parts} for {num_nodes} nodes, which fill {filled}"
            fail("num_parts", rule, got, "ask for fewer")
        return found.to(edge_index.device)

    def __getitem__(self, idx: int) -> Data:
        """One part, by its number."""
        return _own_count(theirs.ClusterData.__getitem__(_counted(self), idx))


class ClusterLoader(theirs.ClusterLoader, SeededLoader):
    """PyG's `ClusterLoader`, which continues in the middle of an epoch.

    Args:
        cluster_data: a `ClusterData`, ours or PyG's.
        seed: short for `generator=torch.Generator().manual_seed(seed)`.
        **kwargs: of torch's DataLoader.
    """

    def __init__(
        self, cluster_data: Any, *, seed: int | None = None, **kwargs: Any
    ) -> None:
        if not isinstance(cluster_data, theirs.ClusterData):
            mistyped("cluster_data", "must be a ClusterData", shown(cluster_data))
        empty = int((cluster_data.partition.partptr.diff() == 0).sum())
        if empty:
            rule = "must have a node in every part"
            got = f"{empty} empty of {len(cluster_data)}"
            fail("cluster_data", rule, got, "cut it into fewer")
        super().__init__(_counted(cluster_data), **seeded(kwargs, seed))
        self.use_keys()

    def collate_fn(self, index: Any) -> Data:
        """The batch of some parts, by their numbers."""
        index = torch.as_tensor(index)
        cut = self.cluster_data.partition
        first, last = cut.partptr[index], cut.partptr[index + 1]
        if bool((cut.indptr[first] == cut.indptr[last]).all()):
            return _own_count(self._without_edges(first, last))  # where PyG fails
        return _own_count(self._collate(index))

    def _without_edges(self, first: Tensor, last: Tensor) -> Data:
        """The batch of parts whose nodes have no edge at all."""
        data = self.cluster_data.data
        pairs = zip(first.tolist(), last.tolist(), strict=True)
        node = torch.cat([torch.arange(*pair) for pair in pairs])
        none, out = node.new_empty(0), copy.copy(data)
        for key, value in data.items():
            if key == "num_nodes":
                out.num_nodes = node.numel()
            elif data.is_node_attr(key):
                out[key] = select(value, node, data.__cat_dim__(key, value))
            elif data.is_edge_attr(key):
                out[key] = select(value, none, data.__cat_dim__(key, value))
        out.edge_index = none.view(1, 0).repeat(2, 1)
        return out


def _counted(clusters: Any) -> Any:
    """Clusters whose data says how many edges it has.

    PyG takes its edge_index away, and then knows the features of edges by their names
    alone: those without "edge" in it would stay whole in every batch.
    """
    made = copy.copy(clusters)
    made.data = copy.copy(clusters.data)
    store_of(made.data)["num_edges"] = int(clusters.partition.index.numel())
    return made


def _own_count(batch: Data) -> Data:
    """`batch`, which counts its edges by itself."""
    mapping_of(store_of(batch)).pop("num_edges", None)
    return batch
