"""PrefetchQueue and PrefetchLoader: batches made ahead by a thread of this process."""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable
from functools import cache, partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader

from gttf_sampler._compat import BaseIterator, fetcher_of, pin_memory
from gttf_sampler._loading.streams import StreamPipeline
from gttf_sampler.bias.base import as_bias
from gttf_sampler.bias.node2vec import Node2VecBias
from gttf_sampler.bias.simple import EdgeWeightBias, ExcludeBias, TemporalBias

Make = Callable[[Any], Any]

# Biases that note nothing from one call to the next, and call no function of a user.
THREAD_SAFE = {EdgeWeightBias, ExcludeBias, Node2VecBias, TemporalBias}

# The threads at work and their queues: none may be in the middle of a kernel when the
# interpreter goes.
_working: dict[threading.Thread, PrefetchQueue] = {}


class Failed(NamedTuple):
    """Stands where a batch or its indices should be."""

    error: BaseException


def attempt(step: Make, value: Any) -> Any:
    """The result of a step; its error, or that of the step before, is a `Failed`."""
    if isinstance(value, Failed):
        return value
    try:
        return step(value)
    except BaseException as error:  # the reader's to see
        return Failed(error)


class PrefetchQueue:
    """The queues between a worker thread and its reader: indices in, batches out.

    Args:
        make: index → batch.
        finish: what is done to a batch, in a second thread, while the next is made;
            None for nothing.
    """

    def __init__(self, make: Make, finish: Make | None) -> None:
        self.make, self.finish = make, finish
        self.with_grad = torch.is_grad_enabled()
        self.pin: Make | None = None
        used = torch.cuda.is_initialized()
        self.gpu = torch.cuda.current_device() if used else None
        self.tasks: SimpleQueue[Any] = SimpleQueue()
        self.made: SimpleQueue[Any] = SimpleQueue()
        self.done: SimpleQueue[Any] = SimpleQueue()
        self.open, self.started = True, False

    def start(self) -> None:
        """Starts the thread, once."""
        if self.started:
            return
        _watch_exit()
        stages: list[Any] = [(self.tasks, self.batch_of, self.done)]
        if self.finish is not None:
            stages = [
                (self.tasks, partial(attempt, self.make), self.made),
                (self.made, partial(attempt, self.finished), self.done),
            ]
        for stage in stages:
            thread = threading.Thread(
                target=_work, args=(self, *stage), name="gttf-loader", daemon=True
            )
            _working[thread] = self  # before it can end and take itself out
            try:
                thread.start()
            except RuntimeError:  # the system has no more threads
                del _working[thread]
                raise
            self.started = True

    def batch_of(self, index: Any) -> Any:
        """The batch of an index, or what went wrong."""
        return attempt(self.finished, attempt(self.make, index))

    def finished(self, batch: Any) -> Any:
        """The batch as its reader gets it."""
        batch = batch if self.finish is None else self.finish(batch)
        return batch if self.pin is None else self.pin(batch)

    def close(self) -> None:
        """Ends the thread; safe to call from the collector, wherever it runs."""
        self.open = False
        self.tasks.put(None)
        self.made.put(None)


def _work(
    queue: PrefetchQueue, tasks: SimpleQueue[Any], make: Make, done: SimpleQueue[Any]
) -> None:
    """Makes batches, or a part of them, as long as somebody wants them."""
    torch.set_grad_enabled(queue.with_grad)
    if queue.gpu is not None:  # every thread has a current one
        torch.cuda.set_device(queue.gpu)
    try:
        while (task := tasks.get()) is not None and queue.open:
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
    for _, queue in working:
        queue.close()
    for thread, _ in working:
        thread.join()


class PrefetchIterator(BaseIterator):  # type: ignore[misc]
    """Batches in their order, of which the next `depth` are made while one is in use.

    Indices are taken where batches are asked for, as torch takes them for its workers:
    samplers never run in the thread. One thread, which itself works on all cores, is
    not slower than none; several would only take turns. It knows nothing of its reader,
    and ends when that is gone. A fork copies no threads, so there the child makes what
    is left when it is asked for.

    Args:
        loader: whose indices, generator, timeout and pinning are used.
        depth: how many batches are made ahead; 0 for none, and no thread.
        make: index → batch; by default what the loader's workers would do.
        finish: what is done to that, in a thread of its own, while the next is made.
        pipeline: the streams of a device on which batches are made.
    """

    def __init__(
        self,
        loader: PrefetchLoader,
        depth: int,
        make: Make | None = None,
        finish: Make | None = None,
        pipeline: StreamPipeline | None = None,
    ) -> None:
        make = make or fetcher_of(loader)
        make = make if pipeline is None else pipeline.makes(make)
        self._queue, self._pipeline = PrefetchQueue(make, finish), pipeline
        super().__init__(loader)
        if pipeline is not None:
            self._sampler_iter: Any = pipeline.asked(self._sampler_iter)
        elif self._pin_memory:  # else the batch is on the device
            self._queue.pin = partial(pin_memory, device=self._pin_memory_device)
        self._depth, self._process = depth, os.getpid()
        self._asked: deque[Any] = deque()
        self._ended = False
        if self._num_workers:  # torch looks ahead now, and without workers later
            self._ask()

    def _ask(self) -> None:
        """Hands the indices of the next batches to the thread."""
        while len(self._asked) < max(1, self._depth) and not self._ended:
            task: Any
            try:
                task = next(self._sampler_iter)
            except StopIteration:
                self._ended = True
                break
            except Exception as error:  # to be raised in its turn
                task = Failed(error)
            self._asked.append(task)
            if self._depth:
                self._queue.tasks.put(task)
        if self._asked and self._depth:
            self._queue.start()

    def _next_data(self) -> Any:
        if not self._asked:
            self._ask()
        if not self._asked or not self._queue.open:
            self.close()
            raise StopIteration
        if not self._depth or self._process != os.getpid():
            done = self._queue.batch_of(self._asked[0])
        else:
            try:
                done = self._queue.done.get(timeout=self._timeout or None)
            except Empty:
                raise RuntimeError(
                    f"DataLoader timed out after {self._timeout} seconds"
                ) from None
        self._asked.popleft()
        if self._depth:
            self._ask()
        if not isinstance(done, Failed):
            return done if self._pipeline is None else self._pipeline.hand_over(done)
        try:
            raise done.error
        finally:
            del done  # else the error and this frame would keep each other

    def close(self) -> None:
        """Ends the thread after the batch that it is making; nothing more comes."""
        self._queue.close()

    def __del__(self) -> None:
        queue = self.__dict__.get("_queue")  # none if Ctrl-C came before it was made
        if queue is not None:
            queue.close()


class PrefetchLoader(DataLoader[Any]):
    """A DataLoader that has a thread for its workers where it runs no code of a user.

    Where a host's loader has a constructor of its own, it stands before this class.

    Attributes:
        thread_workers: True for a thread and False for processes whatever they run;
            None decides.
    """

    thread_workers: bool | None = None

    def runs_only_ours(self) -> bool:
        """True if workers would run nothing but code that is safe in a thread."""
        return False

    def in_thread(self) -> bool:
        """True if a thread makes the batches."""
        if self.num_workers == 0 or self.thread_workers is False:
            return False
        return self.thread_workers is True or self.runs_only_ours()

    def ahead(self) -> int:
        """The number of batches that a thread makes ahead."""
        return (self.prefetch_factor or 1) * self.num_workers

    def threaded(self) -> Any:
        """An iterator whose batches a thread makes."""
        return PrefetchIterator(self, self.ahead())

    def _get_iterator(self) -> Any:
        return self.threaded() if self.in_thread() else super()._get_iterator()

    def __iter__(self) -> Any:
        if self.in_thread():  # which is made anew at no cost: none has to persist
            return self._get_iterator()
        return super().__iter__()


def is_thread_safe(given: Any) -> bool:
    """True if a thread may draw by a bias, one per edge type, or None."""
    parts = given.values() if isinstance(given, dict) else [given]
    biases = [as_bias(part) for part in parts]
    return all(
        type(factor) in THREAD_SAFE
        for bias in biases
        if bias is not None
        for factor in bias.factors
    )
