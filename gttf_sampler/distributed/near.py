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
        pieces: the arrays that the rows are in.
        cached: the nodes whose rows are kept.
        first_kept: the position of the first of these.
    """

    def __init__(
        self,
        book: Book,
        near: Mapping[int, Tensor],
        rows_of: Callable[[int], RowSet],
    ) -> None:
        self.book = book
        self.parts = sorted(near)
        self.pieces = [near[part] for part in self.parts]
        self.cached = RowSet(torch.empty(0, dtype=torch.int64), book.num_nodes)
        self._first, first = {}, 0
        for part in self.parts:
            self._first[part] = first
            first += near[part].shape[0]
        self.first_kept = first
        self._rows = {part: rows_of(part) for part in self.parts if book.bounds is None}

    @property
    def has_all(self) -> bool:
        """Whether every part is near."""
        return len(self.parts) == self.book.parts

    def keep(self, nodes: Tensor, rows: Tensor) -> None:
        """Caches rows of some nodes, which are ascending."""
        self.cached = RowSet(nodes, self.book.num_nodes)
        self.pieces = [*self.pieces[: len(self.parts)], rows]

    def locate(self, node: Tensor) -> Tensor:
        """The position [k] of every node's row [k]; FAR where it is elsewhere."""
        if self.book.bounds is not None and self.has_all:
            return node
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
        if self.cached.size:
            far = (position < 0).nonzero().view(-1)
            kept, place = self.cached.locate(node.index_select(0, far))
            position[far[kept]] = place[kept] + self.first_kept
        return position
