"""KeyedSampler: a sampler that draws every batch by a key of its own."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import torch
from torch.utils.data import get_worker_info

from gttf_dgl import _check
from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    random,
    sample_rooted,
)
from gttf_sampler._loading.seeded import KeyedIndex
from gttf_sampler.random import WORD

CPU = torch.device("cpu")
KIND = ("", "", "")


class BatchKeys:
    """The keys of the batches that a sampler is asked for, one call after the other.

    A `gttf_dgl.DataLoader` gives a copy of its sampler the key of a batch; calls of
    that copy are views of the batch, each with a key of its own. Anywhere else calls
    are counted: without a seed, each takes a number from torch's default generator,
    which torch seeds in every worker; with one, the first has the seed itself and the
    others what follows from it, in a worker together with the worker's seed.

    Args:
        generator: a torch.Generator, an integer, or None.
        seed: an integer instead of it, or None.
    """

    def __init__(self, generator: Any, seed: Any) -> None:
        self.seed = _one_seed(generator, seed)
        self._root = 0
        if self.seed is not None:
            self._root = int(random.new_key(self.seed, CPU, random.BATCH))
        self._calls = 0
        self._lone: int | None = None
        self._batch: KeyedIndex | None = None

    def of_batch(self, index: KeyedIndex) -> BatchKeys:
        """The keys of the views of one batch of a loader."""
        found = copy.copy(self)
        found._batch, found._calls = index, 0
        return found

    def epoch_key(self, epoch: int) -> int | None:
        """The key of an epoch of a loader; None without a seed."""
        return None if self.seed is None else fold(self._root, epoch)

    def next(self) -> int:
        """The key of the next call."""
        self._calls += 1
        if self._batch is not None:
            return fold(self._batch.key or 0, self._calls)
        if self.seed is None:
            return random.draw(None)
        worker = get_worker_info()
        if worker is not None:
            return fold(fold(self._root, worker.seed), self._calls)
        return self.seed if self._calls == 1 else fold(self._root, self._calls)

    def next_run(self, span: int) -> tuple[int, int, float]:
        """Of the run of `span` batches that the next one is in: key, next key, share.

        `share`, of [0, 1), is how much of the run lies behind the batch. Outside a
        DataLoader of this package runs are of calls.
        """
        if self._batch is not None:
            number, epoch = self._batch.number, self._batch.epoch_key
        else:
            if self._lone is None:
                self._lone = random.draw(None) if self.seed is None else self._root
            number, epoch = self._calls, self._lone
            self._calls += 1
        run, rest = divmod(number, span)
        return fold(epoch, run), fold(epoch, run + 1), rest / span


class KeyedSampler:
    """The base of all samplers of this package, which draw by keys.

    Attributes:
        bias: what neighbours are drawn by; a loader asks whether a thread may.
        thread_workers: see `DataLoader`.
    """

    bias: Any = None
    thread_workers: bool | None = None
    _keys: BatchKeys
    _in_loader = False

    def use_keys(self, generator: Any, seed: Any, thread_workers: Any) -> None:
        """Has batches drawn by keys; for the end of a constructor."""
        if thread_workers is not None:
            _check.yes_or_no("thread_workers", thread_workers)
        self.thread_workers = thread_workers
        self._keys = BatchKeys(generator, seed)

    def for_batch(self, index: KeyedIndex) -> Any:
        """A copy that draws one batch of a loader, which fetches the rows of files."""
        found = copy.copy(self)
        found._keys, found._in_loader = self._keys.of_batch(index), True
        return found

    @property
    def fetches(self) -> bool:
        """True if a batch needs rows of a file."""
        return False

    def fetch(self, result: Any) -> None:
        """Reads the rows of a batch from their files."""


def fold(key: int, number: int) -> int:
    """The key of sub-task `number`, from any integer."""
    return int(random.fold(key & WORD, number))


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


@cache
def load_kernels(replace: bool) -> None:
    """Samples once from a tiny graph of every kind; a process does so once.

    A sampler does not hear of workers before it is in one, and there each would load
    the machine code by itself, in every epoch.
    """
    how: dict[str, Any] = {"replace": replace, "generator": 0}
    for dtype in (torch.int32, torch.int64):
        col, weight = torch.tensor([1, 0], dtype=dtype), torch.ones(2)
        edge_id = torch.tensor([1, 0], dtype=dtype)
        adj = CompactAdj.from_csr([0, 1, 2], col, edge_id=edge_id, edge_weight=weight)
        for bias in (None, EdgeWeightBias(), ExcludeBias([0])):
            sub = sample_rooted(adj, [0], [1, -1], bias=bias, **how)
            adj.original_edge(sub.edge)
        sample_rooted({KIND: adj}, {"": [0]}, [1, -1], **how)
