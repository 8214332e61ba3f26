"""Rows in memory in front of a file: chosen once, or by what was asked for lately."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import memory, ops
from gttf_sampler._backends.types import Move, Moves
from gttf_sampler.features.fifo import COST, Fifo

CPU = torch.device("cpu")
CELL = 4  # bytes that tell of a row whether it is here, and where
Read = Callable[[Tensor, Tensor | None, Tensor], None]  # ids, places, where to


class Kept:
    """Rows that are kept for good.

    Args:
        nbytes: that all of it may take.
        rows: int64 [k], ids, of which the first that fit are kept.
        count: how many rows the file has.
        stride: bytes of a row.
        read: what reads rows from the file.

    Attributes:
        size: how many rows are here.
        hits, misses: how many rows were found here, and were not.
    """

    def __init__(
        self, nbytes: int, rows: Tensor, count: int, stride: int, read: Read
    ) -> None:
        room = capacity(nbytes, count, stride, 0)
        chosen = rows[:room].unique()
        self.size, self.hits, self.misses = chosen.numel(), 0, 0
        self._slot = torch.full((count,), -1, dtype=torch.int32)
        self._slot[chosen] = torch.arange(self.size, dtype=torch.int32)
        self._values = memory.empty(self.size * stride, torch.uint8)
        self._values = self._values.view(self.size, stride)
        read(chosen, None, self._values)

    def fill(self, ids: Tensor, place: Tensor | None, raw: Tensor, read: Read) -> None:
        """Writes rows of ids [k] to rows `place` of `raw`; reads those not here."""
        slot = self._slot.index_select(0, ids).long()
        _hand_out(self._values, slot, place, raw)
        away = (slot < 0).nonzero().view(-1)
        self.misses += away.numel()
        self.hits += ids.numel() - away.numel()
        to = away if place is None else place.index_select(0, away)
        read(ids.index_select(0, away), to, raw)


class Lately:
    """Rows that come and go by S3-FIFO; see `Fifo`.

    Arguments and attributes are those of `Kept`. Threads take turns, but for the disk.
    """

    def __init__(self, nbytes: int, count: int, stride: int) -> None:
        room = capacity(nbytes, count, stride, COST)
        self._fifo, self.hits, self.misses = Fifo(count, room), 0, 0
        self._values = memory.empty(room * stride, torch.uint8).view(room, stride)
        self._process, self._turn = os.getpid(), Lock()

    @property
    def size(self) -> int:
        """How many rows are here."""
        return self._fifo.size

    def fill(self, ids: Tensor, place: Tensor | None, raw: Tensor, read: Read) -> None:
        """Writes rows of ids [k] to rows `place` of `raw`; reads those not here."""
        self._settle()
        with self._turn:
            slot = self._fifo.touch(ids).long()
            _hand_out(self._values, slot, place, raw)
        away = (slot < 0).nonzero().view(-1)
        self.misses += away.numel()
        self.hits += ids.numel() - away.numel()
        if not away.numel():
            return
        missing = ids.index_select(0, away)
        to = away if place is None else place.index_select(0, away)
        read(missing, to, raw)

        def keep(which: Tensor, slots: Tensor) -> None:
            self._values[slots] = raw[to[which]]

        with self._turn:
            self._fifo.admit(missing, keep)

    def _settle(self) -> None:
        """In a forked child, starts anew if a thread was at work in the parent."""
        if self._process != os.getpid():
            if self._turn.locked():
                self._fifo.clear()
            self._process, self._turn = os.getpid(), Lock()


def _hand_out(values: Tensor, slot: Tensor, place: Tensor | None, raw: Tensor) -> None:
    """Copies row slot[i] of `values` to its place, unless it is negative."""
    ops.gather(Moves(CPU, [Move([values], slot, raw, place, gaps=True)]))


def capacity(nbytes: int, count: int, stride: int, cost: int) -> int:
    """How many rows fit, after a cell for every row of the file."""
    table = CELL * count
    room = (nbytes - table) // max(1, stride + cost)
    if room < 1:
        rule = f"must be at least {table + stride + cost}, {CELL} bytes per row of the"
        _check.fail("nbytes", f"{rule} file and a row", nbytes)
    _check.fits("nbytes", nbytes)
    return min(room, count)
