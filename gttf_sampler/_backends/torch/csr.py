"""Edges sorted by row: the CSR arrays of a graph."""

import torch
from torch import Tensor

from gttf_sampler._backends.torch.rows import id_dtype


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
