"""Rows from edges that come in chunks, more of them than memory holds.

A counting sort in two passes over the disk. The first appends every edge to a file of
its range of rows; the second sorts these files in memory, one after the other, and
writes the rows behind one another. A range that does not fit is split once more.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gttf_sampler import _check
from gttf_sampler._arrays import Entry
from gttf_sampler._backends import memory
from gttf_sampler.graph import build, storage
from gttf_sampler.graph.buckets import (
    BUCKETS,
    PIECE,
    Bucket,
    Edges,
    make_buckets,
    spread,
)
from gttf_sampler.graph.sorted_rows import Report, SortedRows

COLUMNS = ("edge_weight", "edge_time")
COST = 80  # bytes that an edge takes while its range is sorted, measured
USUAL = 1 << 31  # bytes of memory, where there are as many to spare


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
    target = storage.check_free(path, overwrite)
    most = _edges_at_a_time(nbytes)
    home = target.absolute().parent if tmp is None else _check.path("tmp", tmp)
    num_rows, num_cols = _sizes(chunks, num_nodes, direction, tick)
    home.mkdir(parents=True, exist_ok=True)
    _check_space(num_rows, home, num_nodes is None)
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
        rows = SortedRows(num_rows, num_cols, total, kinds, edge_ids, sort_by_time)
        facts = {"num_cols": num_cols, "direction": direction}

        def write(files: Mapping[str, Path]) -> dict[str, Entry]:
            return rows.write(files, _small_enough(buckets, most), tick)

        storage.replace(path, rows.names, facts, overwrite, write)


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


def _edges_at_a_time(nbytes: int | None) -> int:
    """The number of edges that are sorted at a time."""
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
