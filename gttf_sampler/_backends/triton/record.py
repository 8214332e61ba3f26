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

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from gttf_sampler._backends import record
from gttf_sampler._backends.record import Batch, Plan, RelationRow
from gttf_sampler._backends.triton import launch as how
from gttf_sampler._backends.triton.launch import launch

if TYPE_CHECKING:
    from gttf_sampler._backends.triton.relabel import Cells, Slots


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
    """Offsets of the edges of every relation; `relations` + `types` on, their room."""
    return relation_row(words, relations, types, depth)


@triton.jit
def node_place(words, types, relations, depth):
    """Offsets of the nodes of every type; `relations` + `types` on, their room."""
    return relation_row(words, relations, types, depth) + relations


@triton.jit
def level_row(levels, level, types, relations):
    """The row of a level: begins with new nodes, then edges taken, then in front."""
    return levels + level * (3 * types + 3 * relations + ADDRESSES)


@triton.jit
def node_start(row, types, relations):
    """Offsets of each type in the ids of a level; then its first local id."""
    return row + types + 2 * relations


@triton.jit
def edge_start(row, types, relations):
    """Offsets of each relation in the edges of a hop."""
    return row + 3 * types + 2 * relations


@triton.jit
def address(row, types, relations, which):
    """The place of one of the addresses of a level."""
    return row + 3 * types + 3 * relations + which


@triton.jit(do_not_specialize=["at", "packed", "count", "span"])
def write_words(words, at, packed, count, clear, span, B: tl.constexpr):
    """Puts `count` words where kernels find them; clears `span` cells of `clear`."""
    for i in tl.static_range(len(packed)):
        word = (packed[i] << 2) >> 3  # see `Arguments`
        tl.store(words + at + i, word, mask=i < count)
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
        words, levels: see `triton.record`.
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
        level = 3 * kinds + 3 * relations + ADDRESSES.value
        size += -size % WORDS  # arrays start where kernels are compiled for
        cells = size + (depth + 1) * level
        self.words = torch.empty(cells, dtype=torch.int64, device=plan.device)
        self.levels = self.words[size:].view(depth + 1, level)

    def write(self, rooms: tuple[list[int], list[int]] | None) -> None:
        """Takes all words to the device, and clears the levels."""
        words = self._types()
        for row, relation in zip(self.rows, self.plan.relations, strict=True):
            words += [*row, *relation.fanouts]
        if rooms is not None:
            words += self._places(*rooms)
        send_words(self.words, 0, words, self.levels)

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
            size, root = self.plan.sizes[kind], self.batch.first_root[kind]
            words += [seeds.numel(), first, root, size, *self.tables.words(kind)]
            first += seeds.numel()
        return words


def send_words(
    cells: Tensor, at: int, words: list[int], clear: Tensor | None = None
) -> None:
    """Writes words to the place `at` and zeros into `clear`, by one launch."""
    for first in range(0, len(words), MOST_WORDS):
        some = words[first : first + MOST_WORDS]
        count = len(some)
        some += [0] * (-count % WORDS)
        zeros = cells[:0] if clear is None or first else clear
        launch(
            write_words,
            (1,),
            *(cells, at + first, tuple(map(_packed, some)), count),
            *(zeros, zeros.numel()),
            B=how.SPAN,
        )


def _packed(word: int) -> int:
    """A word of 61 bits as a number that Triton always takes for the same kind.

    It would compile a kernel anew for numbers of 32 bits, and for multiples of 16.
    """
    return (word << 1 | 1) & ((1 << 62) - 1) | 1 << 62
