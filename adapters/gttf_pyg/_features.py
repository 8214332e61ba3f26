"""Feature rows of a batch: which attributes have them, and their gathering at once."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data, FeatureStore, HeteroData
from torch_geometric.loader.utils import index_select

from gttf_pyg._compat import mapping_of, type_of
from gttf_pyg._graph import size_of
from gttf_pyg._partitioned import partitioned
from gttf_pyg._rows import ONLY
from gttf_sampler._check import fail
from gttf_sampler._loading.lane import Lane
from gttf_sampler.features import RowSource
from gttf_sampler.gather import gather_columns, gathers_into


def can_join(data: Any) -> bool:
    """Whether `join` knows the data; stores and sparse matrices are left to PyG.

    A subclass may have properties that are set in ways of their own.
    """
    if type(data) not in (Data, HeteroData):
        return False
    return not any("adj_t" in store for store in data.edge_stores)


def is_source(value: Any) -> bool:
    """Whether rows of `value` are fetched when a batch needs them."""
    if type(value) is Tensor or not isinstance(value, RowSource):
        return False
    return callable(value.rows)  # and no column of that name


def of_edges(store: Any, key: str) -> bool:
    """Whether an attribute with rows belongs to edges; PyG goes by its name as well."""
    kind = type_of(store)
    return "edge" in key if kind is None else isinstance(kind, tuple)


def has_sources(data: Any) -> bool:
    """Whether some attributes of the data are fetched, from a disk or elsewhere."""
    known = isinstance(data, Data | HeteroData)
    return known and any(True for store in data.stores for _ in sources_of(store))


def sources_of(store: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of a store that are fetched."""
    for key, value in mapping_of(store).items():
        if is_source(value):
            yield key, value


def sized(data: Any) -> Any:
    """The data, with as many nodes as its features have rows.

    PyG counts the rows of tensors, and of nothing else.
    """
    if not has_sources(data):
        return data
    data = copy.copy(data)
    for store in data.node_stores:
        if "num_nodes" not in store:
            rows = [len(v) for k, v in sources_of(store) if not of_edges(store, k)]
            if rows:
                store.num_nodes = rows[0]
    return data


class Rows(NamedTuple):
    """Rows of one attribute: `values[ids]` becomes `told[key]`."""

    values: Any
    ids: Tensor
    told: dict[str, Any]
    key: str


class RowGather:
    """All rows of features that a batch needs, gathered at once.

    Args:
        lane: the streams on which a device gets its batches, if there are any.
        device: where the batch is wanted; None where its parts are.
        uva: whether the device reads features of the host where they are.

    Attributes:
        here: rows that are gathered where they are.
        there: rows that the host gathers and a device gets.
        fetched: rows that a `RowSource` reads.
    """

    def __init__(
        self, lane: Lane | None, device: torch.device | None, uva: bool
    ) -> None:
        self.lane, self.device, self.uva = lane, device, uva
        self.here: list[Rows] = []
        self.there: list[Rows] = []
        self.fetched: list[Rows] = []

    def select(self, data: Any, store: Any, rows: Rows) -> None:
        """Notes rows of an attribute, or selects them now if nothing gathers them."""
        dim = data.__cat_dim__(rows.key, rows.values, store)
        if type(rows.values) is Tensor and dim == 0 and self.add(rows):
            return
        device = getattr(rows.values, "device", None)
        index = rows.ids.to(device if isinstance(device, torch.device) else "cpu")
        rows.told[rows.key] = index_select(rows.values, index, dim)

    def add(self, rows: Rows) -> bool:
        """Notes rows of a tensor; False if they have to be selected otherwise."""
        lane, values, index = self.lane, rows.values, rows.ids
        if values.device == index.device:
            if lane is not None and values.device.type == lane.device.type:
                lane.reads([values])
            self.here.append(rows)
        elif (
            lane is None
            or self.device is None
            or not gathers_into(values)
            or index.device.type != lane.device.type
        ):
            return False
        elif self.uva:
            self.here.append(rows._replace(values=lane.mapped(values)))
        else:
            self.there.append(rows)
        return True

    def gather(self) -> None:
        """Puts the rows where they belong."""
        for rows in self.fetched:
            ids = rows.ids.to("cpu", torch.int64).contiguous()
            found = rows.values.rows(ids)
            found = found if self.device is None else found.to(self.device)
            rows.told[rows.key] = found
        columns = [(rows.values, rows.ids) for rows in self.here]
        _put(self.here, gather_columns(columns))
        if self.lane is not None and self.there:
            known: dict[int, Tensor] = {}  # nodes may index many columns
            for rows in self.there:
                if id(rows.ids) not in known:
                    known[id(rows.ids)] = rows.ids.cpu()
            columns = [(rows.values, known[id(rows.ids)]) for rows in self.there]
            _put(self.there, self.lane.upload(columns))


def _put(wanted: list[Rows], found: list[Tensor]) -> None:
    """Sets the attributes of a batch to what was gathered for them."""
    for rows, value in zip(wanted, found, strict=True):
        rows.told[rows.key] = value


Column = tuple[Any, Any]  # the group and the name of a tensor


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
        return named or sure or every != size_of(edges[0])
    if sure or (named and size[0] != size_of(edges[0])):
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
