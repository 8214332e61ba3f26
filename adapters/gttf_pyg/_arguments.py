"""What both loaders make of their arguments."""

from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_pyg.sampler import GTTFSampler


class InputError(ValueError, AssertionError):
    """What PyG asserts, and we say."""


def input_nodes_of(value: Any, sampler: Any) -> Any:
    """`input_nodes` as PyG takes them; arrays and lists of booleans are masks."""
    if not getattr(sampler, "is_hetero", False):
        return _nodes(value)
    name, nodes = value, None
    if isinstance(value, tuple) and len(value) == 2:
        name, nodes = value
    bare = value is None or isinstance(value, Tensor | np.ndarray | list | tuple)
    if bare and not isinstance(name, str):
        raise InputError(
            "'input_nodes' must be a node type, or (node type, nodes), where there are "
            f"types (got {_told(value)})"
        )
    if isinstance(name, str) and name not in sampler.node_types:
        raise InputError(
            f"'input_nodes' must name one of the node types {sampler.node_types} "
            f"(got {name!r})"
        )
    return (name, _nodes(nodes)) if isinstance(value, tuple) else value


def edge_label_index_of(value: Any, sampler: Any) -> Any:
    """`edge_label_index`, which must name its edge type where there are types."""
    if not getattr(sampler, "is_hetero", False):
        return value
    if value is None or isinstance(value, Tensor | np.ndarray):
        raise InputError(
            "'edge_label_index' must be an edge type, or (edge type, edges), where "
            f"there are types (got {_told(value)})"
        )
    return value


def _nodes(value: Any) -> Any:
    """Arrays, and lists of booleans, as the tensors that they mean."""
    masked = isinstance(value, list) and value and isinstance(value[0], bool | np.bool_)
    if isinstance(value, np.ndarray) or masked:
        return torch.as_tensor(value)
    return value


def _told(value: Any) -> str:
    """What was received, in a word."""
    return repr(value) if value is None or isinstance(value, str) else str(type(value))


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
    sampler.prepare()


def seeded(kwargs: dict[str, Any], seed: int | None) -> dict[str, Any]:
    """The arguments of torch's DataLoader, with a generator made from `seed`."""
    if seed is None:
        return kwargs
    if kwargs.get("generator") is not None:
        raise ValueError(f"'seed' must be None beside a 'generator' (got {seed})")
    return {**kwargs, "generator": torch.Generator().manual_seed(seed)}
