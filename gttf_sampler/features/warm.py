"""Rows that the system has in memory already, copied from there without a call of it.

A read of a row that is in the system's cache takes a microsecond, nearly all of it for
the call. A copy from a memory map takes a tenth of that, but waits for the disk, page
after page, where rows are not in memory. So a few rows are asked for in a way that does
not wait; only if all of these are there, all rows are copied, some at a time, as long
as that is quick.
"""

from __future__ import annotations

import os
import time

import torch
from torch import Tensor

from gttf_sampler._backends import ops
from gttf_sampler._backends.types import Move, Moves
from gttf_sampler.features.handle import Handle
from gttf_sampler.features.layout import HEAD

CPU = torch.device("cpu")
ASKED = 64  # rows that tell of all others
FEW = 4 * ASKED  # rows that may as well be read
PIECE = 1 << 14  # rows that are copied before somebody looks at the clock
WIDE = 1 << 24  # bytes, likewise
SLOW = 2e-6  # seconds per row that mean that some were not there
SPEED = 2e9  # bytes per second that any memory has
AT_ONCE = getattr(os, "RWF_NOWAIT", 0)


def copy_warm(handle: Handle, ids: Tensor, place: Tensor | None, out: Tensor) -> int:
    """Copies rows of ids [k] to rows `place` [k] of `out`; how many, from the first on.

    None of them if they do not seem to be in memory.
    """
    count = ids.numel()
    if handle.align > 1 or not is_warm(handle, ids):
        return 0
    try:
        values = handle.mapped()
    except (OSError, ValueError):  # no addresses are left, or it is shorter now
        return 0
    stride = handle.layout.stride
    piece = max(1, min(PIECE, WIDE // stride))
    slow = piece * (SLOW + stride / SPEED)
    for begin in range(0, count, piece):
        some = slice(begin, min(begin + piece, count))
        to = None if place is None else place[some]
        target = out[some] if place is None else out
        start = time.perf_counter()
        ops.gather(Moves(CPU, [Move([values], ids[some], target, to)]))
        if time.perf_counter() - start > slow:
            return some.stop
    return count


def is_warm(handle: Handle, ids: Tensor) -> bool:
    """Whether some of the ids, the largest among them, are rows that are in memory."""
    if not AT_ONCE or ids.numel() < FEW:
        return False
    least, most = ids.aminmax()
    if least < 0 or most >= handle.layout.rows:
        return False  # the reader's to refuse
    step = max(1, ids.numel() // ASKED)
    stride = handle.layout.stride
    row = memoryview(bytearray(stride))
    for number in [int(most), *ids[::step].tolist()]:
        try:
            got = os.preadv(handle.number, [row], HEAD + number * stride, AT_ONCE)
        except OSError:  # it would have to wait, or cannot tell
            return False
        if got < stride:
            return False
    return True
