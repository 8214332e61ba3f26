"""One hop of rooted sampling: admissible parts of rows, then edges drawn from them.

Every row of `relations` holds the addresses of one relation's arrays and what is to be
done with them, every row of `nodes` those of one node type, and every row of `segments`
a part of the walkers: the frontier of one relation. Walkers of all segments are
numbered through, and so are the edges they take; kernels work on walkers lo to hi, so
that threads can share them. What a relation is not asked for is decided once per
segment and costs nothing in the loops. Where a row or an edge leads out of the graph,
CHANGED of its relation is set, and the batch goes on with node 0 until somebody looks.
"""

import numpy as np
from numba import int64, uint64

from gttf_sampler._backends.numba.draw import draw_row, draw_row_weighted, scratch_cells
from gttf_sampler._backends.numba.rng import GOLDEN, ONE, compiled, mix, prefetch
from gttf_sampler._backends.numba.rows import (
    bisect,
    doubles,
    empty_if_outside,
    floats,
    ints,
    longs,
    prefetch_row,
    replace_outside,
)
from gttf_sampler._backends.record import (
    COL,
    CUMULATIVE_WEIGHT,
    DST_TYPE,
    EDGE_ID,
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
    WIDE_COL,
    WIDE_EDGE_ID,
)

# columns of `relations`, behind those of `record.RelationRow`
ROWS, EDGES, COLS, CHANGED, RELATION_COLUMNS = range(16, 21)
# columns of `nodes`
IDS, ROOTS, CELL, WIDE_CELL, SIZE, FLOOR, LIMIT, NODE_COLUMNS = range(8)
# columns of `segments`
RELATION, FIRST, STOP, BEGIN, FANOUT, SEGMENT_COLUMNS = range(6)
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


_EVERY = 1 << 31  # longer than any row


@compiled
def draw(
    lo,
    hi,
    relations,
    segments,
    nodes,
    key,
    replace,
    apart,
    start,
    count,
    end,
    edge,
    to,
    by,
):
    """The edges that walkers lo to hi take, those of walker i in front of end[i].

    `to` is the local id of the node that receives, `by` the global one of the sender.
    """
    for s in range(segments.shape[0]):
        first, stop = max(lo, segments[s, FIRST]), min(hi, segments[s, STOP])
        if first >= stop:
            continue
        relation = segments[s, RELATION]
        own, fanout, again = relations[relation], segments[s, FANOUT], replace
        if fanout < 0:
            fanout, again = int64(_EVERY), False
        stem = mix(key + uint64(relation + 1) * GOLDEN)
        begin = segments[s, BEGIN] - segments[s, FIRST]
        here = nodes[own[DST_TYPE]]
        ids, roots, apart_by = longs(here[IDS]), longs(here[ROOTS]), here[SIZE]
        rowptr, table = longs(own[ROWPTR]), longs(own[CUMULATIVE_WEIGHT])
        by_mass = own[CUMULATIVE_WEIGHT] and not again and fanout < _EVERY
        gone = np.empty((2, scratch_cells(fanout) if by_mass else 0), np.int64)
        for i in range(first, stop):
            at, local = end[i - 1] if i else 0, uint64(i + begin)
            who = ids[local]
            if apart:
                who += roots[local] * apart_by
            stream = mix(stem + uint64(who) * GOLDEN)
            if own[CUMULATIVE_WEIGHT]:
                soon = min(i + 2, stop - 1)
                prefetch_row(table, start[soon], start[soon] + count[soon])
            whole = not again and count[i] <= fanout and own[HAS_ZERO_WEIGHT] == 0
            if own[CUMULATIVE_WEIGHT] == 0 or whole:
                draw_row(stream, start[i], count[i], fanout, again, edge, at)
            elif end[i] > at:
                base = mass_before(table, rowptr, ids[local], start[i])
                low, high = start[i], start[i] + count[i]
                if again or count[i] > fanout:
                    how = fanout, again, gone, edge, at
                    draw_row_weighted(stream, table, low, high, base, *how)
                else:
                    _take_positive(table, low, high, base, edge, at)
            for e in range(uint64(at), uint64(end[i])):
                to[e] = int64(local)
        head, tail = end[first - 1] if first else 0, end[stop - 1]
        if own[NUM_EXCLUDED]:
            _step_over(head, tail, longs(own[EXCLUDED]), own[NUM_EXCLUDED], edge)
        sound = replace_outside(edge[head:tail], 0, own[EDGES], 0)
        if own[WIDE_COL]:
            _reach(head, tail, longs(own[COL]), edge, by)
        else:
            _reach(head, tail, ints(own[COL]), edge, by)
        sound &= replace_outside(by[head:tail], 0, own[COLS], 0)
        if not sound:
            own[CHANGED] = 1


@compiled
def _step_over(first, stop, hidden, hides, edge):
    """Turns positions among the edges that stay into positions among all of them."""
    for e in range(uint64(first), uint64(stop)):
        low, high = int64(0), int64(hides)
        while low < high:
            middle = (low + high) >> 1
            if hidden[uint64(middle)] - middle <= edge[e]:
                low = middle + 1
            else:
                high = middle
        edge[e] += low


@compiled
def _take_positive(table, low, high, base, out, at):
    """Every entry of a row that has mass, in order."""
    for position in range(low, high):
        mass = table[uint64(position)]
        if mass > base:
            out[uint64(at)] = position
            at += 1
        base = mass


@compiled
def _reach(head, tail, col, edge, by):
    """Where the edges lead; nothing here waits for anything else."""
    for e in range(uint64(head), uint64(tail)):
        by[e] = col[uint64(edge[e])]


@compiled
def gather(moves, relations, edge, to, by, index, ids):
    """Brings the edges of every relation together.

    A move is a relation, where its edges are and how many. `index` gets the senders of
    a relation, then its receivers, then those of the next; `ids` the edges, by the
    caller's numbers where relations have an address of them.
    """
    at = int64(0)
    for relation in range(relations.shape[0]):
        total = int64(0)
        for m in range(moves.shape[0]):
            total += moves[m, 2] if moves[m, 0] == relation else 0
        senders, receivers, first = 2 * at, 2 * at + total, at
        for m in range(moves.shape[0]):
            if moves[m, 0] != relation:
                continue
            source, size = moves[m, 1], moves[m, 2]
            index[senders : senders + size] = by[source : source + size]
            index[receivers : receivers + size] = to[source : source + size]
            ids[at : at + size] = edge[source : source + size]
            senders, receivers, at = senders + size, receivers + size, at + size
        own = relations[relation]
        if own[EDGE_ID]:
            translate(first, at, own[EDGE_ID], own[WIDE_EDGE_ID], ids)


@compiled
def translate(lo, hi, address, wide, ids):
    """Edges by the caller's numbers."""
    if wide:
        _reach(lo, hi, longs(address), ids, ids)
    else:
        _reach(lo, hi, ints(address), ids, ids)
