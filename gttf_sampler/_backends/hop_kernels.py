"""A hop as data: what kernels of rooted sampling are told, and where it stands.

Every row of `relations` holds the addresses of one relation's arrays and what is to be
done with them, every row of `nodes` those of one node type, and every row of `segments`
a part of the walkers: the frontier of one relation. Walkers of all segments are
numbered through, and so are the edges they take; kernels work on walkers lo to hi, so
that threads can share them. What a relation is not asked for is decided once per
segment and costs nothing in the loops.

The arrays of a graph are tensors that anybody can edit. So a row is followed if it lies
inside of the edges, and an edge if it leads to a node; where one does not, CHANGED of
its relation is set, and the batch goes on with node 0 until somebody looks.
"""

import numba
from numba import int64, types, uint64
from numba.extending import intrinsic

from gttf_sampler._backends.word_kernels import ONE, compiled

# columns of `relations`
ROWPTR, COL, WIDE, MASS, GAPS, TIME, KIND, LATEST, BEFORE, LAST = range(10)
HIDDEN, HIDES, TO, BY, EDGE_ID, WIDE_ID = range(10, 16)
ROWS, EDGES, COLS, CHANGED, RELATION_COLUMNS = range(16, 21)
# columns of `nodes`
IDS, ROOTS, CELL, WIDE_CELL, SIZE, FLOOR, LIMIT, NODE_COLUMNS = range(8)
# columns of `segments`
RELATION, FIRST, STOP, BEGIN, FANOUT, SEGMENT_COLUMNS = range(6)
# kinds of times; 0 is for none
INT32, INT64, FLOAT32, FLOAT64 = range(1, 5)


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
    """Whether all rows lie inside of the edges; makes all of them empty if not.

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
    """Whether all ids lie in [least, size); replaces those that do not."""
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
