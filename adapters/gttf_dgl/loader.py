"""DataLoader: DGL's, whose workers are a thread where nothing forbids it."""

from collections.abc import Callable, Iterator
from functools import update_wrapper
from itertools import islice
from sys import _getframe
from types import MethodType
from typing import Any

import dgl.dataloading
from dgl import DGLGraph
from dgl.dataloading.base import EdgePredictionSampler
from dgl.dataloading.dataloader import (
    CollateWrapper,
    DDPTensorizedDataset,
    TensorizedDataset,
    WorkerInitWrapper,
)

from gttf_dgl import _check
from gttf_dgl._features import FromFiles
from gttf_dgl._resumable import Resumable, inner
from gttf_dgl._resume import run_of
from gttf_sampler._loading.apart import postponed
from gttf_sampler._loading.keys import BatchKeys
from gttf_sampler._loading.safe import safe_biases
from gttf_sampler._loading.threaded import ThreadedIter, ThreadedLoader

DATASETS = (TensorizedDataset, DDPTensorizedDataset)
TAKES_SAMPLER = dgl.dataloading.DataLoader.__init__.__code__


class DataLoader(Resumable, dgl.dataloading.DataLoader, ThreadedLoader):
    """DGL's `DataLoader`: the same arguments, batches and order, faster workers.

    >>> import dgl, torch
    >>> from gttf_dgl import DataLoader, GTTFSampler
    >>> g, ids = dgl.rand_graph(100, 1000), torch.arange(100)
    >>> loader = DataLoader(g, ids, GTTFSampler([5]), batch_size=20, num_workers=2)
    >>> len(loader)
    5

    With `num_workers` a thread of this process makes the batches ahead; it starts at
    once and copies nothing. Processes are used where workers would run code of yours: a
    `worker_init_fn` (also that of `enable_cpu_affinity`), a function as `bias`, a
    negative sampler, a sampler or a dataset of your own. A sampler of `gttf_dgl` makes
    every `dgl.dataloading.DataLoader` that is given it one of these.

    With such a sampler, `state_dict` says where an epoch is and `load_state_dict` goes
    on there; no other sampler of DGL can draw again what it has drawn.

    Args:
        args: and `kwargs`: see DGL's `DataLoader`.
        thread_workers: False for processes and True for a thread whatever workers would
            run; None does as the sampler says.
    """

    def __init__(
        self, *args: Any, thread_workers: bool | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        if thread_workers is not None:
            _check.yes_or_no("thread_workers", thread_workers)
            self.thread_workers = thread_workers
        else:
            self.thread_workers = getattr(inner(self), "thread_workers", None)

    def runs_only_ours(self) -> bool:
        """Whether workers would run nothing but code that is safe in a thread."""
        sampler, start = self.graph_sampler, self.worker_init_fn
        if type(sampler) is EdgePredictionSampler and (
            sampler.negative_sampler is not None or callable(sampler.exclude)
        ):
            return False
        return (
            type(inner(self)).__module__.split(".")[0] == "gttf_dgl"
            and safe_biases(inner(self).bias)
            and isinstance(start, WorkerInitWrapper)
            and start.func is None
            and isinstance(self.collate_fn, CollateWrapper)
            and isinstance(self.graph, DGLGraph)
            and type(self.dataset) in DATASETS
        )

    def begin(self, base: int) -> None:
        """Counts the epoch, in the order in which iterations start."""
        keys = getattr(inner(self), "_keys", None)
        if isinstance(keys, BatchKeys):
            keys.begin(base)

    def threaded(self) -> Any:
        """An iterator whose batches a thread makes, in the order of DGL's workers."""
        if type(self.dataset) not in DATASETS:
            return super().threaded()
        depth = (self.prefetch_factor or 1) * self.num_workers
        return self.made_ahead(depth, self.num_workers)

    def made_ahead(self, depth: int, workers: int) -> ThreadedIter:
        """Batches of a thread, `depth` of them made ahead, in the order of workers."""
        indices = _as_from_workers(self.dataset, workers)
        left = islice(indices, self._skip, None)
        sampler = inner(self)
        if isinstance(sampler, FromFiles) and sampler.fetches:
            how = postponed(self.collate_fn), sampler.fetch
            return ThreadedIter(self, depth, *how, indices=left)
        return ThreadedIter(self, depth, self.collate_fn, indices=left)


def _as_from_workers(dataset: Any, workers: int) -> Iterator[tuple[int, Any]]:
    """The batches of a dataset and their numbers, in the order of DGL's workers.

    Each has a run of batches, and they take turns.
    """
    batches = iter(dataset)  # a copy of the ids: the next epoch may shuffle them
    runs = [run_of(len(dataset), workers, worker) for worker in range(workers)]

    def taken() -> Iterator[tuple[int, Any]]:
        for turn in range(len(dataset) // workers + 1):
            for first, last in runs:
                if first + turn < last:
                    batches.index = (first + turn) * batches.batch_size
                    yield first + turn, next(batches)

    return taken()


class seen_by_loaders:  # noqa: N801 - a decorator
    """A method `sample` that makes the loader which takes it a `DataLoader` of ours.

    DGL's loader asks its sampler for `sample` once, in its constructor, and has no
    other hook by which a sampler could say how it wants to be run. Loaders of other
    classes, and methods that override this one, are left as they are.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, sampler: Any, owner: type | None = None) -> Any:
        if sampler is None:
            return self.method
        caller = _getframe(1)
        if caller.f_code is TAKES_SAMPLER:
            loader = caller.f_locals["self"]
            if type(loader) is dgl.dataloading.DataLoader:
                loader.__class__ = DataLoader
                loader.thread_workers = sampler.thread_workers
        return MethodType(self.method, sampler)
