"""The edges of one hop of rooted sampling, of all relations and laws in one call.

Walkers of all segments are numbered through, and so are the edges they take; kernels
work on walkers lo to hi, so that threads can share them. What a relation is not asked
for is decided once per segment and costs nothing in the loops.

Every row of `relations` holds the addresses of one relation's arrays and what is to be
done with them, every row of `nodes` those of one node type, and every row of `segments`
a part of the walkers: the frontier of one relation. Where a row or an edge leads out of
the graph, CHANGED of its relation is set, and the batch goes on with node 0 until
somebody looks.
"""

import numpy as np
from numba import int64, uint64

from gttf_sampler._backends import record as rel
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

# columns of `relations`, behind those of `record.RelationRow`
_OWN = len(rel.RelationRow._fields)
ROWS, EDGES, COLS, CHANGED, RELATION_COLUMNS = range(_OWN, _OWN + 5)
# columns of `nodes`
IDS, ROOTS, CELL, WIDE_CELL, SIZE, FLOOR, LIMIT, NODE_COLUMNS = range(8)
# columns of `segments`
RELATION, FIRST, STOP, BEGIN, FANOUT, SEGMENT_COLUMNS = range(6)

_EVERY = 1 << 31  # longer than any row
_ROWS_AHEAD = 16  # how many rows ahead memory is asked for the times in a row


@compiled
def open_hop(hop, relations, fanouts, known, begin, segments):
    """The walkers of a hop: a segment per relation that takes any edge.

    Returns how many walkers and segments there are.
    """
    width, parts = int64(0), 0
    for relation in range(relations.shape[0]):
        kind, fanout = relations[relation, rel.DST_TYPE], fanouts[relation, hop]
        size = known[kind] - begin[kind]
        if size and fanout:
            row = segments[parts]
            row[RELATION], row[FANOUT] = relation, fanout
            row[FIRST], row[STOP] = width, width + size
            row[BEGIN] = begin[kind]
            width += size
            parts += 1
    return width, parts


@compiled
def note_hop(hop, relations, segments, end, used, moved, moves, taken, more):
    """Notes how many edges every relation takes, and where they are among all.

    Returns the edges and the moves so far; `more` gets the edges to nodes of each type.
    """
    more[:] = 0
    for s in range(segments.shape[0]):
        first, relation = segments[s, FIRST], segments[s, RELATION]
        size = end[segments[s, STOP] - 1] - (end[first - 1] if first else 0)
        taken[relation, hop] = size
        moves[moved, 0], moves[moved, 1], moves[moved, 2] = relation, used, size
        more[relations[relation, rel.SRC_TYPE]] += size
        moved, used = moved + 1, used + size
    return used, moved


@compiled
def measure(lo, hi, table, replace, rows):
    """The admitted part of every walker's row, and how many edges it will take."""
    relations, segments, nodes = table
    start, count, size = rows
    for s in range(segments.shape[0]):
        first, stop = max(lo, segments[s, FIRST]), min(hi, segments[s, STOP])
        if first >= stop:
            continue
        own, fanout = relations[segments[s, RELATION]], segments[s, FANOUT]
        begin = segments[s, BEGIN] - segments[s, FIRST]  # of i is node i + begin
        ids, rowptr = longs(nodes[own[rel.DST_TYPE], IDS]), longs(own[rel.ROWPTR])
        if own[ROWS] < nodes[own[rel.DST_TYPE], SIZE]:
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
        if own[rel.TIME_KIND]:
            roots = longs(nodes[own[rel.DST_TYPE], ROOTS])
            _admit(first, stop, own, roots, begin, start, count)
        if own[rel.NUM_EXCLUDED]:
            _hide(first, stop, own, start, count)
        if own[rel.MOST_RECENT] and fanout >= 0:
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
        if own[rel.HAS_ZERO_WEIGHT]:
            table, again = longs(own[rel.CUMULATIVE_WEIGHT]), replace and fanout >= 0
            for i in range(first, stop):
                base = mass_before(table, rowptr, ids[uint64(i + begin)], start[i])
                wanted = min(size[i], 1) if again else size[i]
                found = _positive(table, start[i], start[i] + count[i], base, wanted)
                size[i] = size[i] * found if again else found


@compiled
def _admit(first, stop, own, roots, begin, start, count):
    """Narrows rows to the times that are admitted, of whatever type they are."""
    rows, time, low = (roots, begin, start, count), own[rel.TIME], own[rel.TIME_MIN]
    if own[rel.TIME_KIND] in (rel.INT32, rel.INT64):
        whole = longs(own[rel.TIME_MAX]), longs(low), low != 0
        if own[rel.TIME_KIND] == rel.INT32:
            _narrow(first, stop, ints(time), *whole, *rows)
        else:
            _narrow(first, stop, longs(time), *whole, *rows)
    else:
        real = doubles(own[rel.TIME_MAX]), doubles(low), low != 0
        if own[rel.TIME_KIND] == rel.FLOAT32:
            _narrow(first, stop, floats(time), *real, *rows)
        else:
            _narrow(first, stop, doubles(time), *real, *rows)


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
def _hide(first, stop, own, start, count):
    """Rows as they would stand if all hidden edges were gone from the graph."""
    hidden, hides = longs(own[rel.EXCLUDED]), own[rel.NUM_EXCLUDED]
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


@compiled
def draw(lo, hi, table, how, rows, out):
    """The edges that walkers lo to hi take, those of walker i in front of end[i].

    `table` are `relations`, `segments` and `nodes`. `rows` are the start and the length
    of every walker's row, and `end`. `out` gets the edges, the local ids of receivers
    and the global ones of senders.
    """
    relations, segments, nodes = table
    key, replace = how
    start, count, end = rows
    edge, to, by = out
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
        here = nodes[own[rel.DST_TYPE]]
        ids, roots, size = longs(here[IDS]), longs(here[ROOTS]), here[SIZE]
        rowptr, table = longs(own[rel.ROWPTR]), longs(own[rel.CUMULATIVE_WEIGHT])
        by_mass = own[rel.CUMULATIVE_WEIGHT] and not again and fanout < _EVERY
        gone = np.empty((2, scratch_cells(fanout) if by_mass else 0), np.int64)
        for i in range(first, stop):
            at, local = end[i - 1] if i else 0, uint64(i + begin)
            who = ids[local]
            if here[ROOTS]:  # trees are apart
                who += roots[local] * size
            stream = mix(stem + uint64(who) * GOLDEN)
            if own[rel.CUMULATIVE_WEIGHT]:
                soon = min(i + 2, stop - 1)
                prefetch_row(table, start[soon], start[soon] + count[soon])
            whole = not again and count[i] <= fanout and own[rel.HAS_ZERO_WEIGHT] == 0
            if own[rel.CUMULATIVE_WEIGHT] == 0 or whole:
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
        if own[rel.NUM_EXCLUDED]:
            _step_over(head, tail, own, edge)
        sound = replace_outside(edge[head:tail], 0, own[EDGES], 0)
        reach(head, tail, own[rel.COL], own[rel.WIDE_COL], edge, by)
        sound &= replace_outside(by[head:tail], 0, own[COLS], 0)
        if not sound:
            own[CHANGED] = 1


@compiled
def _step_over(first, stop, own, edge):
    """Turns positions among the edges that stay into positions among all of them."""
    hidden, hides = longs(own[rel.EXCLUDED]), own[rel.NUM_EXCLUDED]
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
def _gather_ids(head, tail, values, index, out):
    """out[i] = values[index[i]]; nothing here waits for anything else."""
    for e in range(uint64(head), uint64(tail)):
        out[e] = values[uint64(index[e])]


@compiled
def reach(head, tail, address, wide, edge, out):
    """The nodes of edges, or their numbers by the caller: ids at an address."""
    if wide:
        _gather_ids(head, tail, longs(address), edge, out)
    else:
        _gather_ids(head, tail, ints(address), edge, out)


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
        if own[rel.EDGE_ID]:
            reach(first, at, own[rel.EDGE_ID], own[rel.WIDE_EDGE_ID], ids, ids)
