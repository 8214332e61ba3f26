"""PyG's other loaders: ShaDowKHopSampler, ClusterLoader, NeighborSampler of old."""

import copy
from collections.abc import Callable, Collection, Sequence
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric import loader as theirs
from torch_geometric.data import Batch, Data
from torch_geometric.loader import ClusterData as _ClusterData  # see `install`
from torch_geometric.loader.neighbor_sampler import Adj, EdgeIndex
from torch_geometric.typing import SparseTensor
from torch_geometric.utils import select

from gttf_pyg._check import as_pairs, one_graph
from gttf_pyg._compat import ONLY, mapping_of, store_of
from gttf_pyg._rows import Options, detached
from gttf_pyg._seeded import SeededLoader
from gttf_pyg._seeds import key_of, nodes_of
from gttf_pyg._stores import from_data
from gttf_pyg.sampler import sample_layers
from gttf_sampler import CompactAdj, Subgraph
from gttf_sampler._check import (
    as_dense,
    count,
    fail,
    mistyped,
    one_of,
    shown,
    size,
    yes_or_no,
)
from gttf_sampler.distributed import metis_parts
from gttf_sampler.rooted import RootedSampler

OWN = ("edge_index", "adj_t", "num_nodes", "batch", "ptr")


class ShaDowKHopSampler(theirs.ShaDowKHopSampler, SeededLoader):
    """PyG's `ShaDowKHopSampler`: the same arguments and batches, nothing to compile.

    >>> from torch_geometric.datasets import KarateClub
    >>> data = KarateClub()[0]
    >>> loader = ShaDowKHopSampler(data, depth=2, num_neighbors=5, batch_size=4)
    >>> batch = next(iter(loader))
    >>> batch.num_graphs, batch.x[batch.root_n_id].argmax(dim=1).tolist()
    (4, [0, 1, 2, 3])

    Under `torch.manual_seed`, batches are the same bit by bit for any number of
    workers, and `state_dict` lets another loader continue in the middle of an epoch.

    Differs from PyG, which draws anew for a node each time it is reached: here a node
    draws once per graph, as everywhere in this package.

    Args:
        data: and everything up to `replace`: see PyG's `ShaDowKHopSampler`; a fanout of
            -1 takes all neighbours.
        seed: short for `generator=torch.Generator().manual_seed(seed)`.
    """

    def __init__(
        self,
        data: Data,
        depth: int,
        num_neighbors: int,
        node_idx: Any = None,
        replace: bool = False,
        *,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        one_graph(data)
        hop = num_neighbors
        if not isinstance(hop, int) or hop != -1:
            hop = size("num_neighbors", num_neighbors)
        graph = from_data(data, Options())
        self.data = copy.copy(detached(data))
        self.depth, self.num_neighbors = size("depth", depth), num_neighbors
        self.replace = replace
        self.is_sparse_tensor = "edge_index" not in data
        self.adj: CompactAdj = graph.adjs[ONLY].to("cpu")  # as seeds are
        self.num_nodes, self.is_hetero = graph.num_nodes, False
        self._draw = RootedSampler(
            self.adj, [hop] * self.depth, replace=replace, disjoint=True
        )
        seeds: Any = nodes_of(node_idx, None, self, "node_idx").ids
        self.node_idx, every = seeds, range(seeds.numel())
        SeededLoader.__init__(self, every, seed=seed, **kwargs)
        self.use_keys()

    def collate_fn(self, index: Any) -> Batch:
        """The batch of some seeds, by their positions among all seeds."""
        return self.__collate__(self.node_idx[torch.as_tensor(index)])

    def __collate__(self, n_id: Tensor | Sequence[int]) -> Batch:
        """The batch of some nodes, which may repeat."""
        found: Any = self._draw(torch.as_tensor(n_id), generator=key_of(self))
        node, tree, place = _by_id(found)
        row, col, edge = _edges(found.induced(self.adj), place)
        e_id = self.adj.original_edge(edge).long()
        trees = found.num_sampled_nodes[0]
        ptr = torch.searchsorted(tree, torch.arange(trees + 1))
        batch = Batch(batch=tree, ptr=ptr)
        batch.root_n_id = place[:trees]
        if self.is_sparse_tensor:
            batch.adj_t = _matrix(self.data.adj_t, row, col, e_id, node.numel())
        else:
            batch.edge_index = torch.stack([row, col])
        set_rows(batch, self.data, node, e_id, OWN)
        y, nodes = self.data.get("y"), self.data.num_nodes
        if isinstance(y, Tensor) and y.dim() and y.shape[0] == nodes:  # of seeds only
            batch.y = batch.y[batch.root_n_id.to(y.device)]
        return batch


def set_rows(
    batch: Data, data: Data, node: Tensor, e_id: Tensor, own: Collection[str]
) -> None:
    """Gives a batch the attributes of its nodes and edges, and all others whole.

    PyG's rule: what is as long as there are nodes, or else edges, is theirs.
    """
    for key, value in data:
        if key in own:
            continue
        size = value.shape[0] if isinstance(value, Tensor) and value.dim() else None
        if size == data.num_nodes:
            value = value[node.to(value.device)]
        elif size == data.num_edges:
            value = value[e_id.to(value.device)]
        batch[key] = value


def _by_id(found: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes [n] of one tree after another, by id; their trees; where each has gone."""
    tree = found.batch
    order = found.node.argsort(stable=True)
    order = order[tree[order].argsort(stable=True)]
    place = torch.empty_like(order)
    place[order] = torch.arange(order.numel())
    return found.node[order], tree[order], place


def _edges(found: Subgraph, place: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(row, col, edge) in the new numbers, sorted by row and then by column."""
    row, col = place[found.row], place[found.col]
    order = (row * place.numel() + col).argsort(stable=True)
    return row[order], col[order], found.edge[order]


def _matrix(whole: Any, row: Tensor, col: Tensor, e_id: Tensor, size: int) -> Any:
    """The edges as a transposed SparseTensor, with the values that `whole` has."""
    value = whole.storage.value()
    value = None if value is None else value[e_id]
    return SparseTensor(row=col, col=row, value=value, sparse_sizes=(size, size))


class NeighborSampler(theirs.NeighborSampler, SeededLoader):
    """PyG's old `loader.NeighborSampler`: the same arguments, nothing to compile.

    >>> from torch_geometric.datasets import KarateClub
    >>> from gttf_pyg.loader import NeighborSampler
    >>> loader = NeighborSampler(KarateClub()[0].edge_index, [5, 5], batch_size=4)
    >>> batch_size, n_id, adjs = next(iter(loader))
    >>> batch_size, [adj.size[1] for adj in adjs][-1], adjs[0].size[0] == n_id.numel()
    (4, 4, True)

    Every layer draws anew for all nodes that it needs. Under `torch.manual_seed`,
    batches are the same bit by bit for any number of workers, and `state_dict` lets
    another loader continue in the middle of an epoch.

    Args:
        edge_index: and everything up to `transform`: see PyG's class of this name.
        seed: short for `generator=torch.Generator().manual_seed(seed)`.
    """

    def __init__(
        self,
        edge_index: Any,
        sizes: Sequence[int],
        node_idx: Any = None,
        num_nodes: int | None = None,
        return_e_id: bool = True,
        transform: Callable[..., Any] | None = None,
        *,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.sizes, self.return_e_id = sizes, return_e_id
        self.transform = transform
        self.is_sparse_tensor = isinstance(edge_index, SparseTensor)
        self.is_hetero = False
        edge_index = edge_index.to("cpu") if self.is_sparse_tensor else edge_index
        self.edge_index, self.node_idx = edge_index, node_idx
        self.__val__ = None
        if self.is_sparse_tensor:
            rowptr, col, self.__val__ = edge_index.csr()
            self.adj = CompactAdj.from_csr(rowptr, col, edge_index.size(1))
        else:
            pairs = as_pairs("edge_index", as_dense("edge_index", edge_index)).cpu()
            count = _count(pairs, node_idx, num_nodes)
            self.adj = CompactAdj.from_edge_index(pairs, count, direction="in")
        self.num_nodes = self.adj.num_rows
        if not isinstance(sizes, list | tuple):
            mistyped("sizes", "must be a list of integers, one per layer", shown(sizes))
        self.fanouts = [f if f == -1 else size("sizes", f) for f in sizes]
        seeds: Any = nodes_of(node_idx, None, self, "node_idx").ids
        self._nodes, every = seeds, range(seeds.numel())
        SeededLoader.__init__(self, every, seed=seed, **kwargs)
        self.use_keys()

    def collate_fn(self, index: Any) -> Any:
        """The batch of some seeds, by their positions among all seeds."""
        return self.sample(self._nodes[torch.as_tensor(index)])

    def sample(self, batch: Any) -> Any:
        """The batch of some nodes: (batch_size, n_id, adjs)."""
        seeds = torch.as_tensor(batch)
        every = [None] * len(self.fanouts)
        found = sample_layers(self.adj, seeds, self.fanouts, every, False, key_of(self))
        counts: Any = found.num_sampled_edges
        parts = (part.split(counts) for part in (found.row, found.col, found.edge))
        adjs, known = [], seeds.numel()
        new = found.num_sampled_nodes or []
        for row, col, edge, more in zip(*parts, new[1:], strict=True):
            adjs.append(self._bipartite(row, col, edge, (known + more, known)))
            known += more
        layers = adjs[0] if len(adjs) == 1 else adjs[::-1]
        out = seeds.numel(), found.node, layers
        return out if self.transform is None else self.transform(*out)

    def _bipartite(
        self, row: Tensor, col: Tensor, edge: Tensor, size: tuple[int, int]
    ) -> Any:
        """The edges of one layer, from `size[0]` nodes to the first `size[1]`."""
        e_id = self.adj.original_edge(edge).long() if self.return_e_id else None
        if not self.is_sparse_tensor:
            return EdgeIndex(torch.stack([row, col]), e_id, size)
        value = self.__val__
        value = None if value is None else value[edge]
        matrix = SparseTensor(row=col, col=row, value=value, sparse_sizes=size[::-1])
        return Adj(matrix, e_id, size)


def _count(pairs: Tensor, node_idx: Any, num_nodes: int | None) -> int:
    if num_nodes is not None:
        return size("num_nodes", num_nodes)
    top = int(pairs.max()) + 1 if pairs.numel() else 0
    if node_idx is None:
        return top
    nodes = as_dense("node_idx", node_idx)
    if nodes.dtype == torch.bool:
        return nodes.numel()
    return max(top, int(nodes.max()) + 1 if nodes.numel() else 0)


class ClusterData(_ClusterData):
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
        one_graph(data)
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
        return _own_count(_ClusterData.__getitem__(_counted(self), idx))


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
        if not isinstance(cluster_data, _ClusterData):
            mistyped("cluster_data", "must be a ClusterData", shown(cluster_data))
        empty = int((cluster_data.partition.partptr.diff() == 0).sum())
        if empty:
            rule = "must have a node in every part"
            got = f"{empty} empty of {len(cluster_data)}"
            fail("cluster_data", rule, got, "cut it into fewer")
        super().__init__(_counted(cluster_data), seed=seed, **kwargs)
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
    mapping_of(store_of(batch)).pop("num_edges", None)
    return batch
