"""SNAP's edge lists, as many edges as LiveJournal has."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from examples.reproduce.data import Graph
from examples.reproduce.datasets import text
from gttf_sampler.embedding import largest_component

Array = np.ndarray[Any, Any]


def read(name: str, files: list[Path]) -> Graph:
    """The largest component of a graph, its nodes numbered from 0.

    Pieces are kept in 32 bits while ids allow it. Finding the component takes the most
    memory, some 80 bytes per edge: under 6 GB for the 69 million of LiveJournal.
    """
    parts = [_narrow(part) for part in text.pieces(files[0], np.int64, columns=2)]
    if not parts:
        raise ValueError(f"{files[0]} must hold at least one edge")
    ends = np.concatenate(parts)
    del parts
    edge_index = torch.empty(2, len(ends), dtype=torch.int64)
    for place, column in enumerate(_numbered(ends)):
        edge_index[place] = torch.from_numpy(column)
    del ends
    kept, node = largest_component(edge_index)
    return Graph(name, kept, node.numel())


def _narrow(edges: Array) -> Array:
    """Ids [m, 2], in 32 bits if they fit."""
    return edges.astype(np.int32) if np.abs(edges).max() < 1 << 31 else edges


def _numbered(ends: Array) -> Iterator[Array]:
    """Nodes [m] in place of ids, sources and targets; small ids need no sorting."""
    if ends.dtype == np.int32 and ends.min() >= 0:
        known = np.zeros(int(ends.max()) + 1, bool)
        known[ends] = True
        number = known.cumsum() - 1
        yield from (number[column] for column in ends.T)
    else:
        yield from np.unique(ends, return_inverse=True)[1].reshape(ends.shape).T
