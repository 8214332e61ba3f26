"""Checks of single values and tensors, and the one sentence that every refusal is."""

import math
import os
from collections.abc import Collection, Sequence
from functools import partial
from importlib import import_module
from numbers import Real
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from gttf_sampler._backends import memory

MAX_SIZE = (1 << 63) - 1
MAX_STEPS = 1 << 20
MAX_NODES = 1 << 46  # so that what is made of two ids stays below 2⁶³
INTEGERS = (torch.int32, torch.int64)
REALS = (
    *(*INTEGERS, torch.uint8, torch.int8, torch.int16),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
)
SMALL = 1 << 28  # bytes that are not worth asking for how many there are


def fail(name: str, rule: str, got: object, cure: str = "") -> NoReturn:
    """Raises the ValueError that every value check ends in."""
    raise ValueError(_sentence(name, rule, got, cure))


def mistyped(name: str, rule: str, got: object, cure: str = "") -> NoReturn:
    """Raises the TypeError that every type check ends in."""
    raise TypeError(_sentence(name, rule, got, cure))


def _sentence(name: str, rule: str, got: object, cure: str) -> str:
    """Words an error: argument, rule, value received, and the cure if there is one."""
    try:
        received = str(got)
    except ValueError:  # Python does not write integers of thousands of digits
        received = kind_of(got)
    return f"'{name}' {rule} (got {received})" + (f"; {cure}" if cure else "")


def shown(value: object, most: int = 60) -> str:
    """`value` as Python writes it; what it is, if that is long or impossible."""
    try:
        text = repr(value)
    except Exception:  # of an object that was not meant to be printed
        text = ""
    if text and len(text) <= most and "\n" not in text:
        return text
    return kind_of(value)


def kind_of(value: object) -> str:
    """Describes the type of `value` in two or three words."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return type(value).__name__


def readable(nbytes: int) -> str:
    """A number of bytes as a person writes it."""
    size, unit = float(nbytes), "bytes"
    for larger in ("kB", "MB", "GB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{nbytes} bytes" if unit == "bytes" else f"{size:.1f} {unit}"


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


def model(value: Any) -> None:
    """Refuses what is not a module of torch."""
    if not isinstance(value, nn.Module):
        mistyped("model", "must be a torch.nn.Module", shown(value))


def integer(name: str, value: Any) -> int:
    """`value` as a Python integer, from anything that is a single integer."""
    try:
        odd = isinstance(value, bool)
        if isinstance(value, Tensor):
            odd = bool(dense(name, value).dim()) or value.dtype is torch.bool
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


size, count = partial(at_least, 0), partial(at_least, 1)


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
        return math.inf


def finite(name: str, value: Any) -> float:
    """`value` as a float, which must be finite."""
    if not math.isfinite(result := number(name, value)):
        fail(name, "must be finite", value)
    return result


def positive(name: str, value: float) -> float:
    """`value`, which must be a finite number > 0."""
    result = number(name, value)
    if not 0 < result < math.inf:
        fail(name, "must be finite and greater than 0", value)
    if math.isinf(1 / result):
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


def fits(name: str, nbytes: int) -> None:
    """Refuses what asks for more memory than there is."""
    if nbytes < SMALL:
        return
    room = memory.room()
    if room is not None and nbytes > room:
        rule = f"must ask for no more than fits into memory, {room:,} bytes now"
        fail(name, rule, f"{nbytes:,} bytes")


def dense(name: str, value: Any) -> Tensor:
    """`value`, which must be a tensor whose numbers stand in memory as they are."""
    if not isinstance(value, Tensor):
        mistyped(name, "must be a tensor", shown(value))
    odd: object = None
    cure = ""
    if value.is_nested:
        odd, cure = "a nested tensor", "pad it: x.to_padded_tensor(0)"
    elif value.layout is not torch.strided:
        odd, cure = value.layout, "make it one: x.to_dense()"
    elif value.is_quantized:
        odd, cure = value.dtype, "make it one: x.dequantize()"
    elif str(value.dtype).startswith("torch.bits"):  # torch cannot even copy them
        odd = value.dtype
    elif value.is_meta:
        odd = "one on the device 'meta', which has no numbers"
    if odd is not None:
        mistyped(name, "must be a dense tensor", odd, cure)
    return value


def as_dense(name: str, value: Any) -> Tensor:
    """`value` as a dense tensor of any rank, without its gradient."""
    if isinstance(value, Tensor):
        return dense(name, value).detach().resolve_neg()
    given = value
    if isinstance(value, range):
        return _as_range(name, value)
    if isinstance(value, np.ma.MaskedArray):
        cure = "fill its gaps: x.filled(...)"
        mistyped(name, "must be an array without a mask", kind_of(value), cure)
    if isinstance(value, np.ndarray):
        plain = value.flags.writeable and all(s >= 0 for s in value.strides)
        if not plain or not value.dtype.isnative:  # what torch cannot share
            value = value.astype(value.dtype.newbyteorder("="))
    try:
        result = torch.as_tensor(value, device="cpu")
    except (TypeError, ValueError, RuntimeError, OverflowError):
        plain = isinstance(given, list | tuple)
        mistyped(name, "must be a tensor", shown(given) if plain else kind_of(given))
    # an empty list has no dtype of its own
    return result if result.numel() else result.to(torch.int64)


def _as_range(name: str, value: range) -> Tensor:
    """`value` as a tensor [k], without looking at every number."""
    try:
        fits(name, 8 * len(value))
        return torch.arange(value.start, value.stop, value.step, device="cpu")
    except (TypeError, RuntimeError, OverflowError):
        mistyped(name, "must be a tensor", shown(value))


def tensor(name: str, value: Any, rank: int | None = 1) -> Tensor:
    """`value` as a tensor of the given rank; None for any."""
    result = as_dense(name, value)
    if rank is not None and result.dim() != rank:
        cure = f"write [{value}]" if result.dim() == 0 and rank == 1 else ""
        rule = f"must have {rank} dimension(s)"
        fail(name, rule, f"shape {list(result.shape)}", cure)
    return result


def integers(name: str, value: Any, rank: int | None = 1) -> Tensor:
    """`value` as an int32 or int64 tensor of the given rank; None for any."""
    result = tensor(name, value, rank)
    if result.dtype not in INTEGERS:
        mask = result.dtype == torch.bool and rank == 1
        cure = "turn a mask into ids with mask.nonzero().view(-1)" if mask else ""
        mistyped(name, "must have dtype int32 or int64", result.dtype, cure)
    return result


def real(name: str, value: Any) -> Tensor:
    """`value`, whose dtype must be one that torch can sort and compare."""
    found = dense(name, value)
    if found.dtype not in REALS:
        mistyped(name, "must hold integers or floats", found.dtype)
    return found


def floats(name: str, value: Any) -> Tensor:
    """`value` as it is, with its gradient, which must hold floats."""
    if not (found := real(name, value)).is_floating_point():
        mistyped(name, "must hold floats", found.dtype)
    return found


def within(name: str, value: Tensor, upper: int, what: str = "nodes") -> Tensor:
    """`value`, whose entries must lie in [0, upper)."""
    if value.numel():
        low, high = (int(bound) for bound in value.aminmax())
        if low < 0:
            fail(name, "must not hold negative ids", low)
        if high >= upper:
            fail(name, f"must hold ids below the number of {what} {upper}", high)
    return value


def positions(name: str, value: Any, edges: int) -> Tensor:
    """`value` as positions of edges, of any shape; -1 for none."""
    result = integers(name, value, rank=None)
    if result.device.type == "cpu" and result.numel():
        low, high = (int(bound) for bound in result.aminmax())
        if low < -1 or high >= edges:
            rule = f"must hold positions below the number of edges {edges}, or -1"
            fail(name, rule, high if high >= edges else low)
    return result


def pairs(
    left: tuple[str, Any], right: tuple[str, Any], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Two integer arguments as tensors of one shape."""
    found = [integers(*argument, rank=None).to(device) for argument in (left, right)]
    try:
        first, second = torch.broadcast_tensors(*found)
    except RuntimeError:
        shapes = [list(entry.shape) for entry in found]
        fail(right[0], f"must have a shape that fits {left[0]!r}", shapes)
    return first, second


def length(name: str, value: Tensor, expected: int, of: str) -> Tensor:
    """`value`, which must have one entry per element of `of`."""
    if value.numel() != expected:
        fail(name, f"must have one entry per {of}, {expected} in all", value.numel())
    return value


def differentiable(name: str, value: Any, expected: int, of: str) -> Tensor:
    """`value` as it is, with its gradient: one entry per element of `of`."""
    tensor(name, real(name, value))
    return length(name, value, expected, of)


def looked_up(name: str, value: Any, node: Tensor) -> Tensor:
    """Checks what an embedding returned for nodes [...]: vectors [..., d]."""
    found = floats(name, value)
    if found.shape[:-1] != node.shape:
        shape = ", ".join(map(str, [*node.shape, "d"]))
        rule = f"must give one vector per node, shape [{shape}]"
        fail(name, rule, f"shape {list(found.shape)}")
    return found
