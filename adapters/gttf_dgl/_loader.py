"""The DataLoader that asks for a batch, as seen from inside its sampler.

DGL hands a sampler the graph and the ids of a batch and nothing else, in whichever
process it likes. What makes an epoch the same for any number of workers is the base
seed, which torch's DataLoader draws in the main process when an iteration starts, and
the number of the batch in its epoch; both are found further up the stack. The names
that start with `_` are torch's and DGL's own: tests notice when they change.
"""

import sys
from types import CodeType
from typing import Any, NamedTuple

import torch
from dgl.dataloading.dataloader import _TensorizedDatasetIter
from torch.utils.data import get_worker_info
from torch.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher
from torch.utils.data._utils.worker import _worker_loop
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

NEXT = (_SingleProcessDataLoaderIter._next_data.__code__,)
FETCH = (_IterableDatasetFetcher.fetch.__code__, _MapDatasetFetcher.fetch.__code__)
WORK = (_worker_loop.__code__,)


class Fetch(NamedTuple):
    """One batch that a DataLoader asks for.

    Attributes:
        base: the base seed; workers that persist keep theirs from pass to pass.
        fetcher: what fetches the batches in this process, another one in every pass.
        number: of the batch in its epoch, the same for any number of workers; None
            where nobody knows it: workers that read a stream of the user's own.
    """

    base: int
    fetcher: Any
    number: int | None


def fetch() -> Fetch | None:
    """The batch that is being asked for; None if there is no DataLoader."""
    fetcher, worker = _caller(FETCH), get_worker_info()
    if fetcher is None:  # nobody asks for a batch: a call from a worker's own code
        return None
    if worker is not None:
        base = worker.seed - worker.id  # worker i has the seed base + i
        return Fetch(base, fetcher, _number_in_worker(fetcher, worker))
    iterator = _caller(NEXT)
    if iterator is None:
        return None
    return Fetch(iterator._base_seed, fetcher, iterator._num_yielded)


def gathers_here() -> bool:
    """Whether features of the batch are wanted in this process, on the CPU."""
    if get_worker_info() is not None:
        return False
    device = getattr(getattr(_caller(NEXT), "_collate_fn", None), "device", None)
    return device is not None and torch.device(device).type == "cpu"


def _number_in_worker(fetcher: Any, worker: Any) -> int | None:
    """The number of a batch in the whole epoch, of which a worker has a part."""
    if isinstance(fetcher, _MapDatasetFetcher):
        loop = _frame(WORK)
        return None if loop is None else int(loop.f_locals["idx"])
    batches = fetcher.dataset_iter
    if not isinstance(batches, _TensorizedDatasetIter):
        return None
    # DGL gives every worker a run of whole batches, the first ones one batch more
    each, more = divmod(len(fetcher.dataset), worker.num_workers)
    first = each * worker.id + min(more, worker.id)
    return int(first + batches.index // batches.batch_size - 1)


def _caller(codes: tuple[CodeType, ...]) -> Any:
    """The object whose method, one of `codes`, is being called; None if none is."""
    frame = _frame(codes)
    return None if frame is None else frame.f_locals["self"]


def _frame(codes: tuple[CodeType, ...]) -> Any:
    """The innermost call of one of `codes` that is under way."""
    frame = sys._getframe()
    while frame is not None and frame.f_code not in codes:
        frame = frame.f_back  # type: ignore[assignment]
    return frame
