"""Threads for kernels that release the GIL: as many as torch would use.

One pool per process, made when it is first needed and forgotten by a forked child, so
that DataLoader workers (to which torch gives one thread) neither inherit nor start any.
"""

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
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
    futures = [_submit(call) for call in calls[1:]]
    try:
        calls[0]()
        for future in futures:
            future.result()
    except BaseException:
        _see_off(futures)
        raise


class Parts:
    """Calls kernel(lo, hi, *args) for ranges in their order, some of them ahead.

    As a context it waits for all that was begun, whatever happens inside: kernels read
    memory by its address, which must not be freed under them.

    Args:
        kernel: what to call.
        bounds: where the ranges begin and end.
        args: of all calls.
        owners: of memory that the kernel reads by its address; calls hold on to them,
            as an interrupt may come before anybody waits.
    """

    def __init__(
        self,
        kernel: Callable[..., Any],
        bounds: Sequence[int],
        *args: Any,
        owners: Any = None,
    ) -> None:
        own = owners, kernel
        calls = [partial(_held, *own, lo, hi, *args) for lo, hi in pairwise(bounds)]
        self._results: list[Future[Any]] = [Future() for _ in calls]
        self._left = deque(zip(self._results, calls, strict=True))  # popleft is atomic
        others = min(torch.get_num_threads(), len(calls)) - 1
        self._begun = [_submit(self._work) for _ in range(others)]

    def __enter__(self) -> "Parts":
        return self

    def __exit__(self, *error: object) -> None:
        self._left.clear()
        _see_off(self._begun)

    def wait(self, number: int) -> None:
        """Waits for a range, and does those that nobody has begun meanwhile."""
        result = self._results[number]
        while not result.done() and self._take():
            pass
        result.result()

    def _work(self) -> None:
        while self._take():
            pass

    def _take(self) -> bool:
        """Does the next range; False if there is none."""
        try:
            result, call = self._left.popleft()
        except IndexError:
            return False
        try:
            result.set_result(call())
        except BaseException as error:
            if result.done():  # an interrupt that has come after it
                raise
            result.set_exception(error)
        return True


def _see_off(futures: Sequence[Future[Any]]) -> None:
    """Waits until calls are over, whatever became of them; they take milliseconds."""
    while True:
        try:
            wait_for(futures)
            return
        except KeyboardInterrupt:  # one more must not leave them alone
            continue


def parallel(
    kernel: Callable[..., Any], size: int, work: int, *args: Any, owners: Any = None
) -> None:
    """Runs kernel(lo, hi, *args) over all of [0, size), in ranges, on the threads.

    `owners` are those of memory that it reads by its address; see `Parts`.
    """
    own = owners, kernel
    run([partial(_held, *own, lo, hi, *args) for lo, hi in ranges(size, work)])


def _held(owners: Any, kernel: Callable[..., Any], *args: Any) -> Any:
    """Calls a kernel; as long as it runs, `owners` live."""
    return kernel(*args)


def _submit(call: Callable[[], Any]) -> Future[Any]:
    """Starts a call on the pool."""
    global _pool, _pool_size
    size = max(1, torch.get_num_threads() - 1)
    if _pool is None or _pool_size < size:
        _pool_size = size
        _pool = ThreadPoolExecutor(_pool_size, thread_name_prefix="gttf")
    try:
        return _pool.submit(call)
    except RuntimeError:  # the interpreter is shutting down and starts no thread
        done: Future[Any] = Future()
        done.set_result(call())
        return done
