"""The compiled loops of rooted sampling: all relations and laws of a hop in one call.

A hop is data. Every row of `relations` holds the addresses of one relation's arrays and
what is to be done with them, every row of `nodes` those of one node type, and every row
of `segments` a part of the walkers: the frontier of one relation. Walkers of all
segments are numbered through, and so are the edges they take; kernels work on walkers
lo to hi, so that threads can share them. What a relation is not asked for is decided
once per segment and costs nothing in the loops.
"""

import numba
import numpy as np
from numba import int64, types, uint64
from numba.extending import intrinsic

from gttf_sampler._backends.draw_kernels import (
    bisect,
    draw_row,
    draw_row_weighted,
    prefetch_row,
    scratch_cells,
)
from gttf_sampler._backends.word_kernels import (
    AHEAD,
    GOLDEN,
    ONE,
    compiled,
    mix,
    prefetch,
)

# columns of `relations`
ROWPTR, COL, WIDE, MASS, GAPS, TIME, KIND, LATEST, BEFORE, LAST = range(10)
HIDDEN, HIDES, TO, BY, EDGE_ID, WIDE_ID, RELATION_COLUMNS = range(10, 17)
# columns of `nodes`
IDS, ROOTS, CELL, WIDE_CELL, SIZE, FLOOR, LIMIT, NODE_COLUMNS = range(8)
# columns of `segments`
RELATION, FIRST, STOP, BEGIN, FANOUT, SEGMENT_COLUMNS = range(6)
# kinds of times; 0 is for none
INT32, INT64, FLOAT32, FLOAT64 = range(1, 5)

_EVERY = 1 << 31  # longer than any row
_ROWS_AHEAD = 16  # how many rows ahead memory is asked for the times in a row
_TREES_AHEAD = np.uint64(16)  # the same for the slots of a table of trees


def _pointer_to(kind):
    """What makes a pointer to values of a kind out of an address."""

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
def _ints(address):
    return numba.carray(_to_int32(address), (1 << 60,))


@compiled
def _longs(address):
    return numba.carray(_to_int64(address), (1 << 60,))


@compiled
def _floats(address):
    return numba.carray(_to_float32(address), (1 << 60,))


@compiled
def _doubles(address):
    return numba.carray(_to_float64(address), (1 << 60,))


@compiled
def measure(lo, hi, relations, segments, nodes, replace, start, count, size):
    """The admitted part of every walker's row, and how many edges it will take."""
    for s in range(segments.shape[0]):
        first, stop = max(lo, segments[s, FIRST]), min(hi, segments[s, STOP])
        if first >= stop:
            continue
        own, fanout = relations[segments[s, RELATION]], segments[s, FANOUT]
        begin = segments[s, BEGIN] - segments[s, FIRST]  # walker i is node i + begin
        ids, rowptr = _longs(nodes[own[TO], IDS]), _longs(own[ROWPTR])
        for i in range(first, stop):
            soon = uint64(min(i + _ROWS_AHEAD, stop - 1) + begin)
            prefetch(rowptr, uint64(ids[soon]))
            here = uint64(ids[uint64(i + begin)])
            start[i] = rowptr[here]
            count[i] = rowptr[here + ONE] - start[i]
        if own[KIND]:
            roots = _longs(nodes[own[TO], ROOTS])
            _admit(first, stop, own, roots, begin, start, count)
        if own[HIDES]:
            _hide(first, stop, _longs(own[HIDDEN]), own[HIDES], start, count)
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
            table, again = _longs(own[MASS]), replace and fanout >= 0
            for i in range(first, stop):
                base = _mass_before(table, rowptr, ids[uint64(i + begin)], start[i])
                wanted = min(size[i], 1) if again else size[i]
                found = _positive(table, start[i], start[i] + count[i], base, wanted)
                size[i] = size[i] * found if again else found


@compiled
def _admit(first, stop, own, roots, begin, start, count):
    """Narrows rows to the times that are admitted."""
    if own[KIND] == INT32:
        times = _ints(own[TIME]), _longs(own[LATEST]), _longs(own[BEFORE])
        _narrow(first, stop, *times, own[BEFORE] != 0, roots, begin, start, count)
    elif own[KIND] == INT64:
        long = _longs(own[TIME]), _longs(own[LATEST]), _longs(own[BEFORE])
        _narrow(first, stop, *long, own[BEFORE] != 0, roots, begin, start, count)
    elif own[KIND] == FLOAT32:
        real = _floats(own[TIME]), _doubles(own[LATEST]), _doubles(own[BEFORE])
        _narrow(first, stop, *real, own[BEFORE] != 0, roots, begin, start, count)
    else:
        wide = _doubles(own[TIME]), _doubles(own[LATEST]), _doubles(own[BEFORE])
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
def _mass_before(table, rowptr, node, start):
    """The mass of a row in front of position `start`."""
    return table[uint64(start - 1)] if start > rowptr[uint64(node)] else 0


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
        here = nodes[own[TO]]
        ids, roots, apart_by = _longs(here[IDS]), _longs(here[ROOTS]), here[SIZE]
        rowptr, table = _longs(own[ROWPTR]), _longs(own[MASS])
        by_mass = own[MASS] and not again and fanout < _EVERY
        gone = np.empty((2, scratch_cells(fanout) if by_mass else 0), np.int64)
        for i in range(first, stop):
            at, local = end[i - 1] if i else 0, uint64(i + begin)
            who = ids[local]
            if apart:
                who += roots[local] * apart_by
            stream = mix(stem + uint64(who) * GOLDEN)
            if own[MASS]:
                soon = min(i + 2, stop - 1)
                prefetch_row(table, start[soon], start[soon] + count[soon])
            whole = not again and count[i] <= fanout and own[GAPS] == 0
            if own[MASS] == 0 or whole:
                draw_row(stream, start[i], count[i], fanout, again, edge, at)
            elif end[i] > at:
                base = _mass_before(table, rowptr, ids[local], start[i])
                low, high = start[i], start[i] + count[i]
                if again or count[i] > fanout:
                    how = fanout, again, gone, edge, at
                    draw_row_weighted(stream, table, low, high, base, *how)
                else:
                    _take_positive(table, low, high, base, edge, at)
            for e in range(uint64(at), uint64(end[i])):
                to[e] = int64(local)
        head, tail = end[first - 1] if first else 0, end[stop - 1]
        if own[HIDES]:
            _step_over(head, tail, _longs(own[HIDDEN]), own[HIDES], edge)
        if own[WIDE]:
            _reach(head, tail, _longs(own[COL]), edge, by)
        else:
            _reach(head, tail, _ints(own[COL]), edge, by)


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
def number(lo, hi, relations, segments, nodes, slots, base, known, end, to, by):
    """Gives what walkers lo to hi have reached local ids, in `by`; counts in `known`.

    With `slots`, nodes are looked up in that hash table, (tree, node) pairs where nodes
    have roots, as trees are apart; else in a table with a cell per node.
    """
    for s in range(segments.shape[0]):
        first, stop = max(lo, segments[s, FIRST]), min(hi, segments[s, STOP])
        if first >= stop:
            continue
        own = relations[segments[s, RELATION]]
        head, tail = end[first - 1] if first else 0, end[stop - 1]
        kind = own[BY]
        there, ids = nodes[kind], _longs(nodes[kind, IDS])
        new = by[head:tail]
        table = nodes.shape[0], kind, slots, base, known[kind]
        if slots.size and there[ROOTS]:
            trees = _longs(nodes[own[TO], ROOTS]), _longs(there[ROOTS]), there[SIZE]
            known[kind] = _number_trees(new, to[head:tail], ids, *trees, *table)
        elif slots.size:
            known[kind] = _number_hashed(new, ids, *table)
        elif there[WIDE_CELL]:
            how = there[FLOOR], there[LIMIT], known[kind], ids
            known[kind] = _number_nodes(new, _longs(there[CELL]), *how)
        else:
            how = there[FLOOR], there[LIMIT], known[kind], ids
            known[kind] = _number_nodes(new, _ints(there[CELL]), *how)


@compiled
def _number_nodes(ids, cell, floor, limit, known, nodes):
    """Replaces ids by local ones in place, appends new nodes; returns their number.

    A cell holds floor + local id if it is below `limit`, else something old. There is
    no branch on whether a node is new, which nobody could predict.
    """
    count, last = int64(known), uint64(ids.size - 1)
    for e in range(uint64(ids.size)):
        prefetch(cell, uint64(ids[min(e + AHEAD, last)]))
        cell_of = uint64(ids[e])
        value = int64(cell[cell_of])
        new = int64(value >= limit)
        value += (floor + count - value) * new
        cell[cell_of] = value
        nodes[uint64(count)] = int64(cell_of)
        count += new
        ids[e] = value - floor
    return count


@compiled
def _slot_of(code, slots):
    """Where to look first for a code: slots are pairs, a power of two in all."""
    spread = code * GOLDEN
    return ((spread ^ (spread >> uint64(32))) << ONE) & uint64(slots.size - 1)


@compiled
def _enter(code, value, slots, base):
    """The value of a code in an open-addressing table; `value` if it is new there.

    Values below `base` are of earlier batches and count as empty.
    """
    at, last = _slot_of(code, slots), uint64(slots.size - 1)
    while slots[at + ONE] >= base:
        if uint64(slots[at]) == code:
            return slots[at + ONE]
        at = (at + uint64(2)) & last
    slots[at], slots[at + ONE] = int64(code), value
    return value


@compiled
def _number_hashed(ids, nodes, kinds, kind, slots, base, known):
    """`_number_nodes` with a hash table for the nodes of all types."""
    count, last = int64(known), uint64(ids.size - 1)
    for e in range(uint64(ids.size)):
        ahead = uint64(ids[min(e + _TREES_AHEAD, last)]) * uint64(kinds)
        prefetch(slots, _slot_of(ahead + uint64(kind), slots))
        id_ = ids[e]
        code = uint64(id_) * uint64(kinds) + uint64(kind)
        value = _enter(code, base + count, slots, base) - base
        nodes[uint64(count)] = id_
        count += int64(value == count)
        ids[e] = value
    return count


@compiled
def _number_trees(
    ids, to, nodes, root_of, roots, size, kinds, kind, slots, base, known
):
    """`_number_hashed` where a node is another one in every tree."""
    count, last = int64(known), uint64(ids.size - 1)
    for e in range(uint64(ids.size)):
        soon = min(e + _TREES_AHEAD, last)
        root = root_of[uint64(to[soon])]
        ahead = uint64(root * size + ids[soon]) * uint64(kinds) + uint64(kind)
        prefetch(slots, _slot_of(ahead, slots))
        root, id_ = root_of[uint64(to[e])], ids[e]
        code = uint64(root * size + id_) * uint64(kinds) + uint64(kind)
        value = _enter(code, base + count, slots, base) - base
        nodes[uint64(count)], roots[uint64(count)] = id_, root
        count += int64(value == count)
        ids[e] = value
    return count


@compiled
def enter_nodes(nodes, known, slots, base):
    """Enters all nodes that are known into their tables; of equal ones the first."""
    kinds = nodes.shape[0]
    for kind in range(kinds):
        own, ids = nodes[kind], _longs(nodes[kind, IDS])
        if slots.size:
            roots = _longs(own[ROOTS])
            for i in range(known[kind]):
                code = uint64(ids[i])
                if own[ROOTS]:
                    code += uint64(roots[i] * own[SIZE])
                code = code * uint64(kinds) + uint64(kind)
                _enter(code, base + i, slots, base)
        elif own[WIDE_CELL]:
            cells = _longs(own[CELL])
            for i in range(known[kind] - 1, -1, -1):
                cells[uint64(ids[i])] = own[FLOOR] + i
        else:
            narrow = _ints(own[CELL])
            for i in range(known[kind] - 1, -1, -1):
                narrow[uint64(ids[i])] = own[FLOOR] + i


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
            translate(first, at, own[EDGE_ID], own[WIDE_ID], ids)


@compiled
def translate(lo, hi, address, wide, ids):
    """Edges by the caller's numbers."""
    if wide:
        _reach(lo, hi, _longs(address), ids, ids)
    else:
        _reach(lo, hi, _ints(address), ids, ids)
