"""Handle: an open feature file, closed with its last reader; notices changes."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, NoReturn

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import memory
from gttf_sampler.features.layout import FILE, HEAD, Layout, read_layout

DIRECT = getattr(os, "O_DIRECT", 0)
SECTORS = 512, 4096  # what places and sizes of reads around the cache may have to fit


class State(NamedTuple):
    """Size and time of a file: they change when somebody writes to it."""

    size: int
    modified: int

    @classmethod
    def of(cls, handle: int) -> State:
        """The state of an open file."""
        found = os.fstat(handle)
        return cls(found.st_size, found.st_mtime_ns)


class Handle:
    """A feature file that is open.

    Args:
        path: of the file.
        direct: whether to read around the system's cache; None if the file is larger
            than the memory that is left, where the cache would hold a few rows of every
            page and none of the next epoch.
    """

    def __init__(self, path: str, direct: bool | None) -> None:
        self.number = -1
        self._mapped: Tensor | None = None
        try:
            self.number = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except FileNotFoundError:
            _check.fail("path", "must be a feature file", f"{path}, which is not there")
        if not stat.S_ISREG(os.fstat(self.number).st_mode):
            _check.fail("path", "must be a feature file", f"{path}, no plain file")
        self.path = path
        self.layout: Layout = read_layout(self.number, path)
        self.state = State.of(self.number)
        if direct is None:
            room = memory.room()
            direct = room is not None and self.state.size > room
        self.align = self._reopened() if direct else 1
        if self.align == 1 and hasattr(os, "posix_fadvise"):
            # else the system would read megabytes around every row
            os.posix_fadvise(self.number, 0, 0, os.POSIX_FADV_RANDOM)

    def _reopened(self) -> int:
        """Opens the file for reads around the cache; what these must fit to."""
        if not DIRECT:
            return 1
        try:
            other = os.open(self.path, os.O_RDONLY | DIRECT)
        except OSError:  # this file system has none
            return 1
        same = os.path.sameopenfile(other, self.number)
        fits = [size for size in SECTORS if same and _reads(other, size)]
        os.close(self.number if fits else other)
        if not same:
            self.changed("another file was put in its place")
        if not fits:
            return 1
        self.number = other
        return fits[0]

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Refuses what was read while the file was not what it is."""
        self.check()
        yield
        self.check()

    def check(self) -> None:
        """Refuses a file that is not what it was when it was opened.

        One that was removed is still there for those who have it open.
        """
        found = os.fstat(self.number)
        if found.st_size != self.state.size:
            self.changed(f"{found.st_size} bytes, {self.state.size} before")
        if found.st_mtime_ns != self.state.modified:
            self.changed("it was written to")
        if found.st_nlink == 0 and os.path.exists(self.path):
            self.changed("another file was put in its place")

    def mapped(self) -> Tensor:
        """uint8 [rows, stride], all of them, mapped into memory."""
        if self._mapped is None:
            shape = self.layout.rows, self.layout.stride
            with open(self.number, "rb", closefd=False) as file:
                rows = np.memmap(file, np.uint8, "c", HEAD, shape)
            if hasattr(mmap, "MADV_RANDOM"):
                rows._mmap.madvise(mmap.MADV_RANDOM)  # type: ignore[attr-defined]
            self._mapped = torch.from_numpy(rows)
        return self._mapped

    def changed(self, how: str) -> NoReturn:
        """Raises the ValueError for a file that is not what it was."""
        _check.fail(self.path, "must not change while it is open", how, "open it again")

    def short(self) -> NoReturn:
        """Raises the ValueError for a file without some of its rows."""
        self.check()
        FILE.refuse(self.path, f"must have {self.layout.rows} rows", "fewer")

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)
            self.number = -1


def _reads(handle: int, size: int) -> bool:
    """True if the system reads around its cache at multiples of `size`."""
    with mmap.mmap(-1, size) as buffer, memoryview(buffer) as part:
        try:
            return os.preadv(handle, [part], HEAD - size) == size
        except OSError:
            return False
