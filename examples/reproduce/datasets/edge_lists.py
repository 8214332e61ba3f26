"""SNAP's edge lists, as many edges as LiveJournal has."""

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

    Pieces are kept in 32 bits while ids allow it: 69 million edges take 0.6 GB, and
    1.1 GB when they are done.
    """
    parts = [_narrow(part) for part in text.pieces(files[0], np.int64, columns=2)]
    if not parts:
        raise ValueError(f"{files[0]} must hold at least one edge")
    ends = np.concatenate(parts)
    del parts
    edge_index = torch.from_numpy(_numbered(ends).T.copy())
    del ends
    kept, node = largest_component(edge_index)
    return Graph(name, kept, node.numel())


def _narrow(edges: Array) -> Array:
    """Ids [m, 2], in 32 bits if they fit."""
    return edges.astype(np.int32) if np.abs(edges).max() < 1 << 31 else edges


def _numbered(ends: Array) -> Array:
    """Nodes [m, 2] in place of ids, in their order; small ids need no sorting."""
    if ends.dtype == np.int32 and ends.min() >= 0:
        known = np.zeros(int(ends.max()) + 1, bool)
        known[ends] = True
        return (known.cumsum() - 1)[ends]
    return np.unique(ends, return_inverse=True)[1].reshape(ends.shape)
