"""Edges in tables with named columns: pandas, polars, pyarrow, cuDF, or a dict."""

from __future__ import annotations

import datetime
import decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.graph import cells
from gttf_sampler.graph.edgelist import EdgeList
from gttf_sampler.graph.names import Array, ids_of, numbered

if TYPE_CHECKING:
    from gttf_sampler.graph.compact import CompactAdj


def edges_of_frame(
    frame: Any,
    source: str,
    target: str,
    weight: str | None,
    time: str | None,
    dates: str | None = None,
) -> EdgeList:
    """The edges of a table, a row each; nodes are numbered in the order of their ids.

    Nothing is imported: columns of all these libraries can be asked `to_numpy`.

    Args:
        frame: the table.
        source: name of the column of senders.
        target: name of the column of receivers.
        weight: name of the column of weights, or None.
        time: name of the column of times, or None.
        dates: the format of times that are words; None for ISO 8601.
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
        None if column is None else _numbers(name, _column(frame, name, column), form)
        for name, column, form in (("weight", weight, None), ("time", time, dates))
    ]
    return EdgeList(edge_index, node_id, values[0], values[1])


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


def _numbers(name: str, values: Array, dates: str | None) -> Tensor:
    """A column of numbers; dates, also those in words, become seconds since 1970."""
    if values.dtype.kind == "O" and _are_numbers(values):
        values = values.astype(np.float64)
    elif values.dtype.kind in ("M" if name == "weight" else "OMTU"):
        values = _seconds(name, values, dates)
    if values.dtype.kind not in "iufb":
        _check.mistyped(name, "must be a column of numbers", values.dtype)
    return torch.from_numpy(
        np.ascontiguousarray(
            values.astype(np.int64 if values.dtype.kind in "iub" else np.float64)
        )
    )


def _are_numbers(values: Array) -> bool:
    """Whether entries are decimals, or numbers of several kinds."""
    return bool(len(values)) and all(
        isinstance(entry, int | float | decimal.Decimal) for entry in values.tolist()
    )


def _seconds(name: str, values: Array, dates: str | None) -> Array:
    """Dates of numpy or Python, or words that are dates, as seconds since 1970."""
    if values.dtype.kind == "M":
        if np.isnat(values).any():
            _check.fail(name, "must have a date in every row", "none in one")
        return cells.seconds_of(values)
    entries = values.tolist()
    if entries and all(isinstance(entry, datetime.date) for entry in entries):
        if any(entry != entry for entry in entries):  # pandas' NaT
            _check.fail(name, "must have a date in every row", "none in one")
        return cells.seconds_of(entries)
    if not entries or not all(isinstance(entry, str) for entry in entries):
        kinds = sorted({type(entry).__name__ for entry in entries})
        _check.mistyped(name, "must be a column of numbers or of dates", kinds)
    try:
        if dates is not None:
            return cells.moments(entries, dates)
        return cells.iso_seconds(entries)
    except ValueError as error:
        cure = "name their format" if dates is None else ""
        _check.fail(name, "must hold numbers or dates", error, cure)


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
