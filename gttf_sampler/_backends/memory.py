"""Memory that is used again: arrays, results that come and go, scratch tables.

Where Linux hands out huge pages on request, a random read misses the cache but no
longer the table of pages as well. And a result whose memory was used before need not be
cleared by the kernel page by page, which would cost as much as drawing it: what a batch
occupied serves a later one, as soon as nobody holds a tensor of it any more. Tables
with a cell per node are stamped instead of cleared: their cost follows the batch.
"""

import ctypes
import math
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.streams import is_captured, streams_of
from gttf_sampler._backends.torch.rows import id_dtype

HUGE = 1 << 21
MADV_HUGEPAGE = 14

Array = np.ndarray[Any, Any]
T = TypeVar("T")


def empty(size: int, dtype: torch.dtype) -> Tensor:
    """An uninitialised CPU tensor [size], on huge pages if it is large enough."""
    made = torch.empty(size, dtype=dtype, device="cpu")
    first = -(-made.data_ptr() // HUGE) * HUGE
    length = (made.data_ptr() + made.nbytes - first) // HUGE * HUGE
    if length > 0 and sys.platform == "linux":
        # a request: where it is not granted, nothing changes
        libc = ctypes.CDLL(None)
        libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), MADV_HUGEPAGE)
    return made


def room() -> int | None:
    """Bytes that this process can still have; None where nobody says."""
    found = [_free_memory(), _free_address_space(), _free_in_group()]
    return min((free for free in found if free is not None), default=None)


def _free_memory() -> int | None:
    """Free bytes of the machine, with memory that it would give back."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        (line,) = (line for line in lines if line.startswith("MemAvailable"))
        return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _free_address_space() -> int | None:
    """Bytes that a limit set with `ulimit -v` leaves."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return None
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return max(0, limit - pages * os.sysconf("SC_PAGE_SIZE"))
    except (ImportError, AttributeError, OSError, ValueError):
        return None


def _free_in_group() -> int | None:
    """Bytes that the control group of a container leaves."""
    group = Path("/sys/fs/cgroup")
    try:
        limit = int((group / "memory.max").read_text())
        return max(0, limit - int((group / "memory.current").read_text()))
    except (OSError, ValueError):  # no such group, or "max"
        return None


class Idle(Generic[T]):
    """Things that wait for their next use, for all threads.

    Without a lock: the collector may give memory back in the middle of a borrower.
    Every step on the list is atomic instead, and no step relies on the one before.

    Args:
        kept: how many may wait; None for any number.
    """

    def __init__(self, kept: int | None = None) -> None:
        self.items: list[T] = []
        self.kept = kept

    def take(self, fits: Callable[[T], bool] | None = None) -> T | None:
        """The last that was given back, and fits; None if there is none."""
        for _ in range(len(self.items)):
            try:
                found = self.items.pop()  # used last, and so the likeliest in cache
            except IndexError:  # other threads were faster
                break
            if fits is None or fits(found):
                return found
            self.items.insert(0, found)
        return None

    def give_back(self, item: T) -> None:
        """Keeps something for its next use."""
        self.items.append(item)
        if self.kept is not None:
            del self.items[: -self.kept]


class Pool:
    """Buffers of one dtype that wait for their next use.

    Args:
        dtype: of the buffers.
        small: cells below which the allocator keeps memory by itself.
        large: cells above which idle memory is better returned to the system.
        kept: how many idle buffers there may be.
    """

    def __init__(self, dtype: torch.dtype, small: int, large: int, kept: int) -> None:
        self.dtype, self.small, self.large = dtype, small, large
        self.idle = Idle[Array](kept)

    def borrow(self, size: int) -> Array:
        """An array of at least `size` cells, to be given back or lent on."""
        if size >= self.small:
            found = self.idle.take(lambda array: size <= array.size <= 4 * size)
            if found is not None:
                return found
            size += size // 8
        made: Array = empty(size, self.dtype).numpy()
        return made

    def give_back(self, array: Array) -> None:
        """Keeps the memory of a borrowed array for the next who borrows."""
        if self.small <= array.size <= self.large + self.large // 8:  # see `borrow`
            self.idle.give_back(array)

    def make(self, size: int) -> Tensor:
        """A tensor [size], in memory that was used before if it is large."""
        if size < self.small:
            return torch.empty(size, dtype=self.dtype, device="cpu")
        return self.lend(self.borrow(size), size)

    def lend(self, array: Array, size: int) -> Tensor:
        """The first `size` cells as a tensor; once it is gone, they are given back."""
        if 4 * size < array.size:  # a small result must not hold on to much memory
            copy = array[:size].copy()
            self.give_back(array)
            return torch.from_numpy(copy)
        view = array[:size]
        if array.size >= self.small:
            weakref.finalize(view, self.give_back, array).atexit = False
        return torch.from_numpy(view)


# Rooted sampling needs four at once, and some scratch for every hop.
IDS = Pool(torch.int64, small=1 << 13, large=1 << 22, kept=16)
borrow, give_back, lend = IDS.borrow, IDS.give_back, IDS.lend

# Two batches of features and labels, and what a training step makes at once.
FEATURES = Pool(torch.uint8, small=1 << 18, large=1 << 28, kept=8)


def empty_rows(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Memory for rows of features on the CPU, used before where that is worth it."""
    size = math.prod(shape) * dtype.itemsize
    if size < FEATURES.small:
        return torch.empty(tuple(shape), dtype=dtype, device="cpu")
    memory = FEATURES.make(size).untyped_storage()
    # no view to autograd, which forbids to change those of a Function in place
    return torch.empty(0, dtype=dtype).set_(memory).resize_(tuple(shape))


FEW_NODES = 1 << 10  # no table of trees is smaller
TREES = -1  # stands for tables of trees where others have a size; less is for spaces


class NodeTable:
    """A cell per node, and one for -1. Each use writes numbers below all earlier ones.

    An old entry therefore loses against any new one and never has to be erased; only
    when the numbers run out, after 2³¹ ids, is the table filled again.
    """

    def __init__(self, num_nodes: int, device: torch.device) -> None:
        dtype = id_dtype(4 * num_nodes)  # int32 must last for more than one use
        _check.fits("num_cols", num_nodes * dtype.itemsize)
        self._top = torch.iinfo(dtype).max
        if device.type == "cpu":
            self.cell = empty(num_nodes + 1, dtype).fill_(self._top)
        else:
            size = (num_nodes + 1,)
            self.cell = torch.full(size, self._top, dtype=dtype, device=device)
        self._floor = self._top
        self._device = device
        self._left: tuple[Any, Any] | None = None  # a stream, an event behind its use

    def follow(self) -> None:
        """Has the stream of the caller come after the one that has left the table."""
        if self._left is None:
            return
        streams, (stream, event) = streams_of(self._device), self._left
        if streams is None:
            return
        current = streams.current()
        if stream != current:
            streams.wait(current, event)
            streams.record(self.cell, current)

    def leave(self) -> None:
        """Marks the end of a use."""
        streams = None if self._device.type == "cpu" else streams_of(self._device)
        if streams is not None:
            stream = streams.current()
            self._left = stream, streams.event(stream)

    def reserve(self, count: int) -> int:
        """The first of `count` numbers that are below all numbers in the table."""
        if self._floor < count:
            self.cell.fill_(self._top)
            self._floor = self._top
        self._floor -= count
        return self._floor


class TreeTable:
    """A hash table of (tree, node) pairs; old entries count as empty slots.

    Attributes:
        slots: int64, pairs of a code and a value; a power of two.
    """

    def __init__(self) -> None:
        self.slots = np.zeros(0, np.int64)
        self._base = 0

    def make_room(self, nodes: int) -> bool:
        """Makes sure that half of the slots stay empty; True if all of them are new."""
        if self.slots.size >= 4 * max(nodes, 1):
            return False
        pairs = 1 << (2 * max(nodes, FEW_NODES) - 1).bit_length()
        _check.fits("fanouts", 16 * pairs)
        self.slots = empty(2 * pairs, torch.int64).zero_().numpy()
        return True

    def begin(self) -> tuple[Array, int]:
        """The slots, and the first of 2³² values above all that are in them."""
        if self._base >= 1 << 62:
            self.slots[:], self._base = 0, 0
        self._base += 1 << 32
        return self.slots, self._base


NO_TREES = TreeTable()


class Room(NamedTuple):
    """The room for edges, for walkers of a hop, and for nodes of each type."""

    edges: int = 0
    walkers: int = 0
    cells: int = 0


class Workspace:
    """Memory that small batches are drawn in, one after the other.

    Attributes:
        space: int64; what is in it is for the kernels to say.
        room: that there is.
        table: of nodes, or of (tree, node) pairs.
    """

    def __init__(self, kinds: int) -> None:
        self._kinds = kinds
        self.space, self.room = np.empty(0, np.int64), Room()
        self.table = TreeTable()

    def make_room(self, asked: Room, nodes: int) -> None:
        """Makes room for what is asked, and some more where it was too little."""
        self.table.make_room(nodes)
        pairs = zip(asked, self.room, strict=True)
        room = Room(*(now + now // 4 if now > had else had for now, had in pairs))
        self.room = room
        size = 3 * (room.edges + room.walkers) + 2 * self._kinds * room.cells
        _check.fits("fanouts", 8 * size)
        if size > self.space.size:
            self.space = np.empty(size, np.int64)


class ScratchPool:
    """Tables that wait for their next use; safe to share among threads and streams."""

    def __init__(self) -> None:
        self._idle: dict[int, Idle[Any]] = {}

    def __reduce__(self) -> tuple[type["ScratchPool"], tuple[()]]:
        """Copies and pickles start empty: scratch is never worth carrying along."""
        return ScratchPool, ()

    @contextmanager
    def borrow(self, num_nodes: int, device: torch.device) -> Iterator[NodeTable]:
        """A table nobody else holds; it returns to the pool unless the user raised."""
        table = self.take(num_nodes, device)
        yield table
        self.give_back(num_nodes, table)

    def take(self, num_nodes: int, device: torch.device) -> NodeTable:
        """A table with a cell per node, to be given back.

        One for a CUDA graph is made and filled in the graph, which does so again in
        every replay, in memory that goes with the graph.
        """
        if is_captured(device):
            return NodeTable(num_nodes, device)
        table = self.lease(num_nodes, partial(NodeTable, num_nodes, device))
        table.follow()
        return table

    def lease(self, name: int, make: Callable[[], T]) -> T:
        """Leases the buffer that was given back by this name, or a new one."""
        idle = self._idle.get(name)
        found: T | None = None if idle is None else idle.take()
        return make() if found is None else found

    def give_back(self, name: int, table: NodeTable | TreeTable | Workspace) -> None:
        """Keeps a table for its next use; `name` says of which kind it is."""
        if isinstance(table, NodeTable):
            if is_captured(table.cell.device):
                return
            table.leave()
        self._idle.setdefault(name, Idle()).give_back(table)
