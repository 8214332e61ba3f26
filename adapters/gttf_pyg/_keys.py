"""The random key of every batch: one per batch, wherever the batch is drawn.

A worker process has random numbers of its own, so a key cannot be drawn there: batches
would depend on how many workers there are. It is worked out where the epoch starts, and
travels with the indices of the batch. The dataset of PyG's loaders is a `range`, which
turns a slice into a range with the same step: that step is the key.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch.utils.data import get_worker_info

from gttf_sampler.random import draw, fold

_current: ContextVar[int | None] = ContextVar("gttf_batch_key", default=None)


class Epoch:
    """The key of the epoch that a loader has begun last; None before the first."""

    key: int | None = None


class KeyedLoader:
    """Mixed into a DataLoader, in front of it: every batch gets its key."""

    generator: torch.Generator | None

    @property
    def _index_sampler(self) -> "KeyedBatches":
        """What torch iterates over: the indices of every batch, and its key."""
        sampler = super()._index_sampler  # type: ignore[misc]
        how = self._auto_collation, self.generator  # type: ignore[attr-defined]
        return KeyedBatches(sampler, *how, self._epoch)

    @property
    def _epoch(self) -> Epoch:
        """Where the key is noted; torch keeps what it iterates over between epochs."""
        found: Epoch = self.__dict__.setdefault("_noted_epoch", Epoch())
        return found

    def __iter__(self) -> Any:
        self._epoch.key = _foreseen(self.generator)
        if getattr(self, "_iterator", None) is not None:
            # Torch draws a number for every iterator, and none for one that is used
            # again with `persistent_workers`: an epoch must not depend on that.
            draw_key(self.generator)
        return super().__iter__()  # type: ignore[misc]


class KeyedBatches:
    """The batches of an index sampler, each with its key in front.

    The key of an epoch is what the generator would give next; it stays there, so that
    shuffling gives the order that PyG gives. It may become the seed of that order, so
    keys of batches are mixed from it: nothing is drawn from the same numbers twice.
    """

    def __init__(
        self,
        batches: Any,
        batched: bool,
        generator: torch.Generator | None,
        epoch: "Epoch",
    ) -> None:
        self.batches, self.batched = batches, batched
        self.generator, self.epoch = generator, epoch

    def __iter__(self) -> Iterator[Any]:
        key = self.epoch.key  # of now: another epoch may start before the first batch
        return self._keyed(_foreseen(self.generator) if key is None else key)

    def _keyed(self, epoch: int) -> Iterator[Any]:
        """The batches of the epoch with this key."""
        for number, index in enumerate(self.batches):
            yield tagged(index, int(fold(epoch, number)), self.batched)

    def __len__(self) -> int:
        return len(self.batches)


def tagged(index: Any, key: int, batched: bool) -> Any:
    """Indices of a range that also carry a key >= 0; see `untagged`."""
    if batched:
        return [slice(0, 0, key + 2), *index]
    return slice(index, index + 1, key + 2)  # a step that no range of a user has


def untagged(index: Any) -> tuple[Any, int | None]:
    """The list that `tagged` was given, and the key; None for indices without one."""
    if isinstance(index, range) and len(index) == 1 and index.step > 1:
        return [index.start], index.step - 2  # no batch around it
    if isinstance(index, list) and index and isinstance(index[0], range):
        return index[1:], index[0].step - 2
    return index, None


class KeyedCollate:
    """A function of the indices of a batch, which draws with the key they carry.

    It stands in front of the `collate_fn` of the loader's class, so that one of a
    user's class gets plain indices, as from any loader.
    """

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __call__(self, index: Any) -> Any:
        """The batch."""
        index, key = untagged(index)
        with use_key(draw_key(self.loader.generator) if key is None else key):
            return type(self.loader).collate_fn(self.loader, index)


def draw_key(generator: torch.Generator | None = None) -> int:
    """A key from `generator`, by default from the one `torch.manual_seed` governs."""
    if get_worker_info() is not None:
        generator = None  # a copy that every worker has: they would draw the same
    return draw(generator)


@contextmanager
def use_key(key: int) -> Iterator[None]:
    """Every batch that this thread samples inside is drawn with `key`."""
    token = _current.set(key)
    try:
        yield
    finally:
        _current.reset(token)


def batch_key() -> int:
    """The key that was set for the batch, or a new one."""
    key = _current.get()
    return draw_key() if key is None else key


def _foreseen(generator: torch.Generator | None) -> int:
    """The key that `generator` would draw next."""
    source = torch.default_generator if generator is None else generator
    copy = torch.Generator()
    copy.set_state(source.get_state())
    return draw(copy)
