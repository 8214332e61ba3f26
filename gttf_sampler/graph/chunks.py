"""Rows from edges that come in chunks, more of them than memory holds.

A counting sort in two passes over the disk. The first appends every edge to a file of
its range of rows; the second sorts these files in memory, one after the other, and
writes the rows behind one another. A range that does not fit is split once more.
"""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from gttf_sampler import _check
from gttf_sampler._backends import memory, ops
from gttf_sampler.graph import build, storage
from gttf_sampler.graph.buckets import (
    BUCKETS,
    PIECE,
    Bucket,
    Edges,
    make_buckets,
    spread,
)

COLUMNS = ("edge_weight", "edge_time")
COST = 80  # bytes that an edge takes while its range is sorted, measured
USUAL = 1 << 31  # bytes of memory, where there are as many to spare

Array = np.ndarray[Any, Any]
Report = Callable[[str, int], None]  # told what is done, and how many edges more


def build_rows(
    chunks: Iterable[Any],
    path: str | os.PathLike[str],
    num_nodes: Any,
    direction: str,
    *,
    edge_ids: bool,
    sort_by_time: bool,
    overwrite: bool,
    nbytes: int | None,
    tmp: str | os.PathLike[str] | None,
    report: Report | None,
) -> None:
    """Writes the directory of a CompactAdj; see `CompactAdj.from_chunks`."""
    tick = report or (lambda what, more: None)
    num_rows, num_cols = _sizes(chunks, num_nodes, direction, tick)
    most = _edges_at_a_time(nbytes)
    target = _check.path("path", path)
    home = Path(tmp) if tmp is not None else target.absolute().parent
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".gttf-build-", dir=home) as folder:
        buckets = make_buckets(Path(folder), 0, num_rows, BUCKETS)
        try:
            kinds: dict[str, np.dtype[Any]] = {}
            total = 0
            for edges in _stream(chunks, direction, num_rows, num_cols, edge_ids):
                kinds = {name: values.dtype for name, values in edges.columns.items()}
                spread(edges, buckets)
                total += edges.row.size
                tick("reading edges", edges.row.size)
        finally:
            for bucket in buckets:
                bucket.close()
        rows = _Rows(num_rows, num_cols, total, kinds, edge_ids, sort_by_time)
        facts = {"num_cols": num_cols, "direction": direction}

        def write(files: Mapping[str, Path]) -> dict[str, Any]:
            return rows.write(files, _small_enough(buckets, most), tick)

        storage.replace(path, rows.names, facts, overwrite, write)


def _edges_at_a_time(nbytes: int | None) -> int:
    """How many edges are sorted at a time."""
    if nbytes is None:
        room = memory.room()
        nbytes = USUAL if room is None else min(USUAL, room // 2)
    return max(1, _check.count("memory", nbytes) // COST)


def _small_enough(buckets: list[Bucket], most: int) -> Iterator[Bucket]:
    """The buckets in their order, split as long as they have more edges than that."""
    for bucket in buckets:
        if bucket.count <= most or bucket.last - bucket.first <= 1:
            yield bucket
        else:
            parts = min(BUCKETS, 2 * bucket.count // most + 1)
            yield from _small_enough(bucket.split(parts), most)


def _sizes(
    chunks: Iterable[Any], num_nodes: Any, direction: str, tick: Report
) -> tuple[int, int]:
    """(num_rows, num_cols); the largest id tells, if chunks can be read twice."""
    if isinstance(chunks, torch.Tensor | np.ndarray | str | bytes) or not hasattr(
        chunks, "__iter__"
    ):
        rule, cure = "must be an iterable of edges", "call from_edge_index for a tensor"
        _check.mistyped("chunks", rule, _check.kind_of(chunks), cure)
    none = torch.empty(0, dtype=torch.int64)
    if num_nodes is not None:
        return build.sizes(none, none, num_nodes, direction)
    if iter(chunks) is chunks:
        rule = "must be given where chunks can be read but once"
        _check.fail("num_nodes", rule, None, "or pass an object that starts anew")
    largest = -1
    for chunk in chunks:
        row, _ = build.endpoints(_parts(chunk)[0], direction)
        ends = _parts(chunk)[0]
        if row.numel():
            largest = max(largest, int(_check.integers("chunks", ends, 2).max()))
        tick("counting nodes", row.numel())
    return largest + 1, largest + 1


def _parts(chunk: Any) -> tuple[Any, dict[str, Any]]:
    """The edges of a chunk, and what they have beside."""
    if not isinstance(chunk, tuple):
        return chunk, {}
    if len(chunk) != 2 or not isinstance(chunk[1], Mapping):
        rule = "must be edges [2, k], or (edges, {name: values [k]})"
        _check.fail("chunks", rule, _check.shown(chunk))
    return chunk[0], {n: v for n, v in chunk[1].items() if v is not None}


def _stream(
    chunks: Iterable[Any], direction: str, num_rows: int, num_cols: int, ids: bool
) -> Iterator[Edges]:
    """All edges after checks, a bounded piece at a time."""
    seen, kinds = 0, None
    short = np.dtype("<i4" if num_cols < 1 << 31 else "<i8")
    for chunk in chunks:
        given, own = _parts(chunk)
        row, col = build.endpoints(given, direction)
        _check.within("chunks", row, num_rows)
        _check.within("chunks", col, num_cols)
        if set(own) - set(COLUMNS):
            _check.fail("chunks", f"must have no values but {COLUMNS}", sorted(own))
        columns = {
            "edge_weight": build.weights(own.get("edge_weight"), col),
            "edge_time": build.times(own.get("edge_time"), None, col, num_cols),
        }
        plain = {n: v.cpu().numpy() for n, v in columns.items() if v is not None}
        now = {name: values.dtype for name, values in plain.items()}
        kinds = now if kinds is None else kinds
        if now != kinds:
            _check.fail("chunks", f"must all have the same values, {kinds}", now)
        for start in range(0, max(1, row.numel()), PIECE):  # dtypes also of no edges
            part = slice(start, start + PIECE)
            here = row[part].cpu().numpy().astype(np.int64)
            position = np.arange(here.size if ids else 0) + (seen + start)
            values = {name: v[part] for name, v in plain.items()}
            yield Edges(here, col[part].cpu().numpy().astype(short), position, values)
        seen += row.numel()


class _Rows:
    """The arrays of a CompactAdj, written range by range.

    Args:
        num_rows: and the others: of the whole graph.
        kinds: the dtypes of what edges have beside their ends.
    """

    def __init__(
        self,
        num_rows: int,
        num_cols: int,
        total: int,
        kinds: dict[str, np.dtype[Any]],
        edge_ids: bool,
        sort_by_time: bool,
    ) -> None:
        self.num_rows, self.num_cols, self.total = num_rows, num_cols, total
        self.sort_by_time = _check.yes_or_no("sort_by_time", sort_by_time)
        ids = {"edge_id": _plain(ops.id_dtype(total))} if edge_ids else {}
        col = {"col": _plain(ops.id_dtype(num_cols))}
        self.kinds = {"rowptr": np.dtype("<i8"), **col, **ids, **kinds}
        self.names = list(self.kinds)
        self.in_order = edge_ids

    def write(
        self, files: Mapping[str, Path], buckets: Iterator[Bucket], tick: Report
    ) -> dict[str, Any]:
        """Sorts the buckets one by one; returns what the header says of the arrays."""
        with ExitStack() as stack:
            outs = {
                name: _Out(stack.enter_context(open(file, "wb")), self.kinds[name])
                for name, file in files.items()
            }
            outs["rowptr"].add(np.zeros(1, np.int64))
            done = 0
            for bucket in buckets:
                for name, values in self._sorted(bucket, done).items():
                    outs[name].add(values)
                done += bucket.count
                bucket.remove()
                tick("sorting rows", bucket.count)
            for out in outs.values():
                out.sync()
        entries = {name: out.entry(files[name].name) for name, out in outs.items()}
        if self.in_order and "edge_id" in entries:  # as in memory: nothing to tell
            files["edge_id"].unlink()
            del entries["edge_id"]
        return entries

    def _sorted(self, bucket: Bucket, before: int) -> dict[str, Array]:
        """The arrays of the rows of one bucket."""
        size = bucket.last - bucket.first
        if bucket.count == 0:
            return {"rowptr": np.full(size, before)}
        (edges,) = bucket.pieces(bucket.count)
        row = torch.from_numpy(edges.row - bucket.first)
        tensors = {name: torch.from_numpy(v) for name, v in edges.columns.items()}
        rows = build.rows_from_edges(
            row,
            torch.from_numpy(edges.col),
            size,
            self.num_cols,
            tensors.get("edge_weight"),
            tensors.get("edge_time"),
            self.sort_by_time,
        )
        found = {
            "rowptr": rows.rowptr[1:].numpy() + before,
            "col": rows.col.numpy(),
            "edge_weight": rows.edge_weight,
            "edge_time": rows.edge_time,
        }
        if "edge_id" in self.kinds:
            order = rows.edge_id
            ids = edges.position if order is None else edges.position[order.numpy()]
            same = np.arange(before, before + bucket.count)
            self.in_order = self.in_order and np.array_equal(ids, same)
            found["edge_id"] = ids
        return {name: _array(v) for name, v in found.items() if name in self.kinds}


def _array(values: Any) -> Array:
    plain: Array = values.numpy() if isinstance(values, torch.Tensor) else values
    return plain


def _plain(dtype: torch.dtype) -> np.dtype[Any]:
    """What numpy calls a dtype of ids."""
    return np.dtype("<i4" if dtype == torch.int32 else "<i8")


class _Out:
    """A file of one array, with its checksum."""

    def __init__(self, file: IO[bytes], kind: np.dtype[Any]) -> None:
        self._file, self._kind = file, kind.newbyteorder("<")
        self._crc = self._size = 0

    def add(self, values: Array) -> None:
        """Appends numbers."""
        data = np.ascontiguousarray(values, self._kind).data.cast("B")
        self._crc = zlib.crc32(data, self._crc)
        self._size += values.size
        self._file.write(data)

    def sync(self) -> None:
        """Waits until everything is on disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def entry(self, name: str) -> dict[str, Any]:
        """What the header says of the array."""
        kind, length = self._kind.str, self._size
        return {"file": name, "dtype": kind, "length": length, "crc32": self._crc}
