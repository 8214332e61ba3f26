"""NearRows: the rows that a process can read by itself, of all parts it sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from gttf_sampler.distributed.book import Book
from gttf_sampler.distributed.rowset import RowSet

FAR = -1


class NearRows:
    """Rows of values [n, ...], end to end: those of near parts, and a cache behind.

    Args:
        book: which part a node belongs to.
        near: per part, the rows of its nodes, in their order.
        rows_of: part → where its nodes stand, asked if parts are no ranges.

    Attributes:
        parts: those that are near, ascending.
        first_kept: the position of the first row that is cached.
    """

    def __init__(
        self,
        book: Book,
        near: Mapping[int, Tensor],
        rows_of: Callable[[int], RowSet],
    ) -> None:
        self.book = book
        self.parts = sorted(near)
        none = RowSet(torch.empty(0, dtype=torch.int64), book.num_nodes)
        self._kept = none, [near[part] for part in self.parts]  # set at once
        self._first, first = {}, 0
        for part in self.parts:
            self._first[part] = first
            first += near[part].shape[0]
        self.first_kept = first
        self._rows = {part: rows_of(part) for part in self.parts if book.bounds is None}

    @property
    def cached(self) -> int:
        """How many rows are cached."""
        return self._kept[0].size

    @property
    def has_all(self) -> bool:
        """Whether every part is near."""
        return len(self.parts) == self.book.parts

    def keep(self, nodes: Tensor, rows: Tensor) -> None:
        """Caches rows of some nodes, which are ascending."""
        pieces = self._kept[1][: len(self.parts)]
        self._kept = RowSet(nodes, self.book.num_nodes), [*pieces, rows]

    def locate(self, node: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The position [k] of every node's row, and the arrays that these are in.

        FAR where it is elsewhere. Rows that are cached meanwhile change neither.
        """
        cached, pieces = self._kept
        if self.book.bounds is not None and self.has_all:
            return node.contiguous(), pieces
        position = torch.full_like(node, FAR)
        owner = self.book.part_of(node)
        for part in self.parts:
            here = (owner == part).nonzero().view(-1)
            some = node.index_select(0, here)
            if self.book.bounds is not None:
                some = some - int(self.book.bounds[part])
            else:
                some = self._rows[part].locate(some)[1]
            position.index_copy_(0, here, some.add_(self._first[part]))
        if cached.size:
            far = (position < 0).nonzero().view(-1)
            kept, place = cached.locate(node.index_select(0, far))
            position[far[kept]] = place[kept] + self.first_kept
        return position, pieces
