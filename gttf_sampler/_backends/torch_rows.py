"""Draws by mass from rows that are looked at whole: few operations, nobody asks.

A search costs operations for every bit of a row's length, and draws without replacement
depend on each other: each is made from the mass that is left. With all masses of a row
side by side, a draw is a running sum and one search.
"""

import sys

import torch
from torch import Tensor

from gttf_sampler.random import LOW32, bits, limbs, multiply_high

LITTLE = sys.byteorder == "little"
HIGH = 1 if LITTLE else 0  # which half of a word is its upper one


def cumulative_rows(
    table: Tensor, low: Tensor, high: Tensor, before: Tensor, longest: int
) -> Tensor:
    """The mass [w, longest] up to every entry of [low, high), and all of it beyond."""
    slot = torch.arange(longest, device=low.device)
    last = (high - 1).clamp_(min=0)[:, None]
    at = torch.minimum(low[:, None] + slot, last)
    found = table.index_select(0, at.view(-1)).view(at.shape)
    return found.sub_(before[:, None]).masked_fill_((high <= low)[:, None], 0)


def draw_replaced(stream: Tensor, ends: Tensor, fanout: int) -> Tensor:
    """Places [w, f] in rows of cumulative mass [w, d]; d where there is no mass."""
    draw = torch.arange(fanout, device=stream.device)
    low, high = limbs(bits(stream[:, None], draw))
    target = multiply_high(low, high, ends[:, -1:])
    return torch.searchsorted(ends, target, right=True)


def draw_distinct(stream: Tensor, ends: Tensor, fanout: int) -> Tensor:
    """Without replacement, ascending: every draw from the mass that is left."""
    longest = ends.shape[1]
    mass = torch.nn.functional.pad(ends, (0, 1))  # one more, which is never there
    mass[:, 1:longest] -= ends[:, :-1]
    draw = torch.arange(fanout, device=stream.device)
    parts = _byte_products(bits(stream[:, None], draw))  # [w, f, 3, 8]
    chosen = []
    for i in range(fanout):
        left = mass.cumsum(1)
        target = _below_bytes(parts[:, i], left[:, -1:])
        place = torch.searchsorted(left, target, right=True).clamp_(max=longest)
        mass.scatter_(1, place, 0)
        chosen.append(place)
    return torch.cat(chosen, dim=1).sort(1).values


def _byte_products(word: Tensor) -> Tensor:
    """What each of the eight bytes of a bound counts in ⌊word · bound / 2⁶⁴⌋.

    Returns [..., 3, 8]: whole units, and 2⁻³² and 2⁻⁶⁴ of one; the order of bytes is
    that of memory.
    """
    shift = torch.arange(0, 64, 8, device=word.device)
    shift = shift if LITTLE else shift.flip(0)
    word = word[..., None]
    whole = (word >> (64 - shift).clamp_(max=63)) & ~(shift.new_full((), -1) << shift)
    rest = word << shift
    return torch.stack([whole, (rest >> 32) & LOW32, rest & LOW32], dim=-2)


def _below_bytes(parts: Tensor, bound: Tensor) -> Tensor:
    """⌊word · bound / 2⁶⁴⌋ [w, 1], in four operations: bytes and halves are views."""
    sums = (parts * bound.view(torch.uint8)[:, None]).sum(2)  # [w, 3], none has 2⁴⁴
    carried = sums[:, 1:2] + sums[:, 2:].view(torch.int32)[:, HIGH, None]
    return sums[:, :1] + carried.view(torch.int32)[:, HIGH, None]
