"""KeyedBatches: the indices of every batch and its key, also of a resumed epoch."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple, NoReturn

import torch
from torch.utils.data import Dataset

from gttf_sampler import _check
from gttf_sampler._loading.state import Drawn, EpochState, SamplerState, fingerprint
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
        self._waiting: deque[Drawn] = deque()  # drawn before an interruption

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

    def _draw(self) -> Drawn:
        """The next indices of the sampler."""
        source: Any = self._source
        try:
            index = next(source)
        except StopIteration:
            self._epoch.ended = True
            raise
        self._epoch.drawn += 1
        return Drawn(index, self._order.own_state())

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
            self._epoch.last = Drawn(None, state["sampler"])
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
