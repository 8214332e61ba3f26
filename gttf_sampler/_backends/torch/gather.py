"""Rows of features, copied to where a batch wants them."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Move(NamedTuple):
    """Rows to copy, and where they are written; all of it is contiguous.

    Attributes:
        values: [n, ...] each; their rows are counted end to end.
        row: int64 [k], which rows; None for all of them.
        out: [m, ...].
        to: int64 [k], which rows of `out` they become; None for the first k.
        gaps: whether negative rows are left out.
    """

    values: Sequence[Tensor]
    row: Tensor | None
    out: Tensor
    to: Tensor | None = None
    gaps: bool = False

    @property
    def plain(self) -> bool:
        """True if row i of `out` becomes row[i], for all of them."""
        return self.to is None and not self.gaps


class Moves(NamedTuple):
    """Rows to be gathered.

    Attributes:
        device: where all of it is.
        columns: any number of them.
    """

    device: torch.device
    columns: list[Move]


def gather(moves: Moves) -> list[Tensor]:
    """Rows [k, ...] of every column's values [n, ...], written to where they belong."""
    for move in moves.columns:
        if len(move.values) == 1 and move.row is not None and move.plain:
            torch.index_select(move.values[0], 0, move.row, out=move.out)
        else:
            _gather_pieces(move)
    return [move.out for move in moves.columns]


def _gather_pieces(move: Move) -> None:
    """One column of `gather`, piece by piece."""
    total = sum(values.shape[0] for values in move.values)
    row = torch.arange(total) if move.row is None else move.row
    place = torch.arange(row.numel()) if move.to is None else move.to
    least = row.min() if row.numel() and not move.gaps else 0
    if least < 0 or (row.numel() and row.max() >= total):
        raise IndexError("an index is out of range")
    first = 0
    for values in move.values:
        here = ((row >= first) & (row < first + values.shape[0])).nonzero().view(-1)
        move.out[place[here]] = values[row[here] - first]
        first += values.shape[0]
