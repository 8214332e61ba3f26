"""Draws from rows, uniform ones and by mass.

A search costs operations for every bit of a row's length, and draws without replacement
depend on each other: each is made from the mass that is left. So where asking a device
costs more than arithmetic, all masses of a row are looked at side by side, and a draw
is a running sum and one search.
"""

import sys
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from gttf_sampler._backends.torch.rows import (
    is_free_to_ask,
    positions,
    take,
    upper_bound,
)
from gttf_sampler.random import (
    LOW32,
    below,
    below_wide,
    bits,
    limbs,
    multiply_high,
)

MASS_BITS = 62  # the integer mass of one row of weights stays below 2**MASS_BITS
WHOLE_ROWS = 1 << 22  # entries, of all walkers, that are looked at side by side
NONE_LAST = 1 << 62  # sorts behind every position


def draw_uniform(stream: Tensor, count: Tensor, fanout: int, replace: bool) -> Tensor:
    """Offsets [w, f] in [0, count), uniform; -1 where there is nothing to draw."""
    if replace:
        draw = torch.arange(fanout, device=stream.device)
        offset = below(bits(stream[:, None], draw), count[:, None])
        return offset.masked_fill_((count == 0)[:, None], -1)
    return _draw_distinct(stream, count, fanout)


def _draw_distinct(stream: Tensor, count: Tensor, fanout: int) -> Tensor:
    """Floyd's method: every subset of min(f, count) offsets is equally likely.

    Draw i picks among the first `last` + 1 offsets, and takes `last` itself if its pick
    was taken before. It was if an earlier draw has picked the same, or if the pick is
    the `last` of an earlier draw that had to take that: a chain of draws, each earlier
    than the one before, which is followed in steps of doubling length.
    """
    slot = torch.arange(fanout, device=count.device)
    short = (count <= fanout)[:, None]
    if is_free_to_ask(count):  # elsewhere, that costs more than to draw in vain
        some = positions(~short.view(-1))
        if some.numel() < count.numel():
            every = slot.where(slot < count[:, None], -1)
            if some.numel():
                every[some] = _draw_distinct(stream[some], count[some], fanout)
            return every
    spare = (count - fanout).clamp_(min=0)[:, None]
    last = spare + slot
    pick = below(bits(stream[:, None], slot), last + 1)
    ordered, order = pick.sort(dim=1, stable=True)  # by pick, then by draw
    again = F.pad(ordered[:, 1:] == ordered[:, :-1], (1, 0))
    taken = torch.empty_like(again).scatter_(1, order, again)
    before = pick - spare  # the draw whose `last` was picked: itself, if not an earlier
    before = torch.where(before < 0, slot, before)
    before = F.pad(before.masked_fill_(taken, fanout), (0, 1), value=fanout)
    for _ in range((fanout - 1).bit_length()):
        before = before.gather(1, before)  # a chain that ends beyond all draws is taken
    taken = (before[:, :-1] == fanout).logical_or_(short)
    return last.where(taken, pick).masked_fill_(last >= count[:, None], -1)


def weight_table(weight: Tensor, rowptr: Tensor) -> Tensor:
    """Cumulative integer mass [m] of each row: what `draw_weighted` searches.

    A weight becomes its share of the row's largest one, in units of a power of two
    small enough for the row to sum to less than 2**62: no rounding depends on the order
    of summation. Positive weights keep a positive mass, zero weights get none.
    """
    weight = weight.to(torch.float64)
    degree = rowptr.diff()
    top = torch.segment_reduce(weight, "max", offsets=rowptr, initial=0.0, unsafe=True)
    length = torch.frexp(degree.to(torch.float64)).exponent  # of the degree, in bits
    unit = 1 << (MASS_BITS - length.to(torch.int64))
    top, unit = (
        row.repeat_interleave(degree, output_size=weight.numel()) for row in (top, unit)
    )
    mass = (weight / top).mul_(unit).to(torch.int64).clamp_(min=1)
    mass.masked_fill_(weight <= 0, 0)
    cumulative = mass.cumsum(0)  # wraps around; differences within a row are exact
    before = torch.cat([cumulative.new_zeros(1), cumulative])[rowptr[:-1]]
    return cumulative.sub_(before.repeat_interleave(degree, output_size=mass.numel()))


class WeightedRows(NamedTuple):
    """Parts of rows that are drawn from by mass.

    Attributes:
        table: int64 [m], cumulative mass of the entries of every row.
        low, high: [w], the positions that each walker may take.
        before: [w], the mass of the row in front of `low`.
        longest: no row is longer.
    """

    table: Tensor
    low: Tensor
    high: Tensor
    before: Tensor
    longest: int

    def total(self) -> Tensor:
        """The mass [w] of every part."""
        end = take(self.table, (self.high - 1).clamp_(min=0))
        return (end - self.before).masked_fill_(self.high <= self.low, 0)


def draw_weighted(
    stream: Tensor, rows: WeightedRows, fanout: int, replace: bool
) -> Tensor:
    """Positions [w, f] drawn by mass; -1 for none.

    Without replacement each draw is made from the mass that is left, and positions come
    out in ascending order.
    """
    table, low, longest = rows.table, rows.low, rows.longest
    if table.numel() == 0:
        return low.new_full((low.numel(), fanout), -1)
    if not is_free_to_ask(low) and low.numel() * longest <= WHOLE_ROWS:
        law = _draw_whole_replaced if replace else _draw_whole_distinct
        place = law(stream, _cumulative_rows(rows), fanout)
        return (low[:, None] + place).masked_fill_(place >= longest, -1)
    if not replace:
        return _draw_distinct_weighted(stream, rows, fanout)
    ends = rows.low, rows.high, rows.before, rows.total()
    low, high, before, total = (x[:, None] for x in ends)
    draw = torch.arange(fanout, device=stream.device)
    target = below_wide(bits(stream[:, None], draw), total) + before
    position = upper_bound(table, low, high, target, longest)
    return position.masked_fill(total == 0, -1)


def _draw_distinct_weighted(stream: Tensor, rows: WeightedRows, fanout: int) -> Tensor:
    """Successive sampling: aim into the mass that is left, then step over what is gone.

    `gone` holds the start of every position taken so far, measured in the mass that is
    left in front of it, and `mass` its mass: a target at or beyond `gone` moves on.
    """
    table, low, before, total = rows.table, rows.low, rows.before, rows.total()
    chosen, gone, mass = (total.new_zeros(total.numel(), fanout) for _ in range(3))
    words = bits(stream[:, None], torch.arange(fanout, device=stream.device))
    for i in range(fanout):
        target = below_wide(words[:, i], total)
        skipped = mass[:, :i].where(gone[:, :i] <= target[:, None], 0).sum(1)
        aim = target + skipped + before
        position = upper_bound(table, low, rows.high, aim, rows.longest)
        start = torch.where(
            position > low, take(table, (position - 1).clamp_(min=0)), before
        )
        own = take(table, position.clamp(max=table.numel() - 1)) - start
        own = own.masked_fill_(total == 0, 0)
        mine = (start - before - skipped)[:, None]
        gone[:, :i] -= own[:, None].where(gone[:, :i] > mine, 0)
        gone[:, i], mass[:, i] = mine[:, 0], own
        chosen[:, i] = position.masked_fill(total == 0, NONE_LAST)
        total = total - own
    chosen = chosen.sort(1).values
    return chosen.masked_fill_(chosen == NONE_LAST, -1)


LITTLE = sys.byteorder == "little"
HIGH = 1 if LITTLE else 0  # which half of a word is its upper one


def _cumulative_rows(rows: WeightedRows) -> Tensor:
    """The mass [w, longest] up to every entry of a part, and all of it beyond."""
    slot = torch.arange(rows.longest, device=rows.low.device)
    last = (rows.high - 1).clamp_(min=0)[:, None]
    found = take(rows.table, torch.minimum(rows.low[:, None] + slot, last))
    found.sub_(rows.before[:, None])
    return found.masked_fill_((rows.high <= rows.low)[:, None], 0)


def _draw_whole_replaced(stream: Tensor, ends: Tensor, fanout: int) -> Tensor:
    """Places [w, f] in rows of cumulative mass [w, d]; d where there is no mass."""
    draw = torch.arange(fanout, device=stream.device)
    low, high = limbs(bits(stream[:, None], draw))
    target = multiply_high(low, high, ends[:, -1:])
    return torch.searchsorted(ends, target, right=True)


def _draw_whole_distinct(stream: Tensor, ends: Tensor, fanout: int) -> Tensor:
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
    """Shares of each of the eight bytes of a bound in ⌊word · bound / 2⁶⁴⌋.

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
