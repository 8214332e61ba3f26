"""Rows of features, copied from memory or read from files."""

import mmap
import os
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler._backends.threads import READERS, READS, run


class CachedRows(NamedTuple):
    """Copies of some rows, which are read instead of them.

    Attributes:
        slot: int32 [n], which copy a row has; -1 for none.
        values: [k, ...], the copies.
        hits: int64 [], to which the rows are added that had one.
    """

    slot: Tensor
    values: Tensor
    hits: Tensor


class Move(NamedTuple):
    """Rows to copy, and where they are written; all of it is contiguous.

    Attributes:
        values: [n, ...] each; their rows are counted end to end.
        row: int64 [k], which rows; None for all of them.
        out: [m, ...].
        to: int64 [k], which rows of `out` they become; None for the first k.
        gaps: whether negative rows are left out.
        cached: copies of rows that are nearer; None if there are none.
    """

    values: Sequence[Tensor]
    row: Tensor | None
    out: Tensor
    to: Tensor | None = None
    gaps: bool = False
    cached: CachedRows | None = None

    @property
    def plain(self) -> bool:
        """True if row i of `out` becomes row[i], for all of them."""
        return self.to is None and not self.gaps


class Moves(NamedTuple):
    """Rows to be gathered.

    Attributes:
        device: where all of it is.
        columns: any number of them.
    """

    device: torch.device
    columns: list[Move]


def gather(moves: Moves) -> list[Tensor]:
    """Rows [k, ...] of every column's values [n, ...], written to where they belong."""
    for move in moves.columns:
        if move.cached is not None and move.row is not None:
            _gather_cached(move.values[0], move.row, move.out, move.cached)
        elif len(move.values) == 1 and move.row is not None and move.plain:
            torch.index_select(move.values[0], 0, move.row, out=move.out)
        else:
            _gather_pieces(move)
    return [move.out for move in moves.columns]


def _gather_cached(
    values: Tensor, row: Tensor, out: Tensor, cached: CachedRows
) -> None:
    """One column of `gather`, most of it from copies; without waiting for a device."""
    slot = cached.slot.index_select(0, row).long()
    hit = slot >= 0
    cached.hits.add_(hit.sum())
    near = cached.values.index_select(0, slot.clamp(min=0))
    far = values.index_select(0, row.masked_fill(hit, 0))
    torch.where(hit.view(-1, *(1,) * (out.dim() - 1)), near, far, out=out)


def _gather_pieces(move: Move) -> None:
    """One column of `gather`, piece by piece."""
    total = sum(values.shape[0] for values in move.values)
    row = torch.arange(total) if move.row is None else move.row
    place = torch.arange(row.numel()) if move.to is None else move.to
    least = row.min() if row.numel() and not move.gaps else 0
    if least < 0 or (row.numel() and row.max() >= total):
        raise IndexError("an index is out of range")
    first = 0
    for values in move.values:
        here = ((row >= first) & (row < first + values.shape[0])).nonzero().view(-1)
        move.out[place[here]] = values[row[here] - first]
        first += values.shape[0]


FEWEST, MOST = 4, 512  # runs that a thread takes at a time
_seeking = Lock()  # on Windows, where files are read from where the last one stopped


class Reads(NamedTuple):
    """Rows to be read from a file, in runs that are one read each.

    Attributes:
        device: where the rows go, the CPU.
        handle: of the open file.
        base: where its rows begin.
        stride: bytes of a row.
        align: what places and sizes must be multiples of; 1 for anything.
        ids: int64 [k], ascending; equal ones are in one run.
        place: int64 [k], which row of `out` an id belongs to.
        start: int64 [r + 1]; run i has the ids `start[i]` to `start[i + 1]`.
        out: uint8 [places, stride], contiguous.
        failed: uint8 [r], set to 1 where a read has failed or was short.
    """

    device: torch.device
    handle: int
    base: int
    stride: int
    align: int
    ids: np.ndarray[Any, Any]
    place: np.ndarray[Any, Any]
    start: np.ndarray[Any, Any]
    out: Tensor
    failed: np.ndarray[Any, Any]

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.start) - 1


def read_all(reads: Reads, owner: Any) -> None:
    """Reads all runs into where they belong; notes which of them failed.

    `owner` is that of the open file, which must live as long as somebody reads.
    """
    spread(read_runs, reads, owner)


def spread(read: Callable[[Reads, int, int], None], reads: Reads, owner: Any) -> None:
    """Has so many threads read that the disk is busy while each of them waits."""
    count = reads.runs
    step = min(MOST, max(FEWEST, count // (4 * READS)))
    calls = [
        partial(read, reads, lo, min(lo + step, count)) for lo in range(0, count, step)
    ]
    run(calls, READERS, owner)


def read_runs(reads: Reads, lo: int, hi: int) -> None:
    """Reads runs lo to hi, one after the other."""
    out = reads.out
    for number in range(lo, hi):
        a, b = int(reads.start[number]), int(reads.start[number + 1])
        ids = torch.from_numpy(reads.ids[a:b])
        try:
            rows = run_at(reads, int(ids[0]), int(ids[-1]))
        except OSError:
            rows = None
        if rows is None:
            reads.failed[number] = 1
        else:
            out[torch.from_numpy(reads.place[a:b])] = rows[ids - ids[0]]


def run_at(reads: Reads, first: int, last: int) -> Tensor | None:
    """uint8 [last - first + 1, stride], all rows between; None if the file is short."""
    begin = reads.base + first * reads.stride
    end = reads.base + (last + 1) * reads.stride
    start = begin // reads.align * reads.align
    size = -(-(end - start) // reads.align) * reads.align
    buffer: Any = mmap.mmap(-1, size) if reads.align > 1 else bytearray(size)
    got = 0
    while got < end - start:
        more = read_at(reads.handle, memoryview(buffer)[got:], start + got)
        if more == 0:
            return None
        got += more
    flat = torch.frombuffer(buffer, dtype=torch.uint8)
    return flat[begin - start : end - start].view(-1, reads.stride)


def read_at(handle: int, into: memoryview, offset: int) -> int:
    """Reads as much as comes at once; returns how much that was, 0 at the end."""
    if hasattr(os, "preadv"):
        return os.preadv(handle, [into], offset)
    with _seeking:
        os.lseek(handle, offset, os.SEEK_SET)
        data = os.read(handle, into.nbytes)
    into[: len(data)] = data
    return len(data)
