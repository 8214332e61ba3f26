"""The graph of a `Data`, a `HeteroData` or a pair of stores, as rows to sample from."""

from collections.abc import Iterable
from typing import Any

from torch_geometric.sampler.base import DataType

from gttf_pyg._attached import plain
from gttf_pyg._compat import reverse_edge_type
from gttf_pyg._rows import ONLY, Graph, Options, rows_of, without_relation
from gttf_pyg._stores import from_stores
from gttf_pyg._words import MissingError, as_pairs, as_reals
from gttf_sampler._check import dense


def from_data(data: Any, options: Options) -> Graph:
    """The graph of whatever PyG's samplers take."""
    kind = DataType.from_data(data)
    if kind == DataType.homogeneous:
        return _from_homogeneous(data, options)
    if kind == DataType.heterogeneous:
        return _from_heterogeneous(data, options)
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
            raise ValueError(
                f"'time_attr' must name a node-level or edge-level attribute "
                f"(got {name!r})"
            )
    weight = None
    if (name := options.weight_attr) is not None:
        if name not in data:
            raise _missing("weight_attr", name, data.edge_attrs())
        weight = data[name]
    size = (data.num_nodes, data.num_nodes)
    adj = rows_of(data, size, node_time, edge_time, weight, options)
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
                raise ValueError(
                    f"'data' must know how many {end!r} nodes there are (got no such "
                    f"store); set data[{end!r}].num_nodes"
                )
        size = sizes[kind[0]], sizes[kind[2]]
        times = (node_time or {}).get(kind[0]), (edge_time or {}).get(kind)
        adj = rows_of(store, size, *times, weights.get(kind), options)
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
    on_nodes = any(name in store for store in data.node_stores)
    on_edges = any(name in store for store in data.edge_stores)
    if not on_nodes and not on_edges:
        known = {key for store in data.stores for key in store}
        raise _missing("time_attr", name, sorted(known))
    if on_nodes == on_edges:
        raise ValueError(
            f"'time_attr' must name either a node-level or an edge-level attribute "
            f"(got {name!r}, which is both)"
        )
    found = data.collect(name)
    times = {kind: as_reals(f"data[{kind}].{name}", x) for kind, x in found.items()}
    return (times, None) if on_nodes else (None, times)
