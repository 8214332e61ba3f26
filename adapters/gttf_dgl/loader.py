"""DataLoader: DGL's, and samplers that draw every batch by a key of its own."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from operator import index as as_index
from typing import Any

import dgl.dataloading
import torch
from dgl import DGLGraph
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    get_worker_info,
)

from gttf_dgl import _check
from gttf_dgl._blocks import fetch_marked
from gttf_dgl._compat import (
    DATASETS,
    CollateWrapper,
    EdgePredictionSampler,
    WorkerInitWrapper,
    named_seeds,
    seeds_of,
)
from gttf_sampler import CompactAdj, EdgeWeightBias, ExcludeBias, random, sample_rooted
from gttf_sampler._loading.prefetch import PrefetchIterator, is_thread_safe
from gttf_sampler._loading.seeded import (
    BatchKey,
    KeyedDataset,
    KeyedIndex,
    SeededLoader,
    copied,
)
from gttf_sampler._loading.state import SPOT, CountedBatches, EpochState, described
from gttf_sampler.random import WORD

CPU = torch.device("cpu")
NOT_DRAWN = {"features", "fused", "thread_workers", "output_device", "generator"}


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
        if seed is not None:
            if generator is not None:
                _check.fail("seed", "must not be given beside 'generator'", seed)
            generator = _check.integer("seed", seed)
        given = _check.randomness(generator)
        if isinstance(given, torch.Generator):  # one number, once: a copy of the
            # generator would repeat itself in every worker
            device = given.device
            given = int(torch.randint(1 << 62, (), generator=given, device=device))
        self.seed, self._root = given, 0
        if given is not None:
            self._root = int(random.new_key(given, CPU, random.BATCH))
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
        return None if self.seed is None else _fold(self._root, epoch)

    def next(self) -> int:
        """The key of the next call."""
        self._calls += 1
        if self._batch is not None:
            return _fold(self._batch.key or 0, self._calls)
        if self.seed is None:
            return random.draw(None)
        worker = get_worker_info()
        if worker is not None:
            return _fold(_fold(self._root, worker.seed), self._calls)
        return self.seed if self._calls == 1 else _fold(self._root, self._calls)

    def next_in_epoch(self) -> tuple[int, int]:
        """The key of the next batch's epoch, and its number there.

        Outside a DataLoader of this package all calls are one epoch.
        """
        key = None if self._batch is None else self._batch.key
        if isinstance(key, BatchKey):
            return key.epoch, key.number
        if self._lone is None:
            self._lone = random.draw(None) if self.seed is None else self._root
        self._calls += 1
        return self._lone, self._calls - 1


def _fold(key: int, number: int) -> int:
    """The key of sub-task `number`, from any integer."""
    return int(random.fold(key & WORD, number))


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
        """True if a batch needs rows of a file, which `fetch` reads."""
        return False

    def fetch(self, result: Any) -> None:
        """Reads the rows of a batch from their files."""


@cache
def load_kernels(replace: bool) -> None:
    """Samples once from a tiny graph of every kind; a process does so once.

    A sampler does not hear of workers before it is in one, and there each would load
    the machine code by itself, in every epoch.
    """
    how: dict[str, Any] = {"replace": replace, "generator": 0}
    for dtype in (torch.int32, torch.int64):
        ids, weight = torch.tensor([1, 0], dtype=dtype), torch.ones(2)
        adj = CompactAdj.from_csr([0, 1, 2], ids, edge_id=ids, edge_weight=weight)
        for bias in (None, EdgeWeightBias(), ExcludeBias([0])):
            sub = sample_rooted(adj, [0], [1, -1], bias=bias, **how)
            adj.original_edge(sub.edge)
        sample_rooted({("", "", ""): adj}, {"": [0]}, [1, -1], **how)


class SeedPositions(SeededLoader):
    """Stands behind DGL's loader, and has torch draw positions among the seeds.

    DGL streams its seeds to workers, each a run of them; positions have a number in
    their epoch, and torch shuffles them by its own generator.
    """

    def __init__(self, dataset: Any, *, collate_fn: Any, **kwargs: Any) -> None:
        for name in ("sampler", "batch_sampler"):
            if kwargs.get(name) is not None and not isinstance(dataset, Positions):
                _check.fail(name, "must be left to this loader", repr(kwargs[name]))
        if isinstance(dataset, DATASETS):
            seeds = TensorSeeds(seeds_of(dataset), dataset._mapping_keys)
            every = range(len(seeds.ids))
            order: Any = SequentialSampler(every)
            if dataset._shuffle and len(every):
                order = RandomSampler(every, generator=kwargs.get("generator"))
            size, drop_last = as_index(dataset.batch_size), bool(dataset.drop_last)
            kwargs["sampler"] = BatchSampler(order, size, drop_last)
            collate_fn = SeededCollate(collate_fn, seeds)
            dataset = Positions(every)
        elif not isinstance(dataset, IterableDataset | Positions):
            collate_fn = SeededCollate(collate_fn, dataset.__getitem__)
            dataset = Positions(dataset)
        super().__init__(dataset, collate_fn=collate_fn, **kwargs)


class Positions(KeyedDataset):
    """Positions among seeds, or batches of a user's dataset, which DGL may shuffle."""

    def shuffle(self) -> None:
        """Shuffles a user's dataset; torch's sampler does it for seeds."""
        if hasattr(self.numbers, "shuffle"):
            self.numbers.shuffle()


class TensorSeeds:
    """The seeds of some positions: ids [k], or ids per type."""

    def __init__(self, ids: Tensor, names: list[str] | None) -> None:
        self.ids, self.names = ids, names

    def __call__(self, positions: Any) -> Any:
        """The seeds at some positions."""
        return named_seeds(self.ids[torch.as_tensor(positions)], self.names)


class SeededCollate(CollateWrapper):
    """Samples the batch of a keyed index, as DGL's `CollateWrapper` does that of ids.

    Args:
        theirs: that of DGL, with a method of the sampler.
        seeds: a function of an index, which gives the ids of the batch.
    """

    def __init__(self, theirs: CollateWrapper, seeds: Callable[[Any], Any]) -> None:
        super().__init__(theirs.sample_func, theirs.g, theirs.use_uva, theirs.device)
        self.seeds = seeds
        # None if a function takes the sampler's place
        self.sampler = getattr(self.sample_func, "__self__", None)

    def __call__(self, index: Any) -> Any:
        """The batch, with the features that are fetched in this process."""
        return self.fetch(self.sampled(index))

    def sampled(self, index: Any) -> Any:
        """The batch without its features."""
        given, draws = KeyedIndex.of(index), drawing(self.sampler)
        sample = self.sample_func
        if given.key is not None and isinstance(draws, KeyedSampler):
            mine = draws.for_batch(given)
            if draws is not self.sampler:
                outer: Any = copy.copy(self.sampler)
                outer.sampler, mine = mine, outer
            sample = mine.sample
        collate = CollateWrapper(sample, self.g, self.use_uva, self.device)
        return collate(self.seeds(given.index))

    def fetch(self, batch: Any) -> Any:
        """`batch` with rows of files, and with data of the graph where none is sent."""
        draws = drawing(self.sampler)
        if not isinstance(draws, KeyedSampler):
            return batch
        if draws.fetches:
            draws.fetch(batch)
        if get_worker_info() is None and torch.device(self.device).type == "cpu":
            # DGL makes a list of a sampler's tuple
            last = batch[-1] if isinstance(batch, list) else batch
            graphs = last if isinstance(last, list) else [last]
            if all(isinstance(graph, DGLGraph) for graph in graphs):
                fetch_marked(self.g, graphs)
        return batch


class DataLoader(dgl.dataloading.DataLoader, SeedPositions):
    """DGL's `DataLoader`: the same arguments and batches, the same for any workers.

    >>> import dgl, torch
    >>> from gttf_dgl import DataLoader, GTTFSampler
    >>> g, ids = dgl.rand_graph(100, 1000), torch.arange(100)
    >>> loader = DataLoader(g, ids, GTTFSampler([5]), batch_size=20, num_workers=2)
    >>> len(loader)
    5

    With a sampler of `gttf_dgl`, also inside `as_edge_prediction_sampler`, batches and
    their order follow `torch.manual_seed`, or `generator`, and are the same for any
    number of workers; `state_dict` says where an epoch is and `load_state_dict` goes on
    there, with as many workers as you like. Other samplers draw as they always do.
    `shuffle=True` follows `torch.manual_seed`, too, with every sampler.

    With `num_workers` a thread of this process makes the batches ahead; it starts at
    once and copies nothing. Processes are used where workers would run code of yours: a
    `worker_init_fn` (also that of `enable_cpu_affinity`), a function as `bias`, a
    negative sampler, a sampler or a dataset of your own.

    Args:
        args: and `kwargs`: see DGL's `DataLoader`.
        thread_workers: False for processes and True for a thread whatever workers would
            run; None does as the sampler says.
    """

    shuffle: bool
    graph_sampler: Any
    graph: Any
    collate_fn: Any
    cpu_affinity_enabled = False  # of a loader that was made again, which DGL forgets

    def __init__(
        self, *args: Any, thread_workers: bool | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        if thread_workers is not None:
            _check.yes_or_no("thread_workers", thread_workers)
        else:
            thread_workers = getattr(self._draws, "thread_workers", None)
        self.thread_workers = thread_workers

    @property
    def _draws(self) -> Any:
        return drawing(self.graph_sampler)

    def __iter__(self) -> Any:
        batches: Any = super().__iter__()
        under_way: Any = self._epoch.under_way
        return CountedBatches(batches, under_way, self)

    def counted(self, batches: Any, epoch: EpochState) -> Any:
        """`batches`, which DGL may fetch ahead: they are counted behind that."""
        return batches

    def epoch_key(self, epoch: int) -> int:
        """That of the sampler's seed, or of the number that torch will draw next."""
        draws, key = self._draws, None
        if isinstance(draws, KeyedSampler):
            key = draws._keys.epoch_key(epoch)
        if key is None:
            base = torch.empty((), dtype=torch.int64, device="cpu")
            key = _fold(int(base.random_(generator=copied(self.generator))), 0)
        return key

    def runs_only_ours(self) -> bool:
        """True if workers would run nothing but code that is safe in a thread."""
        sampler, start, draws = self.graph_sampler, self.worker_init_fn, self._draws
        if type(sampler) is EdgePredictionSampler and (
            sampler.negative_sampler is not None or callable(sampler.exclude)
        ):
            return False
        return (
            isinstance(draws, KeyedSampler)
            and type(draws).__module__.split(".")[0] == "gttf_dgl"
            and is_thread_safe(draws.bias)
            and isinstance(start, WorkerInitWrapper)
            and start.func is None
            and self._has_tensor_seeds()
            and isinstance(self.graph, DGLGraph)
        )

    def ahead(self) -> int:
        """The number of batches that a thread makes ahead."""
        return (self.prefetch_factor or 1) * self.num_workers

    def threaded(self) -> PrefetchIterator:
        """Batches that a thread makes ahead; another one reads files."""
        collate, draws = self.collate_fn, self._draws
        keyed = isinstance(collate, SeededCollate) and isinstance(draws, KeyedSampler)
        stages = (collate.sampled, collate.fetch) if keyed and draws.fetches else ()
        return PrefetchIterator(self, self.ahead(), *stages)

    def settings(self) -> dict[str, Any]:
        """Settings that batches depend on beside indices and keys, by name."""
        draws, g = self._draws, self.graph
        if not isinstance(draws, KeyedSampler):
            rule = "must be one of gttf_dgl where a loader says or is told its state"
            cure = "no other one can draw again what it has drawn"
            _check.fail("graph_sampler", rule, type(draws).__name__, cure)
        if not self._has_tensor_seeds():
            rule = "must be a tensor, or a dict of them, where a loader has a state"
            _check.fail("indices", rule, type(self.indices).__name__)
        found = {
            name: described(value, SPOT)
            for name, value in vars(draws).items()
            if not name.startswith("_") and name not in NOT_DRAWN
        }
        counts = [getattr(g, name, None) for name in ("num_nodes", "num_edges")]
        batches: Any = self.sampler
        return {
            "batch_size": batches.batch_size,
            "drop_last": batches.drop_last,
            "seed": draws._keys.seed,
            **found,
            "graph": [count() for count in counts if callable(count)],
            "seeds": described(self.collate_fn.seeds.ids, SPOT),
        }

    def _has_tensor_seeds(self) -> bool:
        """True if the seeds are ids, and no dataset of a user gives them."""
        return isinstance(getattr(self.collate_fn, "seeds", None), TensorSeeds)


def drawing(sampler: Any) -> Any:
    """The sampler that draws, also where another one asks it."""
    return sampler.sampler if type(sampler) is EdgePredictionSampler else sampler
