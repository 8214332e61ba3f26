"""Batches made ahead of their use, by a thread in the background."""

import atexit
import queue
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

WAIT = 0.05  # seconds until a thread that waits looks whether it is still wanted

# The threads at work and what stops them: none may be in the middle of a kernel when
# the interpreter goes.
_working: dict[threading.Thread, threading.Event] = {}


class Ahead:
    """An iterator whose next `depth` items are made while the last one is in use.

    The first item is made where it is asked for: what a sampler draws from torch's
    generator when it starts must come in its turn.
    """

    def __init__(self, batches: Iterator[Any], depth: int) -> None:
        self._batches = batches
        self._ready: queue.Queue[tuple[bool, Any]] = queue.Queue(depth)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __iter__(self) -> "Ahead":
        return self

    def __next__(self) -> Any:
        if self._stop.is_set():
            raise StopIteration
        if self._thread is None:
            first = next(self._batches)
            self._thread = _start(self._batches, self._ready, self._stop)
            return first
        more, item = self._ready.get()
        if more:
            return item
        self.close()
        raise item

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]

    def close(self) -> None:
        """Stops the thread, and waits for the batch that it is making."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def __del__(self) -> None:
        self._stop.set()


def _start(
    batches: Iterator[Any], ready: "queue.Queue[Any]", stop: threading.Event
) -> threading.Thread:
    """A thread that fills the queue; it knows nothing of who reads it."""
    _watch_exit()
    thread = threading.Thread(target=_make, args=(batches, ready, stop), daemon=True)
    _working[thread] = stop
    thread.start()
    return thread


def _make(
    batches: Iterator[Any], ready: "queue.Queue[Any]", stop: threading.Event
) -> None:
    """Makes batches until there are no more, one fails or nobody wants them."""
    more = True
    while more and not stop.is_set():
        try:
            item = next(batches)
        except BaseException as error:  # the end, too, is the reader's to see
            more, item = False, error
        while not stop.is_set():
            try:
                ready.put((more, item), timeout=WAIT)
                break
            except queue.Full:
                continue
    del _working[threading.current_thread()]


@cache
def _watch_exit() -> None:
    """Has all threads stopped before the interpreter goes; once is enough."""
    atexit.register(_stop_all)


def _stop_all() -> None:
    """Stops every thread, and waits for the batches that they are making."""
    working = list(_working.items())
    for _, stop in working:
        stop.set()
    for thread, _ in working:
        thread.join()
