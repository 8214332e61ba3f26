"""Graphs of PyG's stores, and batches from them with the features of edges."""

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData, remote_backend_utils
from torch_geometric.sampler import SamplerOutput
from torch_geometric.sampler.base import DataType

from gttf_pyg._batch import set_sample, set_seeds
from gttf_pyg._check import MissingError
from gttf_pyg._compat import mapping_of, mappings, store_of, stores_of
from gttf_pyg._rows import (
    ONLY,
    Columns,
    Graph,
    Options,
    from_memory,
    from_rows,
    graph_of,
    typed_times,
    weights_of,
)
from gttf_pyg.stores import partitioned
from gttf_sampler import CompactAdj
from gttf_sampler._check import fail
from gttf_sampler.distributed import PartitionedGraph

Column = tuple[Any, Any]  # the group and the name of a tensor


def from_data(data: Any, options: Options) -> Graph:
    """The graph of whatever PyG's samplers take."""
    if DataType.from_data(data) != DataType.remote:
        return from_memory(data, options)
    graph = partitioned(data)
    if graph is not None:
        return _from_parts(graph, options)
    return _from_stores(data[0], data[1], options)


class NoWeightsError(MissingError, NotImplementedError):
    """Weights that a store does not have; PyG refuses those of all stores."""


def _from_stores(features: Any, graphs: Any, options: Options) -> Graph:
    """The graph of the stores; types come in the order in which the stores list them.

    Differs from PyG, where that order is the one of a set and changes between runs,
    where times need edges that are sorted, and where there are no weights. Weights and
    times of edges are tensors of the feature store, in the order of the edges.
    """
    edges = graphs.get_all_edge_attrs()
    if not options.backward:  # else the store sorts them by row
        _check_sorted(graphs, edges)
    attrs = features.get_all_tensor_attrs()
    edge_types = list(dict.fromkeys(edge.edge_type for edge in edges))

    @cache
    def columns(name: str) -> dict[Any, Tensor]:
        """The tensors called `name`, by the node or edge type they belong to."""
        named = [attr for attr in attrs if attr.attr_name == name]
        return {attr.group_name: features.get_tensor(_whole(attr)) for attr in named}

    weights = weights_of(
        options.weight_attr,
        edge_types,
        lambda kind, name: columns(name).get(kind),
        lambda kinds: {str(attr.attr_name) for attr in attrs},
        NoWeightsError,
    )
    name = options.time_attr
    times = None if name is None else columns(name)
    if options.backward:
        rowptr, col, perm = graphs.csr()
    else:
        col, rowptr, perm = graphs.csc()
    if edge_types == [None]:
        rowptr, col, perm = {None: rowptr}, {None: col}, {None: perm}
        sizes: dict[Any, Any] = {None: size_of(edges[0])}
        if times is not None:
            if len(times) != 1:
                rule = "must name one tensor of the feature store"
                fail("time_attr", rule, f"{name!r}, which names {len(times)}")
            times = {None: next(iter(times.values()))}
        # by PyG's convention, 'time' is that of nodes
        both = (times, None) if name == "time" else (None, times)
    else:
        ends = [end for edge in edges for end in (edge.edge_type[0], edge.edge_type[2])]
        sizes = {
            kind: remote_backend_utils.num_nodes(features, graphs, kind)
            for kind in dict.fromkeys([*(attr.group_name for attr in attrs), *ends])
            if isinstance(kind, str)
        }
        both = typed_times(times, name)

    def make(kind: Any, size: tuple[int, int], columns: Columns) -> CompactAdj:
        arrays = rowptr[kind], col[kind], perm.get(kind)
        return _store_rows(arrays, size, columns, options)

    return graph_of(sizes, edge_types, both, weights, options.backward, make)


def _store_rows(
    arrays: tuple[Tensor, Tensor, Tensor | None],
    size: tuple[int, int],
    columns: Columns,
    options: Options,
) -> CompactAdj:
    """Rows with what the edges have, in order of time where there are times."""
    rowptr, col, perm = arrays
    node_time, edge_time, weight = columns
    if perm is not None:
        edge_time, weight = (x if x is None else x[perm] for x in (edge_time, weight))
    if node_time is not None:
        edge_time = node_time.to(col.device)[col.to(torch.int64)]
    if edge_time is not None:
        rows = torch.arange(rowptr.numel() - 1, device=col.device)
        row = rows.repeat_interleave(rowptr.diff(), output_size=edge_time.numel())
        if bool(((edge_time[1:] < edge_time[:-1]) & (row[1:] == row[:-1])).any()):
            order = edge_time.argsort(stable=True)
            order = order[row[order].argsort(stable=True)]
            perm = order if perm is None else perm[order]
            col, edge_time = col[order], edge_time[order]
            weight = weight if weight is None else weight[order]
    columns = Columns(None, edge_time, weight)
    return from_rows(rowptr, col, size, columns, options, perm)


def size_of(edge: Any) -> int:
    """The number of nodes of a graph without types."""
    if edge.size is None:
        rule, cure = "must know how many nodes its edges have", "to put_edge_index"
        fail("data", rule, "edges without a size", f"pass 'size' {cure}")
    return int(max(edge.size))


def _whole(attr: Any) -> Any:
    """The attribute without an index, for all rows."""
    found = copy.copy(attr)
    found.index = None
    return found


def _check_sorted(graphs: Any, edges: list[Any]) -> None:
    """Refuses edges that are said to be in order of their columns, and are not."""
    for edge in edges:
        if edge.layout.value == "coo" and edge.is_sorted:
            col = graphs.get_edge_index(edge)[1]
            if bool((col[1:] < col[:-1]).any()):
                rule = "must only be set for edges that are sorted by column"
                fail("is_sorted", rule, "some that are not", "leave it to the store")


def _from_parts(graph: PartitionedGraph, options: Options) -> Graph:
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
    sizes: dict[Any, int] = {k: book.num_nodes for k, book in graph.part.books.items()}
    own: Any = {  # as in whole graphs, a time is that of nodes or of edges
        kind: values
        for (kind, name), values in graph.features.items()
        if name == options.time_attr
    }
    times: Any = {kind: adj.edge_time for kind, adj in rows.items()} if timed else None
    if list(rows) == [ONLY]:
        rows, sizes = {None: rows[ONLY]}, {None: sizes[""]}
        own, times = own and {None: own[""]}, times and {None: times[ONLY]}
    both = (own, None) if own else (None, times)
    return graph_of(sizes, list(rows), both, {}, False, lambda kind, *_: rows[kind])


def join_stores(loader: Any, out: Any, sampler: Any) -> Any:
    """The batch of a loader of stores, with its features of nodes and of edges.

    PyG gathers the features of edges by node where there are no types, and leaves them
    out where there are (its issue 9566).
    """
    if loader.transform_sampler_output:
        out = loader.transform_sampler_output(out)
    features, graphs = loader.data
    typed, columns = not isinstance(out, SamplerOutput), loader.edge_columns
    data = (loader.custom_cls or (HeteroData if typed else Data))()
    edges = _edge_ids(out, getattr(sampler, "edge_permutation", None))
    nodes = out.node if typed else {None: out.node}
    for kind in dict.fromkeys(edge.edge_type for edge in graphs.get_all_edge_attrs()):
        if not typed:
            data.edge_index = torch.stack((out.row, out.col))
        elif kind in out.row:
            data[kind].edge_index = torch.stack((out.row[kind], out.col[kind]))
    wanted = []
    for attr in features.get_all_tensor_attrs():
        of_edges = _column(attr) in columns
        kind = attr.group_name if typed else None
        ids = edges.get(columns[_column(attr)]) if of_edges else nodes.get(kind)
        if ids is not None:
            attr = copy.copy(attr)
            attr.index = ids
            wanted.append(attr)
            if not of_edges:
                (data[kind] if typed else data).num_nodes = ids.numel()
    rows = features.multi_get_tensor(wanted)
    for attr, values in zip(wanted, rows, strict=True):
        (data[attr.group_name] if typed else data)[attr.attr_name] = values
    for name, parts in (("n_id", nodes), ("e_id", edges)):
        for kind, values in parts.items():
            if values is not None:
                store = data[kind] if typed else store_of(data)
                mapping_of(store).setdefault(name, values)
    data = set_sample(data, out, mappings(stores_of(data)))
    data = set_seeds(data, out.metadata, loader.input_data.input_type)
    return data if loader.transform is None else loader.transform(data)


def _edge_ids(out: Any, perm: Any) -> dict[Any, Tensor | None]:
    """The edges of a sample by edge type, as positions among those that are stored."""
    if isinstance(out, SamplerOutput):
        found, perm = {None: out.edge}, {None: perm}
    else:
        found, perm = out.edge or {}, perm or {}
    return {
        kind: edge
        if edge is None or perm.get(kind) is None
        else perm[kind][edge.to(torch.int64)]
        for kind, edge in found.items()
    }


def edge_columns(data: Any, sampler: Any) -> dict[Column, Any]:
    """The edge type of every tensor of a feature store that belongs to edges.

    Those of a group that is an edge type do, and the weights and times of edges. In
    stores without types, whose groups tell nothing, rows decide as in PyG's `Data`, and
    the name where there are as many edges as nodes.
    """
    if not isinstance(data, tuple) or partitioned(data) is not None:
        return {}
    features, graphs = data
    stored: dict[Any, list[Any]] = {}
    for edge in graphs.get_all_edge_attrs():
        stored.setdefault(edge.edge_type, []).append(edge)
    found, known, used = {}, set(), _used_of_edges(sampler)
    for attr in features.get_all_tensor_attrs():
        kind = None if list(stored) == [None] else attr.group_name
        sure = attr.group_name is not None or attr.attr_name in used
        if kind in stored and _is_of_edges(data, attr, stored[kind], sure):
            found[_column(attr)] = kind
        elif kind is None:
            known.add(attr.attr_name)
    for (_, name), kind in found.items():
        if kind is None and name in known:
            rule = f"must have one feature called {name!r}"
            fail("data", rule, "one of nodes and one of edges", "rename one")
        if len(stored[kind]) > 1:
            _check_order(graphs, stored[kind], name)
    return found


def _column(attr: Any) -> Column:
    return attr.group_name, attr.attr_name


def _used_of_edges(sampler: Any) -> set[Any]:
    """The names of the weights and times by which a sampler draws edges."""
    timed = getattr(sampler, "edge_time", None) is not None
    weight: Any = getattr(sampler, "weight_attr", None)
    names = set(weight.values()) if isinstance(weight, Mapping) else {weight}
    return (names | {sampler.time_attr if timed else None}) - {None}


def _is_of_edges(data: Any, attr: Any, edges: list[Any], sure: bool) -> bool:
    """True if a tensor has a row per edge; it must where that is sure."""
    named = "edge" in str(attr.attr_name)
    try:
        size = data[0].get_tensor_size(_whole(attr))
    except NotImplementedError:
        size = None
    if size is None:
        return named or sure
    ends = data[1].get_edge_index(edges[0])
    every = int(ends[1 if edges[0].layout.value == "csr" else 0].numel())
    if size[0] == every:
        return named or sure or every != size_of(edges[0])
    if sure or (named and size[0] != size_of(edges[0])):
        rule = f"must have one row per edge, {every} in all"
        fail(str(attr.attr_name), rule, size[0])
    return False


def _check_order(graphs: Any, edges: list[Any], name: str) -> None:
    """Refuses edges that are stored in several orders: rows of `name` have but one."""
    first, *others = (_pairs(graphs, edge) for edge in edges)
    if not all(torch.equal(first, pairs) for pairs in others):
        rule = f"must list the edges of a type in one order for its feature {name!r}"
        got = " and ".join(edge.layout.value for edge in edges)
        fail("data", rule, f"{got} in different orders", "remove one of them")


def _pairs(graphs: Any, edge: Any) -> Tensor:
    row, col = graphs.get_edge_index(edge)
    if edge.layout.value == "csr":
        row = torch.arange(row.numel() - 1).repeat_interleave(row.diff().cpu())
    if edge.layout.value == "csc":
        col = torch.arange(col.numel() - 1).repeat_interleave(col.diff().cpu())
    return torch.stack([row.cpu().long(), col.cpu().long()])
