"""Checks of tensors: layout, dtype, rank, range, and whether they fit into memory."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler._backends import memory
from gttf_sampler._check.words import fail, kind_of, mistyped, shown

INTEGERS = (torch.int32, torch.int64)
REALS = (
    *(*INTEGERS, torch.uint8, torch.int8, torch.int16),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
)
SMALL = 1 << 28  # bytes that are not worth asking for how many there are


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
    if not real(name, found := dense(name, value)).is_floating_point():
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
    tensor(name, real(name, dense(name, value)))
    return length(name, value, expected, of)


def looked_up(name: str, value: Any, node: Tensor) -> Tensor:
    """Checks what an embedding returned for nodes [...]: vectors [..., d]."""
    found = floats(name, value)
    if found.shape[:-1] != node.shape:
        shape = ", ".join(map(str, [*node.shape, "d"]))
        rule = f"must give one vector per node, shape [{shape}]"
        fail(name, rule, f"shape {list(found.shape)}")
    return found
