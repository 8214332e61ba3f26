"""Batches from a (FeatureStore, GraphStore) pair, with the features of edges."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import FeatureStore
from torch_geometric.loader.utils import filter_custom_hetero_store, filter_custom_store
from torch_geometric.sampler import SamplerOutput

from gttf_pyg._batch import set_sample
from gttf_pyg._compat import mapping_of, store_of
from gttf_pyg._graph import size_of
from gttf_pyg._partitioned import partitioned
from gttf_pyg._rows import ONLY
from gttf_sampler._check import fail

Column = tuple[Any, Any]  # the group and the name of a tensor


def join_stores(loader: Any, out: Any, sampler: Any, set_metadata: Any) -> Any:
    """The batch of a loader of stores, with its features of nodes and of edges.

    PyG gathers the features of edges by node where there are no types, and leaves them
    out where there are (its issue 9566).

    Args:
        loader: with the `edge_columns` of its stores.
        out: what was sampled.
        sampler: what has sampled it.
        set_metadata: a function of (data, metadata, type of the seeds).
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
    ids = {"n_id": out.node if typed else {None: out.node}, "e_id": edges}
    for name, parts_of in ids.items():
        for kind, values in parts_of.items():
            if values is not None:
                store = data[kind] if typed else store_of(data)
                mapping_of(store).setdefault(name, values)
    kind = loader.input_data.input_type
    data = set_metadata(set_sample(data, out), out.metadata, kind)
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
    """True if a tensor has a row per edge; it must where that is sure."""
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
