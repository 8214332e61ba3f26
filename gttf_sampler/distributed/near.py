"""NearRows: the rows that a process can read by itself, of all parts it sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from torch import Tensor

from gttf_sampler.distributed.book import PartitionBook, RowIndex
from gttf_sampler.distributed.hops import Route
from gttf_sampler.features import FeatureFile


class Some(NamedTuple):
    """Rows in one place.

    Attributes:
        source: the file or the cache that they are in; None if others have them.
        row: int64 [k], which rows of it; nodes if others have them.
        to: int64 [k], which rows of the answer they become; None for all, in order.
    """

    source: FeatureFile | Tensor | None
    row: Tensor
    to: Tensor | None


class NearRows:
    """Where rows of values [n, ...] are: files of near parts, a cache, or elsewhere.

    Args:
        book: which part a node belongs to.
        near: per part, the rows of its nodes, in their order.
        rows_of: part → where its nodes stand, asked if parts are no ranges.
    """

    def __init__(
        self,
        book: PartitionBook,
        near: Mapping[int, FeatureFile],
        rows_of: Callable[[int], RowIndex],
    ) -> None:
        self.book, self.near = book, dict(near)
        self._rows = {part: rows_of(part) for part in near if book.bounds is None}
        self._kept: tuple[RowIndex, Tensor] | None = None  # set at once

    @property
    def cached(self) -> int:
        """How many rows are cached."""
        return 0 if self._kept is None else self._kept[0].size

    def keep(self, nodes: Tensor, rows: Tensor) -> None:
        """Caches rows of some nodes, which are ascending."""
        self._kept = RowIndex(nodes, self.book.num_nodes), rows

    def forget(self) -> None:
        """Caches nothing any more."""
        self._kept = None

    def find(self, node: Tensor) -> dict[int, Some]:
        """Where the rows of nodes [k] are, by part; those in the cache under -1."""
        found: dict[int, Some] = {}
        kept = self._kept
        to: Tensor | None = None
        if kept is not None:
            here, place = kept[0].locate(node)
            found[-1] = Some(kept[1], place[here], here.nonzero().view(-1))
            to = here.logical_not().nonzero().view(-1)
            node = node.index_select(0, to)
        route = Route.of(self.book.part_of(node), self.book.parts)
        if route.order is not None:
            to = route.order if to is None else to.index_select(0, route.order)
        places = [None] * self.book.parts if to is None else to.split(route.counts)
        for part, some in enumerate(route.split(node)):
            if some.numel():
                own = self.near.get(part)
                row = some if own is None else self._row(part, some)
                found[part] = Some(own, row, places[part])
        return found

    def _row(self, part: int, node: Tensor) -> Tensor:
        """Where nodes of a near part stand among its own."""
        if self.book.bounds is not None:
            return node - int(self.book.bounds[part])
        return self._rows[part].locate(node)[1]
