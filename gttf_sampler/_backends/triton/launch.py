"""Launches of Triton kernels, and their count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import triton
from torch import Tensor

from gttf_sampler.random import Key

LANES = 512  # entries of a block of walkers × draws, which are held in registers
WIDEST = 1024  # draws of one walker that are
ENTRIES = 256  # edges or nodes of a block where each is on its own
WALKERS = 32  # of a block, each with a walk of its own: a warp, which needs no barrier
UNITS = 1024  # of features that a block moves
SEEDS = 4  # whose trees or walks one program goes down
SPAN = 1024  # cells that are cleared at once
_watching: list[list[str]] = []


@contextmanager
def counting() -> Iterator[list[str]]:
    """The names of all kernels started meanwhile, by any thread."""
    names: list[str] = []
    _watching.append(names)
    try:
        yield names
    finally:
        _watching[:] = [other for other in _watching if other is not names]


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
    """Starts a kernel on the device of its tensors; an empty grid starts nothing."""
    if 0 in grid:
        return
    for names in _watching:
        names.append(kernel.__name__)
    start(kernel, grid, args, constants)


def start(
    kernel: Any, grid: tuple[int, ...], args: Any, constants: dict[str, Any]
) -> None:
    """Starts a kernel on the device of its tensors, on torch's current stream there."""
    device = _device(args)
    there = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
    with there:
        kernel[grid](*args, **constants, enable_fp_fusion=False)


def _device(args: Any) -> torch.device:
    """The device of the first tensor, which may be in a tuple."""
    first = args[0]
    return _device(first) if isinstance(first, tuple) else first.device


def interpreted() -> bool:
    """True if kernels run in Triton's interpreter, on tensors of the CPU."""
    found: bool = triton.knobs.runtime.interpret
    return found


def blocks(size: int, block: int) -> int:
    """The number of blocks of so many entries."""
    return -(-size // block)


def bucket(fanout: int) -> int:
    """Room for draws of a block: kernels are compiled for powers of two."""
    return min(WIDEST, max(2, 1 << (fanout - 1).bit_length())) if fanout > 0 else 2


def key_of(key: Key) -> int | Tensor:
    """A key as kernels take it: a number of 64 bits, or where it is on the device."""
    return (key ^ 1 << 63) - (1 << 63) if isinstance(key, int) else key
