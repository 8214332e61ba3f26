"""Memory for arrays that are read at random places, and for results that come and go.

Where Linux hands out huge pages on request, a random read misses the cache but no
longer the table of pages as well. And a result whose memory was used before need not be
cleared by the kernel page by page, which would cost as much as drawing it: what a batch
occupied serves a later one, as soon as nobody holds a tensor of it any more.
"""

import ctypes
import sys
import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor

HUGE = 1 << 21
MADV_HUGEPAGE = 14
SMALL = 1 << 13  # numbers below which the allocator keeps memory by itself
LARGE = 1 << 22  # numbers above which idle memory is better returned to the system
KEPT = 16  # idle buffers; rooted sampling needs four, and some scratch for every hop

Array = np.ndarray[Any, Any]

# Without a lock: the collector may give memory back in the middle of a borrower. Every
# step on the list is atomic instead, and no step relies on the one before.
_idle: list[Array] = []


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


def borrow(size: int) -> Array:
    """An int64 array of at least `size` cells, to be given back or lent on."""
    if size < SMALL:
        return np.empty(size, np.int64)
    for _ in range(len(_idle)):
        try:
            array = _idle.pop(0)
        except IndexError:
            break
        if size <= array.size <= 4 * size:
            return array
        _idle.append(array)
    return np.empty(size + size // 8, np.int64)


def give_back(array: Array) -> None:
    """Keeps the memory of a borrowed array for the next who borrows."""
    if SMALL <= array.size <= LARGE:
        _idle.append(array)
        del _idle[:-KEPT]


def lend(array: Array, size: int) -> Tensor:
    """The first `size` cells as a tensor; when it is gone, the array is given back."""
    if 4 * size < array.size:  # a small result must not hold on to much memory
        copy = array[:size].copy()
        give_back(array)
        return torch.from_numpy(copy)
    view = array[:size]
    if array.size >= SMALL:
        weakref.finalize(view, give_back, array).atexit = False
    return torch.from_numpy(view)
