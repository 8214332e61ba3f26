"""Sorts edges into the rows of a CompactAdj, in linear time: in memory, or on disk.

Edges that come in chunks, more of them than memory holds, take a counting sort in two
passes over the disk. The first appends every edge to a bucket, a file of its range of
rows; the second sorts these files in memory, one after the other, and writes the rows
behind one another. A range that does not fit is split once more.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._arrays import Array, ArrayWriter, Entry
from gttf_sampler._backends import memory, ops
from gttf_sampler.graph import storage


class Rows(NamedTuple):
    """The arrays of a CompactAdj; see there."""

    rowptr: Tensor
    col: Tensor
    edge_id: Tensor | None
    edge_weight: Tensor | None
    edge_time: Tensor | None


def endpoints(edge_index: Any, direction: str) -> tuple[Tensor, Tensor]:
    """(row, col) [m]: the node where a walker stands and the one it may go to."""
    edge_index = _check.integers("edge_index", edge_index, rank=2)
    if edge_index.shape[0] != 2:
        cure = "transpose it: edge_index.t()" if edge_index.shape[1] == 2 else ""
        shape = list(edge_index.shape)
        _check.fail("edge_index", "must have shape [2, m]", shape, cure)
    source, target = edge_index[0], edge_index[1]
    return (target, source) if direction == "in" else (source, target)


def sizes(row: Tensor, col: Tensor, num_nodes: Any, direction: str) -> tuple[int, int]:
    """(num_rows, num_cols), from `num_nodes` or from the largest ids."""
    if num_nodes is None:
        largest = [int(ids.max()) if ids.numel() else -1 for ids in (row, col)]
        return max(largest) + 1, max(largest) + 1
    if isinstance(num_nodes, tuple):
        if len(num_nodes) != 2:
            rule = "must be one number, or (sources, targets)"
            _check.fail("num_nodes", rule, num_nodes)
        sources, targets = (_check.nodes("num_nodes", size) for size in num_nodes)
        return (targets, sources) if direction == "in" else (sources, targets)
    size = _check.nodes("num_nodes", num_nodes)
    return size, size


def weights(value: Any, col: Tensor) -> Tensor | None:
    """Checked weights beside the entries of `col`, if there are any."""
    if value is None:
        return None
    return _check.weights("edge_weight", value, col.numel()).to(col.device)


def times(edge_time: Any, node_time: Any, col: Tensor, num_cols: int) -> Tensor | None:
    """Checked times beside the entries of `col`, if there are any."""
    if node_time is not None:
        if edge_time is not None:
            _check.fail("node_time", "excludes 'edge_time'", "both")
        time = _check.times("node_time", node_time, num_cols, "node")
        return time.to(col.device).index_select(0, col)
    if edge_time is None:
        return None
    return _check.times("edge_time", edge_time, col.numel(), "edge").to(col.device)


def rows_from_edges(
    row: Tensor,
    col: Tensor,
    num_rows: int,
    num_cols: int,
    weight: Tensor | None,
    time: Tensor | None,
    sort_by_time: bool,
) -> Rows:
    """Sorts the edges by row, stably, and inside a row by time if asked to."""
    earlier, given = None, col
    if _check.yes_or_no("sort_by_time", sort_by_time) and time is not None:
        earlier = time.sort(stable=True).indices
        row, col = row.index_select(0, earlier), col.index_select(0, earlier)
    rowptr, col, order = ops.group_by_row(row, col, num_rows, num_cols)
    if earlier is not None:
        order = earlier if order is None else earlier.index_select(0, order)
        sorted_already = bool((order[1:] > order[:-1]).all())
        order = None if sorted_already else order.to(ops.id_dtype(order.numel()))
    if col.data_ptr() == given.data_ptr():  # the caller may change it later
        col = col.clone()
    return Rows(rowptr, col, order, _ordered(weight, order), _ordered(time, order))


def _ordered(values: Tensor | None, order: Tensor | None) -> Tensor | None:
    """A copy of the values in the order of the rows."""
    if values is None:
        return None
    return values.clone() if order is None else values.index_select(0, order)


COLUMNS = ("edge_weight", "edge_time")
COST = 80  # bytes that an edge takes while its range is sorted, measured
USUAL = 1 << 31  # bytes of memory, where there are as many to spare
PIECE = 1 << 20  # edges that are moved at a time
SPAN = 1 << 32  # positions that a segment can tell apart
BUCKETS = 128  # files that are written to at a time

Report = Callable[[str, int], None]  # called with what is done, and how many edges more


class Edges(NamedTuple):
    """Some edges, in the order in which they came."""

    row: Array  # int64 [k], where a walker stands
    col: Array  # [k], where it may go
    position: Array  # int64 [k], among all edges; empty if not needed
    columns: dict[str, Array]  # what edges have beside, by name

    def take(self, some: Array | slice) -> Edges:
        """Some of the edges."""
        position = self.position[some] if self.position.size else self.position
        columns = {name: values[some] for name, values in self.columns.items()}
        return Edges(self.row[some], self.col[some], position, columns)


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
        base = int(edges.position[0]) if edges.position.size else 0
        if edges.position.size and edges.position[-1] - base >= SPAN:
            half = edges.position.size // 2
            for some in (slice(half), slice(half, None)):
                self.add(edges.take(some))
            return
        fields = {"row": edges.row - self.first, "col": edges.col, **edges.columns}
        if edges.position.size:
            fields["position"] = edges.position - base
        if self._kind is None:
            small = {"row": np.dtype("<u4"), "position": np.dtype("<u4")}
            kinds = [(name, small.get(name, v.dtype)) for name, v in fields.items()]
            self._kind = np.dtype(kinds)
        if self._out is None:
            self._out = open(self.file, "ab", buffering=0)  # noqa: SIM115 - until `close`
        records = np.empty(edges.row.size, self._kind)
        for name, values in fields.items():
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
                own = {name: got[name].copy() for name in self._kind.names or ()}
                row = own.pop("row").astype(np.int64) + self.first
                position = own.pop("position", np.empty(0)).astype(np.int64)
                if position.size:
                    position += bases[start : start + count]
                yield Edges(row, own.pop("col"), position, own)

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


def make_buckets(folder: Path, first: int, last: int, parts: int) -> list[Bucket]:
    """Buckets for rows `first` to `last`, which take no more than 2³² rows each."""
    parts = max(1, min(max(parts, (last - first >> 32) + 1), last - first))
    step = -(-(last - first) // parts)
    starts = range(first, last, step) if last > first else [first]
    pairs = ((start, min(start + step, last)) for start in starts)
    return [Bucket(folder / f"{start}-{end}", start, end) for start, end in pairs]


def spread(edges: Edges, buckets: list[Bucket]) -> None:
    """Appends every edge to the bucket of its row; their order stays."""
    first, step = buckets[0].first, buckets[0].last - buckets[0].first
    which = ((edges.row - first) // max(1, step)).astype(np.uint16)
    order = np.argsort(which, kind="stable")
    ends = np.bincount(which, minlength=len(buckets)).cumsum()
    for bucket, some in zip(buckets, np.split(order, ends[:-1]), strict=True):
        if some.size:
            bucket.add(edges.take(some))


def rows_on_disk(
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
    target = storage.check_free(path, overwrite)
    if nbytes is None:
        room = memory.room()
        nbytes = USUAL if room is None else min(USUAL, room // 2)
    most = max(1, _check.count("memory", nbytes) // COST)  # edges sorted at a time
    home = target.absolute().parent if tmp is None else _check.path("tmp", tmp)
    num_rows, num_cols = _sizes(chunks, num_nodes, direction, tick)
    home.mkdir(parents=True, exist_ok=True)
    _check_space(num_rows, home, num_nodes is None)
    with tempfile.TemporaryDirectory(prefix=".gttf-build-", dir=home) as folder:
        buckets = make_buckets(Path(folder), 0, num_rows, BUCKETS)
        try:
            columns: dict[str, np.dtype[Any]] = {}
            total = 0
            for edges in _stream(chunks, direction, num_rows, num_cols, edge_ids):
                columns = {name: values.dtype for name, values in edges.columns.items()}
                spread(edges, buckets)
                total += edges.row.size
                tick("reading edges", edges.row.size)
        finally:
            for bucket in buckets:
                bucket.close()
        kinds = {"rowptr": np.dtype("<i8"), "col": _id_kind(num_cols)}
        if edge_ids:
            kinds["edge_id"] = _id_kind(total)
        rows = SortedRows(kinds | columns, num_cols, sort_by_time)
        facts = {"num_cols": num_cols, "direction": direction}

        def write(files: Mapping[str, Path]) -> dict[str, Entry]:
            return rows.write(files, _small_enough(buckets, most), tick)

        storage.replace(path, rows.kinds, facts, overwrite, write)


def _check_space(num_rows: int, home: Path, counted: bool) -> None:
    """Refuses more rows than the disk has room for: an id that is no node, mostly."""
    needed, free = 8 * (num_rows + 1), shutil.disk_usage(home).free
    if needed <= free:
        return
    rule = f"must ask for rows that fit on the disk, {free:,} bytes now"
    if counted:
        got = f"id {num_rows - 1}, whose row pointer takes {needed:,} bytes"
        _check.fail("chunks", rule, got, "number the nodes from 0")
    _check.fail("num_nodes", rule, f"{needed:,} bytes for {num_rows} rows")


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
        return sizes(none, none, num_nodes, direction)
    if iter(chunks) is chunks:
        rule = "must be given where chunks can be read but once"
        _check.fail("num_nodes", rule, None, "or pass an object that starts anew")
    largest = -1
    for chunk in chunks:
        ends = _parts(chunk)[0]
        row, _ = endpoints(ends, direction)
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
    short = _id_kind(num_cols)
    for chunk in chunks:
        given, own = _parts(chunk)
        row, col = endpoints(given, direction)
        _check.within("chunks", row, num_rows)
        _check.within("chunks", col, num_cols)
        if set(own) - set(COLUMNS):
            _check.fail("chunks", f"must have no values but {COLUMNS}", sorted(own))
        columns = {
            "edge_weight": weights(own.get("edge_weight"), col),
            "edge_time": times(own.get("edge_time"), None, col, num_cols),
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


def _id_kind(upper: int) -> np.dtype[Any]:
    return np.dtype("<i4" if ops.id_dtype(upper) == torch.int32 else "<i8")


class SortedRows(NamedTuple):
    """The arrays of a CompactAdj on disk, sorted and written range by range."""

    kinds: dict[str, np.dtype[Any]]  # of every array, by name
    num_cols: int
    sort_by_time: bool

    def write(
        self, files: Mapping[str, Path], buckets: Iterator[Bucket], tick: Report
    ) -> dict[str, Entry]:
        """Sorts the buckets one by one; returns what the header says of the arrays."""
        done, in_order = 0, True
        with ExitStack() as stack:
            outs = {
                name: stack.enter_context(ArrayWriter(file, self.kinds[name]))
                for name, file in files.items()
            }
            outs["rowptr"].add(np.zeros(1, np.int64))
            for bucket in buckets:
                found = self._sorted(bucket, done)
                for name, values in found.items():
                    outs[name].add(values)
                if "edge_id" in found:
                    same = np.arange(done, done + bucket.count)
                    in_order = in_order and np.array_equal(found["edge_id"], same)
                done += bucket.count
                bucket.remove()
                tick("sorting rows", bucket.count)
        entries = {name: out.entry() for name, out in outs.items()}
        if in_order and "edge_id" in entries:  # as in memory: nothing to tell
            files["edge_id"].unlink()
            del entries["edge_id"]
        return entries

    def _sorted(self, bucket: Bucket, before: int) -> dict[str, Array]:
        size = bucket.last - bucket.first
        if bucket.count == 0:
            return {"rowptr": np.full(size, before)}
        (edges,) = bucket.pieces(bucket.count)
        own = {name: torch.from_numpy(v) for name, v in edges.columns.items()}
        rows = rows_from_edges(
            torch.from_numpy(edges.row - bucket.first),
            torch.from_numpy(edges.col),
            size,
            self.num_cols,
            own.get("edge_weight"),
            own.get("edge_time"),
            self.sort_by_time,
        )
        found = {n: v.numpy() for n, v in rows._asdict().items() if v is not None}
        found["rowptr"] = found["rowptr"][1:] + before
        order = found.get("edge_id", slice(None))
        if "edge_id" in self.kinds:
            found["edge_id"] = edges.position[order]
        return {name: found[name] for name in self.kinds}
