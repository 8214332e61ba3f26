"""Rows of a CSR matrix: ranges, searches, entries, and the part that a hop may take.

The arrays of a graph are tensors that anybody can edit. So a row is followed if it lies
inside of the edges, and an edge if it leads to a node; where one does not, a flag is
set, and the caller refuses the result.
"""

import numba
import numpy as np
import torch
from numba import int64, types, uint64
from numba.extending import intrinsic
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.memory import Array, empty
from gttf_sampler._backends.numba.record import (
    BEGIN,
    CHANGED,
    EDGES,
    FANOUT,
    FIRST,
    IDS,
    RELATION,
    ROOTS,
    ROWS,
    SIZE,
    STOP,
)
from gttf_sampler._backends.numba.rng import GOLDEN, HALF, ONE, compiled, prefetch
from gttf_sampler._backends.record import (
    CUMULATIVE_WEIGHT,
    DST_TYPE,
    EXCLUDED,
    FLOAT32,
    HAS_ZERO_WEIGHT,
    INT32,
    INT64,
    MOST_RECENT,
    NUM_EXCLUDED,
    ROWPTR,
    TIME,
    TIME_KIND,
    TIME_MAX,
    TIME_MIN,
)
from gttf_sampler._backends.threads import parallel
from gttf_sampler._backends.torch import rows as reference

_ROWS_AHEAD = 16  # how many rows ahead memory is asked for the times in a row


@compiled
def row_range(rowptr, rows, edges, node):
    """Start and length of the row of a node; length -1 if it is not in the graph."""
    here = uint64(node)
    if here >= uint64(rows):
        return int64(0), int64(-1)
    start, end = rowptr[here], rowptr[here + ONE]
    if start < 0 or end < start or end > edges:
        return int64(0), int64(-1)
    return int64(start), int64(end - start)


@compiled
def empty_if_outside(start, count, edges):
    """True if all rows lie inside of the edges; makes all of them empty if not.

    A pass of its own: the loop before it waits for memory, and is to do nothing else.
    """
    low, high = int64(0), int64(0)
    for i in range(uint64(start.size)):
        low = min(low, min(start[i], count[i]))
        high = max(high, start[i] + count[i])
    if low >= 0 and high <= edges:
        return True
    start[:], count[:] = 0, 0
    return False


@compiled
def replace_outside(ids, least, size, instead):
    """True if all ids lie in [least, size); replaces those that do not."""
    low, high = int64(least), int64(least)
    for i in range(uint64(ids.size)):
        low, high = min(low, ids[i]), max(high, ids[i])
    if low >= least and (high < size or not ids.size):
        return True
    for i in range(uint64(ids.size)):
        if ids[i] < least or ids[i] >= size:
            ids[i] = instead
    return False


def _pointer_to(kind):
    """An intrinsic that makes a pointer to values of a kind out of an address."""

    @intrinsic
    def pointer(_, address):
        def emit(context, builder, signature, args):
            pointed = context.get_value_type(types.CPointer(kind))
            return builder.inttoptr(args[0], pointed)

        return types.CPointer(kind)(address), emit

    return pointer


_to_int32, _to_int64 = _pointer_to(types.int32), _pointer_to(types.int64)
_to_float32, _to_float64 = _pointer_to(types.float32), _pointer_to(types.float64)


@compiled
def ints(address):
    return numba.carray(_to_int32(address), (1 << 60,))


@compiled
def longs(address):
    return numba.carray(_to_int64(address), (1 << 60,))


@compiled
def floats(address):
    return numba.carray(_to_float32(address), (1 << 60,))


@compiled
def doubles(address):
    return numba.carray(_to_float64(address), (1 << 60,))


@compiled
def bisect(values, low, high, bound):
    """The first position in [low, high) whose value is > bound, else high.

    Without a branch on the comparison, so that the next searches can start meanwhile.
    """
    size = high - low
    if size <= 0:
        return low
    while size > 1:
        half = size >> 1
        low += half * int64(values[uint64(low + half - 1)] <= bound)
        size -= half
    return low + int64(values[uint64(low)] <= bound)


@compiled
def upper_bound_kernel(lo, hi, values, low, high, bound, out):
    for i in range(lo, hi):
        out[i] = bisect(values, low[i], min(high[i], values.size), bound[i])


@compiled
def prefetch_row(table, low, high):
    """Asks for the cache lines of a row of eight-byte values, at most 32 of them."""
    for i in range(low, min(high, low + 256), 8):
        prefetch(table, uint64(i))


_29 = np.uint64(29)


@compiled
def take_or_none_kernel(lo, hi, values, index, out, changed):
    sound = True
    for i in range(uint64(lo), uint64(hi)):
        at = index[i]
        there = uint64(at) < uint64(values.size)
        out[i] = values[uint64(at)] if there else -1
        sound &= there or at < 0
    if not sound:
        changed[0] = True


@compiled
def row_holds(rowptr, sorted_col, source, target):
    low, size = row_range(rowptr, rowptr.size - 1, sorted_col.size, source)
    if size <= 0:
        return False
    high = low + size
    position = bisect(sorted_col, low, high, target - 1)
    return position < high and sorted_col[uint64(position)] == target


@compiled
def has_edge_kernel(lo, hi, rowptr, sorted_col, source, target, out):
    for i in range(lo, hi):
        out[i] = row_holds(rowptr, sorted_col, source[i], target[i])


@compiled
def place(start, count, target):
    """The byte and the bit that stand for `target` in the filter of its row."""
    bit = (uint64(target) * GOLDEN >> HALF) * uint64(count) >> _29  # below 8 · count
    return uint64(start) + (bit >> uint64(3)), np.uint8(ONE << (bit & uint64(7)))


@compiled
def edge_filter_kernel(lo, hi, rowptr, col, out):
    for row in range(lo, hi):
        start, count = rowptr[row], rowptr[row + 1] - rowptr[row]
        for e in range(uint64(start), uint64(start + count)):
            at, bit = place(start, count, col[e])
            out[at] |= bit


NUMBERS = (torch.int32, torch.int64, torch.float32, torch.float64)


@compiled
def measure(lo, hi, relations, segments, nodes, replace, start, count, size):
    """The admitted part of every walker's row, and how many edges it will take."""
    for s in range(segments.shape[0]):
        first, stop = max(lo, segments[s, FIRST]), min(hi, segments[s, STOP])
        if first >= stop:
            continue
        own, fanout = relations[segments[s, RELATION]], segments[s, FANOUT]
        begin = segments[s, BEGIN] - segments[s, FIRST]  # walker i is node i + begin
        ids, rowptr = longs(nodes[own[DST_TYPE], IDS]), longs(own[ROWPTR])
        if own[ROWS] < nodes[own[DST_TYPE], SIZE]:
            start[first:stop], count[first:stop], size[first:stop] = 0, 0, 0
            own[CHANGED] = 1
            continue
        for i in range(first, stop):
            soon = uint64(min(i + _ROWS_AHEAD, stop - 1) + begin)
            prefetch(rowptr, uint64(ids[soon]))
            here = uint64(ids[uint64(i + begin)])
            start[i] = rowptr[here]
            count[i] = rowptr[here + ONE] - start[i]
        if not empty_if_outside(start[first:stop], count[first:stop], own[EDGES]):
            own[CHANGED] = 1
        if own[TIME_KIND]:
            roots = longs(nodes[own[DST_TYPE], ROOTS])
            _admit(first, stop, own, roots, begin, start, count)
        if own[NUM_EXCLUDED]:
            _hide(first, stop, longs(own[EXCLUDED]), own[NUM_EXCLUDED], start, count)
        if own[MOST_RECENT] and fanout >= 0:
            for i in range(first, stop):
                skipped = max(count[i] - fanout, 0)
                start[i] += skipped
                count[i] -= skipped
        for i in range(first, stop):
            if fanout < 0:
                size[i] = count[i]
            elif replace:
                size[i] = fanout if count[i] > 0 else 0
            else:
                size[i] = min(count[i], fanout)
        if own[HAS_ZERO_WEIGHT]:
            table, again = longs(own[CUMULATIVE_WEIGHT]), replace and fanout >= 0
            for i in range(first, stop):
                base = mass_before(table, rowptr, ids[uint64(i + begin)], start[i])
                wanted = min(size[i], 1) if again else size[i]
                found = _positive(table, start[i], start[i] + count[i], base, wanted)
                size[i] = size[i] * found if again else found


@compiled
def _admit(first, stop, own, roots, begin, start, count):
    """Narrows rows to the times that are admitted."""
    if own[TIME_KIND] == INT32:
        times = ints(own[TIME]), longs(own[TIME_MAX]), longs(own[TIME_MIN])
        _narrow(first, stop, *times, own[TIME_MIN] != 0, roots, begin, start, count)
    elif own[TIME_KIND] == INT64:
        long = longs(own[TIME]), longs(own[TIME_MAX]), longs(own[TIME_MIN])
        _narrow(first, stop, *long, own[TIME_MIN] != 0, roots, begin, start, count)
    elif own[TIME_KIND] == FLOAT32:
        real = floats(own[TIME]), doubles(own[TIME_MAX]), doubles(own[TIME_MIN])
        _narrow(first, stop, *real, own[TIME_MIN] != 0, roots, begin, start, count)
    else:
        wide = doubles(own[TIME]), doubles(own[TIME_MAX]), doubles(own[TIME_MIN])
        _narrow(first, stop, *wide, own[TIME_MIN] != 0, roots, begin, start, count)


@compiled
def _narrow(first, stop, time, latest, before, window, roots, begin, start, count):
    """The part of every row between the two times of its tree, by bisection."""
    for i in range(first, stop):
        soon = min(i + _ROWS_AHEAD, stop - 1)
        prefetch(time, uint64(start[soon] + (count[soon] >> 1)))
        root = uint64(roots[uint64(i + begin)])
        low = start[i]
        high = bisect(time, low, low + count[i], latest[root])
        if window:
            low = bisect(time, low, high, before[root])
        start[i], count[i] = low, high - low


@compiled
def _hide(first, stop, hidden, hides, start, count):
    """Rows as they would stand if all hidden edges were gone from the graph."""
    for i in range(first, stop):
        low = bisect(hidden, 0, hides, start[i] - 1)
        high = bisect(hidden, low, hides, start[i] + count[i] - 1)
        start[i] -= low
        count[i] -= high - low


@compiled
def mass_before(table, rowptr, node, start):
    """The mass of a row in front of position `start`."""
    if start <= 0 or start <= rowptr[uint64(node)]:
        return int64(0)
    return table[uint64(start - 1)]


@compiled
def _positive(table, low, high, base, limit):
    """Counts the entries of a row that have mass, no further than `limit`."""
    found = int64(0)
    while found < limit:
        low = bisect(table, low, high, base)
        if low >= high:
            break
        base = table[uint64(low)]
        low += 1
        found += 1
    return found


def take_or_none(values: Tensor, index: Tensor) -> Tensor:
    """values[index] as int64; see `torch.rows`."""
    out = torch.empty(index.shape, dtype=torch.int64, device="cpu")
    flat = index.reshape(-1)
    changed = unchanged()
    arrays = values.numpy(), flat.numpy(), out.view(-1).numpy(), changed
    parallel(take_or_none_kernel, flat.numel(), flat.numel(), *arrays)
    check_unchanged(changed)
    return out


def upper_bound(
    values: Tensor, low: Tensor, high: Tensor, bound: Tensor, longest: int
) -> Tensor:
    """The first position whose value is > bound; see `torch.rows`."""
    if values.dtype not in NUMBERS or bound.dtype not in NUMBERS or low.dim() != 1:
        return reference.upper_bound(values, low, high, bound, longest)
    out = torch.empty_like(low)
    arrays = (x.contiguous().numpy() for x in (values, low, high, bound, out))
    parallel(upper_bound_kernel, low.numel(), low.numel() * 8, *arrays)
    return out


def has_edge(
    rowptr: Tensor, sorted_col: Tensor, source: Tensor, target: Tensor, longest: int
) -> Tensor:
    """True [w] where row `source` holds `target`; see `torch.rows`."""
    out = torch.empty_like(source, dtype=torch.bool)
    arrays = (x.numpy() for x in (rowptr, sorted_col, source, target, out))
    parallel(has_edge_kernel, source.numel(), source.numel() * 8, *arrays)
    return out


def edge_filter(rowptr: Tensor, col: Tensor) -> Tensor | None:
    """Eight bits per edge that tell most absent edges; see `torch.rows`."""
    out = empty(col.numel(), torch.uint8).zero_()
    arrays = rowptr.numpy(), col.numpy(), out.numpy()
    parallel(edge_filter_kernel, rowptr.numel() - 1, col.numel(), *arrays)
    return out


def unchanged() -> Array:
    """A flag that kernels set where a graph leads out of itself."""
    return np.zeros(1, np.bool_)


def check_unchanged(changed: Array) -> None:
    """Refuses walks on a graph that was edited to lead out of itself."""
    if changed[0]:
        _check.changed()
