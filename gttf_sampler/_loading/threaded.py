"""ThreadedIter: the batches of a DataLoader, made ahead by a thread of this process."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from functools import partial
from queue import Empty
from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind

from gttf_sampler._loading.desk import Desk, Failed, Make
from gttf_sampler._loading.lane import Lane


class ThreadedIter(_BaseDataLoaderIter):
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
        indices: to use instead of the loader's, with the number of every batch.
        lane: the streams of a device on which batches are made.
    """

    def __init__(
        self,
        loader: ThreadedLoader,
        depth: int,
        make: Make | None = None,
        finish: Make | None = None,
        indices: Iterator[tuple[int, Any]] | None = None,
        lane: Lane | None = None,
    ) -> None:
        make = make or fetch_of(loader)
        make = make if lane is None else lane.makes(make)
        self._desk, self._lane = Desk(make, finish, loader.collate_fn), lane
        super().__init__(loader)
        self._sampler_iter = indices or enumerate(self._sampler_iter)
        if lane is not None:
            self._sampler_iter = lane.asked(self._sampler_iter)
        self._desk.base = int(self._base_seed)
        loader.begin(self._desk.base)
        if self._pin_memory and lane is None:  # else the batch is on the device
            self._desk.pin = partial(pin_memory, device=self._pin_memory_device)
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
                self._desk.tasks.put(task)
        if self._asked and self._depth:
            self._desk.employ()

    def _next_data(self) -> Any:
        if not self._asked:
            self._ask()
        if not self._asked or not self._desk.open:
            self.close()
            raise StopIteration
        if not self._depth or self._process != os.getpid():
            done = self._desk.done_with(self._asked[0])
        else:
            try:
                done = self._desk.done.get(timeout=self._timeout or None)
            except Empty:
                raise RuntimeError(
                    f"DataLoader timed out after {self._timeout} seconds"
                ) from None
        self._asked.popleft()
        if self._depth:
            self._ask()
        if not isinstance(done, Failed):
            return done if self._lane is None else self._lane.hand_over(done)
        try:
            raise done.error
        finally:
            del done  # else the error and this frame would keep each other

    def close(self) -> None:
        """Ends the thread after the batch that it is making; nothing more comes."""
        self._desk.close()

    def __del__(self) -> None:
        desk = self.__dict__.get("_desk")  # none if Ctrl-C came before it was made
        if desk is not None:
            desk.close()


def fetch_of(loader: Any) -> Make:
    """What a worker of this loader does with an index."""
    how = loader._auto_collation, loader.collate_fn, loader.drop_last
    fetcher = _DatasetKind.create_fetcher(loader._dataset_kind, loader.dataset, *how)
    return fetcher.fetch  # type: ignore[no-any-return]


class ThreadedLoader(DataLoader[Any]):
    """A DataLoader that has a thread for its workers where it runs no code of a user.

    Where a host's loader has a constructor of its own, it stands before this class.

    Attributes:
        thread_workers: True for a thread and False for processes whatever they run;
            None decides.
    """

    thread_workers: bool | None = None

    def runs_only_ours(self) -> bool:
        """Whether workers would run nothing but code that is safe in a thread."""
        return False

    def in_thread(self) -> bool:
        """Whether a thread makes the batches."""
        if self.num_workers == 0 or self.thread_workers is False:
            return False
        return self.thread_workers is True or self.runs_only_ours()

    def begin(self, base: int) -> None:
        """Called when an iteration with this base seed starts in a thread."""

    def threaded(self) -> Any:
        """An iterator whose batches a thread makes."""
        return ThreadedIter(self, (self.prefetch_factor or 1) * self.num_workers)

    def _get_iterator(self) -> Any:
        return self.threaded() if self.in_thread() else super()._get_iterator()

    def __iter__(self) -> Any:
        if self.in_thread():  # which is made anew at no cost: none has to persist
            return self._get_iterator()
        return super().__iter__()
