"""Where ids stand: first positions, entries of tables, edges between two nodes."""

import numpy as np
from numba import int64, uint64

from gttf_sampler._backends.draw_kernels import bisect
from gttf_sampler._backends.hop_kernels import row_range
from gttf_sampler._backends.types import REFUSED
from gttf_sampler._backends.word_kernels import GOLDEN, HALF, ONE, compiled

_29 = np.uint64(29)


@compiled
def first_position(ids, cell, floor, out):
    """See `torch_ops`; False if an id has no cell."""
    limit, last = floor + ids.size, cell.size - 1
    sound = True
    for i in range(ids.size):
        at = uint64(ids[i]) if ids[i] >= 0 else uint64(last)
        if at > uint64(last):
            at, sound = uint64(last), False
        value = int64(cell[at])
        if value >= limit:
            value = floor + i
            cell[at] = value
        out[i] = value - floor
    return sound


@compiled
def take_or_none(lo, hi, values, index, out, changed):
    sound = True
    for i in range(uint64(lo), uint64(hi)):
        at = index[i]
        there = uint64(at) < uint64(values.size)
        out[i] = values[uint64(at)] if there else -1
        sound &= there or at < 0
    if not sound:
        changed[0] = True


@compiled
def compress(mask, out):
    count = 0
    for i in range(uint64(mask.size)):
        out[uint64(count)] = int64(i)
        count += mask[i]


@compiled
def row_holds(rowptr, sorted_col, source, target):
    low, size = row_range(rowptr, rowptr.size - 1, sorted_col.size, source)
    if size <= 0:
        return False
    high = low + size
    position = bisect(sorted_col, low, high, target - 1)
    return position < high and sorted_col[uint64(position)] == target


@compiled
def has_edge(lo, hi, rowptr, sorted_col, source, target, out):
    for i in range(lo, hi):
        out[i] = row_holds(rowptr, sorted_col, source[i], target[i])


@compiled
def place(start, count, target):
    """The byte and the bit that stand for `target` in the filter of its row."""
    bit = (uint64(target) * GOLDEN >> HALF) * uint64(count) >> _29  # below 8 · count
    return uint64(start) + (bit >> uint64(3)), np.uint8(ONE << (bit & uint64(7)))


@compiled
def edge_filter(lo, hi, rowptr, col, out):
    for row in range(lo, hi):
        start, count = rowptr[row], rowptr[row + 1] - rowptr[row]
        for e in range(uint64(start), uint64(start + count)):
            at, bit = place(start, count, col[e])
            out[at] |= bit


@compiled
def find_copy(col, bloom, start, count, last, copy):
    """The edge number `copy` to `last` in a row, REFUSED if there are not as many.

    It may read all of the row. node2vec's way back asks for it in proportion to 1 / δ,
    which comes to the same whatever the row's length.
    """
    if bloom.size:
        at, bit = place(start, count, last)
        if not bloom[at] & bit:
            return int64(REFUSED)
    for e in range(start, start + count):
        if col[uint64(e)] == last:
            if copy == 0:
                return e
            copy -= 1
    return int64(REFUSED)
