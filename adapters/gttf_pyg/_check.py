"""Checks of arguments and seeds, in PyG's words; the engine's checks do the rest."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

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


class MissingError(KeyError, ValueError):
    """A KeyError, as PyG raises it, with the words of a ValueError."""

    __str__ = Exception.__str__  # a KeyError shows its text as Python would write it


def missing(argument: str, name: str, known: Iterable[str]) -> MissingError:
    """The error for an attribute that the data does not have."""
    return MissingError(
        f"'{argument}' must name an attribute of the data (got {name!r}); there are "
        f"{list(known)}"
    )


def known_types(name: str, kinds: Iterable[Any], edge_types: Iterable[Any]) -> None:
    """Refuses keys of an argument that are no edge types of the data."""
    known = list(edge_types)
    for kind in kinds:
        if kind not in known:
            fail(name, f"must use the edge types of the data, {known}", repr(kind))


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
    """True if a tensor holds integers, of whichever width, and no truth values."""
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
