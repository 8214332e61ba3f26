"""The fast CPU backend's rows from files: as many reads in flight as a disk serves."""

import os
from functools import partial
from typing import Any

import numpy as np

from gttf_sampler._backends import disk_kernels as kernels
from gttf_sampler._backends import torch_disk
from gttf_sampler._backends.disk_queue import Queue, queue
from gttf_sampler._backends.threads import KERNELS, held, run
from gttf_sampler._backends.types import Reads

SPARE = 1 << 26  # bytes that reads in flight are written to, unless one takes more
AHEAD = 256  # reads that the system is told of before they are due
FEWEST, MOST = 256, 8192  # runs between two looks at whether somebody interrupts


def read_all(reads: Reads, owner: Any) -> None:
    """Reads all runs; see `torch_disk`.

    Around the system's cache by a queue of the disk. Through it, by telling the system
    ahead. Either keeps the disk busy from one thread, at a fraction of the time that 64
    threads take to sleep and wake up.
    """
    if reads.align > 1:
        with queue() as own:
            if own is not None:
                for lo in range(0, reads.runs, MOST):
                    _read_queued(own, reads, lo, min(lo + MOST, reads.runs))
                return
    if reads.align > 1 or not hasattr(os, "posix_fadvise"):
        torch_disk.spread(read_runs, reads, owner)
        return
    step = min(MOST, max(FEWEST, -(-reads.runs // (2 * KERNELS.size()))))
    calls = [
        partial(held, owner, _read_ahead, reads, lo, min(lo + step, reads.runs))
        for lo in range(0, reads.runs, step)
    ]
    run(calls)


def read_runs(reads: Reads, lo: int, hi: int) -> None:
    """Reads runs lo to hi, one after the other; see `torch_disk`."""
    if not hasattr(os, "pread"):
        torch_disk.read_runs(reads, lo, hi)
        return
    memory, spare = _spare(reads, _longest(reads, lo, hi))
    kernels.read_runs(lo, hi, *_arguments(reads, spare))
    del memory


def _read_ahead(reads: Reads, lo: int, hi: int) -> None:
    """Reads runs lo to hi, each of which the system knows of before its turn."""
    memory, spare = _spare(reads, _longest(reads, lo, hi))
    kernels.read_ahead(AHEAD, lo, hi, *_arguments(reads, spare))
    del memory


def _read_queued(own: Queue, reads: Reads, lo: int, hi: int) -> None:
    """Reads runs lo to hi by a queue of the disk, which is empty afterwards."""
    room = -(-_longest(reads, lo, hi) // reads.align) * reads.align
    flying = max(1, min(len(own.blocks), hi - lo, SPARE // room))
    if own.spare.size < flying * room + reads.align:
        own.spare = np.empty(flying * room + reads.align, np.uint8)
    spare = _aligned(own.spare, reads.align)
    kernels.read_queued(
        *(own.number, *own.calls, own.blocks[:flying], own.waiting, own.events),
        *(room, lo, hi, *_arguments(reads, spare)),
    )


def _longest(reads: Reads, lo: int, hi: int) -> int:
    """The bytes of the longest of some runs, with what aligns them."""
    first, last = reads.start[lo:hi], reads.start[lo + 1 : hi + 1] - 1
    span = int((reads.ids[last] - reads.ids[first]).max()) + 1
    return span * reads.stride + 2 * reads.align


def _spare(reads: Reads, size: int) -> tuple[np.ndarray[Any, Any], int]:
    """Memory that the caller holds on to, and an aligned address in it."""
    memory = np.empty(size + reads.align, np.uint8)
    return memory, _aligned(memory, reads.align)


def _aligned(memory: np.ndarray[Any, Any], align: int) -> int:
    """The first address in an array that is a multiple of `align`."""
    address: int = memory.__array_interface__["data"][0]
    return -(-address // align) * align


def _arguments(reads: Reads, spare: int) -> tuple[Any, ...]:
    """What all kernels are given."""
    how = np.int32(reads.handle), reads.base, reads.stride, reads.align, spare
    arrays = reads.ids, reads.place, reads.start, reads.out.data_ptr(), reads.failed
    return *how, *arrays
