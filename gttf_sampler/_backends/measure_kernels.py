"""How many edges each walker of a hop may take, and from which part of its row."""

from numba import int64, uint64

from gttf_sampler._backends.draw_kernels import bisect
from gttf_sampler._backends.hop_kernels import (
    BEFORE,
    BEGIN,
    CHANGED,
    EDGES,
    FANOUT,
    FIRST,
    FLOAT32,
    GAPS,
    HIDDEN,
    HIDES,
    IDS,
    INT32,
    INT64,
    KIND,
    LAST,
    LATEST,
    MASS,
    RELATION,
    ROOTS,
    ROWPTR,
    ROWS,
    SIZE,
    STOP,
    TIME,
    TO,
    doubles,
    empty_if_outside,
    floats,
    ints,
    longs,
)
from gttf_sampler._backends.word_kernels import ONE, compiled, prefetch

_ROWS_AHEAD = 16  # how many rows ahead memory is asked for the times in a row


@compiled
def measure(lo, hi, relations, segments, nodes, replace, start, count, size):
    """The admitted part of every walker's row, and how many edges it will take."""
    for s in range(segments.shape[0]):
        first, stop = max(lo, segments[s, FIRST]), min(hi, segments[s, STOP])
        if first >= stop:
            continue
        own, fanout = relations[segments[s, RELATION]], segments[s, FANOUT]
        begin = segments[s, BEGIN] - segments[s, FIRST]  # walker i is node i + begin
        ids, rowptr = longs(nodes[own[TO], IDS]), longs(own[ROWPTR])
        if own[ROWS] < nodes[own[TO], SIZE]:
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
        if own[KIND]:
            roots = longs(nodes[own[TO], ROOTS])
            _admit(first, stop, own, roots, begin, start, count)
        if own[HIDES]:
            _hide(first, stop, longs(own[HIDDEN]), own[HIDES], start, count)
        if own[LAST] and fanout >= 0:
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
        if own[GAPS]:
            table, again = longs(own[MASS]), replace and fanout >= 0
            for i in range(first, stop):
                base = mass_before(table, rowptr, ids[uint64(i + begin)], start[i])
                wanted = min(size[i], 1) if again else size[i]
                found = _positive(table, start[i], start[i] + count[i], base, wanted)
                size[i] = size[i] * found if again else found


@compiled
def _admit(first, stop, own, roots, begin, start, count):
    """Narrows rows to the times that are admitted."""
    if own[KIND] == INT32:
        times = ints(own[TIME]), longs(own[LATEST]), longs(own[BEFORE])
        _narrow(first, stop, *times, own[BEFORE] != 0, roots, begin, start, count)
    elif own[KIND] == INT64:
        long = longs(own[TIME]), longs(own[LATEST]), longs(own[BEFORE])
        _narrow(first, stop, *long, own[BEFORE] != 0, roots, begin, start, count)
    elif own[KIND] == FLOAT32:
        real = floats(own[TIME]), doubles(own[LATEST]), doubles(own[BEFORE])
        _narrow(first, stop, *real, own[BEFORE] != 0, roots, begin, start, count)
    else:
        wide = doubles(own[TIME]), doubles(own[LATEST]), doubles(own[BEFORE])
        _narrow(first, stop, *wide, own[BEFORE] != 0, roots, begin, start, count)


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
    """How many entries of a row have mass; counts no further than `limit`."""
    found = int64(0)
    while found < limit:
        low = bisect(table, low, high, base)
        if low >= high:
            break
        base = table[uint64(low)]
        low += 1
        found += 1
    return found
