"""The graph of a (FeatureStore, GraphStore) pair, as rows to sample from."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import FeatureStore, remote_backend_utils

from gttf_pyg._attached import Columns
from gttf_pyg._check import MissingError
from gttf_pyg._compat import reverse_edge_type
from gttf_pyg._partitioned import partitioned
from gttf_pyg._rows import ONLY, Graph, Options, from_rows, without_relation
from gttf_sampler import CompactAdj
from gttf_sampler._check import fail

Column = tuple[Any, Any]  # the group and the name of a tensor


class NoWeightsError(MissingError, NotImplementedError):
    """What PyG refuses of all stores, and we of those that have no such weights."""


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
    weights = _weights(features, options.weight_attr, edge_types)
    layout = graphs.csr() if options.backward else graphs.csc()
    # csr() gives (rowptr, col, perm) and csc() (row, colptr, perm)
    rowptr, col, perm = (
        layout if options.backward else (layout[1], layout[0], layout[2])
    )
    if edge_types == [None]:
        count = _size(edges[0])
        node_time, edge_time = _homogeneous_times(times, options.time_attr)
        columns = Columns(node_time, edge_time, weights.get(None))
        adj = _rows(rowptr, col, (count, count), columns, options, perm)
        return Graph({ONLY: adj}, count, [None], [None], node_time, edge_time, {})
    sizes = _sizes(features, graphs, edges)
    node_time, edge_time = typed_times(times, options.time_attr)
    adjs = {}
    for kind in edge_types:
        size = sizes[kind[0]], sizes[kind[2]]
        own = (node_time or {}).get(kind[0]), (edge_time or {}).get(kind)
        columns = Columns(*own, weights.get(kind))
        arrays = rowptr[kind], col[kind]
        adj = _rows(*arrays, size, columns, options, perm.get(kind))
        adjs[reverse_edge_type(kind) if options.backward else kind] = adj
    loose = without_relation(sizes, adjs)
    return Graph(adjs, sizes, list(sizes), edge_types, node_time, edge_time, loose)


def _rows(
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


def _weights(features: Any, named: Any, edge_types: list[Any]) -> dict[Any, Tensor]:
    """The weights of the edge types that have some, by one name or one per type."""
    if named is None:
        return {}
    names = named if isinstance(named, Mapping) else dict.fromkeys(edge_types, named)
    every = {
        name: _columns(features, name) or {} for name in {*names.values()} - {None}
    }
    for kind, name in names.items():
        if kind not in edge_types:
            rule = f"must use the edge types of the data, {edge_types}"
            fail("weight_attr", rule, repr(kind))
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
    """What the feature store has."""
    return sorted({str(attr.attr_name) for attr in features.get_all_tensor_attrs()})


def missing(argument: str, name: str, known: Iterable[str]) -> MissingError:
    """The error for an attribute that the data does not have."""
    return MissingError(
        f"'{argument}' must name an attribute of the data (got {name!r}); there are "
        f"{list(known)}"
    )


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


class NodeColumns(FeatureStore):
    """A feature store without the tensors of edges, which PyG would gather by node."""

    def __init__(self, store: Any, hidden: Mapping[Column, Any]) -> None:
        super().__init__()
        self.store, self.hidden = store, hidden

    def get_all_tensor_attrs(self) -> list[Any]:
        """All that belongs to nodes."""
        every = self.store.get_all_tensor_attrs()
        return [attr for attr in every if _column(attr) not in self.hidden]

    def _get_tensor(self, attr: Any) -> Any:
        return self.store._get_tensor(attr)

    def _get_tensor_size(self, attr: Any) -> Any:
        return self.store._get_tensor_size(attr)

    def _multi_get_tensor(self, attrs: list[Any]) -> Any:
        return self.store._multi_get_tensor(attrs)

    def _put_tensor(self, tensor: Any, attr: Any) -> bool:
        return bool(self.store._put_tensor(tensor, attr))

    def _remove_tensor(self, attr: Any) -> bool:
        return bool(self.store._remove_tensor(attr))


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


def edge_features(
    features: Any, columns: Mapping[Column, Any], edges: Mapping[Any, Tensor | None]
) -> list[tuple[Any, str, Any]]:
    """(edge type, name, rows) of every tensor of edges, by the ids of some edges."""
    wanted = []
    for attr in features.get_all_tensor_attrs():
        kind = columns.get(_column(attr), ONLY)
        if edges.get(kind) is not None:
            own = copy.copy(attr)
            own.index = edges[kind]
            wanted.append((kind, own))
    rows = features.multi_get_tensor([attr for _, attr in wanted])
    return [
        (kind, attr.attr_name, part)
        for (kind, attr), part in zip(wanted, rows, strict=True)
    ]


def _column(attr: Any) -> Column:
    """The group and the name of a tensor."""
    return attr.group_name, attr.attr_name


def _used_of_edges(sampler: Any) -> set[Any]:
    """The names of the weights and times by which a sampler draws edges."""
    timed = getattr(sampler, "edge_time", None) is not None
    weight: Any = getattr(sampler, "weight_attr", None)
    names = set(weight.values()) if isinstance(weight, Mapping) else {weight}
    return (names | {sampler.time_attr if timed else None}) - {None}


def _is_of_edges(data: Any, attr: Any, edges: list[Any], sure: bool) -> bool:
    """Whether a tensor has a row per edge; it must where that is sure."""
    size, named = _shape(data[0], attr), "edge" in str(attr.attr_name)
    if size is None:
        return named or sure
    every = _num_edges(data[1], edges[0])
    if size[0] == every:
        return named or sure or every != _size(edges[0])
    if sure or (named and size[0] != _size(edges[0])):
        rule = f"must have one row per edge, {every} in all"
        fail(str(attr.attr_name), rule, size[0])
    return False


def _shape(features: Any, attr: Any) -> Any:
    """The shape of a tensor, if the store knows it."""
    whole = copy.copy(attr)
    whole.index = None
    try:
        return features.get_tensor_size(whole)
    except NotImplementedError:
        return None


def _num_edges(graphs: Any, edge: Any) -> int:
    """The number of edges that are stored in one layout."""
    ends = graphs.get_edge_index(edge)
    return int(ends[1 if edge.layout.value == "csr" else 0].numel())


def _check_order(graphs: Any, edges: list[Any], name: str) -> None:
    """Refuses edges that are stored in several orders: rows of `name` have but one."""
    first, *others = (_pairs(graphs, edge) for edge in edges)
    if not all(torch.equal(first, pairs) for pairs in others):
        rule = f"must list the edges of a type in one order for its feature {name!r}"
        got = " and ".join(edge.layout.value for edge in edges)
        fail("data", rule, f"{got} in different orders", "remove one of them")


def _pairs(graphs: Any, edge: Any) -> Tensor:
    """int64 [2, m]: edges in the order in which they are stored."""
    row, col = graphs.get_edge_index(edge)
    if edge.layout.value == "csr":
        row = torch.arange(row.numel() - 1).repeat_interleave(row.diff().cpu())
    if edge.layout.value == "csc":
        col = torch.arange(col.numel() - 1).repeat_interleave(col.diff().cpu())
    return torch.stack([row.cpu().long(), col.cpu().long()])


def _check_sorted(graphs: Any, edges: Iterable[Any]) -> None:
    """Refuses edges that are said to be in order of their columns, and are not."""
    for edge in edges:
        if edge.layout.value == "coo" and edge.is_sorted:
            col = graphs.get_edge_index(edge)[1]
            if bool((col[1:] < col[:-1]).any()):
                rule = "must only be set for edges that are sorted by column"
                fail("is_sorted", rule, "some that are not", "leave it to the store")
