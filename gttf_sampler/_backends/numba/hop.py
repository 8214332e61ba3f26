"""The edges of one hop of rooted sampling, of all relations and laws in one call.

Walkers of all segments are numbered through, and so are the edges they take; kernels
work on walkers lo to hi, so that threads can share them. What a relation is not asked
for is decided once per segment and costs nothing in the loops. `numba.record` has the
tables that kernels read, `numba.rows` the kernel that goes before these.
"""

import numpy as np
from numba import int64, uint64

from gttf_sampler._backends.numba.draw import draw_row, draw_row_weighted, scratch_cells
from gttf_sampler._backends.numba.record import (
    BEGIN,
    CHANGED,
    COLS,
    EDGES,
    FANOUT,
    FIRST,
    IDS,
    RELATION,
    ROOTS,
    SIZE,
    STOP,
)
from gttf_sampler._backends.numba.rng import GOLDEN, compiled, mix
from gttf_sampler._backends.numba.rows import (
    ints,
    longs,
    mass_before,
    prefetch_row,
    replace_outside,
)
from gttf_sampler._backends.record import (
    COL,
    CUMULATIVE_WEIGHT,
    DST_TYPE,
    EDGE_ID,
    EXCLUDED,
    HAS_ZERO_WEIGHT,
    NUM_EXCLUDED,
    ROWPTR,
    WIDE_COL,
    WIDE_EDGE_ID,
)

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
    """Gathers the nodes of edges; nothing here waits for anything else."""
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
