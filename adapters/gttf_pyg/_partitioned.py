"""A partitioned graph as PyG's stores: features by node, rows for our sampler."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import EdgeAttr, FeatureStore, GraphStore, TensorAttr
from torch_geometric.sampler.base import SubgraphType

from gttf_pyg._rows import ONLY, Graph, Options, without_relation
from gttf_pyg.feature_store import FileStore
from gttf_sampler._check import fail
from gttf_sampler.distributed import PartitionedAdj, PartitionedGraph


class PartitionedStore(FeatureStore, GraphStore):
    """A `PartitionedGraph` as PyG's stores: it has the features of a batch.

    Its edges are asked by `GTTFSampler` alone, where their rows are.
    """

    def __init__(self, graph: PartitionedGraph) -> None:
        super().__init__()
        self.graph = graph
        self.typed = list(graph.adjs) != [ONLY]

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """A feature each."""
        return [
            TensorAttr(kind if self.typed else None, name)
            for kind, name in self.graph.features
        ]

    def _get_tensor(self, attr: TensorAttr) -> Tensor:
        features = self.graph.features[attr.group_name or "", attr.attr_name]
        if attr.index is None or isinstance(attr.index, slice):
            rule = "must be asked for some nodes of a partitioned graph"
            fail(str(attr.attr_name), rule, attr.index)
        rows: Tensor = features[attr.index]
        return rows

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...]:
        return tuple(self.graph.features[attr.group_name or "", attr.attr_name].shape)

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        return False

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        return False

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """The edge types that a batch has; nobody has all of their edges."""
        return [
            EdgeAttr(kind if self.typed else None, "coo", size=_size(adj))
            for kind, adj in self.graph.adjs.items()
        ]

    def _get_edge_index(self, edge_attr: Any) -> None:
        return None

    def _put_edge_index(self, edge_index: Any, edge_attr: Any) -> bool:
        return False

    def _remove_edge_index(self, edge_attr: Any) -> bool:
        return False


def _size(adj: PartitionedAdj) -> tuple[int, int]:
    """(sources, targets) of a relation."""
    return adj.num_cols, adj.num_rows


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


def rows_of_parts(graph: PartitionedGraph, options: Options) -> Graph:
    """The rows of all relations, with the weights and times that are asked for."""
    if options.backward:
        rule = "must be 'forward' on a partitioned graph, whose rows are cut"
        fail("sample_direction", rule, "backward")
    adjs, timed = graph.adjs, options.time_attr is not None
    for name, column in (("weight_attr", "edge_weight"), ("time_attr", "edge_time")):
        asked = getattr(options, name)
        if asked is not None and all(getattr(a, column) is None for a in adjs.values()):
            rule = "must be None unless the graph was cut with it"
            fail(name, rule, f"{asked!r}, and edges have none")
    weighted = options.weight_attr is not None
    rows: Any = {
        kind: adj.seen_with(weights=weighted, times=timed) for kind, adj in adjs.items()
    }
    sizes = {name: book.num_nodes for name, book in graph.part.books.items()}
    own: Any = {  # as in whole graphs, a time is that of nodes or of edges
        kind: values
        for (kind, name), values in graph.features.items()
        if name == options.time_attr
    }
    times = None if own else {kind: adj.edge_time for kind, adj in rows.items()}
    if list(rows) == [ONLY]:
        only = None if times is None else times[ONLY]
        return Graph(rows, sizes[""], [None], [None], own.get(""), only, {})
    loose = without_relation(sizes, rows)
    per_type = own or None, times if timed else None
    kinds = list(sizes), list(rows)
    return Graph(rows, sizes, *kinds, *per_type, loose)


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
