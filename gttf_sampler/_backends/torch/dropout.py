"""Dropout by a mask that is a function of a key, the row and the column."""

import torch
from torch import Tensor

from gttf_sampler.random import Key, bits, stream


def drop(x: Tensor, key: Key, p: float) -> Tensor:
    """`x` with numbers 0 with probability `p`, and divided by 1 − p otherwise.

    A row has a stream of random words, of which every two columns share one: the column
    c keeps its number if half c % 2 of word c // 2, as int32, is at least `least_kept`.

    Args:
        x: floats [..., columns].
        key: of the mask.
        p: in (0, 1].
    """
    rows = x.reshape(-1, x.shape[-1]) if x.dim() else x.view(1, 1)
    count, width = rows.shape
    row = torch.arange(count, device=x.device)
    word = torch.arange(-(-width // 2), device=x.device)
    halves = bits(stream(key, row).unsqueeze(1), word).view(torch.int32)
    kept = halves[:, :width] >= least_kept(p)
    made = torch.where(kept, rows * factor(p), rows.new_zeros(()))
    return made.view(x.shape)


def least_kept(p: float) -> int:
    """The least int32 whose number stays, so that a share of 1 − p does."""
    return min(round(p * (1 << 32)), (1 << 32) - 1) - (1 << 31)


def factor(p: float) -> float:
    """The factor of numbers that stay: 0 if none is to."""
    return 1 / (1 - p) if p < 1 else 0.0
