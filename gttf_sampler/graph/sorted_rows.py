"""The arrays of a graph on disk, range by range of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gttf_sampler import _check
from gttf_sampler._arrays import ArrayWriter, Entry
from gttf_sampler._backends import ops
from gttf_sampler.graph import build
from gttf_sampler.graph.buckets import Bucket

Array = np.ndarray[Any, Any]
Report = Callable[[str, int], None]  # told what is done, and how many edges more


class SortedRows:
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
    ) -> dict[str, Entry]:
        """Sorts the buckets one by one; returns what the header says of the arrays."""
        with ExitStack() as stack:
            outs = {
                name: stack.enter_context(ArrayWriter(file, self.kinds[name]))
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
        entries = {name: out.entry() for name, out in outs.items()}
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
    """The values as numpy has them."""
    plain: Array = values.numpy() if isinstance(values, torch.Tensor) else values
    return plain


def _plain(dtype: torch.dtype) -> np.dtype[Any]:
    """The numpy dtype of ids on disk."""
    return np.dtype("<i4" if dtype == torch.int32 else "<i8")
