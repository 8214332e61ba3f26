"""The graph of whatever PyG's samplers take, data or stores, as rows to draw from."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import remote_backend_utils
from torch_geometric.sampler.base import DataType

from gttf_pyg._check import MissingError, as_pairs, as_reals, known_types, missing
from gttf_pyg._compat import row_type
from gttf_pyg._partitioned import partitioned, rows_of_parts
from gttf_pyg._rows import (
    ONLY,
    Columns,
    Graph,
    Options,
    from_rows,
    plain,
    rows_of,
    without_relation,
)
from gttf_sampler import CompactAdj
from gttf_sampler._check import dense, fail, mistyped, shown


def from_data(data: Any, options: Options) -> Graph:
    """The graph of whatever PyG's samplers take."""
    kind = DataType.from_data(data)
    if kind == DataType.homogeneous:
        return _from_homogeneous(data, options)
    if kind == DataType.heterogeneous:
        return _from_heterogeneous(data, options)
    graph = partitioned(data)
    if graph is not None:
        return rows_of_parts(graph, options)
    return from_stores(data[0], data[1], options)


def _from_homogeneous(data: Any, options: Options) -> Graph:
    """The graph of a `Data`."""
    if "edge_index" in data:  # PyG itself asks it for its last dimension
        as_pairs("data.edge_index", plain(dense("data.edge_index", data["edge_index"])))
    node_time = edge_time = None
    if (name := options.time_attr) is not None:
        if name not in data:
            raise missing("time_attr", name, data.keys())
        time = as_reals(f"data.{name}", data[name])
        if data.is_node_attr(name):
            node_time = time
        elif data.is_edge_attr(name):
            edge_time = time
        else:
            rule = "must name a node-level or edge-level attribute"
            fail("time_attr", rule, repr(name))
    weight = None
    if (name := options.weight_attr) is not None:
        if not isinstance(name, str):
            mistyped("weight_attr", "must be the name of an attribute", shown(name))
        if name not in data:
            raise missing("weight_attr", name, data.edge_attrs())
        weight = data[name]
    size = (data.num_nodes, data.num_nodes)
    columns = Columns(node_time, edge_time, weight)
    adj = rows_of(data, size, columns, options)
    return Graph({ONLY: adj}, data.num_nodes, [None], [None], node_time, edge_time, {})


def _from_heterogeneous(data: Any, options: Options) -> Graph:
    """The graph of a `HeteroData`."""
    node_types, edge_types = data.metadata()
    sizes = {name: data[name].num_nodes for name in node_types}
    node_time, edge_time = _hetero_times(data, options.time_attr)
    weights = _weights(data, options.weight_attr)
    adjs = {}
    for kind, store in data.edge_items():
        for end in (kind[0], kind[2]):
            if sizes.get(end) is None:
                rule, cure = f"must know how many {end!r} nodes there are", "num_nodes"
                fail("data", rule, "no such store", f"set data[{end!r}].{cure}")
        size = sizes[kind[0]], sizes[kind[2]]
        times = (node_time or {}).get(kind[0]), (edge_time or {}).get(kind)
        adj = rows_of(store, size, Columns(*times, weights.get(kind)), options)
        adjs[row_type(kind, options.backward)] = adj
    loose = without_relation(sizes, adjs)
    return Graph(adjs, sizes, node_types, edge_types, node_time, edge_time, loose)


def _hetero_times(data: Any, name: str | None) -> tuple[Any, Any]:
    """The times of the nodes or of the edges, per type."""
    if name is None:
        return None, None
    found = {
        kind: as_reals(f"data[{kind}].{name}", store[name])
        for kind, store in (*data.node_items(), *data.edge_items())
        if name in store
    }
    if not found:
        raise missing("time_attr", name, sorted({k for s in data.stores for k in s}))
    return typed_times(found, name)


def _weights(data: Any, name: Any) -> dict[Any, Tensor]:
    """The weights of the edge types that have some.

    One name is that of all types that have it; a name per edge type, as PyG's issue
    8291 asks, must be there, and types that are not named are drawn uniformly.
    """
    if name is None:
        return {}
    if isinstance(name, str):
        if not any(name in store for store in data.edge_stores):
            known = {key for store in data.edge_stores for key in store}
            raise missing("weight_attr", name, sorted(known))
        found: dict[Any, Tensor] = data.collect(name)
        return found
    known_types("weight_attr", name, data.edge_types)
    for kind, own in name.items():
        if own is not None and own not in data[kind]:
            raise missing("weight_attr", own, sorted(data[kind]))
    return {kind: data[kind][own] for kind, own in name.items() if own is not None}


class NoWeightsError(MissingError, NotImplementedError):
    """Weights that a store does not have; PyG refuses those of all stores."""


def from_stores(features: Any, graphs: Any, options: Options) -> Graph:
    """The graph of the stores; types come in the order in which the stores list them.

    Differs from PyG, where that order is the one of a set and changes between runs,
    where times need edges that are sorted, and where there are no weights. Weights and
    times of edges are tensors of the feature store, in the order of the edges.
    """
    edges = graphs.get_all_edge_attrs()
    if not options.backward:  # else the store sorts them by row
        _check_sorted(graphs, edges)
    times = _columns(features, options.time_attr)
    edge_types = list(dict.fromkeys(edge.edge_type for edge in edges))
    weights = _store_weights(features, options.weight_attr, edge_types)
    layout = graphs.csr() if options.backward else graphs.csc()
    # csr() gives (rowptr, col, perm) and csc() (row, colptr, perm)
    rowptr, col, perm = (
        layout if options.backward else (layout[1], layout[0], layout[2])
    )
    if edge_types == [None]:
        count = size_of(edges[0])
        node_time, edge_time = _homogeneous_times(times, options.time_attr)
        columns = Columns(node_time, edge_time, weights.get(None))
        adj = _store_rows(rowptr, col, (count, count), columns, options, perm)
        return Graph({ONLY: adj}, count, [None], [None], node_time, edge_time, {})
    sizes = _sizes(features, graphs, edges)
    node_time, edge_time = typed_times(times, options.time_attr)
    adjs = {}
    for kind in edge_types:
        size = sizes[kind[0]], sizes[kind[2]]
        own = (node_time or {}).get(kind[0]), (edge_time or {}).get(kind)
        columns = Columns(*own, weights.get(kind))
        arrays = rowptr[kind], col[kind]
        adj = _store_rows(*arrays, size, columns, options, perm.get(kind))
        adjs[row_type(kind, options.backward)] = adj
    loose = without_relation(sizes, adjs)
    return Graph(adjs, sizes, list(sizes), edge_types, node_time, edge_time, loose)


def _store_rows(
    rowptr: Tensor,
    col: Tensor,
    size: tuple[int, int],
    columns: Columns,
    options: Options,
    perm: Tensor | None,
) -> CompactAdj:
    """Rows with what the edges have, in order of time where there are times."""
    node_time, edge_time, weight = columns
    if perm is not None:
        edge_time, weight = (x if x is None else x[perm] for x in (edge_time, weight))
    if node_time is not None:
        edge_time = node_time.to(col.device)[col.to(torch.int64)]
    if edge_time is not None:
        order = _by_time(rowptr, edge_time)
        if order is not None:
            perm = order if perm is None else perm[order]
            col, edge_time = col[order], edge_time[order]
            weight = weight if weight is None else weight[order]
    columns = Columns(None, edge_time, weight)
    return from_rows(rowptr, col, size, columns, options, perm)


def _by_time(rowptr: Tensor, time: Tensor) -> Tensor | None:
    """The order in which times ascend in every row; None if they do."""
    rows = torch.arange(rowptr.numel() - 1, device=time.device)
    row = rows.repeat_interleave(rowptr.diff(), output_size=time.numel())
    if not bool(((time[1:] < time[:-1]) & (row[1:] == row[:-1])).any()):
        return None
    order = time.argsort(stable=True)
    return order[row[order].argsort(stable=True)]


def size_of(edge: Any) -> int:
    """The number of nodes of a graph without types."""
    if edge.size is None:
        rule, cure = "must know how many nodes its edges have", "to put_edge_index"
        fail("data", rule, "edges without a size", f"pass 'size' {cure}")
    return int(max(edge.size))


def _sizes(features: Any, graphs: Any, edges: Any) -> dict[str, int]:
    """The number of nodes of every type that has features or edges."""
    named = [attr.group_name for attr in features.get_all_tensor_attrs()]
    ends = [end for edge in edges for end in (edge.edge_type[0], edge.edge_type[2])]
    return {
        name: remote_backend_utils.num_nodes(features, graphs, name)
        for name in dict.fromkeys(named + ends)
        if isinstance(name, str)
    }


def _columns(features: Any, name: str | None) -> dict[Any, Tensor] | None:
    """The tensors called `name`, by the node or edge type they belong to."""
    if name is None:
        return None
    found = {}
    for attr in features.get_all_tensor_attrs():
        if attr.attr_name == name:
            whole = copy.copy(attr)
            whole.index = None
            found[attr.group_name] = features.get_tensor(whole)
    return found


def _store_weights(
    features: Any, named: Any, edge_types: list[Any]
) -> dict[Any, Tensor]:
    """The weights of the edge types that have some, by one name or one per type."""
    if named is None:
        return {}
    names = named if isinstance(named, Mapping) else dict.fromkeys(edge_types, named)
    every = {
        name: _columns(features, name) or {} for name in {*names.values()} - {None}
    }
    known_types("weight_attr", names, edge_types)
    for kind, name in names.items():
        if name is not None and kind not in every[name] and isinstance(named, Mapping):
            raise missing("weight_attr", name, _names(features))
    found = {
        kind: every[name][kind]
        for kind, name in names.items()
        if name is not None and kind in every[name]
    }
    if not found and not isinstance(named, Mapping):
        raise NoWeightsError(str(missing("weight_attr", named, _names(features))))
    return found


def _names(features: Any) -> list[str]:
    """The names of the tensors of a feature store."""
    return sorted({str(attr.attr_name) for attr in features.get_all_tensor_attrs()})


def _homogeneous_times(
    times: dict[Any, Tensor] | None, name: str | None
) -> tuple[Tensor | None, Tensor | None]:
    """PyG's convention: 'time' belongs to the nodes, any other name to the edges."""
    if times is None:
        return None, None
    if len(times) != 1:
        rule = "must name one tensor of the feature store"
        fail("time_attr", rule, f"{name!r}, which names {len(times)}")
    (time,) = times.values()
    return (time, None) if name == "time" else (None, time)


def typed_times(times: dict[Any, Tensor] | None, name: str | None) -> tuple[Any, Any]:
    """The times of the nodes or of the edges, per type; not of both."""
    if times is None:
        return None, None
    on_nodes = {isinstance(kind, str) for kind in times}
    if len(on_nodes) != 1:
        rule = "must name either a node-level or an edge-level attribute"
        found = "both" if on_nodes else "neither"
        fail("time_attr", rule, f"{name!r}, which is {found}")
    return (times, None) if on_nodes == {True} else (None, times)


def _check_sorted(graphs: Any, edges: Iterable[Any]) -> None:
    """Refuses edges that are said to be in order of their columns, and are not."""
    for edge in edges:
        if edge.layout.value == "coo" and edge.is_sorted:
            col = graphs.get_edge_index(edge)[1]
            if bool((col[1:] < col[:-1]).any()):
                rule = "must only be set for edges that are sorted by column"
                fail("is_sorted", rule, "some that are not", "leave it to the store")
