"""Checks of arguments and seeds, in PyG's words; the engine's checks do the rest."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import (
    EdgeSamplerInput,
    NegativeSampling,
    NodeSamplerInput,
)

from gttf_sampler._check import (
    as_dense,
    dense,
    fail,
    finite,
    functions,
    integers,
    mistyped,
    real,
    shown,
)

DIRECTIONS = ("forward", "backward")
SCHEMES = ("unbiased", "paper")
STRATEGIES = ("uniform", "last")


class InputError(ValueError, AssertionError):
    """What PyG asserts, and we say."""


class MissingError(KeyError, ValueError):
    """What PyG raises as a KeyError, with the words of a ValueError."""

    __str__ = Exception.__str__  # a KeyError shows its text as Python would write it


def ids(name: str, value: Any) -> Tensor:
    """`value`, a tensor of integers [k], as int64.

    PyG casts its seeds: integers of any width will do, and an empty tensor of any kind,
    which `BidirectionalNeighborSampler` makes.
    """
    found = dense(name, value)
    if not (is_integer(found) or found.numel() == 0) or found.dim() != 1:
        got = f"{str(found.dtype)[6:]} {list(found.shape)}"
        mistyped(name, "must be a tensor of integers [k]", got)
    return found.to(torch.int64)


def is_integer(value: Tensor) -> bool:
    """Whether a tensor holds integers, of whichever width, and no truth values."""
    return str(value.dtype).startswith(("torch.int", "torch.uint"))


def as_pairs(name: str, value: Any) -> Tensor:
    """`value` as pairs of nodes [2, k]; an `EdgeIndex` stays one."""
    found = integers(name, value, rank=None)
    if found.dim() != 2 or found.shape[0] != 2:
        fail(name, "must have shape [2, k]", f"shape {list(found.shape)}")
    return found


def as_reals(name: str, value: Any) -> Tensor:
    """`value` as a tensor of any shape, of numbers that can be compared."""
    return real(name, as_dense(name, value))


def function(name: str, value: Any) -> None:
    """Refuses what cannot be called, and classes."""
    functions(name, [value], many=True)


def name_or_none(name: str, value: Any) -> None:
    """Refuses what cannot be the name of an attribute."""
    if value is not None and not isinstance(value, str):
        mistyped(name, "must be the name of an attribute", shown(value))


def weight_names(value: Any) -> None:
    """Refuses what is neither the name of an attribute nor one per edge type."""
    names = value.values() if isinstance(value, Mapping) else [value]
    for name in names:
        if name is not None and not isinstance(name, str):
            rule = "must be the name of an attribute, or one per edge type"
            mistyped("weight_attr", rule, shown(name))


def check_window(time_window: Any, time_attr: str | None) -> None:
    """Refuses a span of time that is none, or that there are no times for."""
    if time_window is None:
        return
    if not finite("time_window", time_window) >= 0:
        fail("time_window", "must be finite and not negative", time_window)
    if time_attr is None:
        fail("time_window", "needs times", time_window, "set 'time_attr'")


# Options with which a sampler does not draw all neighbours alike.
NOT_UNIFORM = (
    *("weight_attr", "time_attr", "bias", "exclude_edges", "max_nodes", "max_edges"),
)


def first_used(sampler: Any, *names: str) -> str | None:
    """The first of some options that a sampler was given; None if it has none of them.

    PyG's own sampler will do: it lacks those that only ours have.
    """
    adjs = getattr(sampler, "adjs", {}).values()
    kind = getattr(sampler, "subgraph_type", None)
    used = {
        "weight_attr": any(adj.edge_weight is not None for adj in adjs),
        "time_attr": sampler.is_temporal,
        "bias": getattr(sampler, "bias", None) is not None,
        "exclude_edges": getattr(sampler, "excludes", False),
        "max_nodes": getattr(sampler, "max_nodes", None) is not None,
        "max_edges": getattr(sampler, "max_edges", None) is not None,
        "subgraph_type": kind is not None and kind.value != "directional",
        "sample_direction": getattr(sampler, "sample_direction", "") == "backward",
        "layerwise": getattr(sampler, "layerwise", False),
        "disjoint": sampler.disjoint,
    }
    return next((name for name in names if used[name]), None)


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
    inputs.__dict__.update(parts)
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
    for name, ids in seeds.items():
        if name not in own and ids.numel():
            rule = "must be given for nodes without times"
            fail("input_time", rule, f"None for {name!r}")
    parts = [_at(own[name], ids) for name, ids in seeds.items() if name in own]
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
