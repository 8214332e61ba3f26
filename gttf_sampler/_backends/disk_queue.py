"""A disk's own queue: hundreds of reads in flight, asked for by one thread.

Reads around the system's cache can be handed to Linux in bursts, and are collected in
bursts when they are done (`io_submit`, `io_getevents`). With 64 threads that wait for a
read each, most of the time goes to sending them to sleep and waking them up. There is
nothing to install: the calls are those of the system, made by a compiled kernel.
"""

import ctypes
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np

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
        calls: int64 [2], the numbers of io_submit and io_getevents.
        blocks: uint64 [depth, 8], a read each.
        waiting: uint64 [depth], addresses of those that are to be asked for.
        events: uint64 [depth, 4].
        spare: uint8, what reads are written to; used again, as the system would have to
            clear other memory first.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.calls = np.array(CALLS[platform.machine()][1:], np.int64)
        self.blocks = np.zeros((DEPTH, BLOCK), np.uint64)
        self.waiting = np.zeros(DEPTH, np.uint64)
        self.events = np.zeros((DEPTH, EVENT), np.uint64)
        self.spare = np.empty(0, np.uint8)


# To end a queue takes milliseconds, so they are kept; one per thread that reads.
_idle: list[Queue] = []
_refused = False  # the system gives no queues, or has no more

if hasattr(os, "register_at_fork"):  # a queue is its process's own
    os.register_at_fork(after_in_child=_idle.clear)


@contextmanager
def queue() -> Iterator[Queue | None]:
    """A queue that nobody else uses meanwhile; None where the system gives none."""
    if not _known():
        yield None
        return
    try:
        own: Queue | None = _idle.pop()
    except IndexError:
        own = _new()
    try:
        yield own
    finally:
        if own is not None:
            _idle.append(own)


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
    """Whether this is a system whose calls are known; a container may forbid them."""
    known = sys.platform == "linux" and platform.machine() in CALLS
    return known and sys.byteorder == "little" and sys.maxsize > 1 << 32
