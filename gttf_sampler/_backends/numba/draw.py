"""Draws from rows, uniform ones and by mass."""

import numpy as np
import torch
from numba import int64, uint64
from torch import Tensor

from gttf_sampler._backends.memory import empty
from gttf_sampler._backends.numba.rng import (
    ONE,
    below,
    below_wide,
    bits,
    compiled,
)
from gttf_sampler._backends.numba.rows import (
    NUMBERS,
    bisect,
    prefetch_row,
)
from gttf_sampler._backends.threads import parallel
from gttf_sampler._backends.torch.draw import (
    MASS_BITS,
    WeightedRows,
)

_63 = np.uint64(63)
_SHORT = 64  # rows of which it is faster to read all than to search in them


@compiled
def draw_row(stream, start, count, fanout, replace, out, at):
    """Writes the edges drawn from one row; returns how many there are."""
    if count == 0:
        return int64(0)
    first, at = uint64(start), uint64(at)
    if replace:
        for i in range(uint64(fanout)):
            out[at + i] = int64(first + below(bits(stream, i), uint64(count)))
        return int64(fanout)
    if count <= fanout:
        for i in range(uint64(count)):
            out[at + i] = int64(first + i)
        return int64(count)
    spare = uint64(count - fanout)
    for i in range(uint64(fanout)):
        out[at + i] = int64(first + below(bits(stream, i), spare + i + ONE))
    seen = uint64(0)  # a bit for each pick so far: most of them need no second look
    for i in range(uint64(fanout)):
        pick = out[at + i]
        bit = ONE << (uint64(pick) & _63)
        if seen & bit:
            for j in range(i):
                if out[at + j] == pick:
                    pick = int64(first + spare + i)
                    out[at + i] = pick
                    bit = ONE << (uint64(pick) & _63)
                    break
        seen |= bit
    return int64(fanout)


@compiled
def draw_uniform_kernel(lo, hi, stream, count, fanout, replace, out):
    for i in range(lo, hi):
        at = i * fanout
        drawn = draw_row(uint64(stream[i]), 0, count[i], fanout, replace, out, at)
        for j in range(drawn, fanout):
            out[at + j] = -1


@compiled
def scratch_cells(fanout):
    """The number of scratch cells that `draw_row_weighted` needs."""
    return max(fanout, _SHORT)


@compiled
def _draw_short_weighted(stream, row, first, base, fanout, left, taken, out, at):
    """The same draws from the masses of a short row, which are read one by one."""
    total = row[row.size - 1] - base
    for p in range(uint64(row.size)):
        left[p], taken[p] = row[p] - base, 0
        base = row[p]
    drawn = int64(0)
    while drawn < fanout and total > 0:
        word = bits(stream, uint64(drawn))
        target, p = int64(below_wide(word, uint64(total))), uint64(0)
        reached = left[p]
        while reached <= target:
            p += ONE
            reached += left[p]
        total -= left[p]
        left[p], taken[p] = 0, 1
        drawn += 1
    for p in range(uint64(row.size)):
        if taken[p]:
            out[at] = first + int64(p)
            at += 1
    return drawn


@compiled
def draw_row_weighted(
    stream, table, low, high, base, fanout, replace, scratch, out, at
):
    """Writes the edges drawn from one row by mass; returns how many there are.

    `scratch` [2, `scratch_cells`] holds what is gone; see `torch.draw`.
    """
    total = table[uint64(high - 1)] - base if high > low else 0
    if total == 0:
        return int64(0)
    gone, mass = scratch[0], scratch[1]
    if not replace and high - low <= _SHORT:
        row = table[low:high]
        return _draw_short_weighted(stream, row, low, base, fanout, gone, mass, out, at)
    for j in range(fanout):
        word = bits(stream, uint64(j))
        target = int64(below_wide(word, uint64(total)))
        if replace:
            out[at + j] = min(bisect(table, low, high, target + base), high - 1)
            continue
        skipped = int64(0)
        for k in range(uint64(j)):
            skipped += mass[k] * int64(gone[k] <= target)
        position = min(bisect(table, low, high, target + skipped + base), high - 1)
        start = table[uint64(position - 1)] if position > low else base
        own, mine = table[uint64(position)] - start, start - base - skipped
        for k in range(uint64(j)):
            gone[k] -= own * int64(gone[k] > mine)
        gone[j], mass[j] = mine, own
        k = j
        while k > 0 and out[at + k - 1] > position:
            out[at + k] = out[at + k - 1]
            k -= 1
        out[at + k] = position
        total -= own
        if total == 0:
            return int64(j + 1)
    return int64(fanout)


@compiled
def draw_weighted_kernel(
    lo, hi, stream, table, low, high, before, fanout, replace, out
):
    """Draws by mass, with gaps of -1 where there is none left; see `torch.draw`."""
    scratch = np.empty((2, scratch_cells(fanout)), np.int64)
    for i in range(lo, hi):
        soon = min(i + 2, hi - 1)
        prefetch_row(table, low[soon], high[soon])
        own, at = (low[i], min(high[i], table.size), before[i]), i * fanout
        how = fanout, replace, scratch, out, at
        drawn = draw_row_weighted(uint64(stream[i]), table, *own, *how)
        for j in range(drawn, fanout):
            out[at + j] = -1


@compiled
def weight_table_kernel(lo, hi, weight, rowptr, out):
    for row in range(lo, hi):
        start, stop = rowptr[row], rowptr[row + 1]
        top = 0.0
        for e in range(start, stop):
            top = max(top, float(weight[e]))
        length, degree = 0, stop - start
        while degree > 0:
            degree >>= 1
            length += 1
        unit = float(int64(1) << (MASS_BITS - length))
        total = int64(0)
        for e in range(start, stop):
            if weight[e] > 0:
                total += max(int64(float(weight[e]) / top * unit), int64(1))
            out[e] = total


def draw_uniform(stream: Tensor, count: Tensor, fanout: int, replace: bool) -> Tensor:
    """Offsets [w, f]; see `torch.draw`."""
    out = stream.new_empty(stream.numel(), fanout)
    cells = out.view(-1).numpy()
    arrays = stream.numpy(), count.numpy(), fanout, replace, cells
    parallel(draw_uniform_kernel, stream.numel(), out.numel(), *arrays)
    return out


def draw_weighted(
    stream: Tensor, rows: WeightedRows, fanout: int, replace: bool
) -> Tensor:
    """Positions [w, f] drawn by mass; see `torch.draw`."""
    out = stream.new_empty(stream.numel(), fanout)
    arrays = (stream, rows.table, rows.low, rows.high, rows.before)
    parallel(
        draw_weighted_kernel,
        *(stream.numel(), out.numel() * 8),
        *(x.contiguous().numpy() for x in arrays),
        *(fanout, replace, out.view(-1).numpy()),
    )
    return out


def weight_table(weight: Tensor, rowptr: Tensor) -> Tensor:
    """Cumulative integer mass [m] of each row; see `torch.draw`."""
    if weight.dtype not in NUMBERS:
        weight = weight.to(torch.float64)
    out = empty(weight.numel(), torch.int64)
    arrays = weight.contiguous().numpy(), rowptr.numpy(), out.numpy()
    parallel(weight_table_kernel, rowptr.numel() - 1, weight.numel(), *arrays)
    return out
