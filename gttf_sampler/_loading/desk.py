"""Desk: where a thread that makes batches and the one who reads them meet."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from typing import Any, NamedTuple

import torch

from gttf_sampler._loading.asked import Fetch, telling

Make = Callable[[Any], Any]

# The threads at work and their desks: none may be in the middle of a kernel when the
# interpreter goes.
_working: dict[threading.Thread, Desk] = {}


class Failed(NamedTuple):
    """Stands where a batch or its indices should be."""

    error: BaseException


class Desk:
    """What the thread and its reader share: indices in, batches out.

    To samplers that ask who wants a batch, it is what fetches the batches of this pass.
    """

    def __init__(self, make: Make, finish: Make | None, collate_fn: Make) -> None:
        self.make, self.finish, self.collate_fn = make, finish, collate_fn
        self.base = 0
        self.with_grad = torch.is_grad_enabled()
        self.pin: Make | None = None
        used = torch.cuda.is_initialized()
        self.gpu = torch.cuda.current_device() if used else None
        self.tasks: SimpleQueue[Any] = SimpleQueue()
        self.made: SimpleQueue[Any] = SimpleQueue()
        self.done: SimpleQueue[Any] = SimpleQueue()
        self.open, self.employed = True, False

    def employ(self) -> None:
        """Starts the thread, once."""
        if self.employed:
            return
        _watch_exit()
        ways: list[Any] = [(self.tasks, self.done_with, self.done)]
        if self.finish is not None:
            ways = [
                (self.tasks, self.made_of, self.made),
                (self.made, self.finished, self.done),
            ]
        for way in ways:
            args = (self, *way)
            thread = threading.Thread(
                target=_work, args=args, name="gttf-loader", daemon=True
            )
            _working[thread] = self  # before it can end and take itself out
            try:
                thread.start()
            except RuntimeError:  # the system has no more threads
                del _working[thread]
                raise
            self.employed = True

    def done_with(self, task: Any) -> Any:
        """The batch of a numbered index, or what went wrong."""
        return self.finished(self.made_of(task))

    def made_of(self, task: Any) -> Any:
        """What is made of a numbered index, or what went wrong."""
        if isinstance(task, Failed):
            return task
        number, index = task
        try:
            with telling(Fetch(self.base, self, number)):
                return self.make(index)
        except BaseException as error:  # the reader's to see
            return Failed(error)

    def finished(self, batch: Any) -> Any:
        """What was made, as its reader gets it, or what went wrong."""
        if isinstance(batch, Failed):
            return batch
        try:
            batch = batch if self.finish is None else self.finish(batch)
            return batch if self.pin is None else self.pin(batch)
        except BaseException as error:
            return Failed(error)

    def close(self) -> None:
        """Ends the thread; safe to call from the collector, wherever it runs."""
        self.open = False
        self.tasks.put(None)
        self.made.put(None)


def _work(
    desk: Desk, tasks: SimpleQueue[Any], make: Make, done: SimpleQueue[Any]
) -> None:
    """Makes batches, or a part of them, as long as somebody wants them."""
    torch.set_grad_enabled(desk.with_grad)
    if desk.gpu is not None:  # every thread has a current one
        torch.cuda.set_device(desk.gpu)
    try:
        while (task := tasks.get()) is not None and desk.open:
            done.put(make(task))
    finally:
        del _working[threading.current_thread()]


@cache
def _watch_exit() -> None:
    """Has all threads ended before the interpreter goes; once is enough."""
    atexit.register(_end_all)


def _end_all() -> None:
    """Ends every thread, and waits for the batches that they are making."""
    working = list(_working.items())
    for _, desk in working:
        desk.close()
    for thread, _ in working:
        thread.join()
