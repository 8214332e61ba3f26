"""Rows by id, with as many reads in flight as the disk serves best.

Rows in the page cache are copied from there. Other ids are sorted, so that rows near
each other come with one read, and equal ones are read once.

A read of a row that is in the page cache takes a microsecond, nearly all of it for the
system call. A copy from a memory map takes a fifth of that, but waits for the disk,
page after page, where rows are not in memory. So a few rows are read in a way that does
not wait; only if all of these are there, rows are copied, some at a time, as long as
that is quick.
"""

from __future__ import annotations

import os
import time
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._backends.torch import disk as torch_disk
from gttf_sampler._backends.types import Move, Moves, Reads
from gttf_sampler.features.handle import Handle
from gttf_sampler.features.layout import HEAD

CPU = torch.device("cpu")
# The best of `examples/bench/disk.py`, by rows per second and by CPU time:
GAP = 1 << 14  # bytes between rows that take less time than another read
LONGEST = 1 << 17  # bytes of a read: longer ones keep others waiting

NOWAIT = getattr(os, "RWF_NOWAIT", 0)
PROBED = 64  # rows that are read without waiting, and speak for all others
FEW = 4 * PROBED  # rows that may as well be read
PIECE, WIDE = (
    1 << 14,
    1 << 24,
)  # rows and bytes that are copied between looks at a clock
SLOW = 2e-6  # seconds per row that mean that some were not in memory
SPEED = 2e9  # bytes per second that any memory has

Array = np.ndarray[Any, Any]


class Done(NamedTuple):
    """The number of reads, and of the bytes that they brought."""

    reads: int
    nbytes: int


def read_rows(handle: Handle, ids: Tensor, place: Tensor | None, out: Tensor) -> Done:
    """Reads the rows of ids [k] into rows `place` [k] of `out`, uint8 [..., stride].

    Without places, row i of `out` is that of ids[i].
    """
    stride = handle.layout.stride
    if ids.numel() == 0 or stride == 0:
        return Done(0, 0)
    with handle.unchanged():
        copied = copy_cached(handle, ids, place, out)
    if copied == ids.numel():
        return Done(0, 0)
    if copied:
        place = torch.arange(ids.numel()) if place is None else place
        ids, place = ids[copied:], place[copied:]
    wanted, order = _sorted(ids)
    if place is not None:
        order = place[order]
    found, where = wanted.numpy(), order.numpy()
    if found[0] < 0 or found[-1] >= handle.layout.rows:
        _check.within("ids", ids, handle.layout.rows, "rows")
    start = runs_of(found, stride)
    failed = np.zeros(start.size - 1, np.uint8)
    how = handle.number, HEAD, stride, handle.align
    reads = Reads(CPU, *how, found, where, start, out, failed)
    with handle.unchanged():
        ops.read_all(reads, handle)
        for number in failed.nonzero()[0].tolist():
            _again(handle, reads, number)
    spans = found[start[1:] - 1] - found[start[:-1]] + 1
    return Done(reads.runs, int(spans.sum()) * stride)


def copy_cached(handle: Handle, ids: Tensor, place: Tensor | None, out: Tensor) -> int:
    """Copies rows of ids [k] from the page cache to rows `place` [k] of `out`.

    Returns how many, from the first on; none if they do not seem to be in memory.
    """
    count = ids.numel()
    if handle.align > 1 or not in_page_cache(handle, ids):
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


def in_page_cache(handle: Handle, ids: Tensor) -> bool:
    """True if a sample of the ids, the largest among them, has its rows in memory."""
    if not NOWAIT or ids.numel() < FEW:
        return False
    least, most = ids.aminmax()
    if least < 0 or most >= handle.layout.rows:
        return False  # the reader's to refuse
    step = max(1, ids.numel() // PROBED)
    stride = handle.layout.stride
    row = memoryview(bytearray(stride))
    for number in [int(most), *ids[::step].tolist()]:
        try:
            got = os.preadv(handle.number, [row], HEAD + number * stride, NOWAIT)
        except OSError:  # it would have to wait, or cannot tell
            return False
        if got < stride:
            return False
    return True


def _sorted(ids: Tensor) -> tuple[Tensor, Tensor]:
    """The ids in ascending order, and where each was."""
    if bool((ids[1:] >= ids[:-1]).all()):
        return ids, torch.arange(ids.numel())
    found, order = ids.sort()
    return found, order


def runs_of(ids: Array, stride: int) -> Array:
    """Bounds of the runs of ascending ids that are one read each: [runs + 1].

    A run ends where the gap to the next row is too wide, or at a multiple of its
    longest size: rows that stand together are read in reads of one size.
    """
    step = np.diff(ids)
    most = max(1, LONGEST // stride)
    far = (step - 1) * stride > GAP
    far |= ids[1:] // most != ids[:-1] // most
    far &= step > 0
    ends = np.flatnonzero(far) + 1
    return np.concatenate([[0], ends, [ids.size]]).astype(np.int64)


def _again(handle: Handle, reads: Reads, number: int) -> None:
    """Reads one more time what failed, in a way that says why if it fails again."""
    a, b = int(reads.start[number]), int(reads.start[number + 1])
    ids = torch.from_numpy(reads.ids[a:b])
    handle.check()  # a file that was cut short says so
    try:
        rows = torch_disk.run_at(reads, int(ids[0]), int(ids[-1]))
    except OSError as error:
        what = f"{handle.path!r} could not be read at row {int(ids[0])}"
        raise OSError(error.errno, f"{what}: {error.strerror}") from error
    if rows is None:
        handle.short()
    reads.out[torch.from_numpy(reads.place[a:b])] = rows[ids - ids[0]]
