"""Batches in two steps, each in its own thread: what is drawn, and its features."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_postponed: ContextVar[bool] = ContextVar("gttf_postponed", default=False)


def postponed(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`make`, index → batch, without features; `is_postponed` tells whom it calls."""

    def sample(index: Any) -> Any:
        with _later():
            return make(index)

    return sample


@contextmanager
def _later() -> Iterator[None]:
    token = _postponed.set(True)
    try:
        yield
    finally:
        _postponed.reset(token)


def is_postponed() -> bool:
    """Whether features are not to be fetched here and now."""
    return _postponed.get()
