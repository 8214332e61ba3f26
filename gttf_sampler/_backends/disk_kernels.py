"""The compiled loops that read rows from a file; see `Reads` for their arguments."""

import numpy as np
from numba import int64, types, uint64

from gttf_sampler._backends.word_kernels import compiled

_pread = types.ExternalFunction(
    "pread", types.intp(types.intc, types.uintp, types.uintp, types.int64)
)
_advise = types.ExternalFunction(
    "posix_fadvise", types.intc(types.intc, types.int64, types.int64, types.intc)
)
_syscall = types.ExternalFunction("syscall", types.int64(*6 * [types.int64]))
_memcpy = types.ExternalFunction(
    "memcpy", types.uintp(types.uintp, types.uintp, types.uintp)
)
_SOON = np.int32(3)  # POSIX_FADV_WILLNEED
_BURST = 32  # reads that are asked for, and collected, with one call
_WORD, _HALF = 8, uint64(32)  # bytes of a word, bits of half of it


@compiled
def _together(a, b, ids, place):
    """Whether rows stand in what is written as they stand in the file."""
    for i in range(a + 1, b):
        if ids[i] - ids[a] != i - a or place[i] - place[a] != i - a:
            return False
    return True


@compiled
def _extent(run, base, stride, ids, start):
    """Where a run begins in the file, and where it ends."""
    first, last = ids[start[run]], ids[start[run + 1] - 1]
    return base + first * stride, base + (last + 1) * stride


@compiled
def _hand_out(a, b, zero, base, stride, ids, place, out):
    """Copies the rows of a run to their places; `zero` is where byte 0 would be."""
    for i in range(a, b):
        _memcpy(out + place[i] * stride, zero + base + ids[i] * stride, stride)


@compiled
def read_runs(
    lo, hi, handle, base, stride, align, spare, ids, place, start, out, failed
):
    """Reads runs lo to hi.

    `spare` is the address of memory for the longest of them, with what aligns it.
    """
    for run in range(lo, hi):
        a, b = start[run], start[run + 1]
        begin, end = _extent(run, base, stride, ids, start)
        if align == 1 and _together(a, b, ids, place):
            target = out + place[a] * stride
            if _pread(handle, target, end - begin, begin) != end - begin:
                failed[run] = 1
            continue
        first = begin // align * align
        size = (end - first + align - 1) // align * align
        if _pread(handle, spare, size, first) < end - first:
            failed[run] = 1
        else:
            _hand_out(a, b, spare - first, base, stride, ids, place, out)


@compiled
def read_ahead(
    ahead, lo, hi, handle, base, stride, align, spare, ids, place, start, out, failed
):
    """Reads runs lo to hi, after it has told the system of the next `ahead`.

    So all of these are read at once, and a single thread waits for the first alone.
    """
    for run in range(lo, hi + ahead):
        if run < hi:
            begin, end = _extent(run, base, stride, ids, start)
            _advise(handle, begin, end - begin, _SOON)
        due = run - ahead
        if due >= lo:
            args = handle, base, stride, align, spare
            read_runs(due, due + 1, *args, ids, place, start, out, failed)


@compiled
def read_queued(
    queue,
    submit,
    collect,
    blocks,
    waiting,
    events,
    room,
    lo,
    hi,
    handle,
    base,
    stride,
    align,
    spare,
    ids,
    place,
    start,
    out,
    failed,
):
    """Reads runs lo to hi with the help of a `Queue`; returns when it is empty.

    `submit` and `collect` are the numbers of its calls. `spare` is the address of
    memory for each read in flight, `room` bytes, with what aligns it.
    """
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
                begin, end = _extent(run, base, stride, ids, start)
                first = begin // align * align
                blocks[block, 0], runs[block] = block, run
                blocks[block, 2] = uint64(handle) << _HALF
                blocks[block, 3] = spare + block * room
                blocks[block, 4] = (end - first + align - 1) // align * align
                blocks[block, 5] = first
                waiting[ready] = blocks.ctypes.data + block * blocks.shape[1] * _WORD
                run, ready = run + 1, ready + 1
        if sent < ready:
            where = waiting.ctypes.data + sent * _WORD
            taken = _syscall(submit, queue, ready - sent, where, 0, 0)
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
        done = _syscall(collect, queue, least, depth, events.ctypes.data, 0)
        for event in range(done):  # none after a signal
            block = int64(events[event, 0])
            number = runs[block]
            begin, end = _extent(number, base, stride, ids, start)
            first = begin // align * align
            if int64(events[event, 2]) < end - first:
                failed[number] = 1
            else:
                a, b = start[number], start[number + 1]
                zero = spare + block * room - first
                _hand_out(a, b, zero, base, stride, ids, place, out)
            free[idle] = block
            idle += 1
        flying -= max(done, 0)
