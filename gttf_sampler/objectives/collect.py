"""Gradients of rows, kept for an optimizer in the place of those of tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from torch import Tensor

from gttf_sampler._backends.terms import Rows

_current: ContextVar[Collector | None] = ContextVar("gttf_collector", default=None)


class Owed(NamedTuple):
    """Gradients of some rows of a table, found by one pass over pairs.

    Attributes:
        table: its number.
        rows: gradients of some of its rows.
        scale: what they are multiplied by.
    """

    table: int
    rows: Rows
    scale: float


class Collector:
    """Takes what losses owe to some tables of vectors, as long as it is used.

    Attributes:
        tables: the matrices [n, d], of one dtype and width.
        owed: what `backward` has found since it was cleared last.
        scored: how many pairs were scored, ever.
    """

    def __init__(self, tables: Sequence[Tensor]) -> None:
        self.tables = list(tables)
        self.owed: list[Owed] = []
        self.scored = 0

    def number(self, table: Tensor) -> int | None:
        """Returns the number of a table; None if it is not collected."""
        same = (number for number, own in enumerate(self.tables) if own is table)
        return next(same, None)

    @contextmanager
    def use(self) -> Iterator[None]:
        """Losses of this thread, and their `backward`, are collected inside."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


def collector() -> Collector | None:
    """The one that is used by this thread."""
    return _current.get()
