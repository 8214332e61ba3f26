"""One part of a partitioned graph, written piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler._backends import ops
from gttf_sampler.distributed import layout
from gttf_sampler.distributed.book import Book
from gttf_sampler.graph import storage
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.subgraph import EdgeType

Array = np.ndarray[Any, Any]
Report = Callable[[str, int], None]
EDGES, ROWS = 1 << 21, 1 << 24  # how many edges, how many bytes of features at a time


class Cut(NamedTuple):
    """What all parts are cut from.

    Attributes:
        adjs: the rows of every relation.
        features: (node type, name, values [n, ...]).
        books: the part of every node, per node type.
        everywhere: ascending nodes whose rows all parts get, per node type.
        mark: a checksum of all this; a part that has it need not be written again.
    """

    adjs: Mapping[EdgeType, CompactAdj]
    features: list[tuple[str, str, Array]]
    books: Mapping[str, Book]
    everywhere: Mapping[str, Tensor]
    mark: int


def write_part(
    folder: Path, part: int, cut: Cut, tick: Report
) -> tuple[int, list[tuple[int, int]]]:
    """Writes a part, unless it is there already.

    Returns the checksum of its header, and per relation how many edges its own nodes
    have and how many of those lead to other parts.
    """
    if (folder / layout.HEADER).exists():
        header = layout.read_header(folder, layout.PART)
        if header["mark"] == cut.mark and header["part"] == part:
            return int(header["crc32"]), [tuple(count) for count in header["counts"]]
        (folder / layout.HEADER).unlink()
    folder.mkdir(exist_ok=True)
    files: dict[str, Any] = {}
    rows: dict[str, Tensor] = {}
    for number, (name, book) in enumerate(cut.books.items()):
        own = book.nodes_of(part)
        rows[name] = own
        if cut.everywhere[name].numel():
            rows[name] = torch.cat([own, cut.everywhere[name]]).unique()
        nodes = rows[name]
        if not _is_range(nodes):
            file = folder / f"nodes-{number}.bin"
            files[file.stem] = storage.write_array(file, nodes.numpy())
        elif nodes.numel():
            files[f"range-{number}"] = [int(nodes[0]), int(nodes[-1]) + 1]
    counts = []
    kinds = list(cut.books)
    for number, ((by, _, to), adj) in enumerate(cut.adjs.items()):
        some = _Rows(adj, rows[to], part, cut.books[to], tick)
        where = folder, number, kinds.index(to)
        counts.append(some.write(*where, cut.books[by], files))
    for number, (name, _, values) in enumerate(cut.features):
        file = folder / f"feature-{number}.bin"
        own = cut.books[name].nodes_of(part)
        files[file.stem] = storage.write_array(file, _feature_rows(values, own, tick))
    content = {"part": part, "mark": cut.mark, "counts": counts, "files": files}
    return layout.write_header(folder, layout.PART, content), counts


class _Rows:
    """Some rows of a graph, to be copied in pieces of a bounded size."""

    def __init__(
        self, adj: CompactAdj, nodes: Tensor, part: int, book: Book, tick: Report
    ) -> None:
        self.adj, self.nodes, self.part, self.tick = adj, nodes, part, tick
        self.start, self.count = adj.row_range(nodes)
        ends = torch.cat([self.count.new_zeros(1), self.count.cumsum(0)])
        self.rowptr, self.total = ends, int(ends[-1])
        away = book.lies_elsewhere(nodes, part)
        self.own = ~away if bool(away.any()) else None  # None: all of them
        self.together = _is_range(nodes)

    def write(
        self, folder: Path, number: int, kind: int, by: Book, files: dict[str, Any]
    ) -> tuple[int, int]:
        """Writes all arrays; returns how many own edges there are, and are cut.

        `kind` is the number of the type that the rows are nodes of.
        """
        arrays: dict[str, Tensor | storage.Pieces] = {"rowptr": self.rowptr}
        cut: list[int] = []
        for name, array in self.adj.arrays().items():
            if name == "rowptr":
                continue
            counted = (by, cut) if name == "col" else None
            pieces = self._pieces(array, counted)
            arrays[name] = storage.Pieces(_numpy(array[:0]).dtype, self.total, pieces)
        names = arrays.pop("edge_id", None)
        facts = {"num_cols": self.adj.num_cols, "direction": self.adj.direction}
        where = folder / f"relation-{number}"
        storage.save(where, arrays, facts)
        files[where.name] = storage.header_of(where)["crc32"]
        if f"nodes-{kind}" in files:
            file = folder / f"first-{number}.bin"
            files[file.stem] = storage.write_array(file, self.start.numpy())
        else:  # rows that stand together begin where the first one does
            first = int(self.start[0]) if self.start.numel() else 0
            files[f"first-{number}"] = first
        if isinstance(names, storage.Pieces):
            file = folder / f"edge_id-{number}.bin"
            files[file.stem] = storage.write_array(file, names)
        own = self.count if self.own is None else self.count[self.own]
        return int(own.sum()), sum(cut)

    def _bounds(self) -> Iterator[tuple[int, int]]:
        """Ranges of rows, each with a bounded number of edges, or one row."""
        first = 0
        while first < self.nodes.numel():
            limit = int(self.rowptr[first]) + EDGES
            stop = int(torch.searchsorted(self.rowptr, limit, right=True)) - 1
            stop = max(stop, first + 1)
            yield first, stop
            first = stop

    def _pieces(
        self, array: Tensor, counted: tuple[Book, list[int]] | None
    ) -> Iterator[Array]:
        """The entries of the rows, in order; counts those that lead elsewhere."""
        for first, stop in self._bounds():
            count = self.count[first:stop]
            size = int(self.rowptr[stop] - self.rowptr[first])
            if self.together:
                start = int(self.start[first])
                piece = array[start : start + size]
            else:
                _, edge = ops.expand(self.start[first:stop], count, size)
                piece = array.index_select(0, edge)
            if counted is not None:
                away = counted[0].lies_elsewhere(piece, self.part)
                if self.own is not None:
                    own = self.own[first:stop]
                    away &= own.repeat_interleave(count, output_size=size)
                counted[1].append(int(away.count_nonzero()))
            self.tick("writing", piece.numel() * piece.element_size())
            yield _numpy(piece)


def _is_range(nodes: Tensor) -> bool:
    """Whether ascending nodes follow each other without gaps."""
    return nodes.numel() == 0 or int(nodes[-1] - nodes[0]) + 1 == nodes.numel()


def _numpy(array: Tensor) -> Array:
    """The tensor as numpy sees it."""
    found: Array = array.numpy()
    return found


def _feature_rows(values: Array, nodes: Tensor, tick: Report) -> storage.Pieces:
    """The rows of some nodes, end to end."""
    width = int(np.prod(values.shape[1:], dtype=np.int64))
    step = max(1, ROWS // max(1, width * values.itemsize))

    def pieces() -> Iterator[Array]:
        for some in nodes.split(step):
            piece = np.ascontiguousarray(values[some.numpy()]).reshape(-1)
            tick("writing", piece.nbytes)
            yield piece

    return storage.Pieces(values.dtype, nodes.numel() * width, pieces())
