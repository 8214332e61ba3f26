"""SeededLoader: a DataLoader whose batches have keys, also those of a resumed epoch."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple, NoReturn

import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from gttf_sampler import _check
from gttf_sampler._loading.prefetch import PrefetchLoader
from gttf_sampler._loading.state import (
    NOT_BEGUN,
    VERSION,
    CountedBatches,
    DrawnIndex,
    EpochState,
    SamplerState,
    checked,
    fingerprint,
)
from gttf_sampler.random import BATCH, draw, fold, new_key

CPU = torch.device("cpu")


class BatchKey(int):
    """The key of a batch, from that of its epoch and its number there, which it tells.

    Attributes:
        epoch: the key of the epoch.
        number: of the batch in its epoch.
    """

    epoch: int
    number: int

    @classmethod
    def of(cls, epoch: int, number: int) -> BatchKey:
        """The key of one batch of an epoch."""
        found = cls(int(fold(epoch, number)))
        found.epoch, found.number = epoch, number
        return found


class KeyedIndex(NamedTuple):
    """The argument of `collate_fn` for one batch.

    Attributes:
        index: of the batch: a list, or a number where there are no batches.
        key: to draw it with, a `BatchKey` of a loader; None if nobody has given one.
    """

    index: Any
    key: int | None

    @classmethod
    def of(cls, index: Any) -> KeyedIndex:
        """`index` as it is, or plain indices without a key."""
        return index if isinstance(index, KeyedIndex) else cls(index, None)


class KeyedDataset(Dataset[Any]):
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


class CurrentEpoch:
    """The epoch that a loader has begun last.

    It is what the loader shares with the batches that it hands to torch.

    Attributes:
        under_way: that epoch; None before the first.
        new: the same while the loader has its iterator made.
        indices: what draws its indices, then.
    """

    under_way: EpochState | None = None
    new: EpochState | None = None
    indices: EpochIndices | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Nothing: an epoch belongs to the process in which it began."""
        return {}


class KeyedBatches:
    """The batches of an index sampler, each with its key.

    It knows the epoch and not the loader, which keeps the iterator over it if workers
    persist: that would be a cycle of references with processes in it.
    """

    def __init__(
        self,
        batches: Any,
        epoch: CurrentEpoch,
        generator: torch.Generator | None,
        draws_keys: bool,
    ) -> None:
        self.batches, self.epoch = batches, epoch
        self.generator, self.draws_keys = generator, draws_keys

    def __iter__(self) -> Iterator[KeyedIndex]:
        begun = self.epoch.new  # torch may ask twice for an iterator
        order = SamplerState(self.batches, self.generator)
        if begun is None:  # by hand, without the loader
            begun = EpochState(0, order.states())
            begun.key = None if self.draws_keys else draw(copied(self.generator))
        self.epoch.indices = EpochIndices(self, begun, order)
        return self.epoch.indices

    def __len__(self) -> int:
        return len(self.batches)


class EpochIndices(Iterator[KeyedIndex]):
    """The indices of an epoch, with their keys, drawn as they are asked for."""

    def __init__(
        self, given: KeyedBatches, epoch: EpochState, order: SamplerState
    ) -> None:
        self._batches, self._generator = given.batches, given.generator
        self._draws_key = given.draws_keys
        self._epoch, self._order = epoch, order
        self._source: Iterator[Any] | None = None
        self._refused: Exception | None = None
        self._waiting: deque[DrawnIndex] = deque()  # drawn before an interruption

    def __next__(self) -> KeyedIndex:
        try:
            self.start()
        except Exception as error:
            if self._epoch.resumed is None:
                raise
            # The loader asks again and raises it, when torch's iterator is complete.
            self._refused = error.with_traceback(None)
            raise StopIteration from None
        try:
            drawn = self._waiting.popleft() if self._waiting else self._draw()
        except StopIteration:
            raise
        except Exception:
            self._epoch.give(None)
            raise
        number, key = self._epoch.give(drawn), self._epoch.key or 0
        return KeyedIndex(drawn.index, BatchKey.of(key, number))

    def start(self) -> None:
        """Draws the key, and what a resumed epoch had drawn; only once."""
        if self._refused is not None:
            error, self._refused = self._refused, None
            try:
                raise error
            finally:
                del error  # else the error and this frame would keep each other
        if self._source is not None:
            return
        try:
            self._start()
        except Exception:
            if self._epoch.back:
                self._order.restore(self._epoch.back)
            raise

    def _start(self) -> None:
        if self._draws_key:  # in any case: the order is drawn after it
            drawn = int(new_key(self._generator, CPU, BATCH))
            self._epoch.key = drawn if self._epoch.key is None else self._epoch.key
        state = self._epoch.resumed
        if state is not None and self._order.stateful is not None:
            self._restore_sampler(state)
            return
        self._source = iter(self._batches)
        if state is not None and state["start"] is not None:
            self._draw_again(state)

    def _draw(self) -> DrawnIndex:
        """The next indices of the sampler."""
        source: Any = self._source
        try:
            index = next(source)
        except StopIteration:
            self._epoch.ended = True
            raise
        self._epoch.drawn += 1
        return DrawnIndex(index, self._order.own_state())

    def _draw_again(self, state: dict[str, Any]) -> None:
        """Draws what was drawn before the interruption, then restores generators."""
        try:
            while self._epoch.drawn < state["drawn"]:
                self._waiting.append(self._draw())
        except StopIteration:
            _other_order(f"an end after {self._epoch.drawn} batches")
        if state["ended"]:
            for _ in self._source or ():
                _other_order(f"more than {self._epoch.drawn} batches")
            self._epoch.ended = True
        seen = 0
        for _ in range(state["position"]):
            self._epoch.last = self._waiting.popleft()
            seen = fingerprint(seen, self._epoch.last.index)
        if seen != state["seen"]:
            _other_order("another one")
        self._order.restore(self._epoch.back)

    def _restore_sampler(self, state: dict[str, Any]) -> None:
        """Has a sampler with a state of its own continue there."""
        if state["start"] is not None:
            self._order.restore(self._epoch.back)
        sampler: Any = self._order.stateful
        sampler.load_state_dict(deepcopy(state["sampler"]))
        self._source = iter(self._batches)
        self._epoch.drawn = position = state["position"]
        if position:
            self._epoch.last = DrawnIndex(None, state["sampler"])
        if 0 < position != _length(self._batches):
            return
        # Between epochs a sampler may say that it is at the end of one, or that it is
        # at the start of the next.
        try:
            self._waiting.append(self._draw())
        except StopIteration:
            if position == 0:
                self._source, self._epoch.ended = iter(self._batches), False
        else:
            if position > 0:
                sampler.load_state_dict(deepcopy(state["sampler"]))
                self._source, self._epoch.drawn = iter(()), position
                self._waiting.clear()


def _length(batches: Any) -> int | None:
    """The number of batches; None if nobody knows."""
    try:
        return len(batches)
    except TypeError:
        return None


def _other_order(found: str) -> NoReturn:
    """Raises the error of a sampler that does not repeat itself."""
    rule = "must give the order that it gave when the state was taken"
    cure = "set its seed or epoch, or give it 'state_dict' and 'load_state_dict'"
    _check.fail("sampler", rule, found, cure)


def copied(generator: torch.Generator | None) -> torch.Generator:
    """A copy of `generator`, by default torch's: it draws what that would draw next."""
    source = torch.default_generator if generator is None else generator
    copy = torch.Generator()
    copy.set_state(source.get_state())
    return copy


class SeededLoader(PrefetchLoader):
    """A DataLoader whose batches have keys: that of the epoch and their number in it.

    Where a host's loader has a constructor of its own, it stands before this class:
    `class Loader(HostLoader, SeededLoader)`. An epoch has the key that the generator
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
        self._epoch = CurrentEpoch()
        self._loaded: dict[str, Any] | None = None
        if not isinstance(dataset, IterableDataset | KeyedDataset):
            dataset = KeyedDataset(dataset)
        super().__init__(dataset, *args, **kwargs)

    @property
    def _index_sampler(self) -> Any:
        """The indices of every batch with its key, which torch iterates over."""
        sampler, how = super()._index_sampler, (self.generator, self.draws_keys)
        return KeyedBatches(sampler, self._epoch, *how)

    def epoch_key(self, epoch: int) -> int:
        """The key of an epoch, which leaves the generator where it is."""
        return draw(copied(self.generator))

    def __iter__(self) -> Any:
        order = self._order()
        begun = self._begin(order)
        if begun.key is None and not self.draws_keys:
            begun.key = self.epoch_key(begun.epoch)
        self._epoch.new = begun
        try:
            if self._iterator is not None:
                # Torch draws a number for every iterator, and none for one that is
                # used again with `persistent_workers`: an epoch must not depend on
                # that.
                draw_key(self.generator)
            batches = super().__iter__()
            if begun.resumed is not None and self._epoch.indices is not None:
                self._epoch.indices.start()  # now: generators stand where they stood
        except BaseException:
            if begun.back:
                order.restore(begun.back)
            raise
        finally:
            self._epoch.new = self._epoch.indices = None
        self._epoch.under_way, self._loaded = begun, None
        return self.counted(batches, begun)

    def counted(self, batches: Any, epoch: EpochState) -> Any:
        """An iterator that counts the batches as they are handed out."""
        return CountedBatches(batches, epoch, self)

    def _begin(self, order: SamplerState) -> EpochState:
        """A new epoch, or the loaded one, with generators as they were then."""
        now, state, last = order.states(), self._loaded, self._epoch.under_way
        if state is None:
            epoch = 0 if last is None else last.epoch + 1
            return EpochState(epoch, now, order.own_state())
        start = now if state["start"] is None else state["start"]
        order.restore(start)
        return EpochState(state["epoch"], start, state["sampler"], state, back=now)

    def _order(self) -> SamplerState:
        return SamplerState(super()._index_sampler, self.generator)

    def _known(self, order: SamplerState) -> dict[str, Any]:
        """The settings that a state must have in common with this loader."""
        settings = self.settings()  # first: it may refuse to have a state
        return {
            "loader": type(self).__name__,
            "size": len(self.dataset),  # type: ignore[arg-type]
            "batch_size": self.batch_size,
            "drop_last": self.drop_last,
            "samplers": order.names(),
            **settings,
        }

    def settings(self) -> dict[str, Any]:
        """Settings that batches depend on beside indices and keys, by name."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """The state of the loader, from which another one can continue.

        It counts the batches that were handed out, whatever was made ahead. It holds
        numbers, strings and tensors: `torch.save` writes it, and `torch.load` reads it
        with `weights_only=True`.
        """
        order = self._order()
        if self._loaded is not None:
            return deepcopy({**self._loaded, "now": order.states()})
        last = self._epoch.under_way
        state = {
            "version": VERSION,
            **self._known(order),
            "epoch": 0 if last is None else last.epoch + last.over,
            "now": order.states(),
            "epochs": order.epochs(),
        }
        if last is None or last.over:
            return state | NOT_BEGUN | {"sampler": order.own_state()}
        return state | last.state()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Has the next iteration continue where a loader like this one was.

        Generators and samplers stand where they stood then, and so does torch's default
        generator if the loader draws from it. At the end of an epoch that is the
        beginning of the next one.

        Args:
            state_dict: of a loader with the same seeds, batches, samplers and settings
                of what is drawn; workers and threads may be others. Nothing happens if
                it is empty.
        """
        if isinstance(state_dict, dict) and not state_dict:
            return
        order = self._order()
        also = ("epoch", "now", "epochs", "sampler", *NOT_BEGUN)
        state = checked(state_dict, self._known(order), also)
        if len(now := order.states()) != len(then := state["now"]):
            rule = f"must be of samplers with {len(now)} generators, like these"
            _check.fail("state_dict", rule, len(then))
        order.restore(state["now"])
        order.set_epochs(state["epochs"])
        self._loaded = deepcopy(state)


def draw_key(generator: torch.Generator | None = None) -> int:
    """A key from `generator`, by default from the one `torch.manual_seed` governs."""
    if get_worker_info() is not None:
        generator = None  # a copy that every worker has: they would draw the same
    return draw(generator)
