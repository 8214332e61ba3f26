"""What both loaders make of their arguments."""

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from gttf_pyg._check import InputError, as_reals, ids, is_integer, one_per_seed
from gttf_pyg._finish import finish
from gttf_pyg._partitioned import one_process
from gttf_pyg._rows import ONLY
from gttf_pyg.sampler import GTTFSampler
from gttf_sampler._check import (
    INTEGERS,
    as_dense,
    dense,
    device_or_none,
    fail,
    integer,
    integers,
    mistyped,
    shown,
    size,
    yes_or_no,
)

# Arguments of a loader that are its sampler's: PyG's, and those that PyG does not know.
SAMPLING = (
    *("num_neighbors", "replace", "subgraph_type", "disjoint", "temporal_strategy"),
    *("time_attr", "weight_attr", "is_sorted", "directed"),
)
OURS = (
    *("exclude_edges", "bias", "time_window", "device", "layerwise"),
    *("max_nodes", "max_edges"),
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
    """How many seeds there are, where it can be told."""
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


def sampler_for(given: Mapping[str, Any]) -> Any:
    """The sampler of a loader with these arguments: theirs, or a new one.

    What PyG's samplers do not know cannot be had from one that was given.
    """
    extra = {name: given[name] for name in OURS}
    sampler = given["neighbor_sampler"]
    if sampler is None:
        sampling = {name: given[name] for name in SAMPLING}
        return GTTFSampler(given["data"], **sampling, **extra)
    for name, value in extra.items():
        if value is not None and value is not False:
            rule = "must be told to the 'neighbor_sampler' that is given"
            fail(name, rule, repr(value))
    return sampler


def not_seed_edges(exclude_edges: Any) -> None:
    """Refuses to hide the seed edges where the seeds of a loader are nodes."""
    if exclude_edges is True:
        rule, cure = "must name edges", "a GTTFLinkLoader knows its seed edges"
        fail("exclude_edges", f"{rule} where seeds are nodes", True, cure)


def checked_prefetch(given: Mapping[str, Any]) -> int:
    """`prefetch`, which must be a number >= 0, and 0 if there are workers."""
    prefetch = size("prefetch", given["prefetch"])
    if prefetch and given["kwargs"].get("num_workers", 0):
        rule = "must be 0 beside workers, which work ahead by themselves"
        fail("prefetch", rule, prefetch, "set 'prefetch_factor'")
    return prefetch


def checked_uva(given: Mapping[str, Any]) -> bool:
    """`uva`, which must be False unless batches go to a CUDA device."""
    uva = yes_or_no("uva", given["uva"])
    device = device_or_none("device", given["device"])
    if uva and (device is None or device.type != "cuda"):
        rule = "must be False unless 'device' is a CUDA device"
        fail("uva", rule, f"True with {given['device']!r}")
    return uva


def check_index_dtype(given: Mapping[str, Any]) -> None:
    """`index_dtype`, which must be one of the dtypes that index nodes."""
    dtype = given["index_dtype"]
    if dtype is not None and dtype not in INTEGERS:
        rule = "must be torch.int32, torch.int64 or None"
        fail("index_dtype", rule, shown(dtype))


def handed_on(given: Mapping[str, Any], sampler: Any) -> dict[str, Any]:
    """What PyG's constructor of a loader is told beside data and seeds."""
    check_index_dtype(given)
    _prepare_workers(sampler, given["kwargs"].get("num_workers", 0))
    alike = ("time_attr", "transform_sampler_output", "filter_per_worker")
    names = ("normalize", "device", "transform", "index_dtype")
    ours = (given[name] for name in names)
    return {
        **{name: given[name] for name in (*alike, "thread_workers")},
        "transform": finish(given["data"], sampler, *ours),
        "neighbor_sampler": sampler,
        **seeded(given["kwargs"], given["seed"]),
    }


def _prepare_workers(sampler: Any, num_workers: int) -> None:
    """Makes what workers can share; refuses them where they cannot use the device."""
    if num_workers == 0 or not isinstance(sampler, GTTFSampler):
        return
    one_process(sampler, num_workers)
    devices = {adj.device for adj in sampler.adjs.values()} - {torch.device("cpu")}
    if devices:
        rule = f"must be 0 where the graph is on {devices.pop()}"
        fail("num_workers", rule, num_workers, "use 'prefetch'")
    sampler.rows_travel = False  # our loaders leave them out of batches
    sampler.prepare()


def seeded(kwargs: dict[str, Any], seed: Any) -> dict[str, Any]:
    """The arguments of torch's DataLoader, with a generator made from `seed`."""
    generator = kwargs.get("generator")
    if generator is not None and not isinstance(generator, torch.Generator):
        rule = "must be a torch.Generator"
        mistyped("generator", rule, shown(generator), "a number is a 'seed'")
    if seed is None:
        return kwargs
    if generator is not None:
        fail("seed", "must be None beside a 'generator'", shown(seed))
    number = integer("seed", seed)
    if not -(1 << 63) <= number < 1 << 64:
        fail("seed", "must have at most 64 bits", number)
    return {**kwargs, "generator": torch.Generator().manual_seed(number)}
