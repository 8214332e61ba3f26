"""What a batch tells the kernels of rooted sampling: words, and tables of nodes."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.record import WIDE, Batch, Plan, RelationRow
from gttf_sampler._backends.scratch import CLEAN
from gttf_sampler._backends.triton import columns as tt
from gttf_sampler._backends.triton import launch as how
from gttf_sampler._backends.triton.launch import ENTRIES, blocks, launch
from gttf_sampler._backends.triton.relabel import EMPTY, SPARE, rehash

WORDS = 16  # a kernel is compiled for every multiple of these
MOST_WORDS = 240  # that fit into the arguments of a launch


class Traits(NamedTuple):
    """What any of the laws asks for: kernels are compiled without the rest."""

    times: bool
    hides: bool
    mass: bool
    gaps: bool


class Arguments:
    """The words of a batch, on the device.

    Attributes:
        words, levels: see `triton.columns`.
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
        self._first_place = kinds * tt.TYPE_COLUMNS.value
        self._first_place += relations * (tt.FANOUTS.value + depth)
        size = self._first_place + 2 * (kinds + relations)
        level = 3 * kinds + 3 * relations + tt.ADDRESSES.value
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
        """Where each relation and each type goes, and its room."""
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
            tt.write_words,
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


PAIRS = 1 << 19  # pairs that there is always room for, to make room less often
MOST = (1 << 31) - 2  # entries of a batch: their numbers are of 32 bits


class Cells:
    """A cell per node: stamped, or cleared after use if `entries` are told beforehand.

    A batch makes at most `MOST` entries; `Run.hop` refuses more.
    """

    slots = 0

    def __init__(self, plan: Plan, batch: Batch, entries: int | None = None) -> None:
        self.plan, self.clean = plan, entries is not None
        if self.clean:
            pairs = zip(plan.pools, plan.sizes, strict=True)
            self.tables = [pool.take_clean(size, plan.device) for pool, size in pairs]
            self.floors = [-min(entries or 0, MOST)] * len(self.tables)
            return
        self.tables = plan.take_tables()
        numbers = min(_most_entries(plan, batch), MOST)
        self.floors = [
            table.reserve(numbers) - torch.iinfo(table.cell.dtype).max
            for table in self.tables
        ]

    def make_room(self, entries: int) -> bool:
        """There is room for all nodes already."""
        return False

    def words(self, kind: int) -> tuple[int, int, int]:
        """The table of a node type, whether it is wide, and its floor."""
        cell = self.tables[kind].cell
        return cell.data_ptr(), WIDE[cell.dtype], self.floors[kind]

    def give_back(self) -> None:
        """Lets the next batch have the tables."""
        if not self.clean:
            self.plan.give_back(self.tables)
            return
        plan = self.plan
        for pool, size, table in zip(plan.pools, plan.sizes, self.tables, strict=True):
            pool.give_back(CLEAN - size, table)


class Slots:
    """A hash table of (tree, node) pairs, made for one batch."""

    def __init__(self, plan: Plan, entries: int) -> None:
        self.plan, self.slots = plan, 0
        self.made: list[Tensor] = []
        self.make_room(entries)

    def make_room(self, entries: int) -> bool:
        """Makes sure that half of the slots stay empty; True if all of them are new."""
        slots = 1 << (2 * max(entries, 1) - 1).bit_length()
        if slots <= self.slots:
            return False
        _check.fits("fanouts", 16 * slots)
        size, device = (2 * (slots + SPARE.value),), self.plan.device
        self.made.append(
            torch.full(size, EMPTY.value, dtype=torch.int64, device=device)
        )
        if self.slots:
            grid = (blocks(self.slots, ENTRIES),)
            launch(
                rehash, grid, self.made[-2], self.slots, self.made[-1], slots, B=ENTRIES
            )
            del self.made[0]
        self.slots = slots
        return True

    def words(self, kind: int) -> tuple[int, int, int]:
        """The table, which serves all types of nodes."""
        return self.made[-1].data_ptr(), 1, 0

    def give_back(self) -> None:
        """There is nothing to keep."""


def _most_entries(plan: Plan, batch: Batch) -> int:
    """No batch from these seeds has more seeds and edges; a node is expanded once."""
    seeds = sum(part.numel() for part in batch.seeds)
    total, most = seeds, plan.most_edges(batch.seeds)
    for relation in plan.relations:
        own = relation.adj.num_edges + seeds * relation.adj.max_degree
        if plan.replace:
            nodes = seeds + plan.sizes[relation.dst_type]
            own += nodes * max(relation.fanouts, default=0)
        total += min(own, most)
    return total


def likely_entries(plan: Plan, batch: Batch) -> int:
    """How many entries to make room for: all that there can be, if not too many."""
    seeds = sum(part.numel() for part in batch.seeds)
    return seeds + min(plan.most_edges(batch.seeds), PAIRS)
