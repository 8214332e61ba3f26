"""Features and edges of a batch, gathered at once from the attributes of the data."""

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader.utils import index_select

from gttf_pyg._compat import base_of, mapping_of, type_of
from gttf_sampler._backends.memory import IDS
from gttf_sampler._loading.streams import StreamPipeline
from gttf_sampler.features import RowSource
from gttf_sampler.gather import gather_columns, gathers_into


def can_join(data: Any) -> bool:
    """True if `join` knows the data; stores and sparse matrices are left to PyG.

    A subclass may have properties that are set in ways of their own.
    """
    if type(data) not in (Data, HeteroData):
        return False
    return not any("adj_t" in store for store in data.edge_stores)


def is_source(value: Any) -> bool:
    """True if rows of `value` are fetched when a batch needs them."""
    if type(value) is Tensor or not isinstance(value, RowSource):
        return False
    return callable(value.rows)  # and no column of that name


def of_edges(store: Any, key: str) -> bool:
    """True if an attribute with rows belongs to edges; PyG goes by its name as well."""
    kind = type_of(store)
    return "edge" in key if kind is None else isinstance(kind, tuple)


def has_sources(data: Any) -> bool:
    """True if some attributes of the data are fetched, from a disk or elsewhere."""
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
        data: what was sampled from.
        pipeline: the streams on which a device gets its batches, if there are any.
        device: where the batch is wanted; None where its parts are.
        uva: whether the device reads features of the host where they are.

    Attributes:
        here: rows that are gathered where they are.
        there: rows that the host gathers and a device gets.
        fetched: rows that a `RowSource` reads.
    """

    def __init__(
        self,
        data: Any,
        pipeline: StreamPipeline | None,
        device: torch.device | None,
        uva: bool,
    ) -> None:
        self.data, self.pipeline = data, pipeline
        self.device, self.uva = device, uva
        self.here: list[Rows] = []
        self.there: list[Rows] = []
        self.fetched: list[Rows] = []

    def add_nodes(self, store: Any, made: Any, node: Tensor) -> None:
        """Notes the attributes of nodes, by their ids [n]."""
        told = mapping_of(made)
        for key, value in mapping_of(store).items():
            if key == "num_nodes":
                told[key] = node.numel()
            elif is_source(value):
                if not of_edges(store, key):
                    self.fetched.append(Rows(value, node, told, key))
            elif store.is_node_attr(key):
                self._select(store, Rows(value, node, told, key))
        told.setdefault("n_id", node)

    def add_edges(
        self, store: Any, made: Any, ends: tuple[Tensor, Tensor], edge: Tensor | None
    ) -> None:
        """Sets the ends of edges, and notes their attributes by ids [e], if known."""
        told = mapping_of(made)
        for key, value in mapping_of(store).items():
            if key == "edge_index":
                told[key] = edge_index_of(*ends).to(self.device or value.device)
                continue
            fetched = is_source(value)
            if not (of_edges(store, key) if fetched else store.is_edge_attr(key)):
                continue
            if edge is None:
                told.pop(key, None)
            elif fetched:
                self.fetched.append(Rows(value, edge, told, key))
            else:
                self._select(store, Rows(value, edge, told, key))
        if edge is not None:
            told.setdefault("e_id", edge)

    def _select(self, store: Any, rows: Rows) -> None:
        """Notes rows of an attribute, or selects them now if nothing gathers them."""
        dim = self.data.__cat_dim__(rows.key, rows.values, store)
        if type(rows.values) is Tensor and dim == 0 and self._add(rows):
            return
        device = getattr(rows.values, "device", None)
        ids = rows.ids.to(device if isinstance(device, torch.device) else "cpu")
        rows.told[rows.key] = index_select(rows.values, ids, dim)

    def _add(self, rows: Rows) -> bool:
        """Notes rows of a tensor; False if they have to be selected otherwise."""
        pipeline, values, index = self.pipeline, rows.values, rows.ids
        if values.device == index.device:
            if pipeline is not None and values.device.type == pipeline.device.type:
                pipeline.reads([values])
            self.here.append(rows)
        elif (
            pipeline is None
            or self.device is None
            or not gathers_into(values)
            or index.device.type != pipeline.device.type
        ):
            return False
        elif self.uva:
            self.here.append(rows._replace(values=pipeline.mapped(values)))
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
        if self.pipeline is not None and self.there:
            known: dict[int, Tensor] = {}  # nodes may index many columns
            for rows in self.there:
                if id(rows.ids) not in known:
                    known[id(rows.ids)] = rows.ids.cpu()
            columns = [(rows.values, known[id(rows.ids)]) for rows in self.there]
            _put(self.there, self.pipeline.upload(columns))


def _put(wanted: list[Rows], found: list[Tensor]) -> None:
    """Sets the attributes of a batch to what was gathered for them."""
    for rows, value in zip(wanted, found, strict=True):
        rows.told[rows.key] = value


def edge_index_of(row: Tensor, col: Tensor) -> Tensor:
    """int64 [2, e]: a view if the two stand behind one another in one memory."""
    size, memory = row.numel(), base_of(row)
    behind = col.data_ptr() - row.data_ptr() == size * row.element_size()
    if size and behind and memory is not None and memory is base_of(col):
        return row.as_strided((2, size), (size, 1))
    if row.device.type != "cpu" or row.dtype != IDS.dtype:
        return torch.stack([row, col])
    return torch.stack([row, col], out=IDS.make(2 * size).view(2, size))
