"""Memory for arrays that are read at random places, and for results that come and go.

Where Linux hands out huge pages on request, a random read misses the cache but no
longer the table of pages as well. And a result whose memory was used before need not be
cleared by the kernel page by page, which would cost as much as drawing it: what a batch
occupied serves a later one, as soon as nobody holds a tensor of it any more.
"""

import ctypes
import math
import os
import sys
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

HUGE = 1 << 21
MADV_HUGEPAGE = 14

Array = np.ndarray[Any, Any]
T = TypeVar("T")


def empty(size: int, dtype: torch.dtype) -> Tensor:
    """An uninitialised CPU tensor [size], on huge pages if it is large enough."""
    made = torch.empty(size, dtype=dtype, device="cpu")
    first = -(-made.data_ptr() // HUGE) * HUGE
    length = (made.data_ptr() + made.nbytes - first) // HUGE * HUGE
    if length > 0 and sys.platform == "linux":
        # a request: where it is not granted, nothing changes
        libc = ctypes.CDLL(None)
        libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), MADV_HUGEPAGE)
    return made


def room() -> int | None:
    """Bytes that this process can still have; None where nobody says."""
    found = [_free_memory(), _free_address_space(), _free_in_group()]
    return min((free for free in found if free is not None), default=None)


def _free_memory() -> int | None:
    """Free bytes of the machine, with memory that it would give back."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        (line,) = (line for line in lines if line.startswith("MemAvailable"))
        return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _free_address_space() -> int | None:
    """Bytes that a limit set with `ulimit -v` leaves."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return None
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return max(0, limit - pages * os.sysconf("SC_PAGE_SIZE"))
    except (ImportError, AttributeError, OSError, ValueError):
        return None


def _free_in_group() -> int | None:
    """Bytes that the control group of a container leaves."""
    group = Path("/sys/fs/cgroup")
    try:
        limit = int((group / "memory.max").read_text())
        return max(0, limit - int((group / "memory.current").read_text()))
    except (OSError, ValueError):  # no such group, or "max"
        return None


class Idle(Generic[T]):
    """Things that wait for their next use, for all threads.

    Without a lock: the collector may give memory back in the middle of a borrower.
    Every step on the list is atomic instead, and no step relies on the one before.

    Args:
        kept: how many may wait; None for any number.
    """

    def __init__(self, kept: int | None = None) -> None:
        self.items: list[T] = []
        self.kept = kept

    def take(self, fits: Callable[[T], bool] | None = None) -> T | None:
        """The last that was given back, and fits; None if there is none."""
        for _ in range(len(self.items)):
            try:
                found = self.items.pop()  # used last, and so the likeliest in cache
            except IndexError:  # other threads were faster
                break
            if fits is None or fits(found):
                return found
            self.items.insert(0, found)
        return None

    def give_back(self, item: T) -> None:
        """Keeps something for its next use."""
        self.items.append(item)
        if self.kept is not None:
            del self.items[: -self.kept]


class Pool:
    """Buffers of one dtype that wait for their next use.

    Args:
        dtype: of the buffers.
        small: cells below which the allocator keeps memory by itself.
        large: cells above which idle memory is better returned to the system.
        kept: how many idle buffers there may be.
    """

    def __init__(self, dtype: torch.dtype, small: int, large: int, kept: int) -> None:
        self.dtype, self.small, self.large = dtype, small, large
        self.idle = Idle[Array](kept)

    def borrow(self, size: int) -> Array:
        """An array of at least `size` cells, to be given back or lent on."""
        if size >= self.small:
            found = self.idle.take(lambda array: size <= array.size <= 4 * size)
            if found is not None:
                return found
            size += size // 8
        made: Array = empty(size, self.dtype).numpy()
        return made

    def give_back(self, array: Array) -> None:
        """Keeps the memory of a borrowed array for the next who borrows."""
        if self.small <= array.size <= self.large + self.large // 8:  # see `borrow`
            self.idle.give_back(array)

    def make(self, size: int) -> Tensor:
        """A tensor [size], in memory that was used before if it is large."""
        if size < self.small:
            return torch.empty(size, dtype=self.dtype, device="cpu")
        return self.lend(self.borrow(size), size)

    def lend(self, array: Array, size: int) -> Tensor:
        """The first `size` cells as a tensor; once it is gone, they are given back."""
        if 4 * size < array.size:  # a small result must not hold on to much memory
            copy = array[:size].copy()
            self.give_back(array)
            return torch.from_numpy(copy)
        view = array[:size]
        if array.size >= self.small:
            weakref.finalize(view, self.give_back, array).atexit = False
        return torch.from_numpy(view)


# Rooted sampling needs four at once, and some scratch for every hop.
IDS = Pool(torch.int64, small=1 << 13, large=1 << 22, kept=16)
borrow, give_back, lend = IDS.borrow, IDS.give_back, IDS.lend

# Two batches of features and labels.
FEATURES = Pool(torch.uint8, small=1 << 18, large=1 << 28, kept=4)


def empty_rows(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Memory for rows of features on the CPU, used before where that is worth it."""
    size = math.prod(shape) * dtype.itemsize
    if size < FEATURES.small:
        return torch.empty(tuple(shape), dtype=dtype, device="cpu")
    return FEATURES.make(size).view(dtype).view(tuple(shape))
