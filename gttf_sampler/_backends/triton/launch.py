"""Launches of Triton kernels, and their count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_int64
from itertools import accumulate
from typing import Any

import torch
import triton
from torch import Tensor

from gttf_sampler.random import Key

LANES = 512  # entries of a block of walkers × draws, which are held in registers
WIDEST = 1024  # draws of one walker that are
ENTRIES = 256  # edges or nodes of a block where each is on its own
WALKERS = 32  # of a block, each with a walk of its own: a warp, which needs no barrier
SEEDS = 4  # whose trees or walks one program goes down
SPAN = 1024  # cells that are cleared at once
LINE = 16  # numbers of a line of memory
NARROW = 1 << 31  # numbers below are of 32 bits to Triton
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


class Address(int):
    """The address of numbers of int64, at the beginning of a line of memory."""


class Slab:
    """Arrays of int64 in one allocation.

    Attributes:
        memory: int64, all of them.
        at: the address of each.
    """

    def __init__(self, sizes: Sequence[int], device: torch.device) -> None:
        offsets = list(
            accumulate((-(-size // LINE) * LINE for size in sizes), initial=0)
        )
        self.memory = torch.empty(offsets.pop(), dtype=torch.int64, device=device)
        place = self.memory.data_ptr()
        self.at = [Address(place + 8 * offset) for offset in offsets]


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
    """Starts a kernel on the device of its tensors; an empty grid starts nothing."""
    if 0 in grid:
        return
    for names in _watching:
        names.append(kernel.__name__)
    start(kernel, grid, args, constants, False)


def launch_long(
    kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any
) -> None:
    """`launch` for kernels of which all numbers and all that they read are int64.

    There is less to find out about them. Tensors begin at a line of memory.
    """
    if 0 in grid:
        return
    for names in _watching:
        names.append(kernel.__name__)
    start(kernel, grid, args, constants, True)


_compiled: dict[Any, Any] = {}


def start(
    kernel: Any, grid: tuple[int, ...], args: Any, constants: Any, long: bool
) -> None:
    """Starts a kernel on the device of its first tensor, on torch's stream there.

    Triton's own way into a kernel finds out at every launch which of its variants it
    needs, and takes longer for that than all the rest; here it is asked once for each.
    """
    if type(kernel) is not triton.JITFunction:
        kernel[grid](*typed(args, False), **constants)  # of the interpreter
        return
    driver = triton.runtime.driver.active
    number = driver.get_current_device()
    device = _device(args)
    if device.type == "cuda" and device.index != number:
        with torch.cuda.device(device):
            start(kernel, grid, args, constants, long)
        return
    kinds = map(type, args) if long else _kinds(args)
    variant = kernel.fn, number, *constants.values(), *kinds
    found = _compiled.get(variant)
    if found is None:
        found = _compiled[variant] = _compile(
            kernel, grid, typed(args, long), constants
        )
    _, run, function, metadata, fixed = found
    stream = driver.get_current_stream(number)
    x, y, z = grid if len(grid) == 3 else (*grid, 1, 1)[:3]
    run(x, y, z, stream, function, metadata, None, None, None, *args, *fixed)


def _compile(kernel: Any, grid: Any, args: Any, constants: Any) -> tuple[Any, ...]:
    """The kernel compiled, and what Triton wants to be told at every launch of it."""
    made = kernel.warmup(*args, grid=grid, **constants, enable_fp_fusion=False)
    fixed = (None,) * len(kernel.constexprs)  # the last ones, which are compiled in
    return made, made.run, made.function, made.packed_metadata, fixed


def _kinds(args: Iterable[Any]) -> tuple[Any, ...]:
    """All that Triton compiles other code for: types, alignment, size of numbers."""
    kinds: list[Any] = []
    for arg in args:
        if type(arg) is int:
            kinds.append((-NARROW <= arg < NARROW, arg == 1, arg % 16 == 0))
        elif type(arg) is tuple:
            kinds.append(_kinds(arg))
        elif type(arg) is float:
            kinds.append(float)
        else:
            kinds += (arg.dtype, arg.data_ptr() % 16 == 0)
    return tuple(kinds)


class _Pointer:
    """An address with the type of what is there, as Triton asks for it."""

    dtype = torch.int64

    def __init__(self, address: int) -> None:
        self.data_ptr = lambda: address


def typed(args: Iterable[Any], long: bool) -> tuple[Any, ...]:
    """Arguments from which Triton tells their types; numbers may stand for others."""
    return tuple(_typed(arg, long) for arg in args)


def _typed(arg: Any, long: bool) -> Any:
    if type(arg) is tuple:
        return typed(arg, long)
    if type(arg) is int and long:
        return (1 << 62) + 1  # odd, so that nothing is made of what it is a multiple of
    if type(arg) is not Address:
        return arg
    if not interpreted():
        return _Pointer(arg)
    return torch.frombuffer((c_int64 * 1).from_address(arg or 8), dtype=torch.int64)


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
    return (key ^ 1 << 63) - (1 << 63) if isinstance(key, int) else in_line(key)


def in_line(values: Tensor) -> Tensor:
    """`values`, or a copy that begins at a line of memory, end to end."""
    found = values.contiguous()
    return found.clone() if found.data_ptr() % 16 else found
