"""Edges on disk by ranges of rows, so that each range can be sorted in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

PIECE = 1 << 20  # edges that are moved at a time
SPAN = 1 << 32  # positions that a segment can tell apart
BUCKETS = 128  # files that are written to at a time

Array = np.ndarray[Any, Any]


class Edges(NamedTuple):
    """Some edges, in the order in which they came.

    Attributes:
        row: int64 [k], where a walker stands.
        col: [k], where it may go.
        position: int64 [k], among all edges; empty if nobody asks.
        columns: what edges have beside, by name.
    """

    row: Array
    col: Array
    position: Array
    columns: dict[str, Array]


class Bucket:
    """The edges of rows `first` to `last`, in a file.

    A record says the row, from the first one on, and the position, from that of its
    segment on: a segment is what one piece of the edges has brought.
    """

    def __init__(self, file: Path, first: int, last: int) -> None:
        self.file, self.first, self.last = file, first, last
        self.count = 0
        self._segments: list[tuple[int, int]] = []  # (edges, position of the first)
        self._kind: np.dtype[Any] | None = None
        self._out: IO[bytes] | None = None

    def add(self, edges: Edges) -> None:
        """Appends edges whose positions ascend."""
        if edges.position.size and edges.position[-1] - edges.position[0] >= SPAN:
            half = edges.position.size // 2
            for some in (slice(half), slice(half, None)):
                self.add(_taken(edges, some))
            return
        if self._kind is None:
            self._kind = _record(edges)
        if self._out is None:
            self._out = open(self.file, "ab", buffering=0)  # noqa: SIM115 - until `close`
        records = np.empty(edges.row.size, self._kind)
        records["row"] = edges.row - self.first
        records["col"] = edges.col
        base = int(edges.position[0]) if edges.position.size else 0
        if edges.position.size:
            records["position"] = edges.position - base
        for name, values in edges.columns.items():
            records[name] = values
        view = memoryview(records.data).cast("B")
        while view.nbytes:  # without a buffer, a write may take a part
            view = view[self._out.write(view) :]
        self._segments.append((edges.row.size, base))
        self.count += edges.row.size

    def close(self) -> None:
        """Lets go of the file."""
        if self._out is not None:
            self._out.close()
            self._out = None

    def pieces(self, most: int) -> Iterator[Edges]:
        """All edges, at most so many at a time."""
        self.close()
        if self._kind is None:
            return
        bases = np.repeat(*np.array(self._segments, np.int64).T[::-1])
        with open(self.file, "rb") as opened:
            for start in range(0, self.count, most):
                count = min(most, self.count - start)
                got = np.fromfile(opened, self._kind, count)
                base = bases[start : start + count]
                yield self._edges(got, base)

    def _edges(self, records: Array, base: Array) -> Edges:
        names = records.dtype.names or ()
        row = records["row"].astype(np.int64) + self.first
        position = np.empty(0, np.int64)
        if "position" in names:
            position = records["position"].astype(np.int64) + base
        own = [n for n in names if n not in ("row", "col", "position")]
        columns = {name: records[name].copy() for name in own}
        return Edges(row, records["col"].copy(), position, columns)

    def split(self, parts: int) -> list[Bucket]:
        """The bucket as smaller ones; its file is removed."""
        finer = make_buckets(self.file.parent, self.first, self.last, parts)
        for piece in self.pieces(PIECE):
            spread(piece, finer)
        self.remove()
        for one in finer:
            one.close()
        return finer

    def remove(self) -> None:
        """Removes the file."""
        self.close()
        self.file.unlink(missing_ok=True)


def _record(edges: Edges) -> np.dtype[Any]:
    """The numpy dtype of an edge on disk."""
    fields: list[tuple[str, Any]] = [("row", "<u4"), ("col", edges.col.dtype)]
    if edges.position.size:
        fields.append(("position", "<u4"))
    return np.dtype([*fields, *((n, v.dtype) for n, v in edges.columns.items())])


def make_buckets(folder: Path, first: int, last: int, parts: int) -> list[Bucket]:
    """Buckets for rows `first` to `last`, which take no more than 2³² rows each."""
    parts = max(1, min(max(parts, (last - first >> 32) + 1), last - first))
    step = -(-(last - first) // parts)
    starts = range(first, last, step) if last > first else [first]
    return [
        Bucket(folder / f"{start}-{end}", start, end)
        for start in starts
        for end in [min(start + step, last)]
    ]


def spread(edges: Edges, buckets: list[Bucket]) -> None:
    """Appends every edge to the bucket of its row; their order stays."""
    first, step = buckets[0].first, buckets[0].last - buckets[0].first
    which = ((edges.row - first) // max(1, step)).astype(np.uint16)
    order = np.argsort(which, kind="stable")
    ends = np.bincount(which, minlength=len(buckets)).cumsum()
    start = 0
    for bucket, end in zip(buckets, ends.tolist(), strict=True):
        if end > start:
            some = order[start:end]
            bucket.add(_taken(edges, some))
        start = end


def _taken(edges: Edges, some: Array | slice) -> Edges:
    """Some of the edges."""
    position = edges.position[some] if edges.position.size else edges.position
    columns = {name: values[some] for name, values in edges.columns.items()}
    return Edges(edges.row[some], edges.col[some], position, columns)
