"""First occurrences of ids, by which nodes get their local ones."""

import torch
from torch import Tensor

from gttf_sampler._backends.torch.rows import is_free_to_ask, positions, take


def first_position(ids: Tensor, table: Tensor, floor: int) -> Tensor:
    """Position [e] of each id's first occurrence in `ids` [e].

    `table` [n + 1] holds nothing below `floor` + e on entry: its cells are won by
    the smallest position, and what an earlier call left there is larger. The last cell
    takes the entries that are -1.
    """
    cell = ids.masked_fill(ids < 0, table.numel() - 1)
    position = torch.arange(
        floor, floor + ids.numel(), dtype=table.dtype, device=ids.device
    )
    table.scatter_reduce_(0, cell, position, "amin")
    return take(table, cell).to(torch.int64).sub_(floor)


def first_position_sorted(ids: Tensor) -> Tensor:
    """`first_position` by sorting, for ids of any size."""
    ordered, order = ids.sort(stable=True)
    position = torch.arange(ids.numel(), device=ids.device)
    starts = torch.ones_like(ids, dtype=torch.bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    group = position.where(starts, 0).cummax(0).values
    return torch.empty_like(ids).scatter_(0, order, take(order, group))


def compress(mask: Tensor, size: int) -> Tensor:
    """The `size` positions where `mask` holds, without asking the device for `size`."""
    if is_free_to_ask(mask):
        return positions(mask)
    number = torch.arange(1, size + 1, device=mask.device)
    return torch.searchsorted(mask.cumsum(0), number)
