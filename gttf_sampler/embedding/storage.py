"""Tables of vectors in memory, or in files that memory is a window on."""

from __future__ import annotations

import math
import os
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.memory import empty

SUFFIX = ".gttf-vectors"  # of files that are ours to write over


def folder_of(value: str | PathLike[str] | None) -> Path | None:
    """`storage` as a folder that is there; None for memory."""
    if value is None:
        return None
    folder = Path(_check.path("storage", value))
    if folder.exists() and not folder.is_dir():
        _check.fail("storage", "must be a folder", folder)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def zeros(
    folder: Path | None, name: str, shape: torch.Size, dtype: torch.dtype
) -> Tensor:
    """A table of zeros; with a folder, in a new file there that takes no room yet.

    What does not fit into memory is written back by the system, row by row. An older
    file of the same name is removed; who has it open keeps what they see.
    """
    numbers = math.prod(shape)
    nbytes = numbers * dtype.itemsize
    if folder is None:
        _check.fits("embedding_dim", nbytes)
        return empty(numbers, dtype).zero_().view(shape)
    place = folder / f"{name}{SUFFIX}"
    place.unlink(missing_ok=True)
    free = os.statvfs(folder) if hasattr(os, "statvfs") else None
    if free is not None and free.f_bavail * free.f_frsize < nbytes:
        rule = f"must have room for {nbytes:,} bytes"
        _check.fail("storage", rule, f"{free.f_bavail * free.f_frsize:,} in {folder}")
    how = {"shared": True, "size": numbers, "dtype": dtype}
    return torch.from_file(str(place), **how).view(shape)  # type: ignore[arg-type]
