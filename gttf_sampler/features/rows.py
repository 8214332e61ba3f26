"""RowReader: rows of an open file as they are stored, from a static cache or the disk.

A cache holds rows that were chosen once. S3-FIFO, by which rows come and go, was
measured and removed: of equal memory it made 1 to 7 points fewer hits on skewed and on
uniform ids, and with its bookkeeping a read took longer than without any cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import memory, ops
from gttf_sampler._backends.types import Move, Moves
from gttf_sampler.features.access import most_sampled
from gttf_sampler.features.encoding import SAME, decode
from gttf_sampler.features.handle import Handle
from gttf_sampler.features.read import read_rows

CPU = torch.device("cpu")
SLOT = 4  # bytes per row of the file: its slot in the cache
PROFILED = 20  # reads that choose the rows of a cache whose rows nobody has named
Read = Callable[[Tensor, Tensor | None, Tensor], None]  # ids, places, output


class StaticCache:
    """Rows that are kept in memory for good.

    Args:
        rows: int64 [k], their ids.
        count: how many rows the file has.
        stride: bytes of a row.
        read: reads rows from the file.

    Attributes:
        size: how many rows are kept.
        hits, misses: how many rows were found here, and were not.
    """

    def __init__(self, rows: Tensor, count: int, stride: int, read: Read) -> None:
        chosen = rows.unique()
        self.size, self.hits, self.misses = chosen.numel(), 0, 0
        self._slot = torch.full((count,), -1, dtype=torch.int32)
        self._slot[chosen] = torch.arange(self.size, dtype=torch.int32)
        self._values = memory.empty(self.size * stride, torch.uint8)
        self._values = self._values.view(self.size, stride)
        read(chosen, None, self._values)

    def fill(self, ids: Tensor, place: Tensor | None, raw: Tensor, read: Read) -> None:
        """Writes rows of ids [k] to rows `place` of `raw`; reads those not here."""
        slot = self._slot.index_select(0, ids).long()
        ops.gather(Moves(CPU, [Move([self._values], slot, raw, place, gaps=True)]))
        away = (slot < 0).nonzero().view(-1)
        self.misses += away.numel()
        self.hits += ids.numel() - away.numel()
        to = away if place is None else place.index_select(0, away)
        read(ids.index_select(0, away), to, raw)


class Profile:
    """Counts the rows of the first reads, of which a cache will keep the most frequent.

    Args:
        capacity: how many rows it may keep.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity, self._reads = capacity, list[Tensor]()

    def add(self, ids: Tensor) -> Tensor | None:
        """The rows to keep, when enough reads were seen; None before."""
        self._reads.append(ids.clone())
        if len(self._reads) < PROFILED:
            return None
        return most_sampled(self._reads, PROFILED)[: self._capacity]


class RowReader:
    """The bytes of rows of an open file.

    Attributes:
        reads, bytes_read: how many reads there were so far, and what they brought.
    """

    def __init__(self, handle: Handle) -> None:
        self._open: Handle | None = handle
        self._path, self._layout = handle.path, handle.layout
        self._cache: StaticCache | Profile | None = None
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
    def cached(self) -> int:
        """The number of rows in the cache."""
        return self._cache.size if isinstance(self._cache, StaticCache) else 0

    @property
    def hit_rate(self) -> float:
        """The share of rows that were found there; nan before the first one."""
        cache = self._cache
        if not isinstance(cache, StaticCache) or not cache.hits + cache.misses:
            return math.nan
        return cache.hits / (cache.hits + cache.misses)

    def keep(self, nbytes: int, rows: Tensor | None) -> None:
        """Keeps rows in so many bytes: the first of `rows`, or the most frequent."""
        self._cache = None
        if nbytes:
            capacity = self._capacity(nbytes)
            profile = Profile(capacity)
            self._cache = profile if rows is None else self._kept(rows[:capacity])

    def read(
        self, ids: Tensor, out: Tensor | None, place: Tensor | None, pinned: bool
    ) -> Tensor:
        """The rows of ids, after checks; see `FeatureFile.rows`."""
        ids = _index("ids", ids)
        place = None if place is None else _places(place, ids.numel(), out)
        dtype, size = self._layout.dtype, self._layout.rows
        shape = torch.Size([ids.numel(), *self._layout.shape])
        if out is None:
            out = _buffer(shape, dtype, pinned)
        elif place is None:
            _check_buffer(out, shape, dtype)
        else:
            _check_buffer(out, out.shape[:1] + shape[1:], dtype)
        if ids.numel() and out.numel():
            self.write_to(out, ids, place)
        else:
            _check.within("ids", ids, size, "rows")
        return out

    def write_to(self, out: Tensor, ids: Tensor, place: Tensor | None) -> None:
        """Writes the rows of ids [k] to rows `place` [k] of `out`, as they are read."""
        stored, stride = self._layout.stored, self._layout.stride
        if stored == SAME:
            self.fill(ids, place, out.view(len(out), -1).view(torch.uint8))
            return
        raw = memory.FEATURES.make(ids.numel() * stride).view(ids.numel(), stride)
        self.fill(ids, None, raw)
        if place is None:
            decode(raw, stored, out)
        else:
            rows = memory.empty_rows((ids.numel(), *out.shape[1:]), out.dtype)
            out[place] = decode(raw, stored, rows)

    def fill(self, ids: Tensor, place: Tensor | None, raw: Tensor) -> None:
        """Writes the rows of ids [k] to rows `place` [k] of `raw`, uint8 [m, stride].

        Without places, row i of `raw` is that of ids[i].
        """
        cache = self._cache  # once: another thread may end it
        if isinstance(cache, StaticCache):
            self.handle.check()
            _check.within("ids", ids, self._layout.rows, "rows")
            cache.fill(ids, place, raw, self._read)
            return
        self._read(ids, place, raw)
        if cache is not None and (chosen := cache.add(ids)) is not None:
            kept = self._kept(chosen)
            if self._cache is cache:
                self._cache = kept

    def _kept(self, rows: Tensor) -> StaticCache:
        """A cache of these rows."""
        return StaticCache(rows, self._layout.rows, self._layout.stride, self._read)

    def _capacity(self, nbytes: int) -> int:
        """The number of rows that fit, after a slot for every row of the file."""
        slots, stride = SLOT * self._layout.rows, self._layout.stride
        capacity = (nbytes - slots) // max(1, stride)
        if capacity < 1:
            rule = f"must be at least {slots + stride}, {SLOT} bytes per row of the"
            _check.fail("nbytes", f"{rule} file and a row", nbytes)
        _check.fits("nbytes", nbytes)
        return min(capacity, self._layout.rows)

    def _read(self, ids: Tensor, place: Tensor | None, raw: Tensor) -> None:
        """Reads rows from the disk, into some places of `raw`."""
        done = read_rows(self.handle, ids, place, raw)
        self.reads += done.reads
        self.bytes_read += done.nbytes


def _buffer(shape: torch.Size, dtype: torch.dtype, pinned: bool) -> Tensor:
    """Memory for rows, used before where that is worth it."""
    _check.fits("ids", shape.numel() * dtype.itemsize)
    if pinned:  # torch keeps such memory by itself
        return torch.empty(shape, dtype=dtype, device="cpu", pin_memory=True)
    return memory.empty_rows(shape, dtype)


def _check_buffer(out: Any, shape: torch.Size, dtype: torch.dtype) -> None:
    """Refuses memory that rows cannot be written to as they are."""
    found = _check.dense("out", out)
    if found.dtype != dtype:
        _check.mistyped("out", f"must have dtype {dtype}", found.dtype)
    if found.shape != shape:
        _check.fail("out", f"must have shape {list(shape)}", list(found.shape))
    if found.device.type != "cpu" or not found.is_contiguous():
        _check.fail("out", "must be contiguous on the CPU", found.device)
    if found.requires_grad:
        _check.fail("out", "must not require a gradient", True)


def _index(name: str, value: Any) -> Tensor:
    """`value`, int64 [k] on the CPU, contiguous as kernels read it by its address."""
    found = _check.tensor(name, _check.dense(name, value))
    if found.dtype != torch.int64 or found.device.type != "cpu":
        got = f"{found.dtype} on {found.device}"
        _check.mistyped(name, "must have dtype int64, on the CPU", got)
    return found.contiguous()


def _places(place: Any, count: int, out: Any) -> Tensor:
    """`place` as rows of `out`, different ones, one for each of `count` ids."""
    if out is None:
        _check.fail("place", "must come with 'out', whose rows it names", "None")
    rows = _check.dense("out", out)
    size = rows.shape[0] if rows.dim() else 0
    found = _check.length("place", _index("place", place), count, "id")
    _check.within("place", found, size, "rows of 'out'")
    named = torch.zeros(size, dtype=torch.bool).index_fill_(0, found, True)
    if int(named.sum()) != count:
        _check.fail("place", "must name a row of 'out' once", "a repeated one")
    return found
