"""Seeds of a loader: what users may give, checked and in PyG's form."""

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import NodeSamplerInput

from gttf_pyg._check import as_reals, ids, is_integer
from gttf_pyg._compat import ONLY, row_type
from gttf_pyg._keys import InputError, SourceNodes, TypedNodes, one_per_seed
from gttf_pyg._rows import Options, can_join
from gttf_pyg._stores import from_data
from gttf_sampler._check import (
    as_dense,
    dense,
    fail,
    integers,
    mistyped,
    one_of,
    shown,
)


def input_nodes_of(
    value: Any, times: Any, data: Any, sampler: Any, named: str = "input_nodes"
) -> tuple[Any, Any]:
    """`input_nodes` and `input_time` as PyG takes them, after checks.

    Arrays and lists of booleans are masks; there must be as many times as nodes.
    """
    sizes: Any = getattr(sampler, "num_nodes", None)
    if not getattr(sampler, "is_hetero", False):
        nodes = _nodes(value, sizes, named)
        if nodes is None and isinstance(data, tuple):  # for stores PyG asserts
            nodes = torch.arange(sizes)
        return nodes, _one_per_seed("input_time", times, _count(nodes, sizes))
    name, nodes = value, None
    if isinstance(value, tuple | list) and len(value) == 2:
        name, nodes = value
    if not isinstance(name, str):
        rule = "must be a node type, or (node type, nodes), in a heterogeneous graph"
        _refuse("input_nodes", rule, value)
    if name not in sampler.node_types:
        rule = f"must name one of the node types {sampler.node_types}"
        _refuse("input_nodes", rule, name)
    count = (sizes or {}).get(name)
    nodes = _nodes(nodes, count, named)
    times = _one_per_seed("input_time", times, _count(nodes, count))
    if nodes is None and isinstance(data, tuple) and count is not None:
        nodes = torch.arange(count)  # PyG asks a store for the size of None
    return (name if nodes is None else (name, nodes)), times


def edge_label_index_of(
    value: Any, labels: Any, times: Any, sampler: Any
) -> tuple[Any, Any, Any]:
    """`edge_label_index`, `edge_label` and `edge_label_time`, after checks."""
    kind, edges = None, value
    if getattr(sampler, "is_hetero", False):
        kind, edges = _edge_type(value)
    elif isinstance(value, tuple) and len(value) == 2 and value[0] is None:
        edges = value[1]  # as PyG has them for stores
    if isinstance(edges, Tensor | np.ndarray | list):
        edges = as_dense("edge_label_index", edges)
    if isinstance(edges, Tensor) and (is_integer(edges) or edges.numel() == 0):
        edges = edges.to(torch.int64)  # as PyG casts its seeds
    rows = getattr(sampler, "adjs", {}).get(ONLY if kind is None else kind)
    count = None if rows is None else rows.num_edges
    if edges is not None:
        if not isinstance(edges, Tensor) or edges.dim() != 2 or edges.shape[0] != 2:
            _refuse("edge_label_index", "must be a tensor [2, k] of pairs", edges)
        count = edges.shape[1]
    labels = _one_per_seed("edge_label", labels, count)
    if getattr(sampler, "is_temporal", True):  # else PyG refuses them
        times = _one_per_seed("edge_label_time", times, count)
    if kind is not None:
        edges = kind if edges is None else (kind, edges)
    return edges, labels, times


def _edge_type(value: Any) -> tuple[Any, Any]:
    parts = value if isinstance(value, tuple | list) else ()
    if len(parts) == 2 and isinstance(parts[0], tuple | list):
        kind, edges = parts
    else:
        kind, edges = parts, None
    if not 2 <= len(kind) <= 3 or not all(isinstance(word, str) for word in kind):
        rule = "must be an edge type, or (edge type, edges), in a heterogeneous graph"
        _refuse("edge_label_index", rule, value)
    return tuple(kind), edges


def _nodes(value: Any, count: int | None, named: str) -> Any:
    """Arrays, and lists of booleans, as tensors; a mask must be of all nodes."""
    masked = isinstance(value, list) and value and isinstance(value[0], bool | np.bool_)
    if isinstance(value, Tensor):
        value = dense(named, value)
    elif isinstance(value, np.ndarray | range) or masked:
        value = as_dense(named, value)
    if isinstance(value, list | tuple):
        value = integers(named, value, rank=None)
    if value is None:
        return None
    if not isinstance(value, Tensor):
        _refuse(named, "must be ids [k] or a mask", value)
    masked = value.dtype == torch.bool
    if value.dim() != 1 or (masked and count not in (None, value.numel())):
        what = f"a mask [{count}] or ids" if masked else "ids [k] or a mask"
        _refuse(named, f"must be {what}", value)
    return value if masked else ids(named, value)


def _count(nodes: Any, every: int | None) -> int | None:
    if nodes is None:
        return every
    return int(nodes.sum()) if nodes.dtype == torch.bool else len(nodes)


def _one_per_seed(name: str, values: Any, count: int | None) -> Any:
    """Labels or times from an array, too; numbers if they are times."""
    if values is None:
        return None
    if not isinstance(values, Tensor):
        values = as_dense(name, values)
    if name.endswith("_time"):
        values = as_reals(name, values)
    return one_per_seed(name, values, count)


def _refuse(name: str, rule: str, value: Any) -> NoReturn:
    got = shown(value)
    if isinstance(value, Tensor):
        got = f"{str(value.dtype)[6:]} {list(value.shape)}"
    raise InputError(f"'{name}' {rule} (got {got})")


def typed_nodes(
    value: Any, times: Any, data: Any, sampler: Any, input_id: Any
) -> TypedNodes | None:
    """Seeds of several types, from what a loader was given; None if they are of one."""
    if not isinstance(value, Mapping):
        return None
    if not getattr(sampler, "is_hetero", False) or not can_join(data):
        rule = "must be of one node type unless the data is a HeteroData"
        fail("input_nodes", rule, shown(value))
    for name in value:
        if name not in sampler.node_types:
            rule = f"must name some of the node types {sampler.node_types}"
            fail("input_nodes", rule, repr(name))
    if not value:
        fail("input_nodes", "must name a node type", "{}")
    if times is not None and (not isinstance(times, Mapping) or {*times} != {*value}):
        rule = "must have the node types of 'input_nodes'"
        mistyped("input_time", rule, shown(times))
    if input_id is not None and not isinstance(input_id, str):
        rule = "must be 'node' or None for seeds of several types"
        fail("input_id", rule, shown(input_id))
    parts = {}
    for name in sampler.node_types:
        if name in value:
            own = None if times is None else times[name]
            nodes, time = input_nodes_of((name, value[name]), own, data, sampler)
            count, number = sampler.num_nodes[name], None
            ids = nodes[1] if isinstance(nodes, tuple) else torch.arange(count)
            if ids.dtype == torch.bool:
                ids = number = ids.nonzero().view(-1)
            elif input_id is not None:
                number = input_id_of(input_id, ids)
            parts[name] = NodeSamplerInput(number, ids, time, name)
    return TypedNodes(parts)


def first_of(typed: TypedNodes) -> tuple[str, Tensor]:
    """As many seeds of one type, which PyG's loader can count."""
    return next(iter(typed.parts)), torch.arange(typed.node.numel())


def input_id_of(value: Any, seeds: Any) -> Any:
    """`input_id` as PyG takes it; "node" names seeds by their ids, masks or not."""
    if not isinstance(value, str):
        return value
    one_of("input_id", value, ("node",))
    nodes = seeds[1] if isinstance(seeds, tuple) else seeds
    if not isinstance(nodes, Tensor):
        return None  # all nodes: their positions are their ids
    return nodes.nonzero().view(-1) if nodes.dtype == torch.bool else nodes


def source_nodes(
    nodes: Any, pairs: Any, data: Any, sampler: Any, **given: Any
) -> SourceNodes:
    """The seeds of a link loader with `input_nodes`.

    Its `edge_label_index`, `pairs`, may only name an edge type, and what is `given`
    beside must be None.
    """
    for name, value in given.items():
        if value is not None:
            fail(name, "must be None beside 'input_nodes'", shown(value))
    if getattr(sampler, "is_temporal", False):
        rule = "must be None beside 'input_nodes', whose edges are drawn at no time"
        fail("time_attr", rule, repr(sampler.time_attr))
    kind: Any = None
    if sampler.is_hetero:
        if not isinstance(pairs, tuple | list) or len(pairs) != 3:
            rule = "must be the edge type that positives are drawn from"
            fail("edge_label_index", rule, shown(pairs))
        kind = tuple(pairs)
        nodes = (kind[0], nodes)
    elif pairs is not None:
        fail("edge_label_index", "must be None beside 'input_nodes'", shown(pairs))
    found, _ = input_nodes_of(nodes, None, data, sampler)
    ids = found[1] if isinstance(found, tuple) else found
    ids = ids.nonzero().view(-1) if ids.dtype == torch.bool else ids
    rows = from_data(data, Options(backward=True)).adjs
    named = ONLY if kind is None else row_type(kind)
    if named not in rows:
        fail("edge_label_index", f"must be one of {sampler.edge_types}", kind)
    return SourceNodes(ids.cpu(), rows[named].to("cpu"), kind)
