"""Writes one part of a partitioned graph, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler._arrays import Pieces, as_numpy, write_array
from gttf_sampler._backends import ops
from gttf_sampler.distributed import layout
from gttf_sampler.distributed.book import PartitionBook, RowIndex
from gttf_sampler.distributed.source import Source, Values, rows_at
from gttf_sampler.features.layout import seal
from gttf_sampler.features.write import Report, write
from gttf_sampler.graph import storage
from gttf_sampler.graph.compact import CompactAdj

Array = np.ndarray[Any, Any]
EDGES, ROWS = 1 << 21, 1 << 24  # how many edges, how many bytes of features at a time


class Cut(NamedTuple):
    """Everything that parts are cut from.

    Attributes:
        source: the graph and its features.
        books: the part of every node, per node type.
        everywhere: ascending nodes whose rows all parts get, per node type.
        mark: a checksum of all this; a part that has it need not be written again.
    """

    source: Source
    books: Mapping[str, PartitionBook]
    everywhere: Mapping[str, Tensor]
    mark: int


def write_part(
    folder: Path, part: int, cut: Cut, tick: Report
) -> tuple[int, list[tuple[int, int]]]:
    """Writes a part, unless it is there already; a failure leaves nothing of it.

    Returns the checksum of its header, and per relation how many edges its own nodes
    have and how many of those lead to other parts.
    """
    header = layout.PART.sound_header(folder)
    if header is not None and (header["mark"], header["part"]) == (cut.mark, part):
        return int(header["crc32"]), [tuple(count) for count in header["counts"]]
    layout.remove(folder)  # of somebody who was killed; maps of it stay as they are
    folder.mkdir(exist_ok=True)
    try:
        return _write(folder, part, cut, tick)
    except BaseException:
        layout.remove(folder)
        raise


def _write(
    folder: Path, part: int, cut: Cut, tick: Report
) -> tuple[int, list[tuple[int, int]]]:
    """Writes all files of a part, the header last."""
    files: dict[str, Any] = {}
    rows: dict[str, RowIndex] = {}
    for number, (name, book) in enumerate(cut.books.items()):
        nodes = book.nodes_of(part)
        if cut.everywhere[name].numel():
            nodes = torch.cat([nodes, cut.everywhere[name]]).unique()
        rows[name] = RowIndex(nodes, book.num_nodes)
        if not rows[name].is_range:
            file = folder / f"nodes-{number}.bin"
            files[file.stem] = write_array(file, nodes.numpy())
        elif nodes.numel():
            files[f"range-{number}"] = [int(nodes[0]), int(nodes[-1]) + 1]
    counts = []
    for number, ((by, _, to), adj) in enumerate(cut.source.adjs.items()):
        some = _Rows(adj, rows[to], part, cut.books[to], tick)
        counts.append(some.write(folder, number, cut.books[by], files))
    for number, feature in enumerate(cut.source.features):
        file = folder / f"feature-{number}.npy"
        own = cut.books[feature.kind].nodes_of(part)
        chunks = _feature_rows(feature.values, own, tick)
        about = write(file, chunks, cut.source.stored_as(feature.values))
        files[file.stem] = {"file": file.name, "seal": seal(about)}
    content = {"part": part, "mark": cut.mark, "counts": counts, "files": files}
    return layout.PART.write_header(folder, content), counts


class _Rows:
    """Some rows of a graph, to be copied in pieces of a bounded size."""

    def __init__(
        self,
        adj: CompactAdj,
        rows: RowIndex,
        part: int,
        book: PartitionBook,
        tick: Report,
    ) -> None:
        self.adj, self.rows, self.part, self.tick = adj, rows, part, tick
        self.start, self.count = adj.row_range(rows.nodes)
        ends = torch.cat([self.count.new_zeros(1), self.count.cumsum(0)])
        self.rowptr, self.total = ends, int(ends[-1])
        away = book.lies_elsewhere(rows.nodes, part)
        self.own = ~away if bool(away.any()) else None  # None: all of them

    def write(
        self, folder: Path, number: int, by: PartitionBook, files: dict[str, Any]
    ) -> tuple[int, int]:
        """Writes all arrays; returns how many own edges there are, and are cut."""
        arrays: dict[str, Tensor | Pieces] = {"rowptr": self.rowptr}
        cut: list[int] = []
        for name, array in self.adj.arrays().items():
            if name == "rowptr":
                continue
            counted = (by, cut) if name == "col" else None
            dtype, pieces = (
                as_numpy(name, array[:0]).dtype,
                self._pieces(array, counted),
            )
            arrays[name] = Pieces(dtype, self.total, pieces)
        names = arrays.pop("edge_id", None)
        facts = {"num_cols": self.adj.num_cols, "direction": self.adj.direction}
        where = folder / f"relation-{number}"
        files[where.name] = storage.save(where, arrays, facts)
        first = folder / f"first-{number}.bin"
        if not self.rows.is_range:
            files[first.stem] = write_array(first, self.start.numpy())
        else:  # rows that stand together begin where the first one does
            files[first.stem] = int(self.start[0]) if self.start.numel() else 0
        if isinstance(names, Pieces):
            file = folder / f"edge_id-{number}.bin"
            files[file.stem] = write_array(file, names)
        own = self.count if self.own is None else self.count[self.own]
        return int(own.sum()), sum(cut)

    def _bounds(self) -> Iterator[tuple[int, int]]:
        """Ranges of rows, each with a bounded number of edges, or one row."""
        first = 0
        while first < self.rows.size:
            limit = int(self.rowptr[first]) + EDGES
            stop = int(torch.searchsorted(self.rowptr, limit, right=True)) - 1
            stop = max(stop, first + 1)
            yield first, stop
            first = stop

    def _pieces(
        self, array: Tensor, counted: tuple[PartitionBook, list[int]] | None
    ) -> Iterator[Array]:
        """The entries of the rows, in order; counts those that lead elsewhere."""
        for first, stop in self._bounds():
            count = self.count[first:stop]
            size = int(self.rowptr[stop] - self.rowptr[first])
            if self.rows.is_range:
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
            yield piece.numpy()


def _feature_rows(values: Values, nodes: Tensor, tick: Report) -> Iterator[Tensor]:
    """The rows of some nodes, a bounded piece at a time."""
    none = rows_at(values, nodes[:0])
    yield none  # which tells what rows are where there are none
    width = none.shape[1:].numel() * none.element_size()
    for some in nodes.split(max(1, ROWS // max(1, width))):
        piece = rows_at(values, some)
        tick("writing", piece.nbytes)
        yield piece
