"""KeyedLoader: a DataLoader that hands out a key with the indices of every batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.utils.data import Dataset, get_worker_info

from gttf_sampler import _check
from gttf_sampler._loading.threaded import ThreadedLoader
from gttf_sampler.random import BATCH, draw, fold, new_key

CPU = torch.device("cpu")


class KeyedIndex(NamedTuple):
    """What `collate_fn` is given for a batch.

    Attributes:
        index: of the batch: a list, or a number where there are no batches.
        key: to draw it with; None if nobody has given one.
    """

    index: Any
    key: int | None

    @classmethod
    def of(cls, index: Any) -> KeyedIndex:
        """`index` as it is, or plain indices without a key."""
        return index if isinstance(index, KeyedIndex) else cls(index, None)


class KeyedLoader(ThreadedLoader):
    """A DataLoader whose batches have keys: that of the epoch and their number in it.

    Where a host's loader has a constructor of its own, it stands before this class:
    `class Loader(HostLoader, KeyedLoader)`. An epoch has the key that the generator
    would give next. It stays there, so that shuffling gives the order that torch gives;
    as it may become the seed of that order, keys of batches are mixed from it.
    """

    draws_keys = False  # True takes the key of an epoch out of the generator

    def __init__(
        self,
        dataset: Any,
        *args: Any,
        thread_workers: bool | None = None,
        **kwargs: Any,
    ) -> None:
        if thread_workers is not None:
            _check.yes_or_no("thread_workers", thread_workers)
        self.thread_workers = thread_workers
        self._epoch = Epoch()
        super().__init__(_Indices(dataset), *args, **kwargs)

    @property
    def _index_sampler(self) -> Any:
        """What torch iterates over: the indices of every batch, and its key."""
        sampler, how = super()._index_sampler, (self.generator, self.draws_keys)
        return KeyedBatches(sampler, self._epoch, *how)

    def __iter__(self) -> Any:
        self._epoch.key = None if self.draws_keys else foreseen(self.generator)
        if self._iterator is not None:
            # Torch draws a number for every iterator, and none for one that is used
            # again with `persistent_workers`: an epoch must not depend on that.
            draw_key(self.generator)
        return super().__iter__()


class Epoch:
    """The key of the epoch that a loader has begun last; None before the first."""

    key: int | None = None


class KeyedBatches:
    """The batches of an index sampler, each with its key.

    It knows the epoch and not the loader, which keeps the iterator over it if workers
    persist: that would be a cycle of references with processes in it.
    """

    def __init__(
        self,
        batches: Any,
        epoch: Epoch,
        generator: torch.Generator | None,
        draws_keys: bool,
    ) -> None:
        self.batches, self.epoch = batches, epoch
        self.generator, self.draws_keys = generator, draws_keys

    def __iter__(self) -> Iterator[KeyedIndex]:
        key = self.epoch.key  # of now: another epoch may start before a batch
        if key is None and not self.draws_keys:
            key = foreseen(self.generator)
        return self._keyed(key)

    def _keyed(self, epoch: int | None) -> Iterator[KeyedIndex]:
        """The batches of the epoch with this key, or with one drawn at the first."""
        if epoch is None:
            epoch = int(new_key(self.generator, CPU, BATCH))
        for number, index in enumerate(self.batches):
            yield KeyedIndex(index, int(fold(epoch, number)))

    def __len__(self) -> int:
        return len(self.batches)


class _Indices(Dataset[Any]):
    """A dataset of numbers that hands on keyed indices as they are."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: Any) -> Any:
        return index if isinstance(index, KeyedIndex) else self.numbers[index]

    def __getitems__(self, index: Any) -> Any:
        """All of a batch at once, as torch asks for it where it can."""
        if isinstance(index, KeyedIndex):
            return index
        return [self.numbers[i] for i in index]

    def __eq__(self, other: object) -> bool:
        numbers = getattr(other, "numbers", other)
        if isinstance(self.numbers, range) and isinstance(numbers, range):
            return self.numbers == numbers
        return self.numbers is numbers

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return repr(self.numbers)


def draw_key(generator: torch.Generator | None = None) -> int:
    """A key from `generator`, by default from the one `torch.manual_seed` governs."""
    if get_worker_info() is not None:
        generator = None  # a copy that every worker has: they would draw the same
    return draw(generator)


def foreseen(generator: torch.Generator | None) -> int:
    """The key that `generator` would draw next."""
    source = torch.default_generator if generator is None else generator
    copy = torch.Generator()
    copy.set_state(source.get_state())
    return draw(copy)
