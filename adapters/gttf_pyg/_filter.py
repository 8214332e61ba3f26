"""A sample joined with its features: what PyG's `filter_fn` does, without its copies.

PyG goes through every attribute of every store by way of several calls each, and copies
the edges once more. Here rows are gathered into memory that was used before, and edges
stay where they were drawn. `tests/pyg/test_filter.py` compares the two.
"""

import copy
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader.utils import (
    filter_custom_hetero_store,
    filter_custom_store,
    index_select,
)
from torch_geometric.sampler import SamplerOutput

from gttf_pyg._sources import fetch, is_source, of_edges
from gttf_pyg._stores import NodeColumns, edge_features
from gttf_sampler._backends.memory import IDS
from gttf_sampler._loading.streams import StreamPipeline
from gttf_sampler.gather import gather_columns, gathers_into


def can_join(data: Any) -> bool:
    """Whether this module knows the data; stores and sparse matrices are PyG's.

    A subclass may have properties that are set in ways of their own.
    """
    if type(data) not in (Data, HeteroData):
        return False
    return not any("adj_t" in store for store in data.edge_stores)


def join(
    data: Any,
    out: Any,
    device: torch.device | None = None,
    uva: bool = False,
    pipeline: StreamPipeline | None = None,
) -> Any:
    """The part of `data` that was sampled, without what only a loader knows.

    Args:
        data: what was sampled from.
        out: what was sampled.
        device: where the batch is wanted; None leaves each part where it is.
        uva: whether the device reads features of the host where they are.
        pipeline: the streams on which the batch is being made, if there are some.
    """
    made, wanted = copy.copy(data), _Wanted(pipeline, device, uva)
    if isinstance(out, SamplerOutput):
        store, told = data._store, made._store._mapping
        _nodes(data, store, told, out.node, wanted)
        _edges(data, store, told, (out.row, out.col), out.edge, wanted)
        wanted.gather()
        return _tell_of_sample(made, out)
    none = torch.empty(0, dtype=torch.int64)
    nodes, edges = made._node_store_dict, made._edge_store_dict
    for kind, store in data._node_store_dict.items():
        node = out.node.get(kind, none)
        _nodes(data, store, nodes[kind]._mapping, node, wanted)
    for kind, store in data._edge_store_dict.items():
        edge = out.edge and out.edge.get(kind, none)
        ends = out.row.get(kind, none), out.col.get(kind, none)
        _edges(data, store, edges[kind]._mapping, ends, edge, wanted)
    wanted.gather()  # before the names that a batch uses for something else
    return _tell_of_sample(made, out)


def join_stores(loader: Any, out: Any, sampler: Any, tell: Any) -> Any:
    """The batch of a loader of stores, with its features of nodes and of edges.

    PyG gathers the features of edges by node where there are no types, and leaves them
    out where there are (its issue 9566).

    Args:
        loader: with the `edge_columns` of its stores.
        out: what was sampled.
        sampler: what has sampled it.
        tell: a function of (data, metadata, type of the seeds), which adds the seeds.
    """
    if loader.transform_sampler_output:
        out = loader.transform_sampler_output(out)
    features, graphs = loader.data
    typed = not isinstance(out, SamplerOutput)
    edges = _edge_ids(out, getattr(sampler, "edge_permutation", None))
    select = filter_custom_hetero_store if typed else filter_custom_store
    columns = loader.edge_columns
    parts = out.node, out.row, out.col, out.edge, loader.custom_cls
    data = select(NodeColumns(features, columns), graphs, *parts)
    for kind, name, rows in edge_features(features, columns, edges):
        (data[kind] if typed else data)[name] = rows
    for kind, node in out.node.items() if typed else [(None, out.node)]:
        (data[kind] if typed else data._store)._mapping.setdefault("n_id", node)
    for kind, edge in edges.items():
        if edge is not None:
            (data[kind] if typed else data._store)._mapping.setdefault("e_id", edge)
    data = tell(_tell_of_sample(data, out), out.metadata, loader.input_data.input_type)
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


def _tell_of_sample(made: Any, out: Any) -> Any:
    """Adds what a sampler knows of its sample beside nodes and edges."""
    both = out.orig_row is not None and out.orig_col is not None
    if isinstance(out, SamplerOutput):
        told = made._store._mapping
        _set(told, "batch", out.batch)
        _set(told, "num_sampled_nodes", out.num_sampled_nodes)
        _set(told, "num_sampled_edges", out.num_sampled_edges)
        if both:
            made._orig_edge_index = torch.stack([out.orig_row, out.orig_col])
        return made
    nodes, edges = made._node_store_dict, made._edge_store_dict
    _tell(nodes, "batch", out.batch)
    _tell(nodes, "num_sampled_nodes", out.num_sampled_nodes)
    _tell(edges, "num_sampled_edges", out.num_sampled_edges)
    for kind in out.orig_row if both else ():
        ends = out.orig_row[kind], out.orig_col[kind]
        edges[kind]._orig_edge_index = torch.stack(ends)
    return made


Place = tuple[dict[str, Any], str]


class _Wanted:
    """Rows that a batch needs, to be gathered all at once.

    Attributes:
        device: where the batch is wanted; None where its parts are.
        here: what is gathered where it is, by values and index, with its place.
        there: what the host gathers and a device gets.
        fetched: what comes from elsewhere, by its source and index.
    """

    def __init__(
        self, pipeline: StreamPipeline | None, device: torch.device | None, uva: bool
    ) -> None:
        self.pipeline, self.device, self.uva = pipeline, device, uva
        self.here: list[tuple[Tensor, Tensor, Place]] = []
        self.there: list[tuple[Tensor, Tensor, Place]] = []
        self.fetched: list[tuple[Any, Tensor, Place]] = []

    def add(self, values: Tensor, index: Tensor, place: Place) -> bool:
        """Notes rows of `values`; False if they have to be selected otherwise."""
        pipeline = self.pipeline
        if values.device == index.device:
            if pipeline is not None and values.device.type == pipeline.device.type:
                pipeline.reads([values])
            self.here.append((values, index, place))
        elif (
            pipeline is None
            or self.device is None
            or not gathers_into(values)
            or index.device.type != pipeline.device.type
        ):
            return False
        elif self.uva:
            self.here.append((pipeline.mapped(values), index, place))
        else:
            self.there.append((values, index, place))
        return True

    def gather(self) -> None:
        """Puts the rows where they belong."""
        for source, index, (told, key) in self.fetched:
            rows = fetch(source, index)
            told[key] = rows if self.device is None else rows.to(self.device)
        columns = [(values, index) for values, index, _ in self.here]
        self._put(self.here, gather_columns(columns))
        if self.pipeline is not None and self.there:
            known: dict[int, Tensor] = {}  # nodes may index many columns
            for _, index, _ in self.there:
                if id(index) not in known:
                    known[id(index)] = index.cpu()
            columns = [(values, known[id(i)]) for values, i, _ in self.there]
            self._put(self.there, self.pipeline.upload(columns))

    @staticmethod
    def _put(wanted: list[tuple[Tensor, Tensor, Place]], rows: list[Tensor]) -> None:
        for (_, _, (told, key)), value in zip(wanted, rows, strict=True):
            told[key] = value


def tell_of_nodes(data: Any, metadata: Any, kind: str | None) -> Any:
    """Adds what a loader knows of its seeds; `kind` is their type, if there are any."""
    told = (data._store if kind is None else data[kind])._mapping
    _set(told, "input_id", metadata[0])
    _set(told, "seed_time", metadata[1])
    told["batch_size"] = metadata[0].size(0)
    return data


def tell_of_links(data: Any, metadata: Any, kind: Any, triplets: bool) -> Any:
    """Adds what a loader knows of its seed edges; `kind` is their type, if any."""
    own = data if kind is None else data[kind]
    own.input_id = metadata[0]
    if not triplets:
        own.edge_label_index, own.edge_label = metadata[1], metadata[2]
        own.edge_label_time = metadata[3]
        return data
    source, target = (data, data) if kind is None else (data[kind[0]], data[kind[-1]])
    source.src_index, source.seed_time = metadata[1], metadata[4]
    target.dst_pos_index, target.dst_neg_index = metadata[2], metadata[3]
    target.seed_time = metadata[4]
    if kind is None or kind in data.edge_types:  # the data may have brought its own
        del own.edge_label_index
        del own.edge_label_time
    return data


def edge_index_of(row: Tensor, col: Tensor) -> Tensor:
    """int64 [2, e]: a view if the two stand behind one another in one memory."""
    size, memory = row.numel(), row._base
    behind = col.data_ptr() - row.data_ptr() == size * row.element_size()
    if size and behind and memory is not None and memory is col._base:
        return row.as_strided((2, size), (size, 1))
    if row.device.type != "cpu" or row.dtype != IDS.dtype:
        return torch.stack([row, col])
    return torch.stack([row, col], out=IDS.make(2 * size).view(2, size))


def _nodes(
    data: Any, store: Any, told: dict[str, Any], node: Tensor, wanted: _Wanted
) -> None:
    """All that belongs to nodes."""
    for key, value in store._mapping.items():
        if key == "num_nodes":
            told[key] = node.numel()
        elif is_source(value):
            if not of_edges(store, key):
                wanted.fetched.append((value, node, (told, key)))
        elif store.is_node_attr(key):
            _select(data, store, told, key, value, node, wanted)
    told.setdefault("n_id", node)


def _edges(
    data: Any,
    store: Any,
    told: dict[str, Any],
    ends: tuple[Tensor, Tensor],
    edge: Tensor | None,
    wanted: _Wanted,
) -> None:
    """The ends of the edges, and all that belongs to them."""
    for key, value in store._mapping.items():
        if key == "edge_index":
            told[key] = edge_index_of(*ends).to(wanted.device or value.device)
        elif is_source(value):
            if edge is not None and of_edges(store, key):
                wanted.fetched.append((value, edge, (told, key)))
            elif of_edges(store, key):
                told.pop(key, None)
        elif store.is_edge_attr(key):
            if edge is None:
                told.pop(key, None)
            else:
                _select(data, store, told, key, value, edge, wanted)
    if edge is not None:
        told.setdefault("e_id", edge)


def _select(
    data: Any,
    store: Any,
    told: dict[str, Any],
    key: str,
    value: Any,
    index: Tensor,
    wanted: _Wanted,
) -> None:
    """What belongs to some nodes or edges."""
    dim = data.__cat_dim__(key, value, store)
    if type(value) is Tensor and dim == 0 and wanted.add(value, index, (told, key)):
        return
    device = getattr(value, "device", None)
    index = index.to(device if isinstance(device, torch.device) else "cpu")
    told[key] = index_select(value, index, dim)


def _set(told: dict[str, Any], name: str, value: Any) -> None:
    """Sets an attribute as PyG does: None takes it away."""
    if value is None:
        told.pop(name, None)
    else:
        told[name] = value


def _tell(stores: dict[Any, Any], name: str, values: dict[Any, Any] | None) -> None:
    """Sets an attribute of all stores of which it is known."""
    for kind, value in (values or {}).items():
        if kind in stores:
            stores[kind]._mapping[name] = value
