"""A CompactAdj that travels with the data, so that several loaders share it.

It is an attribute of the store that has the edges: `data.to` moves it, copies share it,
and pickling keeps it. Edges may change behind its back, so whoever uses it compares it
with them first, in O(m) and without copying them.
"""

import copy
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data, HeteroData

from gttf_sampler import CompactAdj

NAME = "compact_adj"
CHUNK = 1 << 22  # edges that are compared at a time


class Columns(NamedTuple):
    """What a relation has beside its edges; None for what is not asked for.

    Attributes:
        node_time: of the sources, if rows are to be sorted by it.
        edge_time: of the edges, instead.
        edge_weight: of the edges, if they are to be drawn by weight.
    """

    node_time: Tensor | None = None
    edge_time: Tensor | None = None
    edge_weight: Tensor | None = None


def attached(
    store: Any, size: tuple[int, int], columns: Columns, backward: bool
) -> CompactAdj | None:
    """The rows attached to `store`, if they are what would be built from it now.

    Args:
        store: a `Data`, or what a `HeteroData` has for an edge type.
        size: the numbers of (sources, targets).
        columns: what the rows must have.
        backward: whether the rows are those of the sources.
    """
    node_time, edge_time, weight = columns
    adj = store.get(NAME)
    if not isinstance(adj, CompactAdj) or "edge_index" not in store:
        return None
    index = plain(store["edge_index"])
    row, col = index if backward else index.flip(0)
    if node_time is not None:
        edge_time = node_time[col.to(torch.int64)]
    if weight is None and adj.edge_weight is not None:
        adj = replace(adj, edge_weight=None).trusted()
    shape = size if backward else size[::-1]
    pairs = [(adj.col, col), (adj.edge_weight, weight), (adj.edge_time, edge_time)]
    fits = (adj.num_rows, adj.num_cols) == shape and all(
        (ours is None) == (theirs is None)
        and (ours is None or (ours.shape, ours.device) == (theirs.shape, theirs.device))
        for ours, theirs in pairs
    )
    if not fits:
        return None
    values = [(ours, theirs) for ours, theirs in pairs if ours is not None]
    for part, here in _chunks(adj):
        ids = part if adj.edge_id is None else adj.edge_id[part].to(torch.int64)
        if not torch.equal(row[ids].to(torch.int64), here):
            return None
        if not all(bool((ours[part] == theirs[ids]).all()) for ours, theirs in values):
            return None
    return adj


def plain(edge_index: Tensor) -> Tensor:
    """The tensor that an `EdgeIndex` is, or the one that was given."""
    if isinstance(edge_index, EdgeIndex):
        edge_index = edge_index.as_tensor()
    return edge_index


def detached(data: Any) -> Any:
    """`data` without what was attached; a shallow copy if there was something."""
    if not isinstance(data, Data | HeteroData):
        return data
    if not any(NAME in store for store in data.edge_stores):
        return data
    data = copy.copy(data)
    for store in data.edge_stores:
        if NAME in store:
            del store[NAME]
    return data


def copied(adj: CompactAdj) -> CompactAdj:
    """A copy of rows in memory of their own."""
    own: dict[str, Any] = {name: x.clone() for name, x in adj.arrays().items()}
    return replace(adj, **own).trusted()


def _chunks(adj: CompactAdj) -> Iterator[tuple[slice, Tensor]]:
    """Some rows at a time: their positions in `adj.col`, and the row of each."""
    starts = torch.arange(0, adj.num_edges, CHUNK, device=adj.device)
    bounds = torch.searchsorted(adj.rowptr, starts).unique().tolist()
    for first, last in pairwise([*bounds, adj.num_rows]):
        begin, end = adj.rowptr[[first, last]].tolist()
        rows = torch.arange(first, last, device=adj.device)
        rows = rows.repeat_interleave(adj.degree[first:last], output_size=end - begin)
        yield slice(begin, end), rows
