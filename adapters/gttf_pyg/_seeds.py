"""Seeds of loaders and samplers: what users may give, checked and in PyG's form."""

import copy
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import (
    EdgeSamplerInput,
    NegativeSampling,
    NodeSamplerInput,
)

from gttf_pyg._check import as_reals, ids, is_integer
from gttf_pyg._rows import ONLY
from gttf_sampler._check import as_dense, dense, fail, integers, mistyped, shown


class InputError(ValueError, AssertionError):
    """Seeds that PyG refuses by an assertion, with words."""


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
    """The edge type of `edge_label_index`, and its edges or None."""
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
    """The number of seeds, where it can be told."""
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
    """Raises the error that names the argument, and says what it was."""
    got = shown(value)
    if isinstance(value, Tensor):
        got = f"{str(value.dtype)[6:]} {list(value.shape)}"
    raise InputError(f"'{name}' {rule} (got {got})")


def checked_nodes(inputs: Any) -> NodeSamplerInput:
    """`inputs` with ids in int64; what does not name nodes is refused."""
    if not isinstance(inputs, NodeSamplerInput):
        mistyped("inputs", "must be a NodeSamplerInput", shown(inputs))
    node = inputs.node
    plain = type(node) is Tensor and node.dtype == torch.int64 and node.dim() == 1
    here = plain and node.device.type == "cpu" and node.layout is torch.strided
    if here and inputs.time is None:
        return inputs
    node = ids("inputs.node", node)
    one_per_seed("inputs.time", inputs.time, node.numel())
    return _with(inputs, node=node)


def checked_edges(inputs: Any, neg_sampling: Any) -> EdgeSamplerInput:
    """`inputs` with ids in int64; what does not name pairs is refused."""
    if not isinstance(inputs, EdgeSamplerInput):
        mistyped("inputs", "must be an EdgeSamplerInput", shown(inputs))
    row, col = ids("inputs.row", inputs.row), ids("inputs.col", inputs.col)
    count = row.numel()
    if col.numel() != count:
        rule = f"must have one entry per entry of 'inputs.row', {count} in all"
        fail("inputs.col", rule, col.numel())
    one_per_seed("inputs.label", inputs.label, count)
    one_per_seed("inputs.time", inputs.time, count)
    if neg_sampling is not None and not isinstance(neg_sampling, NegativeSampling):
        mistyped("neg_sampling", "must be a NegativeSampling", shown(neg_sampling))
    triplets = neg_sampling is not None and neg_sampling.is_triplet()
    if triplets and inputs.label is not None:
        fail("inputs.label", "must be None beside triplets", "a tensor")
    return _with(inputs, row=row, col=col)


def _with(inputs: Any, **parts: Tensor) -> Any:
    """`inputs` itself, or a copy with other parts."""
    if all(getattr(inputs, name) is part for name, part in parts.items()):
        return inputs
    inputs = copy.copy(inputs)
    for name, part in parts.items():
        setattr(inputs, name, part)
    return inputs


def one_per_seed(name: str, value: Any, count: int | None) -> Tensor | None:
    """`value` as a tensor with one entry per seed, or None."""
    if value is None:
        return None
    found = dense(name, value)
    if found.dim() == 0 or count not in (None, found.shape[0]):
        rule = f"must have one entry per seed, {count} in all"
        raise InputError(f"'{name}' {rule} (got shape {list(found.shape)})")
    return found


def seed_times(
    seeds: Mapping[str, Tensor], given: Any, node_time: Any, edge_time: Any
) -> Tensor | None:
    """[b], in the order of `seeds` over all types; None where there are no times.

    Times that were given come first; without them, a seed has the time of its node.
    """
    if node_time is None and edge_time is None:
        return None
    if given is not None:
        given = given if isinstance(given, Mapping) else {"": given}
        return torch.cat([given[name] for name in seeds])
    if node_time is None:
        fail("input_time", "must be given where the edges have times", None)
    own = node_time if isinstance(node_time, Mapping) else {"": node_time}
    for name, nodes in seeds.items():
        if name not in own and nodes.numel():
            rule = "must be given for nodes without times"
            fail("input_time", rule, f"None for {name!r}")
    parts = [_at(own[name], nodes) for name, nodes in seeds.items() if name in own]
    return torch.cat(parts)


def _at(time: Any, node: Tensor) -> Tensor:
    """The times of some nodes, on the device of the times, or of other processes."""
    if node.device.type == "cpu" and node.numel():
        low, high = (int(bound) for bound in node.aminmax())
        if low < 0 or high >= time.shape[0]:
            rule = f"must be known for every node, [0, {time.shape[0]}) have one"
            fail("input_time", rule, high if low >= 0 else low)
    found: Tensor = time[node.to(time.device) if isinstance(time, Tensor) else node]
    return found
