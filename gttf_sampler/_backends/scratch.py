"""Node-sized scratch tables, stamped instead of cleared: cost follows the batch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import memory, ops
from gttf_sampler._backends.memory import Array, Idle
from gttf_sampler._backends.streams import streams_of

FEW_NODES = 1 << 10  # no table of trees is smaller
CLEAN = -(1 << 40)  # less a size: tables that are cleared after use
T = TypeVar("T")
TREES = -1  # stands for tables of trees where others have a size; less is for spaces


class NodeTable:
    """A cell per node, and one for -1. Each use writes numbers below all earlier ones.

    An old entry therefore loses against any new one and never has to be erased; only
    when the numbers run out, after 2³¹ ids, is the table filled again.
    """

    def __init__(self, num_nodes: int, device: torch.device) -> None:
        dtype = ops.id_dtype(4 * num_nodes)  # int32 must last for more than one use
        _check.fits("num_cols", num_nodes * dtype.itemsize)
        self._top = torch.iinfo(dtype).max
        if device.type == "cpu":
            self.cell = memory.empty(num_nodes + 1, dtype).fill_(self._top)
        else:
            size = (num_nodes + 1,)
            self.cell = torch.full(size, self._top, dtype=dtype, device=device)
        self._floor = self._top
        self._device = device
        self._left: tuple[Any, Any] | None = None  # a stream, an event behind its use

    def follow(self) -> None:
        """Has the stream of the caller come after the one that has left the table.

        A stream that is captured cannot wait for what is not: whoever captures has
        waited for the device before.
        """
        if self._left is None:
            return
        streams, (stream, event) = streams_of(self._device), self._left
        if streams is None or streams.captured():
            return
        current = streams.current()
        if stream != current:
            streams.wait(current, event)
            streams.record(self.cell, current)

    def leave(self) -> bool:
        """Marks the end of a use; False if a CUDA graph will use the table again."""
        streams = None if self._device.type == "cpu" else streams_of(self._device)
        if streams is None:
            return True
        if streams.captured():
            return False
        stream = streams.current()
        self._left = stream, streams.event(stream)
        return True

    def reserve(self, count: int) -> int:
        """The first of `count` numbers that are below all numbers in the table."""
        if self._floor < count:
            self.cell.fill_(self._top)
            self._floor = self._top
        self._floor -= count
        return self._floor

    def first_position(self, ids: Tensor) -> Tensor:
        """Positions of first occurrences in `ids` [e]; -1 counts as an id."""
        return ops.first_position(ids, self.cell, self.reserve(ids.numel()))


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
        self.slots = memory.empty(2 * pairs, torch.int64).zero_().numpy()
        return True

    def begin(self) -> tuple[Array, int]:
        """The slots, and the first of 2³² values above all that are in them."""
        if self._base >= 1 << 62:
            self.slots[:], self._base = 0, 0
        self._base += 1 << 32
        return self.slots, self._base

    def keep(self, slots: Array) -> None:
        """Takes over the slots that a batch has had to make."""
        if slots.size > self.slots.size:
            self.slots = slots


NO_TREES = TreeTable()


class Workspace:
    """Memory that small batches are drawn in, one after the other.

    Attributes:
        space: int64; what is in it is for the kernels to say.
        room: for edges, for walkers of a hop, and for nodes of each type.
        table: of nodes, or of (tree, node) pairs.
    """

    def __init__(self, kinds: int) -> None:
        self._kinds = kinds
        self.space, self.room = np.empty(0, np.int64), [0, 0, 0]
        self.table = TreeTable()

    def make_room(self, asked: list[int], nodes: int) -> None:
        """Makes room for what is asked, and some more where it was too little."""
        self.table.make_room(nodes)
        pairs = zip(asked, self.room, strict=True)
        self.room = [now + now // 4 if now > had else had for now, had in pairs]
        edges, walkers, cells = self.room
        size = 3 * (edges + walkers) + 2 * self._kinds * cells
        _check.fits("fanouts", 8 * size)
        if size > self.space.size:
            self.space = np.empty(size, np.int64)


class ScratchPool:
    """Tables that wait for their next use; safe to share among threads and streams."""

    def __init__(self) -> None:
        self._idle: dict[int, Idle[Any]] = {}
        self._captured: list[NodeTable] = []  # those that CUDA graphs write to

    def __reduce__(self) -> tuple[type["ScratchPool"], tuple[()]]:
        """Copies and pickles start empty: scratch is never worth carrying along."""
        return ScratchPool, ()

    @contextmanager
    def borrow(self, num_nodes: int, device: torch.device) -> Iterator[NodeTable]:
        """A table nobody else holds; it returns to the pool unless the user raised."""
        table = self.take(num_nodes, device)
        yield table
        self.give_back(num_nodes, table)

    def take(
        self, num_nodes: int, device: torch.device, clean: bool = False
    ) -> NodeTable:
        """A table with a cell per node, to be given back.

        One that is `clean` has nothing in it, and has to be given back like that.
        """
        name = CLEAN - num_nodes if clean else num_nodes
        table = self.lease(name, partial(NodeTable, num_nodes, device))
        table.follow()
        return table

    def lease(self, name: int, make: Callable[[], T]) -> T:
        """Leases the buffer that was given back by this name, or a new one."""
        idle = self._idle.get(name)
        found: T | None = None if idle is None else idle.take()
        return make() if found is None else found

    def give_back(self, name: int, table: NodeTable | TreeTable | Workspace) -> None:
        """Keeps a table for its next use; `name` says of which kind it is."""
        if isinstance(table, NodeTable) and not table.leave():
            self._captured.append(table)
            return
        self._idle.setdefault(name, Idle()).give_back(table)


def relabel(
    known: Tensor,
    ids: Tensor,
    table: NodeTable | None,
    count: int | Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Local ids [e] of `ids`, and which entries [e] introduce a new node.

    `known` [k] are the nodes that have local ids 0 .. k-1 already (of a repeated one,
    the first counts); new ones are numbered from k on in the order of `ids`. -1 stays
    -1. Without a table, which serves ids beyond any table's size, the ids are sorted.
    If only the first `count` of the `known` are nodes, and -1 the rest, new ones are
    numbered from there on.
    """
    every = torch.cat([known, ids])
    if table is None:
        first = ops.first_position_sorted(every)
    else:
        first = table.first_position(every)
    first = first[known.numel() :]
    position = torch.arange(known.numel(), every.numel(), device=ids.device)
    new = (first == position).logical_and_(ids >= 0)
    rank = torch.cat([position.new_zeros(known.numel()), new.cumsum(0)])
    start = known.numel() if count is None else count
    local = ops.take(rank, first).add_(start - 1)
    local = torch.where(first < known.numel(), first, local)
    return local.masked_fill_(ids < 0, -1), new
