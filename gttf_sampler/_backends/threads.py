"""Threads for kernels that release the GIL, and for reads that wait for a disk.

Of the first there are as many as torch would use, of the others as many as reads in
flight let a disk show what it can.

To wake a thread takes as long as to draw thousands of edges. So nobody waits for one:
who has calls to make begins with them, threads that wake up meanwhile take some of
those that are left, and in the end only calls are waited for that somebody has begun.

The threads are a process's own, started when they are first needed and forgotten by a
forked child, so that DataLoader workers (to which torch gives one thread) neither
inherit nor start any.
"""

import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import torch

GRAIN = 1 << 13  # less work than this is done before a thread is awake

READS = 64  # threads that wait for a read each, where the disk's queue is not to be had


class Crew:
    """Threads that help with calls; `size` says how many there may be with callers."""

    def __init__(self, size: Callable[[], int]) -> None:
        self.size = size
        self.forget()

    def forget(self) -> None:
        """Drops the threads of the parent process, which a fork does not copy."""
        self._waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._starting, self.started = Lock(), 0

    def summon(self, help: Callable[[], None]) -> None:
        """Asks a thread to help, as soon as it is awake."""
        with self._starting:
            if self.started < self.size() - 1:
                own = (self._waiting,)
                try:
                    Thread(target=_serve, args=own, name="gttf", daemon=True).start()
                except RuntimeError:  # the system or a closing interpreter starts none
                    return
                self.started += 1
        self._waiting.put(help)


KERNELS, READERS = Crew(torch.get_num_threads), Crew(lambda: READS)

if hasattr(os, "register_at_fork"):
    for _crew in (KERNELS, READERS):
        os.register_at_fork(after_in_child=_crew.forget)


def cut(size: int, parts: int) -> list[tuple[int, int]]:
    """[0, size) as so many ranges of one length, but at least one."""
    parts = max(1, parts)
    return list(pairwise(size * part // parts for part in range(parts + 1)))


def ranges(size: int, work: int) -> list[tuple[int, int]]:
    """[0, size) cut into as many ranges as threads are worth it for `work` steps."""
    return cut(size, min(torch.get_num_threads(), work // GRAIN, size))


class Calls:
    """Calls in their order, some of them made by other threads.

    As a context it waits for all that was begun, whatever happens inside: kernels read
    memory by its address, which must not be freed under them. What nobody has begun by
    then is not made. As an interrupt may come before anybody waits, calls hold on to
    the `owners` of that memory.
    """

    def __init__(
        self,
        calls: Sequence[Callable[[], Any]],
        crew: Crew = KERNELS,
        owners: Any = None,
    ) -> None:
        self._calls = [_Call(call, owners) for call in calls]
        self._left = deque(self._calls)  # popleft is atomic
        others = min(crew.size(), len(calls)) - 1
        self._busy = [Lock() for _ in range(others)]
        for lock in self._busy:
            crew.summon(partial(_help, self._left, lock))

    def __enter__(self) -> "Calls":
        return self

    def __exit__(self, *error: object) -> None:
        self._left.clear()  # whoever wakes up now finds nothing to do
        for lock in self._busy:
            _wait(lock)

    def wait(self, number: int) -> None:
        """Waits for a call, and makes those that nobody has begun meanwhile."""
        call = self._calls[number]
        while call.over.locked():
            try:
                self._left.popleft().make()
            except IndexError:
                call.over.acquire()
                call.over.release()
        if call.error is not None:
            raise call.error


def _help(left: "deque[_Call]", busy: Lock) -> None:
    """Makes calls as long as there are any, on another thread.

    Who wakes up late must not hold anything but what is left, which is nothing.
    """
    with busy:
        while left:
            try:
                call = left.popleft()
            except IndexError:  # somebody was faster
                return
            call.make()


class _Call:
    """A call, what it has raised, and a lock that is free when it is over."""

    __slots__ = ("error", "function", "over", "owners")

    def __init__(self, function: Callable[[], Any], owners: Any) -> None:
        self.function, self.owners, self.over = function, owners, Lock()
        self.error: BaseException | None = None
        self.over.acquire()

    def make(self) -> None:
        try:
            self.function()
        except BaseException as error:
            self.error = error
        finally:
            self.over.release()


def run(
    calls: Sequence[Callable[[], Any]], crew: Crew = KERNELS, owners: Any = None
) -> None:
    """Makes all calls and waits for them; see `Calls`."""
    if len(calls) == 1:
        calls[0]()
        return
    with Calls(calls, crew, owners) as made:
        for number in range(len(calls)):
            made.wait(number)


def parallel(
    kernel: Callable[..., Any], size: int, work: int, *args: Any, owners: Any = None
) -> None:
    """Runs kernel(lo, hi, *args) over all of [0, size), in ranges, on the threads.

    `owners` are those of memory that it reads by its address; see `Calls`.
    """
    calls = [partial(kernel, lo, hi, *args) for lo, hi in ranges(size, work)]
    run(calls, owners=owners)


def _serve(waiting: "SimpleQueue[Callable[[], None]]") -> None:
    """Makes calls from a queue, for as long as the process lives."""
    while True:
        waiting.get()()


def _wait(lock: Lock) -> None:
    """Waits until nobody holds a lock; what is begun takes milliseconds."""
    interrupt = None
    while True:
        try:
            with lock:
                break
        except KeyboardInterrupt as error:  # it must not leave a call alone
            interrupt = error
    if interrupt is not None:
        raise interrupt
