"""Rows of a CSR matrix: made of edges, searched and gathered."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gttf_sampler._compat import is_compiling

INT32_MAX = (1 << 31) - 1
MAX_ROW = INT32_MAX  # how long a row can be


def id_dtype(upper: int) -> torch.dtype:
    """The smallest integer type here that holds every id below `upper`."""
    return torch.int32 if upper <= INT32_MAX else torch.int64


def is_free_to_ask(values: Tensor) -> bool:
    """True if nobody has to wait to see the values, neither a host nor a compiler."""
    return values.device.type == "cpu" and not is_compiling()


def expand(start: Tensor, count: Tensor, total: int) -> tuple[Tensor, Tensor]:
    """The ranges [start, start + count) end to end: owner [e] and position [e]."""
    owner = torch.arange(start.numel(), device=start.device)
    owner = owner.repeat_interleave(count, output_size=total)
    shift = (start + count - count.cumsum(0)).index_select(0, owner)
    return owner, shift.add_(torch.arange(total, device=start.device))


def row_range(rowptr: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
    """Start and length [w] of the row of each node; length 0 where it is -1."""
    here = node.clamp(min=0)
    if rowptr.numel() == 1:
        return here, torch.zeros_like(node)
    start = take(rowptr, here)
    count = take(rowptr, here + 1).sub_(start)
    return start, count.masked_fill_(node < 0, 0)


def upper_bound(
    values: Tensor, low: Tensor, high: Tensor, bound: Tensor, longest: int
) -> Tensor:
    """The first position in [low, high) whose value is > bound, else high >= low.

    Binary search in every range at once; `longest` bounds the length of a range. The
    part that is known to be <= bound grows by steps of half the length each.
    """
    if values.numel() == 0:
        return low
    known, top = low - 1, (high - 1).clamp_(min=0)
    for bit in reversed(range(longest.bit_length())):
        probe = torch.minimum(known + (1 << bit), top)
        known = torch.where(take(values, probe) <= bound, probe, known)
    return torch.minimum(known.add_(1), high)


def take(values: Tensor, index: Tensor) -> Tensor:
    """values[index] for an index of any shape: index_select is the fastest gather."""
    return values.index_select(0, index.reshape(-1)).view(index.shape)


def take_or_none(values: Tensor, index: Tensor) -> Tensor:
    """values[index] as int64, and -1 where the index is -1."""
    if values.numel() == 0:
        return torch.full_like(index, -1)
    found = take(values, index.clamp(min=0)).to(torch.int64)
    return found.masked_fill_(index < 0, -1)


def positions(mask: Tensor) -> Tensor:
    """The positions where `mask`, on the CPU, holds; numpy is ten times faster."""
    return torch.from_numpy(np.flatnonzero(mask.numpy()))


def has_edge(
    rowptr: Tensor, sorted_col: Tensor, source: Tensor, target: Tensor, longest: int
) -> Tensor:
    """True [w] where row `source` holds `target`; columns ascend within every row."""
    if sorted_col.numel() == 0:
        return torch.zeros_like(source, dtype=torch.bool)
    low, high = take(rowptr, source), take(rowptr, source + 1)
    position = upper_bound(sorted_col, low, high, target - 1, longest)
    value = take(sorted_col, position.clamp(max=sorted_col.numel() - 1))
    return (position < high).logical_and_(value == target)


def edge_filter(rowptr: Tensor, col: Tensor) -> Tensor | None:
    """A filter by which a backend denies most absent edges without a search.

    Here, None: other backends know what they store.
    """
    return None


def group_by_row(
    row: Tensor, col: Tensor, num_rows: int, num_cols: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Row pointer [n+1], columns [m] row by row, and where each edge stood before [m].

    The order within a row is kept; None says that all edges stay where they are. Torch
    sorts integers by radix, on the CPU and on GPUs: linear time.
    """
    row, col = row.to(id_dtype(num_rows)), col.to(id_dtype(num_cols))
    rowptr = row.new_zeros(num_rows + 1, dtype=torch.int64)
    torch.cumsum(row.bincount(minlength=num_rows), 0, out=rowptr[1:])
    if row.numel() < 2 or bool((row[1:] >= row[:-1]).all()):
        return rowptr, col.contiguous(), None
    order = row.sort(stable=True).indices.to(id_dtype(row.numel()))
    return rowptr, col.index_select(0, order), order


def both_ways(
    row: Tensor, col: Tensor, num_nodes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Edges and their reverses, each pair of nodes once, sorted by (col, row).

    With them comes which edge [e] each was; of several, the first one that was given in
    its own direction.
    """
    edge = torch.arange(row.numel(), device=row.device).repeat(2)
    row, col = torch.cat([row, col]), torch.cat([col, row])
    pair, order = (col * num_nodes + row).sort(stable=True)
    first = torch.ones_like(pair, dtype=torch.bool)
    first[1:] = pair[1:] != pair[:-1]
    order = order[first]
    return row[order], col[order], edge[order]


def compress(mask: Tensor, size: int) -> Tensor:
    """The `size` positions where `mask` holds, without asking the device for `size`."""
    if is_free_to_ask(mask):
        return positions(mask)
    number = torch.arange(1, size + 1, device=mask.device)
    return torch.searchsorted(mask.cumsum(0), number)
