"""A hop as data: what kernels of rooted sampling are told, and where it stands.

Every row of `relations` holds the addresses of one relation's arrays and what is to be
done with them, every row of `nodes` those of one node type, and every row of `segments`
a part of the walkers: the frontier of one relation. Walkers of all segments are
numbered through, and so are the edges they take; kernels work on walkers lo to hi, so
that threads can share them. What a relation is not asked for is decided once per
segment and costs nothing in the loops.
"""

import numba
from numba import types
from numba.extending import intrinsic

from gttf_sampler._backends.word_kernels import compiled

# columns of `relations`
ROWPTR, COL, WIDE, MASS, GAPS, TIME, KIND, LATEST, BEFORE, LAST = range(10)
HIDDEN, HIDES, TO, BY, EDGE_ID, WIDE_ID, RELATION_COLUMNS = range(10, 17)
# columns of `nodes`
IDS, ROOTS, CELL, WIDE_CELL, SIZE, FLOOR, LIMIT, NODE_COLUMNS = range(8)
# columns of `segments`
RELATION, FIRST, STOP, BEGIN, FANOUT, SEGMENT_COLUMNS = range(6)
# kinds of times; 0 is for none
INT32, INT64, FLOAT32, FLOAT64 = range(1, 5)


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
