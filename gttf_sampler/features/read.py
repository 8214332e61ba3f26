"""Reads rows by id: from a static cache, the page cache, or with many reads in flight.

A static cache has rows that were chosen once, by access statistics. S3-FIFO, by which
rows come and go, was measured and removed: of equal memory it made 1 to 7 points fewer
hits on skewed and on uniform ids, and with its bookkeeping a read took longer than
without any cache.

Rows in the page cache are copied from there. Other ids are sorted, so that rows near
each other come with one read, and equal ones are read once.

A read of a row that is in the page cache takes a microsecond, nearly all of it for the
system call. A copy from a memory map takes a fifth of that, but waits for the disk,
page after page, where rows are not in memory. So a few rows are read in a way that does
not wait; only if all of these are there, rows are copied, some at a time, as long as
that is quick.
"""

from __future__ import annotations

import mmap
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._arrays import Array
from gttf_sampler._backends import memory, ops
from gttf_sampler._backends.torch import gather as torch_gather
from gttf_sampler._backends.torch.gather import Move, Moves, Reads
from gttf_sampler.features.write import FILE, HEAD, Layout, Report, read_layout
from gttf_sampler.graph import CompactAdj

CPU = torch.device("cpu")
DIRECT = getattr(os, "O_DIRECT", 0)
SECTORS = 512, 4096  # what places and sizes of reads around the cache may have to fit
# The best of `examples/bench/disk.py`, by rows per second and by CPU time:
GAP = 1 << 14  # bytes between rows that take less time than another read
LONGEST = 1 << 17  # bytes of a read: longer ones keep others waiting

NOWAIT = getattr(os, "RWF_NOWAIT", 0)
PROBED = 64  # rows that are read without waiting, and speak for all others
FEW = 4 * PROBED  # rows that may as well be read
PIECE, WIDE = 1 << 14, 1 << 24  # rows, bytes that are copied between looks at a clock
SLOW = 2e-6  # seconds per row that mean that some were not in memory
SPEED = 2e9  # bytes per second that any memory has

COUNTED = 1 << 22  # edges that are counted at a time
SLOT = 4  # bytes per row of the file: its slot in the cache
Read = Callable[[Tensor, Tensor | None, Tensor], None]  # ids, places, output


class State(NamedTuple):
    """Size and time of a file: they change when it is written to."""

    size: int
    modified: int


class Handle:
    """An open feature file, closed with its last reader; notices changes.

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
        found = os.fstat(self.number)
        if not stat.S_ISREG(found.st_mode):
            _check.fail("path", "must be a feature file", f"{path}, no plain file")
        self.path = path
        self.layout: Layout = read_layout(self.number, path)
        self.state = State(found.st_size, found.st_mtime_ns)
        if direct is None:
            room = memory.room()
            direct = room is not None and self.state.size > room
        self.align = self._reopened() if direct else 1
        if self.align == 1 and hasattr(os, "posix_fadvise"):
            # else the system would read megabytes around every row
            os.posix_fadvise(self.number, 0, 0, os.POSIX_FADV_RANDOM)

    def _reopened(self) -> int:
        """Opens the file for reads around the cache; returns what these must fit to."""
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
            size = HEAD + self.layout.nbytes
            pages = mmap.mmap(self.number, size, access=mmap.ACCESS_COPY)
            if hasattr(mmap, "MADV_RANDOM"):
                pages.madvise(mmap.MADV_RANDOM)
            rows = torch.frombuffer(pages, dtype=torch.uint8, offset=HEAD)
            self._mapped = rows.view(self.layout.rows, self.layout.stride)
        return self._mapped

    def changed(self, how: str) -> NoReturn:
        """Raises the ValueError for a file that is not what it was."""
        _check.fail(self.path, "must not change while it is open", how, "open it again")

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


class Done(NamedTuple):
    """The number of reads, and of the bytes that they brought."""

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
        copied = copy_cached(handle, ids, place, out)
    if copied == ids.numel():
        return Done(0, 0)
    if copied:
        place = torch.arange(ids.numel()) if place is None else place
        ids, place = ids[copied:], place[copied:]
    if bool((ids[1:] >= ids[:-1]).all()):
        wanted, order = ids, torch.arange(ids.numel())
    else:
        wanted, order = ids.sort()
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


def copy_cached(handle: Handle, ids: Tensor, place: Tensor | None, out: Tensor) -> int:
    """Copies rows of ids [k] from the page cache to rows `place` [k] of `out`.

    Returns how many, from the first on; none if they do not seem to be in memory.
    """
    count = ids.numel()
    if handle.align > 1 or not in_page_cache(handle, ids):
        return 0
    try:
        values = handle.mapped()
    except (OSError, ValueError):  # no addresses are left, or it is shorter now
        return 0
    stride = handle.layout.stride
    piece = max(1, min(PIECE, WIDE // stride))
    slow = piece * (SLOW + stride / SPEED)
    for begin in range(0, count, piece):
        some = slice(begin, min(begin + piece, count))
        to = None if place is None else place[some]
        target = out[some] if place is None else out
        start = time.perf_counter()
        ops.gather(Moves(CPU, [Move([values], ids[some], target, to)]))
        if time.perf_counter() - start > slow:
            return some.stop
    return count


def in_page_cache(handle: Handle, ids: Tensor) -> bool:
    """True if a sample of the ids, the largest among them, has its rows in memory."""
    if not NOWAIT or ids.numel() < FEW:
        return False
    least, most = ids.aminmax()
    if least < 0 or most >= handle.layout.rows:
        return False  # the reader's to refuse
    step = max(1, ids.numel() // PROBED)
    stride = handle.layout.stride
    row = memoryview(bytearray(stride))
    for number in [int(most), *ids[::step].tolist()]:
        try:
            got = os.preadv(handle.number, [row], HEAD + number * stride, NOWAIT)
        except OSError:  # it would have to wait, or cannot tell
            return False
        if got < stride:
            return False
    return True


def runs_of(ids: Array, stride: int) -> Array:
    """Bounds of the runs of ascending ids that are one read each: [runs + 1].

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
        rows = torch_gather.run_at(reads, int(ids[0]), int(ids[-1]))
    except OSError as error:
        what = f"{handle.path!r} could not be read at row {int(ids[0])}"
        raise OSError(error.errno, f"{what}: {error.strerror}") from error
    if rows is None:
        handle.check()
        FILE.refuse(handle.path, f"must have {handle.layout.rows} rows", "fewer")
    reads.out[torch.from_numpy(reads.place[a:b])] = rows[ids - ids[0]]


def most_reached(adj: CompactAdj) -> Tensor:
    """int64 [num_cols], all nodes, those first that most edges lead a walker to.

    >>> from gttf_sampler import CompactAdj
    >>> from gttf_sampler.features import most_reached
    >>> most_reached(CompactAdj.from_edge_index([[2, 2, 1], [0, 1, 0]])).tolist()
    [2, 1, 0]
    """
    _check.of_type("adj", adj, CompactAdj)
    return largest(count_reached([adj], adj.num_cols), adj.num_cols)


def count_reached(
    adjs: Iterable[CompactAdj], size: int, report: Report | None = None
) -> Tensor:
    """int32 [size], how many edges of some graphs lead a walker to each node."""
    count = torch.zeros(size, dtype=torch.int32)
    for piece in (piece for adj in adjs for piece in adj.col.split(COUNTED)):
        one = count.new_ones(()).expand(piece.numel())
        count.scatter_add_(0, piece.to("cpu", torch.int64), one)
        if report is not None:
            report("counting", piece.numel() * piece.element_size())
    return count


def largest(counts: Tensor, most: int) -> Tensor:
    """Positions of the `most` largest numbers, largest first, ties in order.

    All of them are not sorted: that would take five times their memory, this three.
    """
    if most >= counts.numel():
        return counts.argsort(descending=True, stable=True)
    low = counts.kthvalue(counts.numel() - most + 1).values
    above = (counts > low).nonzero().view(-1)
    order = counts.index_select(0, above).argsort(descending=True, stable=True)
    equal = (counts == low).nonzero().view(-1)[: most - above.numel()]
    return torch.cat([above.index_select(0, order), equal])


def most_sampled(batches: Iterable[Any], n: int = 20) -> Tensor:
    """int64 [k], the nodes of the first `n` batches, those in most of them first.

    Args:
        batches: ids [k] each; or what a loader gives, with ids as `n_id` or as the
            first entry of a tuple. The loader that trains draws other batches after
            it was profiled: make one for the purpose.
        n: how many batches to look at.
    """
    found = []
    for batch in islice(batches, _check.count("n", n)):
        ids = batch[0] if isinstance(batch, tuple) else getattr(batch, "n_id", batch)
        found.append(_check.integers("batches", ids).cpu().unique())
    if not found:
        _check.fail("batches", "must hold at least one", "none")
    ids, count = torch.cat(found).unique(return_counts=True)
    order: Tensor = count.argsort(descending=True, stable=True)
    ranked: Tensor = ids.to(torch.int64).index_select(0, order)
    return ranked


class StaticCache:
    """Rows [k] of a file that are kept in memory for good; counts hits and misses."""

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
