"""The edges of one hop of rooted sampling, of all relations and laws in one call.

Walkers of all segments are numbered through, and so are the edges they take; kernels
work on walkers lo to hi, so that threads can share them. What a relation is not asked
for is decided once per segment and costs nothing in the loops.

Tables have declared records as their rows: `relations` a `RelationRow` and the `Sizes`
of its arrays, `nodes` a `NodeRow` per type, `segments` a `Segment`. Where a row or an
edge leads out of the graph, `changed` of its relation is set, and the batch goes on
with node 0 until somebody looks.
"""

from typing import NamedTuple

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
    table_of,
)
from gttf_sampler._backends.record import FLOAT32, INT32, INT64, RelationRow


class Sizes(NamedTuple):
    """The sizes of a relation's arrays, and whether an entry has led out of them.

    Attributes:
        rows: of them.
        edges: that all arrays of edges have.
        cols: ids of neighbours are below it.
        changed: 1 once a row or an edge has led out of these.
    """

    rows: int
    edges: int
    cols: int
    changed: int = 0


class NodeRow(NamedTuple):
    """The nodes of one type that a batch has reached, and how they are numbered.

    Attributes:
        ids: the address of int64 [n], in the order of discovery.
        roots: the address of int64 [n], their trees; 0 unless trees are disjoint.
        cell: the address of [size + 1], a cell per node.
        wide_cell: whether those are int64, not int32.
        size: how many nodes of the type the graph has.
        floor: a cell of a node holds `floor` and its local id, in sum,
        limit: if that is below `limit`; else something old.
    """

    ids: int
    roots: int
    cell: int
    wide_cell: int
    size: int
    floor: int
    limit: int


class Segment(NamedTuple):
    """The frontier of one relation among the walkers of a hop.

    Attributes:
        relation: its number.
        first: the first of its walkers.
        stop: the walker behind the last one.
        begin: the local id of the node where the first one stands.
        fanout: edges per walker; -1 takes all.
    """

    relation: int
    first: int
    stop: int
    begin: int
    fanout: int


class EdgeRun(NamedTuple):
    """The edges that one relation has taken in one hop, among all of the batch.

    Attributes:
        relation: its number.
        start: where they begin.
        size: how many there are.
    """

    relation: int
    start: int
    size: int


RELATION = table_of(RelationRow, Sizes)
NODE, SEGMENT, EDGE_RUN = table_of(NodeRow), table_of(Segment), table_of(EdgeRun)

_EVERY = 1 << 31  # longer than any row
_ROWS_AHEAD = 16  # how many rows ahead memory is asked for the times in a row


@compiled
def open_hop(hop, relations, fanouts, known, begin, segments):
    """The walkers of a hop: a segment per relation that takes any edge.

    Returns how many walkers and segments there are.
    """
    width, parts = int64(0), 0
    for relation in range(relations.shape[0]):
        kind, fanout = relations[relation].dst_type, fanouts[relation, hop]
        size = known[kind] - begin[kind]
        if size and fanout:
            row = segments[parts]
            row.relation, row.fanout = relation, fanout
            row.first, row.stop = width, width + size
            row.begin = begin[kind]
            width += size
            parts += 1
    return width, parts


@compiled
def note_hop(hop, relations, segments, end, used, count, runs, taken, more):
    """Notes how many edges every relation takes, and where they are among all.

    Returns the edges and the runs so far; `more` gets the edges to nodes of each type.
    """
    more[:] = 0
    for s in range(segments.shape[0]):
        first, relation = segments[s].first, segments[s].relation
        size = end[segments[s].stop - 1] - (end[first - 1] if first else 0)
        taken[relation, hop] = size
        run = runs[count]
        run.relation, run.start, run.size = relation, used, size
        more[relations[relation].src_type] += size
        count, used = count + 1, used + size
    return used, count


@compiled
def admit(lo, hi, table, replace, rows):
    """The admissible range of every walker's row, and how many edges it will take."""
    relations, segments, nodes = table
    start, count, size = rows
    for s in range(segments.shape[0]):
        first, stop = max(lo, segments[s].first), min(hi, segments[s].stop)
        if first >= stop:
            continue
        own, fanout = relations[segments[s].relation], segments[s].fanout
        begin = segments[s].begin - segments[s].first  # of i is node i + begin
        ids, rowptr = longs(nodes[own.dst_type].ids), longs(own.rowptr)
        if own.rows < nodes[own.dst_type].size:
            start[first:stop], count[first:stop], size[first:stop] = 0, 0, 0
            own.changed = 1
            continue
        for i in range(first, stop):
            soon = uint64(min(i + _ROWS_AHEAD, stop - 1) + begin)
            prefetch(rowptr, uint64(ids[soon]))
            here = uint64(ids[uint64(i + begin)])
            start[i] = rowptr[here]
            count[i] = rowptr[here + ONE] - start[i]
        if not empty_if_outside(start[first:stop], count[first:stop], own.edges):
            own.changed = 1
        if own.time_kind:
            roots = longs(nodes[own.dst_type].roots)
            _admit_times(first, stop, own, roots, begin, start, count)
        if own.num_excluded:
            _exclude(first, stop, own, start, count)
        if own.most_recent and fanout >= 0:
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
        if own.has_zero_weight:
            table, again = longs(own.cumulative_weight), replace and fanout >= 0
            for i in range(first, stop):
                base = mass_before(table, rowptr, ids[uint64(i + begin)], start[i])
                wanted = min(size[i], 1) if again else size[i]
                found = _positive(table, start[i], start[i] + count[i], base, wanted)
                size[i] = size[i] * found if again else found


@compiled
def _admit_times(first, stop, own, roots, begin, start, count):
    """Narrows rows to the times that are admitted, of whatever type they are."""
    rows, time, low = (roots, begin, start, count), own.time, own.time_min
    if own.time_kind in (INT32, INT64):
        whole = longs(own.time_max), longs(low), low != 0
        if own.time_kind == INT32:
            _narrow(first, stop, ints(time), *whole, *rows)
        else:
            _narrow(first, stop, longs(time), *whole, *rows)
    else:
        real = doubles(own.time_max), doubles(low), low != 0
        if own.time_kind == FLOAT32:
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
def _exclude(first, stop, own, start, count):
    """Rows as they would stand if all hidden edges were gone from the graph."""
    hidden, hides = longs(own.excluded), own.num_excluded
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
        first, stop = max(lo, segments[s].first), min(hi, segments[s].stop)
        if first >= stop:
            continue
        relation = segments[s].relation
        own, fanout, again = relations[relation], segments[s].fanout, replace
        if fanout < 0:
            fanout, again = int64(_EVERY), False
        stem = mix(key + uint64(relation + 1) * GOLDEN)
        begin = segments[s].begin - segments[s].first
        here = nodes[own.dst_type]
        ids, roots, size = longs(here.ids), longs(here.roots), here.size
        rowptr, table = longs(own.rowptr), longs(own.cumulative_weight)
        by_mass = own.cumulative_weight and not again and fanout < _EVERY
        gone = np.empty((2, scratch_cells(fanout) if by_mass else 0), np.int64)
        for i in range(first, stop):
            at, local = end[i - 1] if i else 0, uint64(i + begin)
            who = ids[local]
            if here.roots:  # trees are apart
                who += roots[local] * size
            stream = mix(stem + uint64(who) * GOLDEN)
            if own.cumulative_weight:
                soon = min(i + 2, stop - 1)
                prefetch_row(table, start[soon], start[soon] + count[soon])
            whole = not again and count[i] <= fanout and own.has_zero_weight == 0
            if own.cumulative_weight == 0 or whole:
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
        if own.num_excluded:
            _step_over(head, tail, own, edge)
        sound = replace_outside(edge[head:tail], 0, own.edges, 0)
        reach(head, tail, own.col, own.wide_col, edge, by)
        sound &= replace_outside(by[head:tail], 0, own.cols, 0)
        if not sound:
            own.changed = 1


@compiled
def _step_over(first, stop, own, edge):
    """Turns positions among the edges that stay into positions among all of them."""
    hidden, hides = longs(own.excluded), own.num_excluded
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
def gather_runs(runs, relations, edge, to, by, index, ids):
    """Brings the edges of every relation together; `runs` has an `EdgeRun` per row.

    `index` gets the senders of
    a relation, then its receivers, then those of the next; `ids` the edges, by the
    caller's numbers where relations have an address of them.
    """
    at = int64(0)
    for relation in range(relations.shape[0]):
        total = int64(0)
        for r in range(runs.shape[0]):
            total += runs[r].size if runs[r].relation == relation else 0
        senders, receivers, first = 2 * at, 2 * at + total, at
        for r in range(runs.shape[0]):
            if runs[r].relation != relation:
                continue
            source, size = runs[r].start, runs[r].size
            index[senders : senders + size] = by[source : source + size]
            index[receivers : receivers + size] = to[source : source + size]
            ids[at : at + size] = edge[source : source + size]
            senders, receivers, at = senders + size, receivers + size, at + size
        own = relations[relation]
        if own.edge_id:
            reach(first, at, own.edge_id, own.wide_edge_id, ids, ids)
