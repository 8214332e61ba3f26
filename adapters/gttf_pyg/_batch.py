"""Batches: a sample in PyG's words, joined with its features, and what seeds tell.

PyG's `filter_fn` goes through every attribute of every store by way of several calls
each, and copies the edges once more. Here rows are gathered into memory that was used
before, and edges stay where they were drawn. `tests/pyg/test_filter.py` compares the
two.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader.utils import index_select
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

from gttf_pyg._compat import (
    EdgeType,
    Stores,
    base_of,
    mapping_of,
    mappings,
    row_type,
    set_original_edges,
    stores_of,
    type_of,
)
from gttf_pyg._lazy import LazyColumns
from gttf_sampler import CompactAdj, HeteroSubgraph, Subgraph
from gttf_sampler._backends.memory import IDS
from gttf_sampler._check import fail
from gttf_sampler._loading.streams import StreamPipeline
from gttf_sampler.features import RowSource
from gttf_sampler.gather import gather_columns, gathers_into


def from_subgraph(
    found: Subgraph | HeteroSubgraph,
    adjs: Mapping[EdgeType, CompactAdj],
    backward: bool,
    *,
    original: bool = False,
) -> SamplerOutput | HeteroSamplerOutput:
    """A sample in the words of PyG: edges are positions in the caller's edge_index.

    They are so already where they are `original`; `backward`, rows are those of the
    reversed graph.
    """
    row: Any = found.col if backward else found.row
    col: Any = found.row if backward else found.col
    counts: Any = found.num_sampled_edges
    if isinstance(found, Subgraph):
        (adj,) = adjs.values()
        edge = found.edge if original else adj.original_edge(found.edge).long()
        return SamplerOutput(
            node=found.node,
            row=row,
            col=col,
            edge=edge,
            batch=found.batch,
            num_sampled_nodes=found.num_sampled_nodes,
            num_sampled_edges=counts,
        )
    name = {kind: row_type(kind, backward) for kind in adjs}
    edges = found.edge
    if not original:
        edges = {k: adj.original_edge(edges[k]).long() for k, adj in adjs.items()}
    return HeteroSamplerOutput(
        node=dict(found.node),
        row={name[kind]: row[kind] for kind in adjs},
        col={name[kind]: col[kind] for kind in adjs},
        edge={name[kind]: edges[kind] for kind in adjs},
        batch=None if found.batch is None else dict(found.batch),
        num_sampled_nodes=found.num_sampled_nodes,
        num_sampled_edges=counts and {name[kind]: counts[kind] for kind in adjs},
    )


def join(
    data: Any,
    out: Any,
    device: torch.device | None = None,
    uva: bool = False,
    pipeline: StreamPipeline | None = None,
    lazy: LazyColumns | None = None,
) -> Any:
    """The part of `data` that was sampled, without the metadata of its seeds.

    On `device`, or each part where it is; see `RowGather` for the others.
    """
    made, stores = copy.copy(data), stores_of(data)
    given, told = mappings(stores), mappings(stores_of(made))
    rows = RowGather(data, pipeline, device, uva, lazy)
    node, row, col, edge = map(by_type, (out.node, out.row, out.col, out.edge))
    none = torch.empty(0, dtype=torch.int64)
    for kind, store in stores.nodes.items():
        columns = given.nodes[kind], told.nodes[kind]
        rows.add_nodes(store, *columns, node.get(kind, none))
    for kind, store in stores.edges.items():
        ends = row.get(kind, none), col.get(kind, none)
        own = None if out.edge is None else edge.get(kind, none)
        rows.add_edges(store, given.edges[kind], told.edges[kind], ends, own)
    rows.gather()  # before the names that a batch uses for something else
    return set_sample(made, out, told)


def by_type(value: Any, alone: Any = None) -> dict[Any, Any]:
    """The parts of a sample by type; what has no types has the key `alone`."""
    return value if isinstance(value, dict) else {alone: value}


def set_sample(made: Any, out: Any, told: Stores) -> Any:
    """Sets the attributes of a sample beside its nodes and edges, in its `mappings`."""
    for part, name in (
        (told.nodes, "batch"),
        (told.nodes, "num_sampled_nodes"),
        (told.edges, "num_sampled_edges"),
    ):
        for kind, value in by_type(getattr(out, name)).items():
            if kind in part:
                set_or_remove(part[kind], name, value)
    set_factors(out, told)
    if out.orig_row is not None and out.orig_col is not None:
        cols = by_type(out.orig_col)
        for kind, row in by_type(out.orig_row).items():
            set_original_edges(made, kind, torch.stack([row, cols[kind]]))
    return made


def set_factors(out: Any, told: Stores) -> None:
    """Sets how many edges each one stands for, of draws with `labor`."""
    for kind, value in by_type(getattr(out, "edge_factor", None)).items():
        if kind in told.edges and value is not None:
            told.edges[kind]["edge_factor"] = value


def set_or_remove(told: dict[str, Any], name: str, value: Any) -> None:
    """Sets an attribute as PyG does: None takes it away."""
    if value is None:
        told.pop(name, None)
    else:
        told[name] = value


def set_seeds(data: Any, metadata: Any, kind: Any) -> Any:
    """Sets what a sampler tells of its seeds; `kind` is their type, if they have one.

    That is (ids, times) of nodes, or a pair per node type; (ids, pairs, labels, times)
    of edges; (ids, sources, targets, negative targets, times) of triplets.
    """
    if isinstance(metadata, Mapping):
        for name, part in metadata.items():
            set_seeds(data, part, name)
        return data
    own = data if kind is None else data[kind]
    input_id, *ends, time = metadata
    if not ends:
        told = mapping_of(stores_of(data).nodes[kind])
        set_or_remove(told, "input_id", input_id)
        set_or_remove(told, "seed_time", time)
        told["batch_size"] = input_id.size(0)
    elif len(ends) == 2:
        own.input_id, (own.edge_label_index, own.edge_label) = input_id, ends
        own.edge_label_time = time
    else:
        source, target = (own, own) if kind is None else (data[kind[0]], data[kind[-1]])
        own.input_id = input_id
        source.src_index, target.dst_pos_index, target.dst_neg_index = ends
        source.seed_time, target.seed_time = time, time
        if kind is None or kind in data.edge_types:  # the data may have brought its own
            del own.edge_label_index
            del own.edge_label_time
    return data


def check_sources(data: Any, refused: str | None) -> None:
    """Refuses features that miss rows, or that what is `refused` gives no batch of."""
    if not has_sources(data):
        return
    if refused is not None:
        rule = "must be a 'Data' or 'HeteroData' with an edge_index, for a GTTFSampler"
        fail("data", rule, f"{refused}, with features on disk")
    for store in data.stores:
        for key, value in sources_of(store):
            edges = of_edges(store, key)
            wanted = store.num_edges if edges else store.num_nodes
            if len(value) != wanted:
                each = "edge" if edges else "node"
                fail(key, f"must have one row per {each}, {wanted} in all", len(value))


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


class Gather(NamedTuple):
    """One gather of rows of an attribute: `values[ids]` becomes `told[key]`."""

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
        lazy: which features are gathered when somebody looks; None if none are.
    """

    def __init__(
        self,
        data: Any,
        pipeline: StreamPipeline | None,
        device: torch.device | None,
        uva: bool,
        lazy: LazyColumns | None,
    ) -> None:
        self.data, self.pipeline = data, pipeline
        self.device, self.uva, self.lazy = device, uva, lazy
        self.here: list[Gather] = []  # gathered where they are
        self.there: list[Gather] = []  # gathered by the host, for a device
        self.fetched: list[Gather] = []  # read by a `RowSource`

    def add_nodes(
        self, store: Any, given: dict[str, Any], told: dict[str, Any], node: Tensor
    ) -> None:
        """Notes the attributes of nodes, by their ids [n]."""
        for key, value in given.items():
            if key == "num_nodes":
                told[key] = node.numel()
            elif is_source(value):
                if not of_edges(store, key):
                    self.fetched.append(Gather(value, node, told, key))
            elif store.is_node_attr(key):
                self._select(store, Gather(value, node, told, key), self.lazy)
        told.setdefault("n_id", node)

    def add_edges(
        self,
        store: Any,
        given: dict[str, Any],
        told: dict[str, Any],
        ends: tuple[Tensor, Tensor],
        edge: Tensor | None,
    ) -> None:
        """Sets the ends of edges, and notes their attributes by ids [e], if known."""
        for key, value in given.items():
            if key == "edge_index":
                told[key] = edge_index_of(*ends).to(self.device or value.device)
                continue
            fetched = is_source(value)
            if not (of_edges(store, key) if fetched else store.is_edge_attr(key)):
                continue
            if edge is None:
                told.pop(key, None)
            elif fetched:
                self.fetched.append(Gather(value, edge, told, key))
            else:
                self._select(store, Gather(value, edge, told, key))
        if edge is not None:
            told.setdefault("e_id", edge)

    def _select(
        self, store: Any, rows: Gather, lazy: LazyColumns | None = None
    ) -> None:
        """Notes rows of an attribute, or selects them now if nothing gathers them."""
        dim = self.data.__cat_dim__(rows.key, rows.values, store)
        if lazy is not None and dim == 0 and self.device in (None, rows.ids.device):
            column = type_of(store), rows.key
            found = lazy.rows(column, rows.values, rows.ids)
            if found is not None:
                rows.told[rows.key] = found
                return
        if type(rows.values) is Tensor and dim == 0 and self._add(rows):
            return
        device = getattr(rows.values, "device", None)
        ids = rows.ids.to(device if isinstance(device, torch.device) else "cpu")
        rows.told[rows.key] = index_select(rows.values, ids, dim)

    def _add(self, rows: Gather) -> bool:
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
        for rows in self.fetched:
            there = getattr(rows.values, "device", "cpu")  # of a `DeviceCache`
            ids = rows.ids.to(there, torch.int64).contiguous()
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


def _put(wanted: list[Gather], found: list[Tensor]) -> None:
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
