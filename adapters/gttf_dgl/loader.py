"""DataLoader: DGL's, whose batches are the same for any number of workers."""

from __future__ import annotations

import copy
from collections.abc import Callable
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

from gttf_dgl import _check, _frames
from gttf_dgl._compat import (
    DATASETS,
    CollateWrapper,
    EdgePredictionSampler,
    WorkerInitWrapper,
    named_seeds,
    seeds_of,
)
from gttf_dgl._keys import KeyedSampler, fold
from gttf_sampler._loading.epoch import CountedBatches, EpochState
from gttf_sampler._loading.indices import copied
from gttf_sampler._loading.prefetch import PrefetchIterator, is_thread_safe
from gttf_sampler._loading.seeded import KeyedDataset, KeyedIndex, SeededLoader
from gttf_sampler._loading.state import SPOT, described

NOT_DRAWN = {"features", "fused", "thread_workers", "output_device", "generator"}


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
            kwargs["sampler"] = _batches(every, dataset, kwargs.get("generator"))
            collate_fn = SeededCollate(collate_fn, seeds)
            dataset = Positions(every)
        elif not isinstance(dataset, IterableDataset | Positions):
            collate_fn = SeededCollate(collate_fn, dataset.__getitem__)
            dataset = Positions(dataset)
        super().__init__(dataset, collate_fn=collate_fn, **kwargs)


def _batches(
    every: range, dataset: Any, generator: torch.Generator | None
) -> BatchSampler:
    """Positions among the seeds of a dataset of DGL's, batch by batch."""
    sampler: Any = SequentialSampler(every)
    if dataset._shuffle and len(every):
        sampler = RandomSampler(every, generator=generator)
    size = as_index(dataset.batch_size)
    return BatchSampler(sampler, size, bool(dataset.drop_last))


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
        how = theirs.g, theirs.use_uva, theirs.device
        super().__init__(theirs.sample_func, *how)
        self.seeds = seeds

    @property
    def sampler(self) -> Any:
        """The sampler; None if a function takes its place."""
        return getattr(self.sample_func, "__self__", None)

    def __call__(self, index: Any) -> Any:
        """The batch, with the features that are fetched in this process."""
        return self.fetch(self.sampled(index))

    def sampled(self, index: Any) -> Any:
        """The batch without its features."""
        given, sampler = KeyedIndex.of(index), self.sampler
        draws = drawing(sampler)
        sample = self.sample_func
        if given.key is not None and isinstance(draws, KeyedSampler):
            mine = draws.for_batch(given)
            if draws is not sampler:
                outer = copy.copy(sampler)
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
            last = batch[-1] if isinstance(batch, tuple) else batch
            graphs = last if isinstance(last, list) else [last]
            if all(isinstance(graph, DGLGraph) for graph in graphs):
                _frames.fetch_marked(self.g, graphs)
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
        """The sampler that draws neighbours."""
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
            key = fold(int(base.random_(generator=copied(self.generator))), 0)
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

    def threaded(self) -> Any:
        """An iterator whose batches a thread makes."""
        return self.made_ahead((self.prefetch_factor or 1) * self.num_workers)

    def made_ahead(self, depth: int) -> PrefetchIterator:
        """Batches of a thread, `depth` of them made ahead; another one reads files."""
        collate, draws = self.collate_fn, self._draws
        keyed = isinstance(collate, SeededCollate) and isinstance(draws, KeyedSampler)
        if keyed and draws.fetches:
            return PrefetchIterator(self, depth, collate.sampled, collate.fetch)
        return PrefetchIterator(self, depth)

    def settings(self) -> dict[str, Any]:
        """Settings that batches depend on beside indices and keys, by name."""
        draws, g, collate = self._draws, self.graph, self.collate_fn
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
            "seeds": described(collate.seeds.ids, SPOT),
        }

    def _has_tensor_seeds(self) -> bool:
        """True if the seeds are ids, and no dataset of a user gives them."""
        collate = self.collate_fn
        ours = isinstance(collate, SeededCollate)
        return ours and isinstance(collate.seeds, TensorSeeds)


def drawing(sampler: Any) -> Any:
    """The sampler that draws, also where another one asks it."""
    return sampler.sampler if type(sampler) is EdgePredictionSampler else sampler
