"""Features that are not in memory, as attributes of PyG's data."""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from gttf_pyg.sampler import GTTFSampler
from gttf_sampler._check import fail
from gttf_sampler.features import RowSource


def is_source(value: Any) -> bool:
    """Whether rows of `value` are fetched when a batch needs them."""
    if type(value) is Tensor or not isinstance(value, RowSource):
        return False
    return callable(value.rows)  # and no column of that name


def of_edges(store: Any, key: str) -> bool:
    """Whether an attribute with rows belongs to edges; PyG goes by its name as well."""
    if getattr(store, "_key", None) is None:
        return "edge" in key
    return isinstance(store._key, tuple)


def has_sources(data: Any) -> bool:
    """Whether some attributes of the data are to be fetched."""
    if not isinstance(data, Data | HeteroData):
        return False
    return any(is_source(v) for store in data.stores for v in store._mapping.values())


def sized(data: Any) -> Any:
    """The data, with as many nodes as its features have rows.

    PyG counts the rows of tensors, and of nothing else.
    """
    if not has_sources(data):
        return data
    data = copy.copy(data)
    for store in data.node_stores:
        if "num_nodes" not in store:
            rows = [len(v) for k, v in _sources(store) if not of_edges(store, k)]
            if rows:
                store.num_nodes = rows[0]
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
        for key, value in _sources(store):
            edges = of_edges(store, key)
            wanted = store.num_edges if edges else store.num_nodes
            if len(value) != wanted:
                each = "edge" if edges else "node"
                fail(key, f"must have one row per {each}, {wanted} in all", len(value))


def _sources(store: Any) -> Iterator[tuple[str, Any]]:
    """The attributes that are to be fetched."""
    for key, value in store._mapping.items():
        if is_source(value):
            yield key, value


def fetch(source: RowSource, ids: Tensor) -> Tensor:
    """The rows of ids that were sampled."""
    return source.rows(ids.to("cpu", torch.int64).contiguous())
