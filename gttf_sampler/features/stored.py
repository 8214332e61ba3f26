"""StoredRows: rows as they are stored, from a cache or the disk, and what that took."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.memory import FEATURES, empty_rows
from gttf_sampler.features.cache import Kept, Lately
from gttf_sampler.features.encoding import SAME, decode
from gttf_sampler.features.handle import Handle
from gttf_sampler.features.read import read_rows


class StoredRows:
    """The bytes of rows of an open file.

    Attributes:
        reads, bytes_read: how many reads there were so far, and what they brought.
    """

    def __init__(self, handle: Handle) -> None:
        self._open: Handle | None = handle
        self._path, self._layout = handle.path, handle.layout
        self._cache: Kept | Lately | None = None
        self.reads = self.bytes_read = 0

    @property
    def handle(self) -> Handle:
        """The open file."""
        if self._open is None:
            _check.fail(self._path, "must be open", "a closed file", "open it again")
        return self._open

    def close(self) -> None:
        """Closes the file, as soon as reads that are under way are over."""
        self._open = None

    @property
    def kept(self) -> int:
        """How many rows are in the cache."""
        return 0 if self._cache is None else self._cache.size

    @property
    def hit_rate(self) -> float:
        """The share of rows that were found there; nan before the first one."""
        cache = self._cache
        asked = 0 if cache is None else cache.hits + cache.misses
        return cache.hits / asked if cache is not None and asked else math.nan

    def keep(self, nbytes: int, rows: Tensor | None) -> None:
        """Keeps rows in so many bytes: these, or those that are asked for lately."""
        self._cache, size = None, (self._layout.rows, self._layout.stride)
        if nbytes and rows is None:
            self._cache = Lately(nbytes, *size)
        elif nbytes and rows is not None:
            self._cache = Kept(nbytes, rows, *size, self._read)

    def write_to(self, out: Tensor, ids: Tensor, place: Tensor | None) -> None:
        """Writes the rows of ids [k] to rows `place` [k] of `out`, as they are read."""
        stored, stride = self._layout.stored, self._layout.stride
        if stored == SAME:
            self.fill(ids, place, out.view(len(out), -1).view(torch.uint8))
            return
        raw = FEATURES.make(ids.numel() * stride).view(ids.numel(), stride)
        self.fill(ids, None, raw)
        if place is None:
            decode(raw, stored, out)
        else:
            rows = empty_rows((ids.numel(), *out.shape[1:]), out.dtype)
            out[place] = decode(raw, stored, rows)

    def fill(self, ids: Tensor, place: Tensor | None, raw: Tensor) -> None:
        """Writes the rows of ids [k] to rows `place` [k] of `raw`, uint8 [m, stride].

        Without places, row i of `raw` is that of ids[i].
        """
        cache = self._cache  # once: another thread may end it
        if cache is None:
            self._read(ids, place, raw)
        else:
            self.handle.check()
            _check.within("ids", ids, self._layout.rows, "rows")
            cache.fill(ids, place, raw, self._read)

    def _read(self, ids: Tensor, place: Tensor | None, raw: Tensor) -> None:
        """Reads rows from the disk, into some places of `raw`."""
        done = read_rows(self.handle, ids, place, raw)
        self.reads += done.reads
        self.bytes_read += done.nbytes
