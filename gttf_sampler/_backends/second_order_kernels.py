"""node2vec by the exact weights of all neighbours, where proposals were refused."""

import numpy as np
from numba import int64, uint64

from gttf_sampler._backends.draw_kernels import bisect
from gttf_sampler._backends.hop_kernels import row_range
from gttf_sampler._backends.index_kernels import find_copy, row_holds
from gttf_sampler._backends.word_kernels import ONE, below_wide, bits, compiled


@compiled
def _copies(sorted_col, start, stop, value):
    """The range of positions in a sorted row that hold `value`."""
    low = bisect(sorted_col, start, stop, value - 1)
    return low, bisect(sorted_col, low, stop, value)


@compiled
def _shared(graph, reverse, start, stop, last):
    """A sorted list that names every neighbour in a row whose own row holds `last`.

    The row itself, or what `last` can be reached from, whichever is shorter.
    """
    if reverse[0].size:
        first, size = row_range(reverse[0], reverse[0].size - 1, reverse[1].size, last)
        if 0 <= size < stop - start:
            return reverse[1][first : first + size]
    return graph[2][start:stop]


@compiled
def _near(graph, start, stop, last, names, k):
    """The copies in a row of the k-th name, if it is new and next to `last`."""
    value = int64(names[k])
    repeated = k > 0 and names[k - ONE] == names[k]
    if repeated or value == last or not row_holds(graph[0], graph[2], value, last):
        return start, start
    return _copies(graph[2], start, stop, value)


@compiled
def weigh_exactly(graph, reverse, in_order, node, last, word, alpha, mass_bits):
    """An edge by the exact weights of all neighbours; see `torch_ops`."""
    rowptr, col, sorted_col, bloom = graph
    start, size = row_range(rowptr, rowptr.size - 1, col.size, node)
    if size <= 0:
        return int64(-1)
    stop = start + size
    names = _shared(graph, reverse, start, stop, last)
    back_low, back_high = _copies(sorted_col, start, stop, last)
    back, near = back_high - back_low, int64(0)
    for k in range(uint64(names.size)):
        low, high = _near(graph, start, stop, last, names, k)
        near += high - low
    count = (back, near, stop - start - back - near)
    length, degree, top = 0, stop - start, 0.0
    while degree > 0:
        degree >>= 1
        length += 1
    for k in range(3):
        top = max(top, alpha[k] if count[k] else 0.0)
    unit = float(int64(1) << (mass_bits - length))
    mass, total = np.empty(3, np.int64), int64(0)
    for k in range(3):
        mass[k] = max(int64(alpha[k] / top * unit), int64(1))
        total += mass[k] * count[k]
    left, kind = int64(below_wide(word, uint64(total))), 0
    while kind < 2 and left >= mass[kind] * count[kind]:
        left -= mass[kind] * count[kind]
        kind += 1
    rank = left // mass[kind]
    at = back_low + rank
    if kind == 1:
        for k in range(uint64(names.size)):
            low, high = _near(graph, start, stop, last, names, k)
            if rank < high - low:
                at = low + rank
                break
            rank -= high - low
    elif kind == 2:
        at, waits = start + rank, back > 0
        for k in range(uint64(names.size)):
            low, high = _near(graph, start, stop, last, names, k)
            if waits and low > back_low:  # its turn among the others has come
                if back_low > at:
                    break
                at, waits = at + back, False
            if high > low and low > at:
                break
            at += high - low
        if waits and back_low <= at:
            at += back
    at = min(max(at, start), stop - 1)  # where a row was edited, nothing else holds
    if in_order:
        return at
    value = int64(sorted_col[uint64(at)])
    copy = at - bisect(sorted_col, start, stop, value - 1)
    return find_copy(col, bloom, start, stop - start, value, copy)


@compiled
def weigh_node2vec(
    lo, hi, graph, reverse, in_order, node, last, stream, alpha, mass_bits, out
):
    for i in range(lo, hi):
        word = bits(uint64(stream[i]), uint64(0))
        args = graph, reverse, in_order, node[i], last[i], word
        out[i] = weigh_exactly(*args, alpha, mass_bits)
