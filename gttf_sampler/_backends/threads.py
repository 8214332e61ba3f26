"""Threads for kernels that release the GIL: as many as torch would use.

One pool per process, made when it is first needed and forgotten by a forked child, so
that DataLoader workers (to which torch gives one thread) neither inherit nor start any.
"""

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any

import torch

GRAIN = 2048  # less work than this is not worth waking a thread for

_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def _forget() -> None:
    """Drops the pool of the parent process, whose threads a fork does not copy."""
    global _pool, _pool_size
    _pool, _pool_size = None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def ranges(size: int, work: int) -> list[tuple[int, int]]:
    """[0, size) cut into as many ranges as threads are worth it for `work` steps."""
    parts = max(1, min(torch.get_num_threads(), work // GRAIN, size))
    bounds = [size * part // parts for part in range(parts + 1)]
    return list(pairwise(bounds))


def run(calls: Sequence[Callable[[], Any]]) -> None:
    """Makes all calls, the first one on this thread, and waits for them."""
    waiting = [_submit(call) for call in calls[1:]]
    calls[0]()
    for wait in waiting:
        wait()


def start(
    kernel: Callable[..., Any], bounds: Sequence[int], *args: Any
) -> list[Callable[[], Any]]:
    """Starts kernel(lo, hi, *args) for every range; what it returns waits for each.

    The ranges are begun in their order, so that one can go on with the first while
    others are still under way; whoever waits for one does those that nobody has begun.
    """
    calls = [partial(kernel, lo, hi, *args) for lo, hi in pairwise(bounds)]
    others = min(torch.get_num_threads(), len(calls)) - 1
    if others == 0:
        return list(calls)
    results: list[Future[Any]] = [Future() for _ in calls]
    left = deque(zip(results, calls, strict=True))  # its popleft is atomic

    def take() -> bool:
        if not left:
            return False
        try:
            result, call = left.popleft()
        except IndexError:  # another thread was faster
            return False
        try:
            result.set_result(call())
        except BaseException as error:
            result.set_exception(error)
        return True

    def work() -> None:
        while take():
            pass

    def wait(result: Future[Any]) -> Any:
        while not result.done() and take():
            pass
        return result.result()

    for _ in range(others):
        _submit(work)
    return [partial(wait, result) for result in results]


def parallel(kernel: Callable[..., Any], size: int, work: int, *args: Any) -> None:
    """Runs kernel(lo, hi, *args) over all of [0, size), in ranges, on the threads."""
    run([partial(kernel, lo, hi, *args) for lo, hi in ranges(size, work)])


def _submit(call: Callable[[], Any]) -> Callable[[], Any]:
    """Starts a call on the pool; what it returns waits for the end."""
    global _pool, _pool_size
    size = max(1, torch.get_num_threads() - 1)
    if _pool is None or _pool_size < size:
        _pool_size = size
        _pool = ThreadPoolExecutor(_pool_size, thread_name_prefix="gttf")
    try:
        return _pool.submit(call).result
    except RuntimeError:  # the interpreter is shutting down and starts no thread
        return call
