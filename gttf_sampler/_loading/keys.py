"""BatchKeys: the key of every batch that somebody else's DataLoader asks for."""

import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from gttf_sampler import _check, random
from gttf_sampler._loading.asked import Fetch, fetch_under_way
from gttf_sampler.random import WORD

NumberOf = Callable[[Any, Any], int | None]

CPU = torch.device("cpu")
EPOCHS = 1 << 14  # after so many, numbers of epochs start again


# Several threads may ask at once. A forked child gets a lock that nobody holds.
_lock = threading.Lock()


def _unlock() -> None:
    """Forgets a lock that another thread of the parent process may hold."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


# What samplers without a seed have asked for, per pass over the data: how often a key
# was given out. They share it, so that two of them never draw the same.
_given: WeakKeyDictionary[object, Counter[int]] = WeakKeyDictionary()


class BatchKeys:
    """Keys that depend on the seed, the epoch and the number of a batch in it.

    Without a seed, an epoch has the base seed of its DataLoader, which that draws from
    torch's default generator. With one, epochs are counted: their base seeds are noted
    in memory that forked and spawned workers share. An iteration with the base seed of
    an earlier one is that epoch again. Who asks again for the same batch, as for a
    second view of it, is given another key. Outside a DataLoader there are no epochs,
    and calls are counted instead.

    Args:
        generator: a torch.Generator, an integer, or None.
        seed: an integer instead of it, or None.
        number_of: (fetcher, worker) → the number of a batch where torch does not know
            it, see `Fetch`; it returns None if the host does not know it either. Given
            None, the ids of a batch tell it from the others in every case.
    """

    def __init__(self, generator: Any, seed: Any, number_of: NumberOf | None) -> None:
        self._number_of = number_of
        self._seed = _one_seed(generator, seed)
        self._root = 0
        if self._seed is not None:
            self._root = int(random.new_key(self._seed, CPU, random.BATCH))
        self._calls, self._number, self._pass = 0, 0, 0
        self._told: int | None = None
        self._lone: int | None = None
        self._base: int | None = None
        self._process: int | None = None
        self._fetcher: weakref.ref[object] | None = None
        self._given: WeakKeyDictionary[object, Counter[int]] = WeakKeyDictionary()
        self._bases: Tensor | None = None
        if self._seed is not None:
            noted = torch.zeros(EPOCHS, dtype=torch.int64, device=CPU)
            self._bases = noted.share_memory_()

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what belongs to this process."""
        own = dict.fromkeys(("_base", "_fetcher", "_given"))
        return {**self.__dict__, **own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Copies share memory with workers of their own."""
        self.__dict__.update(state, _given=WeakKeyDictionary())
        if self._bases is not None:
            self._bases.share_memory_()

    def next(self, ids: Iterable[Tensor]) -> int:
        """The key of the batch of these ids."""
        fetch = fetch_under_way()
        if fetch is None:
            return self._next_call()
        number = self._number_in(fetch)
        with _lock:
            return self._key(fetch, number, ids)

    def next_run(self, ids: Iterable[Tensor], span: int) -> tuple[int, int, float]:
        """Of the run of `span` batches that the next one is in: key, next key, share.

        `share`, of [0, 1), is how much of the run lies behind the batch. Outside a
        DataLoader runs are of calls.
        """
        fetch = fetch_under_way()
        if fetch is None:
            if self._lone is None:
                self._lone = random.draw(None) if self._seed is None else self._root
            number, epoch = self._calls, self._lone
            self._calls += 1
        else:
            found = self._number_in(fetch)
            with _lock:
                epoch = self._epoch(fetch)[1]
            if found is None:
                return _digest(epoch, ids), 0, 0.0
            number = found
        run, rest = divmod(number, span)
        return _fold(epoch, run), _fold(epoch, run + 1), rest / span

    def begin(self, base: int) -> None:
        """Counts the epoch with this base seed, before a thread asks for a batch."""
        with _lock:
            self._enter(base)

    def tell(self, number: int) -> None:
        """Says which pass a worker begins; from then on it does not count itself."""
        self._told = number

    def epochs(self) -> Tensor | None:
        """The base seeds of the epochs that were counted; None without a seed."""
        return None if self._bases is None else self._bases[self._bases != 0].clone()

    def put_epochs(self, bases: Tensor | None) -> None:
        """Has these epochs counted and no others."""
        if self._bases is not None and bases is not None:
            self._bases.zero_()[: len(bases)] = bases
            self._base = None

    @property
    def seed(self) -> int | None:
        """What the keys depend on beside the loader; None if nothing."""
        return self._seed

    def _number_in(self, fetch: Fetch) -> int | None:
        """The number of a batch in its epoch; None if nobody knows it everywhere."""
        if self._number_of is None:
            return None
        if fetch.number is not None:
            return fetch.number
        return self._number_of(fetch.fetcher, get_worker_info())

    def _enter(self, base: int) -> None:
        """Makes the epoch with this base seed the one under way."""
        self._base, self._pass, self._process = base, 0, os.getpid()
        if self._bases is not None:
            mark = ~base  # never 0, which is a free place
            self._number = _position(self._bases, mark)

    def _epoch(self, fetch: Fetch) -> tuple[Any, int]:
        """Which keys were given out, and the key of the epoch under way."""
        if fetch.base != self._base or self._process != os.getpid():
            self._enter(fetch.base)
        elif get_worker_info() and self._fetcher and self._fetcher() != fetch.fetcher:
            self._pass += 1  # of workers that persist
        self._pass = self._pass if self._told is None else self._told
        self._fetcher = weakref.ref(fetch.fetcher)
        if self._seed is None:
            return _given, _fold(fetch.base, self._pass)
        # a pass of workers that persist counts like an epoch of those that do not
        return self._given, _fold(self._root, self._number + self._pass)

    def _key(self, fetch: Fetch, number: int | None, ids: Iterable[Tensor]) -> int:
        """The key of a batch, in its epoch."""
        given, epoch = self._epoch(fetch)
        # where there is no number, its ids tell a batch from the others
        key = _digest(epoch, ids) if number is None else _fold(epoch, number)
        counts = given.setdefault(fetch.fetcher, Counter())
        counts[key] += 1
        return _fold(key, counts[key])

    def _next_call(self) -> int:
        """The seed, then numbers that follow from it; without one, any number."""
        if self._seed is None:
            return random.draw(None)
        self._calls += 1
        return self._seed if self._calls == 1 else _fold(self._root, self._calls)


def _one_seed(generator: Any, seed: Any) -> int | None:
    """The number behind `generator` or `seed`, of which one may be given."""
    if generator is not None and seed is not None:
        _check.fail("seed", "must not be given beside 'generator'", seed)
    if seed is not None:
        return _check.integer("seed", seed)
    given = _check.randomness(generator)
    if isinstance(given, torch.Generator):
        # one number, once: a copy of the generator would repeat itself in every worker
        given = int(torch.randint(1 << 62, (), generator=given, device=given.device))
    return given


def _digest(key: int, ids: Iterable[Tensor]) -> int:
    """A number that depends on every id and its place."""
    for number, part in enumerate(ids):
        place = torch.arange(part.numel(), device=part.device)
        word = random.bits(random.stream(key & WORD, part), place).sum()
        key = _fold(key + int(word), number)
    return key


def _fold(key: int, number: int) -> int:
    """The key of sub-task `number`, from any integer."""
    return int(random.fold(key & WORD, number))


def _position(log: Tensor, mark: int) -> int:
    """Where `mark` stands in the log; it is written behind the others if it does not.

    Workers of one epoch may come here at once: they write the same number to the same
    place.
    """
    now = log.clone()  # seen once: else another may write between two looks
    found = ((now == mark) | (now == 0)).nonzero()
    if found.numel() == 0:
        log.zero_()
    place = int(found[0]) if found.numel() else 0
    log[place] = mark
    return place
