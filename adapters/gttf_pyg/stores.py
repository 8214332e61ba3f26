"""Stores of PyG for rows that are not in memory: on disk, or in other processes."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import EdgeAttr, FeatureStore, GraphStore, TensorAttr
from torch_geometric.sampler.base import SubgraphType

from gttf_pyg._rows import ONLY
from gttf_sampler import CompactAdj
from gttf_sampler._check import fail, integers, mistyped, shown, within
from gttf_sampler.distributed import PartitionedAdj, PartitionedGraph
from gttf_sampler.features import RowSource

Key = tuple[Any, Any]


class FileStore(FeatureStore, GraphStore):
    """A `FeatureStore` whose tensors are feature files, or anything with such rows.

    It is a `GraphStore` as well, of rows that may be on disk: `GTTFLoader` takes it in
    the place of both.

    >>> import tempfile, torch
    >>> from gttf_pyg import FileStore, GTTFLoader
    >>> from gttf_sampler import CompactAdj, FeatureFile
    >>> folder = tempfile.mkdtemp()
    >>> store = FileStore(CompactAdj.from_edge_index([[0, 1, 2], [1, 2, 0]]))
    >>> x = FeatureFile.from_array(f"{folder}/x.npy", torch.eye(3))
    >>> store.put_tensor(x, group_name=None, attr_name="x", index=None)
    True
    >>> loader = GTTFLoader(store, [1], input_nodes=torch.tensor([1]))
    >>> next(iter(loader)).x.tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]

    `put_tensor` takes a `FeatureFile` or a tensor, whole; `get_tensor` reads rows. For
    node and edge types, `group_name` is the type. What has a row per edge, in the order
    of the edges, comes by `e_id`.

    Args:
        graph: rows of "in", or {edge type: rows}; None where another store has them.
    """

    def __init__(self, graph: CompactAdj | dict[Any, CompactAdj] | None = None) -> None:
        super().__init__()
        typed = graph if isinstance(graph, dict) else {None: graph}
        for adj in typed.values():
            if adj is not None and not isinstance(adj, CompactAdj):
                mistyped("graph", "must be a CompactAdj, or one per type", shown(adj))
            if adj is not None and adj.direction != "in":
                fail("graph", "must have the direction 'in'", repr(adj.direction))
        rows = {kind: adj for kind, adj in typed.items() if adj is not None}
        self.sources: dict[Key, Any] = {}
        self.graphs: dict[Any, CompactAdj] = rows

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """One for every edge type."""
        return [
            EdgeAttr(kind, "csc", size=(adj.num_cols, adj.num_rows))
            for kind, adj in self.graphs.items()
        ]

    def csc(self, edge_types: Any = None, store: bool = False) -> tuple[Any, Any, Any]:
        """The rows as they are, per edge type if there are any; nothing is copied."""
        wanted = self.graphs if edge_types is None else edge_types
        found = {kind: self.graphs[kind] for kind in wanted}
        parts: list[dict[Any, Any]] = [
            {kind: getattr(adj, name) for kind, adj in found.items()}
            for name in ("col", "rowptr", "edge_id")
        ]
        if list(found) == [None]:
            return parts[0][None], parts[1][None], parts[2][None]
        return parts[0], parts[1], parts[2]

    def _get_edge_index(self, edge_attr: Any) -> tuple[Tensor, Tensor] | None:
        adj = self.graphs.get(edge_attr.edge_type)
        return None if adj is None else (adj.col, adj.rowptr)

    def _put_edge_index(self, edge_index: Any, edge_attr: Any) -> bool:
        return False

    def _remove_edge_index(self, edge_attr: Any) -> bool:
        return self.graphs.pop(edge_attr.edge_type, None) is not None

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        if attr.is_set("index") and attr.index is not None:
            fail("index", "must be None: files are put as a whole", attr.index)
        if not isinstance(tensor, RowSource | Tensor | np.ndarray):
            fail("tensor", "must be a FeatureFile or a tensor", type(tensor).__name__)
        self.sources[_key(attr)] = tensor
        return True

    def _get_tensor(self, attr: TensorAttr) -> Tensor | None:
        source = self.sources.get(_key(attr))
        if source is None:
            return None
        index = attr.index if attr.is_set("index") else None
        if not isinstance(source, RowSource):
            rows = torch.as_tensor(source)
            return rows if index is None else rows[index]
        if index is None or isinstance(index, slice):
            start, stop, step = (index or slice(None)).indices(len(source))
            return source.rows(torch.arange(start, stop, step))
        ids = integers("index", index).to("cpu", torch.int64).contiguous()
        return source.rows(within("index", ids, len(source), "rows"))

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        return self.sources.pop(_key(attr), None) is not None

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        source = self.sources.get(_key(attr))
        return None if source is None else tuple(source.shape)

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """One for every file."""
        return [TensorAttr(group, name) for group, name in self.sources]


def _key(attr: TensorAttr) -> Key:
    group = attr.group_name if attr.is_set("group_name") else None
    return group, attr.attr_name


class PartitionedStore(FileStore):
    """A `PartitionedGraph` as PyG's stores: it has the features of a batch.

    Its edges are asked by `GTTFSampler` alone, where their rows are: nobody has all.
    """

    def __init__(self, graph: PartitionedGraph) -> None:
        super().__init__()
        self.graph = graph
        self.typed = list(graph.adjs) != [ONLY]
        for (kind, name), rows in graph.features.items():
            self.sources[kind if self.typed else None, name] = rows

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """One for every edge type."""
        adjs = self.graph.adjs if self.typed else {None: self.graph.adjs[ONLY]}
        return [
            EdgeAttr(kind, "coo", size=(adj.num_cols, adj.num_rows))
            for kind, adj in adjs.items()
        ]

    def _get_tensor(self, attr: TensorAttr) -> Tensor | None:
        if attr.index is None or isinstance(attr.index, slice):
            rule = "must be asked for some nodes of a partitioned graph"
            fail(str(attr.attr_name), rule, attr.index)
        return super()._get_tensor(attr)


def as_stores(data: Any) -> Any:
    """A graph in parts, or on disk, as a pair of stores; anything else as it is."""
    if isinstance(data, FileStore):
        return data, data
    if not isinstance(data, PartitionedGraph):
        return data
    store = PartitionedStore(data)
    return store, store


def partitioned(data: Any) -> PartitionedGraph | None:
    """The partitioned graph behind a pair of stores, if there is one."""
    first = data[0] if isinstance(data, tuple) and data else None
    return first.graph if isinstance(first, PartitionedStore) else None


def own_nodes(data: Any, input_nodes: Any) -> Any:
    """`input_nodes`, by default those of this process in a partitioned graph."""
    graph = partitioned(data)
    if graph is None:
        return input_nodes
    if input_nodes is None and not data[0].typed:
        return graph.own_nodes()
    if isinstance(input_nodes, str):
        return input_nodes, graph.own_nodes(input_nodes)
    return input_nodes


def pairs_for(data: Any, seeds: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """Seed edges as PyG takes them for stores; of a graph in parts they are named."""
    graph, (edges, *rest) = partitioned(data), seeds
    if not isinstance(data, tuple):
        return seeds
    named = isinstance(edges, tuple) and isinstance(edges[0], str)
    if graph is not None and (edges is None or named):
        rule = "must name pairs of nodes of a partitioned graph"
        fail("edge_label_index", rule, edges)
    if edges is None:  # all, where PyG asserts
        edges = torch.stack(data[1].coo()[:2])
    return edges if isinstance(edges, tuple) else (None, edges), *rest


def check_partitioned(data: Any, sampler: Any) -> None:
    """Refuses what takes more of a partitioned graph than its draws."""
    if partitioned(data) is None:
        return
    odd = {
        "subgraph_type": sampler.subgraph_type == SubgraphType.induced,
        "layerwise": sampler.layerwise,
        "bias": sampler.bias is not None,
        "labor": sampler.labor is not None,
        "exclude_edges": bool(sampler.always_hidden),
    }
    for name, used in odd.items():
        if used:
            rule = "needs the rows of the whole graph in this process"
            fail(name, rule, getattr(sampler, name), "leave it out")


def one_process(sampler: Any, num_workers: int) -> None:
    """Refuses worker processes, which cannot ask others for rows."""
    remote = any(isinstance(adj, PartitionedAdj) for adj in sampler.adjs.values())
    if remote and num_workers:
        rule = "must be 0 where the graph is partitioned"
        fail("num_workers", rule, num_workers, "use 'prefetch'")
