"""Global ids to local ones, in the order of first occurrence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gttf_sampler._backends.torch.rows import take

if TYPE_CHECKING:  # which is made with the help of backends
    from gttf_sampler._backends.memory import NodeTable


def relabel(
    known: Tensor,
    ids: Tensor,
    table: NodeTable | None,
    count: int | Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Local ids [e] of `ids`, and which entries [e] introduce a new node.

    `known` [k] are the nodes that have local ids 0 .. k-1 already (of a repeated one,
    the first counts); new ones are numbered from k on in the order of `ids`. -1 stays
    -1. Without a table, which serves ids beyond any table's size, the ids are sorted.
    If only the first `count` of the `known` are nodes, and -1 the rest, new ones are
    numbered from there on.
    """
    every = torch.cat([known, ids])
    position = torch.arange(every.numel(), device=ids.device)
    first = _first(every, table) if table else _first_sorted(every, position)
    first, position = first[known.numel() :], position[known.numel() :]
    new = (first == position).logical_and_(ids >= 0)
    rank = torch.cat([position.new_zeros(known.numel()), new.cumsum(0)])
    start = known.numel() if count is None else count
    local = take(rank, first).add_(start - 1)
    local = torch.where(first < known.numel(), first, local)
    return local.masked_fill_(ids < 0, -1), new


def _first(ids: Tensor, table: NodeTable) -> Tensor:
    """The position [e] of each id's first occurrence in `ids` [e].

    Its cell in the table is won by the smallest of the numbers that were reserved, and
    what an earlier call left there is larger. The last cell is for those that are -1.
    """
    floor, cells, size = table.reserve(ids.numel()), table.cell, ids.numel()
    cell = ids.masked_fill(ids < 0, cells.numel() - 1)
    own = torch.arange(floor, floor + size, dtype=cells.dtype, device=ids.device)
    cells.scatter_reduce_(0, cell, own, "amin")
    return take(cells, cell).to(torch.int64).sub_(floor)


def _first_sorted(ids: Tensor, position: Tensor) -> Tensor:
    """`_first` by sorting, for ids of any size."""
    ordered, order = ids.sort(stable=True)
    starts = torch.ones_like(ids, dtype=torch.bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    group = position.where(starts, 0).cummax(0).values
    return torch.empty_like(ids).scatter_(0, order, take(order, group))
