"""The DataLoader that asks for a batch, as seen from inside its sampler.

DGL hands a sampler the graph and the ids of a batch and nothing else, in whichever
process it likes. What makes an epoch the same for any number of workers is the base
seed, which torch's DataLoader draws in the main process when an iteration starts; the
workers are told, and without workers it is found further up the stack.
"""

import sys
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch.utils.data import get_worker_info
from torch.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

NEXT = (_SingleProcessDataLoaderIter._next_data.__code__,)
FETCH = (_IterableDatasetFetcher.fetch.__code__, _MapDatasetFetcher.fetch.__code__)


class Epoch(NamedTuple):
    """One pass over the data.

    Attributes:
        base: the base seed; workers that persist keep theirs from pass to pass.
        fetcher: what fetches the batches in this process, another one in every pass.
    """

    base: int
    fetcher: object


def epoch() -> Epoch | None:
    """The pass that asks for a batch; None if there is no DataLoader."""
    fetcher, worker = _caller(FETCH), get_worker_info()
    if fetcher is None:  # nobody asks for a batch: a call from a worker's own code
        return None
    if worker is not None:
        return Epoch(worker.seed - worker.id, fetcher)  # worker i has the seed base + i
    iterator = _caller(NEXT)
    return None if iterator is None else Epoch(iterator._base_seed, fetcher)


def gathers_here() -> bool:
    """Whether features of the batch are wanted in this process, on the CPU."""
    if get_worker_info() is not None:
        return False
    device = getattr(getattr(_caller(NEXT), "_collate_fn", None), "device", None)
    return device is not None and torch.device(device).type == "cpu"


def _caller(codes: tuple[CodeType, ...]) -> Any:
    """The object whose method, one of `codes`, is being called; None if none is."""
    frame = sys._getframe()
    while frame is not None and frame.f_code not in codes:
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else frame.f_locals["self"]
