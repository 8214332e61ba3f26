"""Batches: a sample joined with its features, and the metadata of its seeds.

PyG's `filter_fn` goes through every attribute of every store by way of several calls
each, and copies the edges once more. Here rows are gathered into memory that was used
before, and edges stay where they were drawn. `tests/pyg/test_filter.py` compares the
two.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.sampler import SamplerOutput

from gttf_pyg._check import NOT_UNIFORM, SCHEMES, first_used
from gttf_pyg._compat import edge_stores, mapping_of, node_stores, store_of
from gttf_pyg._features import (
    RowGather,
    has_sources,
    of_edges,
    sources_of,
)
from gttf_pyg.sampler import GTTFSampler
from gttf_pyg.transforms import GCNWeights, edge_attributes
from gttf_sampler._check import fail, one_of
from gttf_sampler._loading.streams import StreamPipeline


def join(
    data: Any,
    out: Any,
    device: torch.device | None = None,
    uva: bool = False,
    pipeline: StreamPipeline | None = None,
) -> Any:
    """The part of `data` that was sampled, without the metadata of its seeds.

    Args:
        data: what was sampled from.
        out: what was sampled.
        device: where the batch is wanted; None leaves each part where it is.
        uva: whether the device reads features of the host where they are.
        pipeline: the streams on which the batch is being made, if there are some.
    """
    made, rows = copy.copy(data), RowGather(data, pipeline, device, uva)
    told = node_stores(made), edge_stores(made)
    none = torch.empty(0, dtype=torch.int64)
    for kind, store in node_stores(data).items():
        rows.add_nodes(store, told[0][kind], _part(out.node, kind, none))
    for kind, store in edge_stores(data).items():
        ends = _part(out.row, kind, none), _part(out.col, kind, none)
        rows.add_edges(store, told[1][kind], ends, _part(out.edge, kind, none))
    rows.gather()  # before the names that a batch uses for something else
    return set_sample(made, out)


def _part(values: Any, kind: Any, missing: Any) -> Any:
    """The part of a sample of one type; a sample without types has one part."""
    if kind is None or values is None:
        return values
    return values.get(kind, missing)


def set_sample(made: Any, out: Any) -> Any:
    """Sets the attributes of a sample beside its nodes and edges."""
    both = out.orig_row is not None and out.orig_col is not None
    if isinstance(out, SamplerOutput):
        told = mapping_of(store_of(made))
        _set(told, "batch", out.batch)
        _set(told, "num_sampled_nodes", out.num_sampled_nodes)
        _set(told, "num_sampled_edges", out.num_sampled_edges)
        if both:
            made._orig_edge_index = torch.stack([out.orig_row, out.orig_col])
        return made
    nodes, edges = node_stores(made), edge_stores(made)
    for stores, name, values in (
        (nodes, "batch", out.batch),
        (nodes, "num_sampled_nodes", out.num_sampled_nodes),
        (edges, "num_sampled_edges", out.num_sampled_edges),
    ):
        for kind, value in (values or {}).items():
            if kind in stores:
                mapping_of(stores[kind])[name] = value
    for kind in out.orig_row if both else ():
        ends = out.orig_row[kind], out.orig_col[kind]
        edges[kind]._orig_edge_index = torch.stack(ends)
    return made


def _set(told: dict[str, Any], name: str, value: Any) -> None:
    """Sets an attribute as PyG does: None takes it away."""
    if value is None:
        told.pop(name, None)
    else:
        told[name] = value


def set_nodes(data: Any, metadata: Any, kind: str | None) -> Any:
    """Sets the metadata of seeds; `kind` is their type, if there are any."""
    told = mapping_of(store_of(data) if kind is None else data[kind])
    input_id, seed_time = metadata
    _set(told, "input_id", input_id)
    _set(told, "seed_time", seed_time)
    told["batch_size"] = input_id.size(0)
    return data


class LinkMetadata(NamedTuple):
    """The metadata of seed edges, in the order of PyG's `edge_sample`."""

    input_id: Tensor | None
    edge_label_index: Tensor
    edge_label: Tensor | None
    time: Tensor | None


class TripletMetadata(NamedTuple):
    """The metadata of triplets, in the order of PyG's `edge_sample`."""

    input_id: Tensor | None
    src_index: Tensor
    dst_pos_index: Tensor
    dst_neg_index: Tensor
    time: Tensor | None


def set_links(data: Any, metadata: Any, kind: Any, triplets: bool) -> Any:
    """Sets the metadata of seed edges; `kind` is their type, if there are any."""
    own = data if kind is None else data[kind]
    if not triplets:
        told = LinkMetadata(*metadata)
        own.input_id, own.edge_label_index = told.input_id, told.edge_label_index
        own.edge_label, own.edge_label_time = told.edge_label, told.time
        return data
    three = TripletMetadata(*metadata)
    own.input_id = three.input_id
    source, target = (data, data) if kind is None else (data[kind[0]], data[kind[-1]])
    source.src_index, source.seed_time = three.src_index, three.time
    target.dst_pos_index = three.dst_pos_index
    target.dst_neg_index = three.dst_neg_index
    target.seed_time = three.time
    if kind is None or kind in data.edge_types:  # the data may have brought its own
        del own.edge_label_index
        del own.edge_label_time
    return data


def check_sources(data: Any, sampler: Any, joins: bool) -> None:
    """Refuses features that no batch could be given, or that miss rows."""
    if not has_sources(data):
        return
    if not isinstance(sampler, GTTFSampler) or not joins:
        what = type(sampler).__name__ if joins else type(data).__name__
        rule = "must be a 'Data' or 'HeteroData' with an edge_index, for a GTTFSampler"
        fail("data", rule, f"{what}, with features on disk")
    for store in data.stores:
        for key, value in sources_of(store):
            edges = of_edges(store, key)
            wanted = store.num_edges if edges else store.num_nodes
            if len(value) != wanted:
                each = "edge" if edges else "node"
                fail(key, f"must have one row per {each}, {wanted} in all", len(value))


class Finish:
    """The device, then GCN weights, the dtype of edges, the user's own transform."""

    def __init__(
        self,
        weights: GCNWeights | None,
        device: torch.device | str | None,
        transform: Callable[[Any], Any] | None,
        index_dtype: torch.dtype | None = None,
    ) -> None:
        self.index_dtype = index_dtype
        self.weights, self.transform = weights, transform
        self.device = None if device is None else torch.device(device)

    def __call__(self, data: Any, pipeline: StreamPipeline | None = None) -> Any:
        """The finished batch, on the streams of a pipeline if there is one."""
        if self.device is not None:
            data = data.to(self.device, non_blocking=True)
        if pipeline is not None and (self.weights or self.transform) is not None:
            pipeline.settle(data)
        if self.weights is not None:
            data = self.weights(data)
        if self.index_dtype is not None:
            for store in data.edge_stores:
                if "edge_index" in store:
                    store.edge_index = store.edge_index.to(self.index_dtype)
        return data if self.transform is None else self.transform(data)


def gcn_weights(data: Any, sampler: Any, scheme: str) -> GCNWeights:
    """The weights of `normalize`, if they mean something for this sampler."""
    one_of("normalize", scheme, SCHEMES)
    if not isinstance(data, Data) or "edge_index" not in data:
        rule = "must be None unless the data is a 'Data' with an edge_index"
        fail("normalize", rule, type(data).__name__, "normalise in the model")
    if not isinstance(sampler, GTTFSampler):
        rule = "must be None unless the 'neighbor_sampler' is a GTTFSampler"
        fail("normalize", rule, type(sampler).__name__)
    (adj,) = sampler.adjs.values()
    taken = [name for name in ("edge_weight", "n_id", "e_id") if name in data]
    if taken:
        rule = f"must be None where the data has a {taken[0]!r} of its own"
        fail("normalize", rule, repr(scheme))
    names = ("subgraph_type", "sample_direction", *NOT_UNIFORM, "layerwise")
    if used := first_used(sampler, *names):
        rule = "must be None unless neighbours are drawn uniformly"
        fail("normalize", rule, f"{scheme!r} with {used!r}")
    return GCNWeights(adj, scheme, edge_attributes(data))
