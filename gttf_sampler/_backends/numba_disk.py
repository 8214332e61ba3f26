"""The fast CPU backend's rows from files and caches."""

import os

import numpy as np
from torch import Tensor

from gttf_sampler._backends import disk_kernels as kernels
from gttf_sampler._backends import torch_disk
from gttf_sampler._backends.threads import parallel
from gttf_sampler._backends.types import Reads


def read_runs(reads: Reads, lo: int, hi: int) -> None:
    """Reads runs lo to hi; see `torch_disk`."""
    if not hasattr(os, "pread"):
        torch_disk.read_runs(reads, lo, hi)
        return
    first, last = reads.start[lo:hi], reads.start[lo + 1 : hi + 1] - 1
    span = int((reads.ids[last] - reads.ids[first]).max()) + 1
    align = reads.align
    memory = np.empty(span * reads.stride + 3 * align, np.uint8)  # held by this frame
    spare = -(-memory.__array_interface__["data"][0] // align) * align
    kernels.read_runs(
        *(lo, hi, np.int32(reads.handle), reads.base, reads.stride, align, spare),
        *(reads.ids, reads.place, reads.start, reads.out.data_ptr(), reads.failed),
    )


def place_rows(values: Tensor, slot: Tensor, out: Tensor) -> None:
    """Copies rows of a cache; see `torch_disk`."""
    count, stride = out.shape
    ends = values.data_ptr(), slot.numpy(), stride, out.data_ptr()
    work = count * max(1, stride // 16)
    owners = values, slot, out
    parallel(kernels.place_rows, count, work, *ends, owners=owners)
