"""The DataLoader that asks for a batch, as seen from inside a sampler that it calls.

A host may hand a sampler the ids of a batch and nothing else, in whichever process it
likes. What makes an epoch the same for any number of workers is the base seed, which
torch's DataLoader draws in the main process when an iteration starts, and the number of
the batch in its epoch; both are found further up the stack, unless a thread of ours
makes the batch and has told them.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType
from typing import Any, NamedTuple

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
            in a worker that reads a stream, where torch does not know it.
    """

    base: int
    fetcher: Any
    number: int | None


_told: ContextVar[Fetch | None] = ContextVar("gttf_fetch", default=None)


@contextmanager
def telling(fetch: Fetch) -> Iterator[None]:
    """What this thread samples inside is asked for by `fetch`."""
    token = _told.set(fetch)
    try:
        yield
    finally:
        _told.reset(token)


def fetch_under_way() -> Fetch | None:
    """The batch that is being asked for; None if there is no DataLoader."""
    told = _told.get()
    if told is not None:
        return told
    fetcher, worker = _caller(FETCH), get_worker_info()
    if fetcher is None:  # nobody asks for a batch: a call from a worker's own code
        return None
    if worker is not None:
        base = worker.seed - worker.id  # worker i has the seed base + i
        loop = _frame(WORK) if isinstance(fetcher, _MapDatasetFetcher) else None
        return Fetch(base, fetcher, None if loop is None else loop.f_locals["idx"])
    iterator = _caller(NEXT)
    if iterator is None:
        return None
    return Fetch(iterator._base_seed, fetcher, iterator._num_yielded)


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
