"""The words and numbers that arguments may be, and how to refuse others."""

from typing import Any

import torch
from torch import Tensor

from gttf_sampler._check import (
    INTEGERS,
    as_dense,
    dense,
    fail,
    finite,
    functions,
    mistyped,
    real,
    shown,
)

DIRECTIONS = ("forward", "backward")
SCHEMES = ("unbiased", "paper")
STRATEGIES = ("uniform", "last")


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


def as_integers(name: str, value: Any) -> Tensor:
    """`value` as a tensor of integers of any shape, from arrays and lists, too."""
    found = as_dense(name, value)
    if found.dtype not in INTEGERS:
        mistyped(name, "must have dtype int32 or int64", found.dtype)
    return found


def as_pairs(name: str, value: Any) -> Tensor:
    """`value` as pairs of nodes [2, k]; an `EdgeIndex` stays one."""
    found = as_integers(name, value)
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


def check_window(time_window: Any, time_attr: str | None) -> None:
    """Refuses a span of time that is none, or that there are no times for."""
    if time_window is None:
        return
    if not finite("time_window", time_window) >= 0:
        fail("time_window", "must be finite and not negative", time_window)
    if time_attr is None:
        fail("time_window", "needs times", time_window, "set 'time_attr'")
