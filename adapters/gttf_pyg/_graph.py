"""The graph of a `Data`, a `HeteroData` or a pair of stores, as rows to sample from."""

import copy
from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch_geometric.data import remote_backend_utils
from torch_geometric.data.graph_store import EdgeLayout
from torch_geometric.sampler.base import DataType

from gttf_pyg._attached import Columns, plain
from gttf_pyg._check import MissingError, as_pairs, as_reals
from gttf_pyg._compat import reverse_edge_type
from gttf_pyg._partitioned import partitioned, rows_of_parts
from gttf_pyg._rows import ONLY, Graph, Options, from_rows, rows_of, without_relation
from gttf_sampler._check import dense, fail


def from_stores(features: Any, graphs: Any, options: Options) -> Graph:
    """The graph of the stores; types come in the order in which the stores list them.

    Differs from PyG, where that order is the one of a set and changes between runs.
    """
    if options.weight_attr is not None:
        raise NotImplementedError(
            "'weight_attr' is not supported for '(FeatureStore, GraphStore)' inputs "
            f"(got {options.weight_attr!r})"
        )
    edges = graphs.get_all_edge_attrs()
    times = _times(features, edges, options.time_attr)
    edge_types = list(dict.fromkeys(edge.edge_type for edge in edges))
    layout = graphs.csr() if options.backward else graphs.csc()
    # csr() gives (rowptr, col, perm) and csc() (row, colptr, perm)
    rowptr, col, perm = (
        layout if options.backward else (layout[1], layout[0], layout[2])
    )
    if edge_types == [None]:
        count = _size(edges[0])
        node_time, edge_time = _homogeneous_times(times, options.time_attr)
        columns = Columns(node_time, edge_time)
        adj = from_rows(rowptr, col, (count, count), columns, options, perm)
        return Graph({ONLY: adj}, count, [None], [None], node_time, edge_time, {})
    sizes = _sizes(features, graphs, edges)
    node_time, edge_time = _typed_times(times, options.time_attr)
    adjs = {}
    for kind in edge_types:
        size = sizes[kind[0]], sizes[kind[2]]
        columns = Columns((node_time or {}).get(kind[0]), (edge_time or {}).get(kind))
        arrays = rowptr[kind], col[kind]
        adj = from_rows(*arrays, size, columns, options, perm.get(kind))
        adjs[reverse_edge_type(kind) if options.backward else kind] = adj
    loose = without_relation(sizes, adjs)
    return Graph(adjs, sizes, list(sizes), edge_types, node_time, edge_time, loose)


def _size(edge: Any) -> int:
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


def _times(features: Any, edges: Any, name: str | None) -> dict[Any, Tensor] | None:
    """The tensors called `name`, by the node or edge type they belong to."""
    if name is None:
        return None
    for edge in edges:
        if edge.layout == EdgeLayout.CSR:
            rule = "needs edges in COO or CSC layout"
            fail("time_attr", rule, f"CSR for {edge.edge_type}")
        if not edge.is_sorted:
            rule = "needs edges sorted by destination, and by time within a row"
            fail("time_attr", rule, f"is_sorted=False for {edge.edge_type}")
    found = {}
    for attr in features.get_all_tensor_attrs():
        if attr.attr_name == name:
            whole = copy.copy(attr)
            whole.index = None
            found[attr.group_name] = features.get_tensor(whole)
    return found


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


def _typed_times(times: dict[Any, Tensor] | None, name: str | None) -> tuple[Any, Any]:
    """The times of the nodes or of the edges, per type; not of both."""
    if times is None:
        return None, None
    on_nodes = {isinstance(kind, str) for kind in times}
    if len(on_nodes) != 1:
        rule = "must name either a node-level or an edge-level attribute"
        found = "both" if on_nodes else "neither"
        fail("time_attr", rule, f"{name!r}, which is {found}")
    return (times, None) if on_nodes == {True} else (None, times)


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
            raise _missing("time_attr", name, data.keys())
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
        if name not in data:
            raise _missing("weight_attr", name, data.edge_attrs())
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
    weights = {}
    if (name := options.weight_attr) is not None:
        if not any(name in store for store in data.edge_stores):
            known = {key for store in data.edge_stores for key in store}
            raise _missing("weight_attr", name, sorted(known))
        weights = data.collect(name)
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


def _missing(argument: str, name: str, known: Iterable[str]) -> MissingError:
    """The error for an attribute that the data does not have."""
    return MissingError(
        f"'{argument}' must name an attribute of the data (got {name!r}); there are "
        f"{list(known)}"
    )


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
        raise _missing("time_attr", name, sorted({k for s in data.stores for k in s}))
    return _typed_times(found, name)
