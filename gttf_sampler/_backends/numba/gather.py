"""Rows of features: of many tensors in one call, and from files.

Tables have declared records as their rows: a `Column` is gathered from one or more
tensors, a `Piece` each. Threads share the bytes of all columns.

Of files, as many reads are in flight as a disk serves. Reads around the system's cache
can be handed to Linux in bursts, and are collected in bursts when they are done
(`io_submit`, `io_getevents`). With 64 threads that wait for a read each, most of the
time goes to sending them to sleep and waking them up. There is nothing to install: the
calls are those of the system, made by a compiled kernel.
"""

import ctypes
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import int64, types, uint64
from torch import Tensor

from gttf_sampler._backends import threads
from gttf_sampler._backends.memory import Array, Idle
from gttf_sampler._backends.numba.rng import compiled, prefetch_address
from gttf_sampler._backends.numba.rows import as_table, longs, table_of
from gttf_sampler._backends.torch import gather as reference
from gttf_sampler._backends.torch.gather import Moves, Reads


class Column(NamedTuple):
    """One column of a gather, as the kernel reads it.

    Attributes:
        piece: the number of the first tensor that its rows are in.
        pieces: how many those are, counted end to end.
        rows: how many rows they have.
        width: bytes of a row.
        row: the address of int64 [written], which rows; 0 for the first ones.
        to: the address of int64 [written], what rows they become; 0 for the first ones.
        written: how many are written.
        gaps: whether negative rows are left out.
        out: the address of what is written.
        first: bytes of all columns before it.
    """

    piece: int
    pieces: int
    rows: int
    width: int
    row: int
    to: int
    written: int
    gaps: int
    out: int
    first: int


class Piece(NamedTuple):
    """A tensor with rows: its address, and the number of its first row."""

    address: int
    first: int


COLUMN, PIECE = table_of(Column), table_of(Piece)
_LINE = 64  # bytes that memory hands out at once
_AHEAD = 1 << 12  # bytes that are asked for ahead, as the hardware cannot guess rows


_memcpy = types.ExternalFunction(
    "memcpy", types.uintp(types.uintp, types.uintp, types.uintp)
)


@compiled
def _address(pieces, piece, stop, row, width):
    """The address of a row, in one of the tensors from `piece` on."""
    while piece + 1 < stop and row >= pieces[piece + 1].first:
        piece += 1
    return pieces[piece].address + (row - pieces[piece].first) * width


@compiled
def gather_kernel(lo, hi, columns, pieces, wrong):
    """Copies all rows that begin in bytes lo to hi of what is to be written.

    Notes in `wrong` if a row is not there.
    """
    columns, pieces = as_table(columns, COLUMN), as_table(pieces, PIECE)
    for c in range(columns.shape[0]):
        own = columns[c]
        width, rows, before = own.width, own.rows, own.first
        first = max(int64(0), (lo - before + width - 1) // width)
        stop = min(own.written, (hi - before + width - 1) // width)
        piece, out = own.piece, own.out
        last = piece + own.pieces
        index, ahead = longs(own.row), max(1, _AHEAD // width)
        to = longs(own.to)
        chosen, placed = own.row != 0, own.to != 0
        for i in range(first, stop):
            if chosen:
                row = index[min(i + ahead, stop - 1)]
                soon = _address(pieces, piece, last, row, width)
                for byte in range(0, width, _LINE):
                    prefetch_address(soon + byte)
            row = index[i] if chosen else i
            if row < 0 or row >= rows:
                wrong[0] |= row >= rows or own.gaps == 0
                continue
            target = out + (to[i] if placed else i) * width
            _memcpy(target, _address(pieces, piece, last, row, width), width)


SHARE_BYTES = 1 << 16  # bytes of features, fewer are not worth another thread


def gather(moves: Moves) -> list[Tensor]:
    """Rows of all columns, with memory asked ahead of time; see `torch.gather`."""
    columns: list[Column] = []
    total = 0
    pieces: list[Piece] = []
    for move in moves.columns:
        index, out = move.row, move.out
        known, first = len(pieces), 0
        for some in move.values:
            pieces.append(Piece(some.data_ptr(), first))
            first += some.shape[0]
        count = first if index is None else index.numel()
        size = count * (out.nbytes // max(out.shape[0], 1))
        if size:
            column = Column(
                piece=known,
                pieces=len(move.values),
                rows=first,
                width=size // count,
                row=0 if index is None else index.data_ptr(),
                to=0 if move.to is None else move.to.data_ptr(),
                written=count,
                gaps=move.gaps,
                out=out.data_ptr(),
                first=total,
            )
            columns.append(column)
            total += size
    outs = [move.out for move in moves.columns]
    if not columns:
        return outs
    wrong = np.zeros(1, np.bool_)
    tables = np.array(columns, np.int64), np.array(pieces, np.int64)
    parts = threads.cut(total, min(2 * torch.get_num_threads(), total // SHARE_BYTES))
    calls = [partial(gather_kernel, lo, hi, *tables, wrong) for lo, hi in parts]
    threads.run(calls, owners=moves)
    if wrong[0]:
        raise IndexError("an index is out of range")  # `gather_rows` words it
    return outs


DEPTH = 256  # reads in flight; disks with several queues serve as many
CALLS = {  # io_setup, io_submit, io_getevents
    "x86_64": (206, 209, 208),
    "aarch64": (0, 2, 4),
}
BLOCK, EVENT = 8, 4  # words of what asks for a read, and of what tells of its end


class Queue:
    """A queue of the system, and what reads are asked for and reported in.

    Attributes:
        number: the system's name of it.
        submit, collect: the numbers of io_submit and io_getevents.
        blocks: uint64 [depth, 8], a read each.
        waiting: uint64 [depth], addresses of those that are to be asked for.
        events: uint64 [depth, 4].
        spare: uint8, what reads are written to; used again, as the system would have to
            clear other memory first.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        _, self.submit, self.collect = CALLS[platform.machine()]
        self.blocks = np.zeros((DEPTH, BLOCK), np.uint64)
        self.waiting = np.zeros(DEPTH, np.uint64)
        self.events = np.zeros((DEPTH, EVENT), np.uint64)
        self.spare = np.empty(0, np.uint8)


# To end a queue takes milliseconds, so they are kept; one per thread that reads.
_idle = Idle[Queue]()
_refused = False  # the system gives no queues, or has no more


if hasattr(os, "register_at_fork"):  # a queue is its process's own
    os.register_at_fork(after_in_child=_idle.items.clear)


@contextmanager
def queue() -> Iterator[Queue | None]:
    """A queue that nobody else uses meanwhile; None where the system gives none."""
    if not _known():
        yield None
        return
    own = _idle.take() or _new()
    try:
        yield own
    finally:
        if own is not None:
            _idle.give_back(own)


def _new() -> Queue | None:
    """A queue, if the system gives one, and lets its reads be collected."""
    global _refused
    setup, _, collect = CALLS[platform.machine()]
    made, long = ctypes.c_ulong(0), ctypes.c_long
    call = ctypes.CDLL(None).syscall
    if _refused or call(setup, DEPTH, ctypes.byref(made)) != 0:
        _refused = True
        return None
    own = Queue(made.value)
    at, now = ctypes.c_void_p(own.events.ctypes.data), (long * 2)()
    # a sandbox may allow some of the calls alone, and reads must not be lost
    if call(collect, made, long(0), long(1), at, now) != 0:
        _refused = True
        return None
    return own


@cache
def _known() -> bool:
    """True on a system whose calls are known; a container may forbid them."""
    known = sys.platform == "linux" and platform.machine() in CALLS
    return known and sys.byteorder == "little" and sys.maxsize > 1 << 32


_pread = types.ExternalFunction(
    "pread", types.intp(types.intc, types.uintp, types.uintp, types.int64)
)
_advise = types.ExternalFunction(
    "posix_fadvise", types.intc(types.intc, types.int64, types.int64, types.intc)
)
_syscall = types.ExternalFunction("syscall", types.int64(*6 * [types.int64]))
_WILL_NEED = np.int32(3)  # POSIX_FADV_WILLNEED
_BURST = 32  # reads that are asked for, and collected, with one call
_WORD, _HALF = 8, uint64(32)  # bytes of a word, bits of half of it


class ReadArguments(NamedTuple):
    """Reads as the kernels need them; what is not told here is told by `Reads`.

    Attributes:
        spare: the address of memory to read to, a multiple of `align`.
        out: the address of the rows.
    """

    handle: int
    base: int
    stride: int
    align: int
    spare: int
    ids: Array
    place: Array
    start: Array
    out: int
    failed: Array


class QueueArguments(NamedTuple):
    """A `Queue` as the kernel needs it: its number, those of its calls, its arrays."""

    number: int
    submit: int
    collect: int
    blocks: Array
    waiting: Array
    events: Array


@compiled
def _together(a, b, reads):
    """True if rows are written in the order of the file, without gaps."""
    ids, place = reads.ids, reads.place
    for i in range(a + 1, b):
        if ids[i] - ids[a] != i - a or place[i] - place[a] != i - a:
            return False
    return True


@compiled
def _extent(run, reads):
    """Offsets in the file at which a run begins and ends."""
    first, last = reads.ids[reads.start[run]], reads.ids[reads.start[run + 1] - 1]
    return reads.base + first * reads.stride, reads.base + (last + 1) * reads.stride


@compiled
def _hand_out(a, b, zero, reads):
    """Copies the rows of a run to their places; `zero` is where byte 0 would be."""
    base, stride, out = reads.base, reads.stride, reads.out
    for i in range(a, b):
        row = zero + base + reads.ids[i] * stride
        _memcpy(out + reads.place[i] * stride, row, stride)


@compiled
def read_runs_kernel(lo, hi, reads):
    """Reads runs lo to hi; `spare` has room for the longest, with what aligns it."""
    align, spare, handle = reads.align, reads.spare, np.int32(reads.handle)
    for run in range(lo, hi):
        a, b = reads.start[run], reads.start[run + 1]
        begin, end = _extent(run, reads)
        if align == 1 and _together(a, b, reads):
            target = reads.out + reads.place[a] * reads.stride
            if _pread(handle, target, end - begin, begin) != end - begin:
                reads.failed[run] = 1
            continue
        first = begin // align * align
        size = (end - first + align - 1) // align * align
        if _pread(handle, spare, size, first) < end - first:
            reads.failed[run] = 1
        else:
            _hand_out(a, b, spare - first, reads)


@compiled
def read_ahead_kernel(ahead, lo, hi, reads):
    """Reads runs lo to hi, after it has told the system of the next `ahead`.

    So all of these are read at once, and a single thread waits for the first alone.
    """
    for run in range(lo, hi + ahead):
        if run < hi:
            begin, end = _extent(run, reads)
            _advise(np.int32(reads.handle), begin, end - begin, _WILL_NEED)
        due = run - ahead
        if due >= lo:
            read_runs_kernel(due, due + 1, reads)


@compiled
def read_queued_kernel(lo, hi, queue, room, reads):
    """Reads runs lo to hi with the help of a `Queue`; returns when it is empty.

    `spare` has `room` bytes for each read in flight.
    """
    blocks, waiting, events = queue.blocks, queue.waiting, queue.events
    align, spare, failed = reads.align, reads.spare, reads.failed
    depth = blocks.shape[0]
    free, idle = np.arange(depth), depth  # which blocks ask for nothing
    runs = np.empty(depth, np.int64)
    run, flying, ready, sent = lo, 0, 0, 0
    while run < hi or flying > 0 or sent < ready:
        if sent == ready:
            ready = sent = 0
            while run < hi and idle > 0 and ready < _BURST:
                idle -= 1
                block = free[idle]
                begin, end = _extent(run, reads)
                first = begin // align * align
                blocks[block, 0], runs[block] = block, run
                blocks[block, 2] = uint64(np.int32(reads.handle)) << _HALF
                blocks[block, 3] = spare + block * room
                blocks[block, 4] = (end - first + align - 1) // align * align
                blocks[block, 5] = first
                waiting[ready] = blocks.ctypes.data + block * blocks.shape[1] * _WORD
                run, ready = run + 1, ready + 1
        if sent < ready:
            where = waiting.ctypes.data + sent * _WORD
            taken = _syscall(queue.submit, queue.number, ready - sent, where, 0, 0)
            if taken > 0:
                sent, flying = sent + taken, flying + taken
            elif flying == 0:  # it will not have this one
                block = (waiting[sent] - blocks.ctypes.data) // (
                    blocks.shape[1] * _WORD
                )
                failed[runs[block]] = 1
                free[idle] = block
                idle, sent = idle + 1, sent + 1
        if flying == 0 or (sent == ready and run < hi and idle >= _BURST):
            continue
        least = min(flying, _BURST)
        at = events.ctypes.data
        done = _syscall(queue.collect, queue.number, least, depth, at, 0)
        for event in range(done):  # none after a signal
            block = int64(events[event, 0])
            number = runs[block]
            begin, end = _extent(number, reads)
            first = begin // align * align
            if int64(events[event, 2]) < end - first:
                failed[number] = 1
            else:
                a, b = reads.start[number], reads.start[number + 1]
                _hand_out(a, b, spare + block * room - first, reads)
            free[idle] = block
            idle += 1
        flying -= max(done, 0)


SPARE = 1 << 26  # bytes that reads in flight are written to, unless one takes more
READS_AHEAD = 256  # reads that the system is told of before they are due
FEWEST, MOST = 256, 8192  # runs between two looks at whether somebody interrupts


def read_all(reads: Reads, owner: Any) -> None:
    """Reads all runs; see `torch.gather`.

    Around the system's cache by a queue of the disk. Through it, by telling the system
    ahead. Either keeps the disk busy from one thread, at a fraction of the time that 64
    threads take to sleep and wake up.
    """
    if reads.align > 1:
        with queue() as own:
            if own is not None:
                for lo in range(0, reads.runs, MOST):
                    _read_queued(own, reads, lo, min(lo + MOST, reads.runs))
                return
    if reads.align > 1 or not hasattr(os, "posix_fadvise"):
        reference.spread(read_runs, reads, owner)
        return
    step = min(MOST, max(FEWEST, -(-reads.runs // (2 * threads.KERNELS.size()))))
    calls = [
        partial(_read_ahead, reads, lo, min(lo + step, reads.runs))
        for lo in range(0, reads.runs, step)
    ]
    threads.run(calls, owners=owner)


def read_runs(reads: Reads, lo: int, hi: int) -> None:
    """Reads runs lo to hi, one after the other; see `torch.gather`."""
    if not hasattr(os, "pread"):
        reference.read_runs(reads, lo, hi)
        return
    memory, spare = _spare(reads, _longest(reads, lo, hi))
    read_runs_kernel(lo, hi, _arguments(reads, spare))
    del memory


def _read_ahead(reads: Reads, lo: int, hi: int) -> None:
    """Reads runs lo to hi, each of which the system knows of before its turn."""
    memory, spare = _spare(reads, _longest(reads, lo, hi))
    read_ahead_kernel(READS_AHEAD, lo, hi, _arguments(reads, spare))
    del memory


def _read_queued(own: Queue, reads: Reads, lo: int, hi: int) -> None:
    """Reads runs lo to hi by a queue of the disk, which is empty afterwards."""
    room = -(-_longest(reads, lo, hi) // reads.align) * reads.align
    flying = max(1, min(len(own.blocks), hi - lo, SPARE // room))
    if own.spare.size < flying * room + reads.align:
        own.spare = np.empty(flying * room + reads.align, np.uint8)
    spare = _aligned(own.spare, reads.align)
    given = QueueArguments(
        number=own.number,
        submit=own.submit,
        collect=own.collect,
        blocks=own.blocks[:flying],
        waiting=own.waiting,
        events=own.events,
    )
    read_queued_kernel(lo, hi, given, room, _arguments(reads, spare))


def _longest(reads: Reads, lo: int, hi: int) -> int:
    """The bytes of the longest of some runs, with what aligns them."""
    first, last = reads.start[lo:hi], reads.start[lo + 1 : hi + 1] - 1
    span = int((reads.ids[last] - reads.ids[first]).max()) + 1
    return span * reads.stride + 2 * reads.align


def _spare(reads: Reads, size: int) -> tuple[Array, int]:
    """Memory that the caller holds on to, and an aligned address in it."""
    memory = np.empty(size + reads.align, np.uint8)
    return memory, _aligned(memory, reads.align)


def _aligned(memory: Array, align: int) -> int:
    """The first address in an array that is a multiple of `align`."""
    address: int = memory.__array_interface__["data"][0]
    return -(-address // align) * align


def _arguments(reads: Reads, spare: int) -> ReadArguments:
    """The arguments that all kernels share."""
    return ReadArguments(
        handle=reads.handle,
        base=reads.base,
        stride=reads.stride,
        align=reads.align,
        spare=spare,
        ids=reads.ids,
        place=reads.place,
        start=reads.start,
        out=reads.out.data_ptr(),
        failed=reads.failed,
    )
