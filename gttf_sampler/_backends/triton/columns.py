"""The tables that the kernels of rooted sampling read: what is where.

`words` says what holds for the batch, and `levels` is where the kernels tell each other
how far they are. Level 0 are the seeds, level h + 1 is what hop h has made of level h.

    words   a row per node type, then a row per relation, with fanouts at its end;
            then where the edges of every relation and the nodes of every type go,
            and how much room there is for each
    levels  a row per level: new nodes per type, edges taken per relation, edges in
            front of the new nodes per relation; then where each of them starts;
            addresses

Words travel as arguments of a kernel, which takes them to the device without a copy
that anybody would have to wait for, and in a CUDA graph, too.
"""

import triton
import triton.language as tl

from gttf_sampler._backends import record

# columns of a node type
SEEDS = tl.constexpr(0)  # how many
FIRST_SEED = tl.constexpr(1)  # among those of all types
FIRST_ROOT = tl.constexpr(2)
SIZE = tl.constexpr(3)
CELLS = tl.constexpr(4)  # the table that nodes are claimed in
WIDE_CELLS = tl.constexpr(5)
FLOOR = tl.constexpr(6)  # of this batch, counted from the top of the cells' type
TYPE_COLUMNS = tl.constexpr(7)
# columns of a relation
ROWPTR = tl.constexpr(record.ROWPTR)
COL = tl.constexpr(record.COL)
WIDE_COL = tl.constexpr(record.WIDE_COL)
CUMULATIVE_WEIGHT = tl.constexpr(record.CUMULATIVE_WEIGHT)
HAS_ZERO_WEIGHT = tl.constexpr(record.HAS_ZERO_WEIGHT)
TIME = tl.constexpr(record.TIME)
TIME_KIND = tl.constexpr(record.TIME_KIND)
TIME_MAX = tl.constexpr(record.TIME_MAX)
TIME_MIN = tl.constexpr(record.TIME_MIN)
MOST_RECENT = tl.constexpr(record.MOST_RECENT)
EXCLUDED = tl.constexpr(record.EXCLUDED)
NUM_EXCLUDED = tl.constexpr(record.NUM_EXCLUDED)
DST_TYPE = tl.constexpr(record.DST_TYPE)
SRC_TYPE = tl.constexpr(record.SRC_TYPE)
EDGE_ID = tl.constexpr(record.EDGE_ID)
WIDE_EDGE_ID = tl.constexpr(record.WIDE_EDGE_ID)
FANOUTS = tl.constexpr(len(record.RelationRow._fields))  # one per hop, -1 for all
# addresses at the end of a level
IDS = tl.constexpr(0)
ROOTS = tl.constexpr(1)
EDGE = tl.constexpr(2)
RECEIVER = tl.constexpr(3)
REACHED = tl.constexpr(4)
LOCAL = tl.constexpr(5)
POSITION = tl.constexpr(6)  # of the first edge of the hop among all entries
ADDRESSES = tl.constexpr(7)


@triton.jit
def relation_row(words, relation, types, depth):
    """The row of a relation."""
    return words + types * TYPE_COLUMNS + relation * (FANOUTS + depth)


@triton.jit
def edge_place(words, types, relations, depth):
    """Where the edges of every relation go; `relations` + `types` on, their room."""
    return relation_row(words, relations, types, depth)


@triton.jit
def node_place(words, types, relations, depth):
    """Where the nodes of every type go, and `relations` + `types` on, their room."""
    return relation_row(words, relations, types, depth) + relations


@triton.jit
def level_row(levels, level, types, relations):
    """The row of a level: begins with new nodes, then edges taken, then in front."""
    return levels + level * (3 * types + 3 * relations + ADDRESSES)


@triton.jit
def node_start(row, types, relations):
    """Where in the ids of a level each type starts; then its first local id."""
    return row + types + 2 * relations


@triton.jit
def edge_start(row, types, relations):
    """Where in the edges of a hop each relation starts."""
    return row + 3 * types + 2 * relations


@triton.jit
def address(row, types, relations, which):
    """The place of one of the addresses of a level."""
    return row + 3 * types + 3 * relations + which


@triton.jit(do_not_specialize=["at", "packed", "count", "span"])
def write_words(words, at, packed, count, clear, span, B: tl.constexpr):
    """Puts `count` words where kernels find them; clears `span` cells of `clear`."""
    for i in tl.static_range(len(packed)):
        word = (packed[i] << 2) >> 3  # see `triton.arguments`
        tl.store(words + at + i, word, mask=i < count)
    for first in range(0, span, B):
        cell = first + tl.arange(0, B)
        tl.store(clear + cell, tl.zeros_like(cell).to(tl.int64), mask=cell < span)
