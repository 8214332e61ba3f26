"""Files of made features, how they grow cold, and raw reads to compare with."""

import mmap
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import FeatureFile, _check
from gttf_sampler._backends.torch import disk as torch_disk
from gttf_sampler._backends.types import Reads
from gttf_sampler.backend import fast_backend
from gttf_sampler.bench.children import RefusedError
from gttf_sampler.bench.measure import Report
from gttf_sampler.features.layout import HEAD

PIECE = 1 << 16  # rows that are made at a time
COUNTERS = Path("/proc/self/io")
CPU = torch.device("cpu")


def made_file(
    path: str, nodes: int, width: int, seed: int, stored: str | None, report: Report
) -> FeatureFile:
    """Writes random features [n, width], float32 when they are read."""
    size = 4 if stored is None else 2
    need, free = nodes * width * size, shutil.disk_usage(Path(path).parent).free
    if need > 0.95 * free:
        most = 0.95 * free / need
        raise RefusedError(
            f"'--scale' must leave features of at most {free / 1e9:.0f} GB, the free "
            f"disk (got {need / 1e9:.0f} GB); take {most:.2g} times the scale"
        )
    what, done = f"writing {need / 1e9:.1f} GB of features", 0

    def tick(_: str, more: int) -> None:
        nonlocal done
        done += more
        report(what, done / max(1, 4 * nodes * width))

    rows = _rows(nodes, width, seed)
    return FeatureFile.from_chunks(path, rows, stored=stored, report=tick)


def _rows(nodes: int, width: int, seed: int) -> Iterator[Tensor]:
    """Random rows; the same ones again and again, as none of them change the time."""
    generator = torch.Generator().manual_seed(seed)
    made = torch.rand(min(PIECE, nodes), width, generator=generator)
    for start in range(0, nodes, PIECE):
        yield made[: nodes - start]


def forget(path: str, mapped: Any = None) -> None:
    """Has the system forget what it holds of a file: the next reads are cold.

    It holds on to pages that somebody has mapped, so these are let go first.
    """
    if not hasattr(os, "posix_fadvise"):
        raise RefusedError("cold reads can be measured on Linux alone")
    if mapped is not None:
        mapped._mmap.madvise(mmap.MADV_DONTNEED)
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def bytes_from_disk() -> int:
    """What this process has had the disk read so far; 0 where nobody counts."""
    if not COUNTERS.exists():
        return 0
    lines = COUNTERS.read_text().splitlines()
    return next(int(x.split()[1]) for x in lines if x.startswith("read_bytes"))


def raw_reads(path: str, file: FeatureFile, ids: Tensor, out: Tensor) -> None:
    """As many reads as ids, in their order, on 64 threads: nothing but reads."""
    stride = file.nbytes // max(1, len(file))
    handle = os.open(path, os.O_RDONLY)
    try:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
        count = ids.numel()
        place, start = np.arange(count), np.arange(count + 1)
        failed = np.zeros(count, np.uint8)
        reads = Reads(
            *(CPU, handle, HEAD, stride, 1, ids.numpy(), place, start, out, failed)
        )
        read = getattr(fast_backend(CPU), "read_runs", torch_disk.read_runs)
        torch_disk.spread(read, reads, reads)
        if failed.any():
            _check.fail(path, "must be readable", "reads that failed")
    finally:
        os.close(handle)
