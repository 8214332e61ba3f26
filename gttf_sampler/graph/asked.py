"""Graphs in files, with the weights and times that are asked for and no others."""

from __future__ import annotations

import os

from gttf_sampler import _check
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.graph.files import read_edges, read_graph


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a file of edges whose columns one may take or leave."""
    file = _check.path("path", path)
    return not file.is_dir() and file.suffix != ".npz"


def read_asked(
    path: str | os.PathLike[str], weight: str | None = None, time: str | None = None
) -> CompactAdj:
    """A graph for whoever needs its structure; see `read_graph`.

    A third column of numbers may be anything, also less than zero. It becomes weights
    if these are asked for; arrays in an .npz file or a directory have names, and stay.

    Args:
        path: see `read_graph`.
        weight: the argument that asks for weights, or None if none does.
        time: the argument that asks for times, or None.
    """
    if not is_table(path):
        return read_graph(path)
    edges = read_edges(path)
    for name, what, column in (
        (weight, "third column of numbers", edges.weight),
        (time, "column of numbers called 'time'", edges.time),
    ):
        if name is not None and column is None:
            rule = f"must be left out where edges have no {what}"
            _check.fail(name, rule, str(path))
    edges = edges._replace(
        weight=None if weight is None else edges.weight,
        time=None if time is None else edges.time,
    )
    return CompactAdj.from_edges(edges)
