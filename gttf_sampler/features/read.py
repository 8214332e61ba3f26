"""Rows at ids, with as many reads in flight as the disk serves best.

What the system has in its cache is copied from there. Other ids are sorted, so that
rows near each other come with one read, and equal ones are read once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops, torch_disk
from gttf_sampler._backends.types import Reads
from gttf_sampler.features.handle import Handle
from gttf_sampler.features.layout import HEAD
from gttf_sampler.features.warm import copy_warm

CPU = torch.device("cpu")
# The best of `examples/bench/disk.py`, by rows per second and by CPU time:
GAP = 1 << 14  # bytes between rows that take less time than another read
LONGEST = 1 << 17  # bytes of a read: longer ones keep others waiting

Array = np.ndarray[Any, Any]


class Done(NamedTuple):
    """What it took: how many reads, how many bytes."""

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
        warm = copy_warm(handle, ids, place, out)
    if warm == ids.numel():
        return Done(0, 0)
    if warm:
        place = torch.arange(ids.numel()) if place is None else place
        ids, place = ids[warm:], place[warm:]
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


def _sorted(ids: Tensor) -> tuple[Tensor, Tensor]:
    """The ids in ascending order, and where each was."""
    if bool((ids[1:] >= ids[:-1]).all()):
        return ids, torch.arange(ids.numel())
    found, order = ids.sort()
    return found, order


def runs_of(ids: Array, stride: int) -> Array:
    """Where the runs of ascending ids begin, and where the last one ends.

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
