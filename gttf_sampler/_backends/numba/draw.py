"""Draws from rows, uniform ones and by mass, and walks of uniform draws.

All depths of a block of seeds are walked in one pass.
"""

import numpy as np
import torch
from numba import int64, uint64
from torch import Tensor

from gttf_sampler._backends.memory import IDS, empty
from gttf_sampler._backends.numba.rng import (
    GOLDEN,
    ONE,
    below,
    below_wide,
    bits,
    compiled,
    mix,
    words,
)
from gttf_sampler._backends.numba.rows import (
    NUMBERS,
    bisect,
    empty_if_outside,
    parallel_inside,
    prefetch_row,
    replace_outside,
)
from gttf_sampler._backends.threads import parallel
from gttf_sampler._backends.torch.draw import (
    MASS_BITS,
    ForestSpec,
    Levels,
    WeightedRows,
)
from gttf_sampler.random import Key

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


_ANY = 1 << 62  # more than there are nodes
_BLOCK = 64  # seeds that walk side by side, to wait for memory together


@compiled
def find_rows(rowptr, edges, node, start, count, changed):
    """The row of every node; nothing here waits for anything else.

    `changed` is set where a row is not inside of the edges; see `numba.hop`.
    """
    for i in range(uint64(node.size)):
        here = node[i]
        start[i], count[i] = 0, 0
        if here >= 0:
            start[i] = rowptr[uint64(here)]
            count[i] = rowptr[uint64(here) + ONE] - start[i]
    if not empty_if_outside(start[: node.size], count[: node.size], edges):
        changed[0] = True


@compiled
def follow(col, nodes, node, count, fanout, replace, stays, edge, arrived, changed):
    """Follows edges to their nodes; at a dead end a walker that `stays` is there.

    `changed` is set where that is none of so many `nodes`; -1 stands for it.
    """
    for e in range(uint64(edge.size)):
        taken = edge[e]
        if taken >= 0:
            arrived[e] = col[uint64(taken)]
            continue
        walker = e // uint64(fanout)
        arrived[e] = -1
        if stays and count[walker] == 0 and (replace or e == walker * uint64(fanout)):
            arrived[e] = node[walker]
    low = int64(0)
    for e in range(uint64(edge.size)):  # -1 is for those without an edge alone
        low = min(low, arrived[e] & ~(edge[e] >> 63))
    if low < 0 or not replace_outside(arrived, -1, nodes, -1):
        changed[0] = True
        replace_outside(arrived, -1, nodes, -1)


@compiled
def step(first, rowptr, col, limit, how, key, node, edge, arrived, scratch, changed):
    """One depth of an unbiased forest, for walkers number `first` and following.

    `how` is the fanout, whether draws are replaced, and whether a walker stays.
    """
    fanout, replace, _ = how
    start, count = scratch[0], scratch[1]
    find_rows(rowptr, col.size, node, start, count, changed)
    for i in range(node.size):
        stream, at = mix(key + uint64(first + i) * GOLDEN), i * fanout
        drawn = draw_row(stream, start[i], count[i], fanout, replace, edge, at)
        for j in range(drawn, fanout):
            edge[at + j] = -1
    follow(col, limit, node, count, *how, edge, arrived, changed)


@compiled
def forest_kernel(
    lo, hi, rowptr, col, keys, fanouts, starts, replace, stays, nodes, edges, changed
):
    """The trees of seeds lo to hi; level k of all trees begins at starts[k]."""
    widest = min(_BLOCK, hi - lo)
    for depth in range(fanouts.size - 1):
        widest *= fanouts[depth]
    scratch = np.empty((2, widest), np.int64)
    for first in range(lo, hi, _BLOCK):
        last, width = min(hi, first + _BLOCK), 1
        for depth in range(fanouts.size):
            here, there = starts[depth], starts[depth + 1]
            wider = width * fanouts[depth]
            final = depth + 1 == fanouts.size  # whose nodes may be of another set
            limit = _ANY if final else rowptr.size - 1
            graph, how = (rowptr, col, limit), (fanouts[depth], replace, stays)
            node = nodes[here + first * width : here + last * width]
            edge = edges[there + first * wider : there + last * wider]
            arrived = nodes[there + first * wider : there + last * wider]
            out = node, edge, arrived, scratch, changed
            step(first * width, *graph, how, keys[depth], *out)
            width = wider


def walk_forest(spec: ForestSpec, seeds: Tensor, key: Key) -> Levels | None:
    """(edges, nodes) of every depth, unless drawn by mass; see `torch.draw`."""
    if spec.mass is not None:
        return None
    fanouts = spec.fanouts
    widths = np.cumprod([1, *fanouts], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(widths * seeds.numel())])
    total = int(starts[-1])
    nodes, edges = IDS.make(total), IDS.make(total)
    nodes[: seeds.numel()] = seeds
    parallel_inside(
        forest_kernel,
        *(seeds.numel(), total, spec.rowptr.numpy(), spec.col.numpy()),
        *(words(key, len(fanouts)), np.array(fanouts, np.int64), starts),
        *(spec.replace, spec.stays, nodes.numpy(), edges.numpy()),
    )
    levels = zip(starts[1:-1].tolist(), starts[2:].tolist(), fanouts, strict=True)
    return [
        (edges[lo:hi].view(-1, fanout), nodes[lo:hi].view(-1, fanout))
        for lo, hi, fanout in levels
    ]
