"""The tables that the kernels of rooted sampling read: what is where.

`words` says what holds for the batch, and `levels` is where the kernels tell each other
how far they are. Level 0 are the seeds, level h + 1 is what hop h has made of level h.

    words   a row per node type, then a row per relation, with fanouts at its end;
            then where the edges of every relation and the nodes of every type go,
            and how much room there is for each
    levels  a row per level: new nodes per type, edges taken per relation, edges in
            front of the new nodes per relation; then where each of them starts;
            addresses; new nodes per relation; then the two counts per relation once
            more, in PARTS of its blocks, so that a block need not add up all before it

Words travel as arguments of a kernel, which takes them to the device without a copy
that anybody would have to wait for, and in a CUDA graph, too.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from gttf_sampler._backends.record import Batch, Plan, RelationRow
from gttf_sampler._backends.triton import launch as how
from gttf_sampler._backends.triton.launch import Address, Slab, launch_long
from gttf_sampler._backends.triton.rng import longs

if TYPE_CHECKING:
    from gttf_sampler._backends.triton.relabel import Cells, Slots


# columns of a node type: seeds are counted among those of all types, FIRST_ROOT is -1
# where all trees are one, FLOOR is that of
# this batch, from the top of the type of the cells that nodes are claimed in
SEEDS, FIRST_SEED, FIRST_ROOT, SIZE = map(tl.constexpr, range(4))
CELLS, WIDE_CELLS, FLOOR, TYPE_COLUMNS = map(tl.constexpr, range(4, 8))
# columns of a relation, as in `RelationRow`; then fanouts, one per hop, -1 for all
ROWPTR, COL, WIDE_COL, CUMULATIVE_WEIGHT = map(tl.constexpr, range(4))
HAS_ZERO_WEIGHT, TIME, TIME_KIND, TIME_MAX = map(tl.constexpr, range(4, 8))
TIME_MIN, MOST_RECENT, EXCLUDED, NUM_EXCLUDED = map(tl.constexpr, range(8, 12))
DST_TYPE, SRC_TYPE, EDGE_ID, WIDE_EDGE_ID = map(tl.constexpr, range(12, 16))
FANOUTS = tl.constexpr(len(RelationRow._fields))
# addresses at the end of a level, and the position of its first edge among all entries
IDS, ROOTS, EDGE, RECEIVER = map(tl.constexpr, range(4))
REACHED, LOCAL, POSITION, ADDRESSES = map(tl.constexpr, range(4, 8))
PARTS = tl.constexpr(32)  # of the blocks of a relation, each with a sum of its own
LOOK = tl.constexpr(128)  # sums that are read at once; a power of two, PARTS at least


@triton.jit
def types_of(shape):
    """The number of node types; `shape` is what `shape_of` has packed."""
    return (shape & 0xFFFF).to(tl.int32)


@triton.jit
def relations_of(shape):
    """The number of relations."""
    return ((shape >> 16) & 0xFFFF).to(tl.int32)


@triton.jit
def depth_of(shape):
    """The number of hops of a batch."""
    return ((shape >> 32) & 0x7FFF).to(tl.int32)


@triton.jit
def hop_of(shape):
    """The hop that a kernel works on."""
    return ((shape >> 47) & 0x7FFF).to(tl.int32)


@triton.jit
def relation_row(words, relation, shape):
    """The row of a relation."""
    width = FANOUTS + depth_of(shape)
    return words + types_of(shape) * TYPE_COLUMNS + relation * width


@triton.jit
def edge_place(words, shape):
    """Offsets of the edges of every relation; `relations` + `types` on, their room."""
    return relation_row(words, relations_of(shape), shape)


@triton.jit
def node_place(words, shape):
    """Offsets of the nodes of every type; `relations` + `types` on, their room."""
    return edge_place(words, shape) + relations_of(shape)


@triton.jit
def level_row(levels, level, shape):
    """The row of a level: begins with new nodes, then edges taken, then in front."""
    relations = relations_of(shape)
    width = 3 * (types_of(shape) + relations) + ADDRESSES + relations * (1 + 2 * PARTS)
    return levels + level * width


@triton.jit
def node_start(row, shape):
    """Offsets of each type in the ids of a level; then its first local id."""
    return row + types_of(shape) + 2 * relations_of(shape)


@triton.jit
def edge_start(row, shape):
    """Offsets of each relation in the edges of a hop."""
    return row + 3 * types_of(shape) + 2 * relations_of(shape)


@triton.jit
def addresses(row, shape):
    """The addresses of a level."""
    return row + 3 * (types_of(shape) + relations_of(shape))


@triton.jit
def new_of(row, shape):
    """New nodes per relation, of the type that sends."""
    return addresses(row, shape) + ADDRESSES


@triton.jit
def taken_parts(row, relation, shape):
    """Edges taken in each part of a relation's blocks of walkers."""
    return new_of(row, shape) + relations_of(shape) + relation * PARTS


@triton.jit
def new_parts(row, relation, shape):
    """New nodes in each part of a relation's blocks of edges."""
    return taken_parts(row, relations_of(shape) + relation, shape)


@triton.jit
def add_up(sums, parts, block, blocks, count):
    """Notes the count of a block, for `before_block` of a later launch."""
    tl.store(sums + block, count)
    tl.atomic_add(parts + block // tl.cdiv(blocks, PARTS), count, sem="relaxed")


@triton.jit
def before_block(sums, parts, block, blocks):
    """Counts of the blocks before one, [LOOK] numbers to be summed: a few reads.

    All blocks look for themselves, at whole parts first and then at the blocks of
    their own part, so that no program has to go through all of them.
    """
    size = tl.cdiv(blocks, PARTS)
    part, lane = block // size, tl.arange(0, LOOK)
    some = (lane < part) & (lane < PARTS)
    found = tl.load(parts + lane, mask=some, other=0)
    for first in range(part * size, block, LOOK):
        found += tl.load(sums + first + lane, mask=first + lane < block, other=0)
    return found


@triton.jit
def before(values, count):
    """The first `count` values, [LOOK] numbers to be summed."""
    lane, found = tl.arange(0, LOOK), tl.zeros([LOOK], tl.int64)
    for first in range(0, count, LOOK):
        found += tl.load(values + first + lane, mask=first + lane < count, other=0)
    return found


@triton.jit
def array(row, which, shape):
    """One of the arrays of a level, by its address."""
    return longs(tl.load(addresses(row, shape) + which))


@triton.jit
def program(words, levels, shape):
    """The block and the relation of a program, and the levels of its hop.

    Returns the block, the relation and its row, the level before and the one after.
    """
    block, relation = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    own, hop = relation_row(words, relation, shape), hop_of(shape)
    before = level_row(levels, hop, shape)
    return block, relation, own, before, level_row(levels, hop + 1, shape)


def shape_of(types: int, relations: int, depth: int, hop: int = 0) -> int:
    """The sizes of a batch in one word, whose upper bit makes it an int64 always."""
    return 1 << 62 | hop << 47 | depth << 32 | relations << 16 | types


@triton.jit(do_not_specialize=["at", "packed", "count", "span"])
def write_words(
    words, at, packed, count, clear, span, W: tl.constexpr, B: tl.constexpr
):
    """Puts `count` words of W where they belong; clears `span` cells of `clear`."""
    for i in tl.static_range(W):
        tl.store(words + at + i, packed[i], mask=i < count)
    for first in range(0, span, B):
        cell = first + tl.arange(0, B)
        tl.store(clear + cell, tl.zeros_like(cell).to(tl.int64), mask=cell < span)


WORDS = 16  # a kernel is compiled for every multiple of these
MOST_WORDS = 240  # that fit into the arguments of a launch


class Traits(NamedTuple):
    """Features that any of the laws needs: kernels are compiled without the rest."""

    times: bool
    hides: bool
    mass: bool
    gaps: bool


class Arguments:
    """The words of a batch, on the device.

    Attributes:
        words, levels: see `triton.record`; the address of the second.
        traits: what kernels are compiled with.
    """

    def __init__(
        self, plan: Plan, batch: Batch, rows: list[RelationRow], tables: Cells | Slots
    ) -> None:
        self.plan, self.batch, self.rows, self.tables = plan, batch, rows, tables
        self.traits = Traits(
            times=any(row.time_kind for row in rows),
            hides=any(row.num_excluded for row in rows),
            mass=any(row.cumulative_weight for row in rows),
            gaps=any(row.has_zero_weight for row in rows),
        )
        kinds, relations, depth = len(plan.sizes), len(plan.relations), plan.depth
        self._first_place = kinds * TYPE_COLUMNS.value
        self._first_place += relations * (FANOUTS.value + depth)
        size = self._first_place + 2 * (kinds + relations)
        level = 3 * (kinds + relations) + ADDRESSES.value
        level += relations * (1 + 2 * PARTS.value)
        size += -size % WORDS  # arrays start where kernels are compiled for
        self._first_level, self._level = size, level
        self._span = (depth + 1) * level
        slab = Slab([size, self._span], plan.device)
        self.words, (_, self.levels) = slab.memory, slab.at

    def write(self, rooms: tuple[list[int], list[int]] | None) -> None:
        """Takes all words to the device, and clears the levels."""
        words = self._types()
        for row, relation in zip(self.rows, self.plan.relations, strict=True):
            words += [*row, *relation.fanouts]
        if rooms is not None:
            words += self._places(*rooms)
        send_words(self.words, 0, words, self.levels, self._span)

    def read(self, level: int, count: int) -> list[int]:
        """The first numbers of a level; waits for the device."""
        first = self._first_level + level * self._level
        found: list[int] = self.words[first : first + count].tolist()
        return found

    def column(self, number: int) -> Tensor:
        """A number of every level."""
        depth = self._span // self._level
        first = self._first_level + number
        return self.words.as_strided((depth,), (self._level,), first)

    def write_types(self) -> None:
        """Takes the words of node types to the device once more."""
        send_words(self.words, 0, self._types())

    def write_places(self, edges: list[int], nodes: list[int]) -> None:
        """Says where edges and nodes go, of which there are so many."""
        send_words(self.words, self._first_place, self._places(edges, nodes))

    def _places(self, edges: list[int], nodes: list[int]) -> list[int]:
        """Offsets of each relation and each type in the output, and their room."""
        return [
            *accumulate(edges[:-1], initial=0),
            *accumulate(nodes[:-1], initial=0),
            *(*edges, *nodes),
        ]

    def _types(self) -> list[int]:
        """The rows of all node types."""
        words, first = [], 0
        for kind, seeds in enumerate(self.batch.seeds):
            size, root = self.plan.sizes[kind], -1
            if self.batch.disjoint:
                root = self.batch.first_root[kind]
            words += [seeds.numel(), first, root, size, *self.tables.words(kind)]
            first += seeds.numel()
        return words


def send_words(
    cells: Tensor,
    at: int,
    words: list[int],
    clear: Address | None = None,
    span: int = 0,
) -> None:
    """Writes words to the place `at`, and zeros to `span` cells, by one launch."""
    for first in range(0, len(words), MOST_WORDS):
        some = words[first : first + MOST_WORDS]
        count = len(some)
        some += [0] * (-count % WORDS)
        zeros = Address(0) if clear is None or first else clear
        args = cells, at + first, tuple(some), count, zeros, span if zeros else 0
        launch_long(write_words, (1,), *args, W=len(some), B=how.SPAN)
