"""Edges in tables with named columns: pandas, polars, pyarrow, cuDF, or a dict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.graph.edgelist import EdgeList
from gttf_sampler.graph.names import Array, ids_of, numbered

if TYPE_CHECKING:
    from gttf_sampler.graph.compact import CompactAdj


def edges_of_frame(
    frame: Any, source: str, target: str, weight: str | None, time: str | None
) -> EdgeList:
    """The edges of a table, a row each; nodes are numbered in the order of their ids.

    Nothing is imported: columns of all these libraries can be asked `to_numpy`.
    """
    ends = [
        ids_of(name, _column(frame, name, column))
        for name, column in (("source", source), ("target", target))
    ]
    if len(ends[0]) != len(ends[1]):
        rule = "must have as many entries as 'source'"
        _check.fail("target", rule, f"{len(ends[1])} and {len(ends[0])}")
    edge_index, node_id = numbered(*ends)
    values = [
        None if column is None else _numbers(name, _column(frame, name, column))
        for name, column in (("weight", weight), ("time", time))
    ]
    return EdgeList(edge_index, node_id, *values)


def _column(frame: Any, name: str, column: str) -> Array:
    """One column as numpy has it."""
    if not isinstance(column, str):
        _check.mistyped(name, "must name a column", _check.kind_of(column))
    try:
        found = frame[column]
    except Exception:  # every library has errors of its own for a missing column
        known = getattr(frame, "column_names", None)
        known = list(frame) if known is None and isinstance(frame, dict) else known
        known = list(getattr(frame, "columns", ())) if known is None else list(known)
        _check.fail(name, f"must be one of the columns {known}", repr(column))
    if isinstance(found, Tensor):
        found = found.cpu()
    if hasattr(found, "to_numpy"):
        found = found.to_numpy()
    return np.asarray(found)


def _numbers(name: str, values: Array) -> Tensor:
    """A column of numbers; dates become seconds since 1970."""
    if values.dtype.kind == "M":
        if np.isnat(values).any():
            _check.fail(name, "must have a date in every row", "none in one")
        values = values.astype("datetime64[s]").astype(np.int64)
    if values.dtype.kind not in "iufb":
        _check.mistyped(name, "must be a column of numbers", values.dtype)
    return torch.from_numpy(
        np.ascontiguousarray(
            values.astype(np.int64 if values.dtype.kind in "iub" else np.float64)
        )
    )


def columns_of(adj: CompactAdj, source: str, target: str) -> dict[str, Array]:
    """The edges as named columns, in the caller's order, with ids in place of numbers.

    Args:
        adj: the graph.
        source: name of the column of senders.
        target: name of the column of receivers.
    """
    ends = adj.to_edge_index().cpu().numpy()
    named: dict[str, Array] = {}
    for name, number in ((source, ends[0]), (target, ends[1])):
        named[name] = number if adj.node_id is None else adj.node_id[number]
    for name, values in (("weight", adj.edge_weight), ("time", adj.edge_time)):
        if values is not None:
            named[name] = adj.in_caller_order(values).cpu().numpy()
    return named
