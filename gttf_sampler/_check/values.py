"""Checks of single values: words, numbers, paths, devices, functions, generators."""

import os
from collections.abc import Collection, Sequence
from importlib import import_module
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler._check.tensors import REALS, dense
from gttf_sampler._check.words import fail, kind_of, mistyped, shown

MAX_SIZE = (1 << 63) - 1
MAX_STEPS = 1 << 20
MAX_NODES = 1 << 46  # so that what is made of two ids stays below 2⁶³


def versions() -> None:
    """Refuses a torch that is too old, or that was not built for this numpy."""
    torch_version, numpy_version = torch.__version__, np.__version__
    if torch_version < "2.2":  # compared as versions, not as text
        raise ImportError(
            f"'torch' must be 2.2 or newer (got {torch_version}); "
            "pip install 'torch>=2.2'"
        )
    try:
        torch.from_numpy(np.empty(0))
    except RuntimeError as err:
        raise ImportError(
            f"'numpy' must be one that torch was built for (got numpy {numpy_version} "
            f"and torch {torch_version}); pip install 'numpy<2', or a newer torch"
        ) from err


def one_of(name: str, value: str, options: Collection[str]) -> str:
    """`value`, which must be one of `options`."""
    if not isinstance(value, str) or value not in options:
        fail(name, f"must be one of {', '.join(map(repr, options))}", shown(value))
    return value


def yes_or_no(name: str, value: Any) -> bool:
    """`value`, which must be True or False."""
    if not isinstance(value, bool | np.bool_):
        mistyped(name, "must be True or False", shown(value))
    return bool(value)


def of_type(name: str, value: Any, kind: type) -> None:
    """Refuses what is not an instance of `kind`."""
    if not isinstance(value, kind):
        cure = "make one first" if value is kind else ""
        mistyped(name, f"must be a {kind.__name__}", kind_of(value), cure)


def integer(name: str, value: Any) -> int:
    """`value` as a Python integer, from anything that is a single integer."""
    try:
        if isinstance(value, bool):
            raise TypeError
        if isinstance(value, Tensor):
            odd = dense(name, value).dim() or value.dtype is torch.bool
            if odd:
                raise TypeError
        return int(value.__index__())
    except (AttributeError, TypeError, ValueError, RuntimeError):
        mistyped(name, "must be an integer", shown(value))


def at_least(least: int, name: str, value: Any) -> int:
    """`value` as an integer >= `least`."""
    number = integer(name, value)
    if number < least:
        rule = f"must be at least {least}" if least else "must not be negative"
        fail(name, rule, number)
    if number > MAX_SIZE:  # which arrays cannot be counted with
        fail(name, "must be below 2**63", number)
    return number


def size(name: str, value: Any) -> int:
    """`value` as a count, which must be an integer >= 0."""
    return at_least(0, name, value)


def count(name: str, value: Any) -> int:
    """`value` as an integer >= 1."""
    return at_least(1, name, value)


def nodes(name: str, value: Any) -> int:
    """`value` as a number of nodes."""
    number = size(name, value)
    if number > MAX_NODES:
        fail(name, f"must not exceed {MAX_NODES:,}", number)
    return number


def steps(name: str, value: Any, least: int = 0) -> int:
    """`value` as the length of a walk, which is written out step by step."""
    number = at_least(least, name, value)
    if number > MAX_STEPS:
        fail(name, f"must not exceed {MAX_STEPS} steps", number)
    return number


def number(name: str, value: Any) -> float:
    """`value` as a float; inf if it is an integer too large for one."""
    if not isinstance(value, Real) or isinstance(value, bool):
        mistyped(name, "must be a number", shown(value))
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def finite(name: str, value: Any) -> float:
    """`value` as a float, which must be finite."""
    result = number(name, value)
    if not abs(result) < float("inf"):
        fail(name, "must be finite", value)
    return result


def positive(name: str, value: float) -> float:
    """`value`, which must be a finite number > 0."""
    result = number(name, value)
    if not 0 < result < float("inf"):
        fail(name, "must be finite and greater than 0", value)
    if 1 / result == float("inf"):
        fail(name, "must be large enough to have an inverse", value)
    return result


def scale(name: str, value: Any) -> float | Tensor:
    """`value` as a number > 0, or as a tensor [] that may have a gradient."""
    if not isinstance(value, Tensor):
        return positive(name, value)
    dense(name, value)
    if value.dim() or value.dtype not in REALS or not value.is_floating_point():
        got = f"{value.dtype} of shape {list(value.shape)}"
        fail(name, "must be a number or a floating-point tensor of shape []", got)
    if value.device.type == "cpu":
        positive(name, float(value.detach()))
    return value


def path(name: str, value: Any) -> Path:
    """`value` as a path, which may lead nowhere."""
    if not isinstance(value, str | os.PathLike) or isinstance(value, type):
        mistyped(name, "must be a path", shown(value))
    text = os.fspath(value)
    if not isinstance(text, str) or not text or "\0" in text:
        fail(name, "must be a path that a file can have", repr(text))
    return Path(text)


def device(name: str, value: Any) -> torch.device:
    """`value` as a device that is there."""
    try:
        found = torch.device(value)
    except (RuntimeError, TypeError, ValueError):
        mistyped(name, "must be a device", shown(value))
    try:
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, NotImplementedError):
        fail(name, "must be a device that is there", repr(str(found)))
    return found


def device_or_none(name: str, value: Any) -> torch.device | None:
    """`value` as a device with memory to put batches in; None if it is None."""
    found = None if value is None else device(name, value)
    if found is not None and found.type == "meta":
        fail(name, "must be a device with memory", "'meta'")
    return found


def library(name: str, user: str) -> Any:
    """A library that only `user` needs, imported now."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"{user} needs {name}, which cannot be imported (got {error}); "
            f"install it with: pip install {name.partition('.')[0]}"
        ) from error


def functions(name: str, value: Any, many: bool = False) -> Sequence[Any]:
    """`value` as a list of callables: none, one, or, if allowed, many."""
    if value is None:
        return []
    entries = list(value) if many and isinstance(value, list | tuple) else [value]
    for entry in entries:
        if not callable(entry) or isinstance(entry, type):
            rule = "must be a function or an object that can be called"
            kind = getattr(entry, "__name__", "")
            cure = f"make one: {kind}(...)" if isinstance(entry, type) else ""
            mistyped(name, rule, shown(entry), cure)
    stateful = [id(entry) for entry in entries if hasattr(entry, "begin")]
    if len(set(stateful)) < len(stateful):
        fail(name, "must not hold the same object twice", shown(entries))
    return entries


def randomness(value: Any) -> torch.Generator | int | None:
    """`value` as a generator, a seed or None."""
    if value is None or isinstance(value, torch.Generator):
        return value
    if isinstance(value, bool | Tensor) or not hasattr(value, "__index__"):
        rule = "must be a torch.Generator, an integer or None"
        mistyped("generator", rule, shown(value))
    return integer("generator", value)


def randomness_on(
    value: Any, device: torch.device
) -> torch.Generator | int | Tensor | None:
    """`randomness`, or a seed that is on the device already, int64 []."""
    if not isinstance(value, Tensor):
        return randomness(value)
    if value.dtype != torch.int64 or value.dim() or value.device != device:
        rule = f"must be an int64 [] on {device} if it is a tensor"
        got = f"{value.dtype} {list(value.shape)} on {value.device}"
        mistyped("generator", rule, got)
    return value


def cpu_generator(name: str, value: Any) -> torch.Generator | None:
    """`value`, which must be a torch.Generator or None."""
    if value is not None and not isinstance(value, torch.Generator):
        mistyped(name, "must be a torch.Generator or None", shown(value))
    return value
