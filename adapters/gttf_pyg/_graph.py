"""The graph of whatever PyG's samplers take, as rows to sample from."""

from typing import Any

from torch import Tensor
from torch_geometric.sampler.base import DataType

from gttf_pyg._attached import Columns, plain
from gttf_pyg._check import as_pairs, as_reals
from gttf_pyg._compat import reverse_edge_type
from gttf_pyg._partitioned import partitioned, rows_of_parts
from gttf_pyg._rows import ONLY, Graph, Options, rows_of, without_relation
from gttf_pyg._stores import from_stores, missing, typed_times
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
        adjs[reverse_edge_type(kind) if options.backward else kind] = adj
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
    for kind, own in name.items():
        if kind not in data.edge_types:
            rule = f"must use the edge types of the data, {data.edge_types}"
            fail("weight_attr", rule, repr(kind))
        if own is not None and own not in data[kind]:
            raise missing("weight_attr", own, sorted(data[kind]))
    return {kind: data[kind][own] for kind, own in name.items() if own is not None}
