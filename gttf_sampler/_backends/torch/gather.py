"""Rows of features, copied to where a batch wants them."""

import torch
from torch import Tensor

from gttf_sampler._backends.types import (
    Move,
    Moves,
)


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
