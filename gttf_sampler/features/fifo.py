"""Fifo: which rows stay in a cache, by S3-FIFO, a batch of ids at a time.

New rows enter a small queue. Who was asked for again when it reaches the end of that
moves on to the main queue, all others leave at once: rows that are read once, as in a
pass over the file, never push out those that are read often. A list of ids that have
left lets those that come back enter the main queue directly. (Yang et al., "FIFO queues
are all you need for cache eviction", SOSP 2023.) Differs from the paper: ids of a batch
are one step, of which no more enter the small queue than it holds.

An interrupt may come between any two lines. An id gets its place after its row was
written there, and books that were left in the middle of a change are begun anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

SMALL = 10  # the small queue has one of so many places
OFTEN = 3  # a row is asked for at most so many times more than once
COST = 8 + 1 + 4 + 4 + 4 + 8 + 32  # bytes per place at most, beside the row

Array = np.ndarray[Any, Any]
Write = Callable[[Tensor, Tensor], None]  # which of the ids enter, where


class Fifo:
    """The places of a cache.

    Args:
        count: how many ids there are.
        room: how many places.
    """

    def __init__(self, count: int, room: int) -> None:
        self.room, self._few = room, max(1, room // SMALL)
        self._slot = np.full(count, -1, np.int32)
        self._bits = max(4, (2 * room - 1).bit_length())
        self.clear()

    def clear(self) -> None:
        """Forgets everything."""
        self._whole, room = False, self.room
        self._slot.fill(-1)
        self._id = np.full(room, -1, np.int64)
        self._often = np.zeros(room, np.uint8)
        self._small, self._main = _Ring(room), _Ring(room)
        self._free = np.arange(room, dtype=np.int32)
        self._gone = np.full(1 << self._bits, -1, np.int64)
        self._left = _Ring(room, np.int64)
        self._whole = True  # nobody was interrupted in the middle of a change

    @property
    def size(self) -> int:
        """How many places are taken."""
        return self.room - self._free.size

    def touch(self, ids: Tensor) -> Tensor:
        """int32 [k], the places of ids, which were asked for; -1 for those without."""
        if not self._whole:
            self.clear()
        slot: Array = self._slot[ids.numpy()]
        here = slot[slot >= 0]
        self._often[here] = np.minimum(self._often[here] + 1, OFTEN)
        return torch.from_numpy(slot)

    def admit(self, ids: Tensor, write: Write | None = None) -> tuple[Tensor, Tensor]:
        """(which of the ids enter, where): places whose rows are to be written.

        `write` is called with both when the places are empty, and no id leads there.
        """
        if not self._whole:
            self.clear()
        self._whole = False
        wanted, which = np.unique(ids.numpy(), return_index=True)
        absent = self._slot[wanted] < 0
        order = np.argsort(which[absent])  # ids that were named first enter first
        wanted, which = wanted[absent][order], which[absent][order]
        back = self._gone[self._hash(wanted)] == wanted
        again = np.flatnonzero(back)[: self.room - self._few]
        fresh = np.flatnonzero(~back)
        most = max(self._few, self._free.size - again.size)
        self._leave(wanted[fresh[most:]])
        fresh = fresh[:most]
        fresh = fresh[: self.room - again.size]
        self._make_room(again.size + fresh.size)
        taken = np.concatenate([again, fresh])
        slots, self._free = np.split(self._free, [taken.size])
        entered = torch.from_numpy(which[taken]), torch.from_numpy(slots).long()
        if write is not None:
            write(*entered)
        self._slot[wanted[taken]], self._id[slots] = slots, wanted[taken]
        self._often[slots] = 0
        self._main.push(slots[: again.size])
        self._small.push(slots[again.size :])
        self._whole = True
        return entered

    def _make_room(self, wanted: int) -> None:
        """Has rows leave until so many places are free."""
        while (need := wanted - self._free.size) > 0:
            if self._small.size > self._few or not self._main.size:
                slots = self._small.pop(min(need, self._small.size))
                stay = self._often[slots] > 0
                self._often[slots] = 0
                self._leave(self._id[slots[~stay]])
            else:
                slots = self._main.pop(min(need, self._main.size))
                stay = self._often[slots] > 0
                self._often[slots[stay]] -= 1
            self._main.push(slots[stay])
            out = slots[~stay]
            self._slot[self._id[out]] = -1
            self._free = np.concatenate([self._free, out])

    def _leave(self, ids: Array) -> None:
        """Remembers ids that have left the small queue, as many as there are places."""
        ids = ids[-self.room :]
        spare = self._left.size + ids.size - self.room
        if spare > 0:
            old = self._left.pop(spare)
            place = self._hash(old)
            self._gone[place[self._gone[place] == old]] = -1
        self._left.push(ids)
        self._gone[self._hash(ids)] = ids

    def _hash(self, ids: Array) -> Array:
        """A place in the table of those that have left; of two, the later one stays."""
        mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return (mixed >> np.uint64(64 - self._bits)).astype(np.int64)


class _Ring:
    """A queue in an array."""

    def __init__(self, room: int, dtype: Any = np.int32) -> None:
        self._cells, self._first, self.size = np.empty(room, dtype), 0, 0

    def push(self, values: Array) -> None:
        """Adds values at the end."""
        end = self._first + self.size
        self._cells[np.arange(end, end + values.size) % self._cells.size] = values
        self.size += values.size

    def pop(self, count: int) -> Array:
        """Takes values from the front."""
        place = np.arange(self._first, self._first + count) % self._cells.size
        self._first = (self._first + count) % self._cells.size
        self.size -= count
        return self._cells[place]
