"""The words and numbers that arguments may be, and how to refuse others."""

from math import inf
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

DIRECTIONS = ("forward", "backward")
SCHEMES = ("unbiased", "paper")
STRATEGIES = ("uniform", "last")
INTEGERS = (torch.int32, torch.int64)
REALS = (
    *(*INTEGERS, torch.uint8, torch.int8, torch.int16),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
)
MAX_STEPS = 1 << 20  # of a walk, which is written out


class MissingError(KeyError, ValueError):
    """What PyG raises as a KeyError, with the words of a ValueError."""

    __str__ = Exception.__str__  # a KeyError shows its text as Python would write it


def shown(value: object) -> str:
    """`value` as Python writes it; what it is, if that is long."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    try:
        text = repr(value)
    except Exception:  # of an object that was not meant to be printed
        return type(value).__name__
    return text if len(text) <= 60 and "\n" not in text else type(value).__name__


def one_of(name: str, value: str, options: tuple[str, ...]) -> None:
    """Refuses what is not among the options."""
    if not isinstance(value, str) or value not in options:
        choices = ", ".join(map(repr, options))
        raise ValueError(f"'{name}' must be one of {choices} (got {shown(value)})")


def dense(name: str, value: Any) -> Tensor:
    """`value`, which must be a tensor whose numbers stand in memory as they are."""
    if not isinstance(value, Tensor):
        raise TypeError(f"'{name}' must be a tensor (got {shown(value)})")
    odd: object = None
    if value.is_nested:
        odd = "a nested tensor"
    elif value.layout is not torch.strided:
        odd = value.layout
    elif value.is_quantized:
        odd = value.dtype
    elif value.is_meta:
        odd = "one on the device 'meta', which has no numbers"
    if odd is not None:
        raise TypeError(f"'{name}' must be a dense tensor (got {odd})")
    return value


def ids(name: str, value: Any) -> Tensor:
    """`value`, a tensor of integers [k], as int64.

    PyG casts its seeds: integers of any width will do, and an empty tensor of any kind,
    which `BidirectionalNeighborSampler` makes.
    """
    found = dense(name, value)
    if not (is_integer(found) or found.numel() == 0) or found.dim() != 1:
        got = f"{str(found.dtype)[6:]} {list(found.shape)}"
        raise TypeError(f"'{name}' must be a tensor of integers [k] (got {got})")
    return found.to(torch.int64)


def is_integer(value: Tensor) -> bool:
    """Whether a tensor holds integers, of whichever width, and no truth values."""
    return str(value.dtype).startswith(("torch.int", "torch.uint"))


def as_tensor(name: str, value: Any) -> Tensor:
    """`value` as a dense tensor without its gradient, from arrays and lists, too."""
    if isinstance(value, Tensor):
        return dense(name, value).detach()
    try:
        if isinstance(value, range):  # which may be long
            made = torch.arange(value.start, value.stop, value.step)
        else:
            made = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise TypeError(f"'{name}' must be a tensor (got {shown(value)})") from None
    # an empty list has no dtype of its own
    return made if made.numel() else made.to(torch.int64)


def as_integers(name: str, value: Any) -> Tensor:
    """The same for integers of any shape."""
    found = as_tensor(name, value)
    if found.dtype not in INTEGERS:
        raise TypeError(
            f"'{name}' must have dtype int32 or int64 (got {str(found.dtype)[6:]})"
        )
    return found


def as_pairs(name: str, value: Any) -> Tensor:
    """The same for pairs of nodes [2, k]; an `EdgeIndex` stays one."""
    found = as_integers(name, value)
    if found.dim() != 2 or found.shape[0] != 2:
        got = f"shape {list(found.shape)}"
        raise ValueError(f"'{name}' must have shape [2, k] (got {got})")
    return found


def as_reals(name: str, value: Any) -> Tensor:
    """The same for numbers that can be compared, of any shape."""
    found = as_tensor(name, value)
    if found.dtype not in REALS:
        raise TypeError(
            f"'{name}' must hold integers or floats (got {str(found.dtype)[6:]})"
        )
    return found


def number(name: str, value: Any) -> float:
    """`value`, which must be a finite number."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"'{name}' must be a number (got {shown(value)})")
    try:
        found = float(value)
    except OverflowError:
        found = inf
    if not -inf < found < inf:
        raise ValueError(f"'{name}' must be finite (got {value})")
    return found


def at_least(name: str, value: Any, least: int, what: str = "") -> int:
    """`value` as an integer that is large enough, and small enough to count with."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"'{name}' must be an integer (got {shown(value)})")
    found = int(value)
    if found < least:
        raise ValueError(f"'{name}' must be at least {what}{least} (got {found})")
    if found >= 1 << 63:
        raise ValueError(f"'{name}' must be below 2**63 (got {found})")
    return found


def steps(name: str, value: Any, least: int, what: str = "") -> int:
    """The same for the length of a walk, which is written out step by step."""
    found = at_least(name, value, least, what)
    if found > MAX_STEPS:
        raise ValueError(f"'{name}' must not exceed {MAX_STEPS} steps (got {found})")
    return found


def check_device(name: str, value: Any) -> None:
    """Refuses what is neither None nor a device that is there."""
    if value is None:
        return
    try:
        found = torch.device(value)
    except (RuntimeError, TypeError, ValueError):
        raise TypeError(f"'{name}' must be a device (got {shown(value)})") from None
    try:
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ValueError(
            f"'{name}' must be a device that is there (got '{found}')"
        ) from None


def function(name: str, value: Any) -> None:
    """Refuses what cannot be called, and classes."""
    if not callable(value) or isinstance(value, type):
        raise TypeError(f"'{name}' must be a function (got {shown(value)})")


def name_or_none(name: str, value: Any) -> None:
    """Refuses what cannot be the name of an attribute."""
    if value is not None and not isinstance(value, str):
        got = shown(value)
        raise TypeError(f"'{name}' must be the name of an attribute (got {got})")


def yes_or_no(name: str, value: Any) -> None:
    """Refuses what is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"'{name}' must be True or False (got {shown(value)})")


def check_window(time_window: Any, time_attr: str | None) -> None:
    """Refuses a span of time that is none, or that there are no times for."""
    if time_window is None:
        return
    if not isinstance(time_window, Real):
        raise TypeError(f"'time_window' must be a number (got {shown(time_window)})")
    try:
        span = float(time_window)
    except OverflowError:
        span = inf
    if not 0 <= span < inf:
        raise ValueError(
            f"'time_window' must be finite and not negative (got {time_window})"
        )
    if time_attr is None:
        raise ValueError(
            f"'time_window' needs times (got {time_window}); set 'time_attr'"
        )
