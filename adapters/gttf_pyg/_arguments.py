"""What both loaders make of their arguments."""

from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_pyg._check import as_integers, as_reals, ids, is_integer
from gttf_pyg._rows import ONLY
from gttf_pyg.sampler import GTTFSampler
from gttf_sampler._check import as_dense, dense, shown


class InputError(ValueError, AssertionError):
    """What PyG asserts, and we say."""


def input_nodes_of(value: Any, times: Any, data: Any, sampler: Any) -> tuple[Any, Any]:
    """`input_nodes` and `input_time` as PyG takes them, after checks.

    Arrays and lists of booleans are masks; there must be as many times as nodes.
    """
    sizes: Any = getattr(sampler, "num_nodes", None)
    if not getattr(sampler, "is_hetero", False):
        nodes = _nodes(value, sizes)
        if nodes is None and isinstance(data, tuple):  # for stores PyG asserts
            nodes = torch.arange(sizes)
        return nodes, _one_per_seed("input_time", times, _count(nodes, sizes))
    name, nodes = value, None
    if isinstance(value, tuple | list) and len(value) == 2:
        name, nodes = value
    if not isinstance(name, str):
        raise InputError(
            "'input_nodes' must be a node type, or (node type, nodes), in a "
            f"heterogeneous graph (got {_told(value)})"
        )
    if name not in sampler.node_types:
        raise InputError(
            f"'input_nodes' must name one of the node types {sampler.node_types} "
            f"(got {name!r})"
        )
    size = (sizes or {}).get(name)
    nodes = _nodes(nodes, size)
    times = _one_per_seed("input_time", times, _count(nodes, size))
    if nodes is None and isinstance(data, tuple) and size is not None:
        nodes = torch.arange(size)  # PyG asks a store for the size of None
    return (name if nodes is None else (name, nodes)), times


def edge_label_index_of(
    value: Any, labels: Any, times: Any, sampler: Any
) -> tuple[Any, Any, Any]:
    """`edge_label_index`, `edge_label` and `edge_label_time`, after checks."""
    kind, edges = None, value
    if getattr(sampler, "is_hetero", False):
        kind, edges = _edge_type(value)
    if isinstance(edges, Tensor | np.ndarray | list):
        edges = as_dense("edge_label_index", edges)
    if isinstance(edges, Tensor) and (is_integer(edges) or edges.numel() == 0):
        edges = edges.to(torch.int64)  # as PyG casts its seeds
    rows = getattr(sampler, "adjs", {}).get(ONLY if kind is None else kind)
    count = None if rows is None else rows.num_edges
    if edges is not None:
        if not isinstance(edges, Tensor) or edges.dim() != 2 or edges.shape[0] != 2:
            raise InputError(
                "'edge_label_index' must be a tensor [2, k] of pairs (got "
                f"{_told(edges)})"
            )
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
        raise InputError(
            "'edge_label_index' must be an edge type, or (edge type, edges), where "
            f"there are types (got {_told(value)})"
        )
    return tuple(kind), edges


def _nodes(value: Any, size: int | None) -> Any:
    """Arrays, and lists of booleans, as tensors; a mask must be of all nodes."""
    masked = isinstance(value, list) and value and isinstance(value[0], bool | np.bool_)
    if isinstance(value, Tensor):
        value = dense("input_nodes", value)
    elif isinstance(value, np.ndarray | range) or masked:
        value = as_dense("input_nodes", value)
    if isinstance(value, list | tuple):
        value = as_integers("input_nodes", value)
    if value is not None and not isinstance(value, Tensor):
        raise InputError(
            f"'input_nodes' must be ids [k] or a mask (got {_told(value)})"
        )
    if isinstance(value, Tensor):
        masked = value.dtype == torch.bool
        if value.dim() != 1 or (masked and size not in (None, value.numel())):
            what = f"a mask [{size}] or ids" if masked else "ids [k] or a mask"
            raise InputError(f"'input_nodes' must be {what} (got {_told(value)})")
        value = value if masked else ids("input_nodes", value)
    return value


def _count(nodes: Any, size: int | None) -> int | None:
    """How many seeds there are, where it can be told."""
    if nodes is None:
        return size
    if isinstance(nodes, Tensor) and nodes.dtype == torch.bool:
        return int(nodes.sum())
    return len(nodes) if hasattr(nodes, "__len__") else None


def _one_per_seed(name: str, values: Any, count: int | None) -> Any:
    """A tensor with one entry per seed, or None."""
    if values is None:
        return None
    if not isinstance(values, Tensor):
        values = as_dense(name, values)
    if name.endswith("_time"):
        values = as_reals(name, values)
    if dense(name, values).dim() == 0 or count not in (None, values.shape[0]):
        raise InputError(
            f"'{name}' must have one entry per seed, {count} in all (got shape "
            f"{list(values.shape)})"
        )
    return values


def _told(value: Any) -> str:
    """What was received, in a few words."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype)[6:]} {list(value.shape)}"
    return shown(value)


def sampler_for(data: Any, given: Any, extra: dict[str, Any], **sampling: Any) -> Any:
    """The sampler of a loader: the one that was given, or a new one.

    `extra` is what PyG's samplers do not know; it cannot be had from a given one.
    """
    if given is None:
        return GTTFSampler(data, **sampling, **extra)
    for name, value in extra.items():
        if value is not None and value is not False:
            raise ValueError(
                f"'{name}' must be told to the 'neighbor_sampler' that is given (got "
                f"{value!r})"
            )
    return given


def not_seed_edges(exclude_edges: Any) -> Any:
    """`exclude_edges` of a loader whose seeds are nodes."""
    if exclude_edges is True:
        raise ValueError(
            "'exclude_edges' must name edges where seeds are nodes (got True); a "
            "GTTFLinkLoader knows its seed edges"
        )
    return exclude_edges


def checked_prefetch(prefetch: int, num_workers: int) -> int:
    """`prefetch`, which must be a number >= 0, and 0 if there are workers."""
    if isinstance(prefetch, bool) or not isinstance(prefetch, Integral):
        raise TypeError(f"'prefetch' must be an integer (got {prefetch!r})")
    if prefetch < 0:
        raise ValueError(f"'prefetch' must not be negative (got {prefetch})")
    if prefetch and num_workers:
        raise ValueError(
            f"'prefetch' must be 0 beside workers, which work ahead by themselves (got "
            f"{prefetch}); set 'prefetch_factor'"
        )
    return prefetch


def prepare_workers(sampler: Any, num_workers: int) -> None:
    """Makes what workers can share; refuses them where they cannot use the device."""
    if num_workers == 0 or not isinstance(sampler, GTTFSampler):
        return
    devices = {adj.device for adj in sampler.adjs.values()} - {torch.device("cpu")}
    if devices:
        raise ValueError(
            f"'num_workers' must be 0 where the graph is on {devices.pop()} (got "
            f"{num_workers}); use 'prefetch'"
        )
    sampler.rows_travel = False  # our loaders leave them out of batches
    sampler.prepare()


def seeded(kwargs: dict[str, Any], seed: int | None) -> dict[str, Any]:
    """The arguments of torch's DataLoader, with a generator made from `seed`."""
    generator = kwargs.get("generator")
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(
            f"'generator' must be a torch.Generator (got {shown(generator)}); a number "
            "is a 'seed'"
        )
    if seed is None:
        return kwargs
    if generator is not None:
        got = shown(seed)
        raise ValueError(f"'seed' must be None beside a 'generator' (got {got})")
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise TypeError(f"'seed' must be an integer (got {shown(seed)})")
    if not -(1 << 63) <= int(seed) < 1 << 64:
        raise ValueError(f"'seed' must have at most 64 bits (got {seed})")
    return {**kwargs, "generator": torch.Generator().manual_seed(int(seed))}
