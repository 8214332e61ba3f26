"""Rooted sampling of the fast CPU backend: draws shared by threads, numbers by one.

A hop is drawn in parts; while the nodes of one part get their numbers, which has to be
done in order, the next ones are drawn. Relations without a frontier take no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import record
from gttf_sampler._backends.memory import Array, borrow, give_back, lend
from gttf_sampler._backends.numba import record as columns
from gttf_sampler._backends.numba.hop import draw, gather, translate
from gttf_sampler._backends.numba.record import check_relations, relation_table
from gttf_sampler._backends.numba.relabel import insert_nodes, relabel_edges
from gttf_sampler._backends.numba.rng import word
from gttf_sampler._backends.numba.rows import measure
from gttf_sampler._backends.numba.small import FEW_EDGES, sample_small
from gttf_sampler._backends.record import WIDE, Batch, Plan, Rooted
from gttf_sampler._backends.scratch import NO_TREES, TREES
from gttf_sampler._backends.threads import Parts, parallel
from gttf_sampler.random import fold

PARTS, PART = 8, 1 << 13  # how finely drawing and numbering a hop are interleaved


def rooted(plan: Plan, batch: Batch) -> Rooted | None:
    """Rooted sampling by laws; None where one has none; see `torch.rooted`."""
    found = relation_table(plan, batch)
    if found is None:
        return None
    relations, kept = found
    expected = plan.size_hints.get("edges")
    if expected is None:
        expected = plan.most_edges(batch.seeds)
    if expected < FEW_EDGES:
        small = sample_small(plan, batch, relations)
        if small is not None:
            return small
    plan.ensure_nodes(batch)
    tables = _Tables(plan, batch)
    reached, taken = _Reached(plan, batch, tables), _Taken(plan)
    owners = plan, batch, kept, tables, reached
    for hop in range(plan.depth):
        _sample_hop(plan, batch, hop, relations, reached, taken, owners)
    check_relations(relations)
    tables.give_back()
    row, col, edge = taken.result(relations, owners)
    node, root = reached.result()
    return Rooted(node, root, row, col, edge, reached.hops, taken.hops)


def _ends(index: Tensor, sizes: list[int]) -> tuple[list[Tensor], list[Tensor]]:
    """Senders and receivers of every relation, as `rooted_kernels.gather` made them."""
    both = index.split([size for size in sizes for _ in range(2)])
    return list(both[::2]), list(both[1::2])


class _Tables:
    """Scratch tables of a batch, which are lost if it ends in an error.

    Attributes:
        rows: a row per node type for the kernels.
        trees: the table of trees, empty if they are not apart.
    """

    def __init__(self, plan: Plan, batch: Batch) -> None:
        self.plan, self.cells = plan, []
        self.rows = np.zeros((len(plan.sizes), columns.NODE_COLUMNS), np.int64)
        self.rows[:, columns.SIZE] = plan.sizes
        self.trees = NO_TREES
        if batch.disjoint:
            self.trees = plan.pools[0].take_trees()
            return
        self.cells = plan.take_tables()
        most = plan.most_edges(batch.seeds) + 1
        for row, seeds, own in zip(self.rows, batch.seeds, self.cells, strict=True):
            numbers = seeds.numel() + min(int(row[columns.SIZE]), most)
            floor = own.reserve(numbers)
            row[columns.CELL] = own.cell.data_ptr()
            row[columns.WIDE_CELL] = WIDE[own.cell.dtype]
            row[columns.FLOOR], row[columns.LIMIT] = floor, floor + numbers

    def tree(self) -> tuple[Array, int]:
        """The slots of the table of trees, and a base for this batch."""
        return self.trees.begin() if self.trees is not NO_TREES else (NO_TREES.slots, 0)

    def give_back(self) -> None:
        """Lets others have the tables."""
        if self.cells:
            self.plan.give_back(self.cells)
        elif self.trees is not NO_TREES:
            self.plan.pools[0].give_back(TREES, self.trees)


def _sample_hop(
    plan: Plan,
    batch: Batch,
    hop: int,
    relations: Array,
    reached: _Reached,
    taken: _Taken,
    owners: Any,
) -> None:
    """Draws for all frontiers and numbers what they reach.

    `owners` have the memory that is read by its address.
    """
    known = reached.known.tolist()
    counts = [count - begin for count, begin in zip(known, reached.begin, strict=True)]
    segments, width = _segments(plan, hop, reached.begin, counts)
    if width == 0:
        reached.close_hop()
        taken.close_hop([])
        return
    scratch = [borrow(width) for _ in range(3)]
    rows = [array[:width] for array in scratch]  # start, count, end
    end = rows[2]
    table = relations, segments, reached.table
    drawn = _measure(table, plan.replace, rows, owners)
    _check.fits("fanouts", 24 * drawn)
    ends = end[segments[:, columns.STOP] - 1].tolist()
    sizes = [last - first for first, last in zip([0, *ends], ends, strict=False)]
    reached.make_room(segments, relations, sizes)
    new = taken.room(drawn)  # edge, to, by
    parts = max(1, min(PARTS, drawn // PART))
    bounds = [width * part // parts for part in range(parts + 1)]
    how = word(fold(batch.key, hop)), plan.replace, batch.disjoint
    args = *table, *how, *rows, *new
    with Parts(draw, bounds, *args, owners=owners) as drawing:
        for part, (lo, hi) in enumerate(pairwise(bounds)):
            drawing.wait(part)  # the next ones are drawn while it is numbered
            relabel_edges(lo, hi, *table, *reached.tree, reached.known, end, *new[1:])
    for array in scratch:
        give_back(array)
    reached.close_hop()
    taken.close_hop(list(zip(segments[:, 0].tolist(), sizes, strict=True)))


def _segments(
    plan: Plan, hop: int, begin: Sequence[int], count: Sequence[int]
) -> tuple[Array, int]:
    """The walkers of a hop: a row per relation that takes any edge, and their number.

    `begin` and `count` say, per node type, which nodes are the frontier.
    """
    rows, width = [], 0
    for number, relation in enumerate(plan.relations):
        fanout, kind = relation.fanouts[hop], relation.dst_type
        if count[kind] and fanout:
            stop = width + count[kind]
            rows.append((number, width, stop, begin[kind], fanout))
            width = stop
    shape = (len(rows), columns.SEGMENT_COLUMNS)
    return np.array(rows, np.int64).reshape(shape), width


def _measure(
    table: tuple[Array, Array, Array], replace: bool, rows: list[Array], owners: Any
) -> int:
    """Finds the admissible part of every walker's row; returns how many edges it takes.

    `rows` get the start, the length, and the number of edges up to each walker.
    """
    end = rows[2]
    searches = 4 if table[0][:, record.TIME_KIND].any() else 1
    work = end.size, searches * end.size
    parallel(measure, *work, *table, replace, *rows, owners=owners)
    np.cumsum(end, out=end)
    return int(end[-1]) if end.size else 0


class _Reached:
    """The nodes of every type, in the order of their discovery.

    Attributes:
        table: a row per node type for the kernels.
        known: how many nodes of each type there are.
        tree: the slots of the table of trees, empty if they share nodes, and its base.
        hops: per node type, how many were new in each hop.
    """

    def __init__(self, plan: Plan, batch: Batch, tables: _Tables) -> None:
        self.apart, self.table, self.trees = batch.disjoint, tables.rows, tables.trees
        counts = [seeds.numel() for seeds in batch.seeds]
        self.known = np.array(counts, np.int64)
        self.hops = [[count] for count in counts]
        self.begin = [0] * len(counts)
        self.ids: list[Array] = []
        self.roots: list[Array] = []
        self.usual = plan.size_hints.setdefault("nodes", [0] * len(counts))
        for kind, (seeds, count) in enumerate(zip(batch.seeds, counts, strict=True)):
            expected = max(count + 1, self.usual[kind])
            self.ids.append(borrow(expected))
            self.ids[kind][:count] = seeds.numpy()
            if batch.disjoint:
                first = batch.first_root[kind]
                self.roots.append(borrow(expected))
                self.roots[kind][:count] = np.arange(first, first + count)
            self._note(kind)
        self.tree = tables.tree()
        self._enter(sum(counts), anew=True)

    def _note(self, kind: int) -> None:
        """Writes down where the arrays of a type are now."""
        self.table[kind, columns.IDS] = _address(self.ids[kind])
        if self.apart:
            self.table[kind, columns.ROOTS] = _address(self.roots[kind])

    def _enter(self, needed: int, anew: bool = False) -> None:
        """Enters the nodes; for trees, wherever their table has to be larger."""
        if self.apart and self.trees.make_room(needed):
            self.tree, anew = self.trees.begin(), True
        if anew:
            insert_nodes(self.table, self.known, *self.tree)

    def make_room(self, segments: Array, relations: Array, sizes: list[int]) -> None:
        """Makes room for as many new nodes as there are edges."""
        more: dict[int, int] = {}
        kinds = relations[segments[:, columns.RELATION], record.SRC_TYPE].tolist()
        for kind, size in zip(kinds, sizes, strict=True):
            more[kind] = more.get(kind, 0) + size
        known = self.known.tolist()
        for kind, size in more.items():
            needed = known[kind] + size + 1
            self.ids[kind] = _with_room(self.ids[kind], known[kind], needed)
            if self.apart:
                self.roots[kind] = _with_room(self.roots[kind], known[kind], needed)
            self._note(kind)
        self._enter(sum(known) + sum(sizes))

    def close_hop(self) -> None:
        """Counts the new nodes, which are the next frontier."""
        known = self.known.tolist()
        for kind, hops in enumerate(self.hops):
            self.begin[kind] += hops[-1]
            hops.append(known[kind] - self.begin[kind])

    def result(self) -> tuple[list[Tensor], list[Tensor] | None]:
        """Node ids and, if trees are apart, their numbers, per type."""
        known = self.known.tolist()
        self.usual[:] = [count + count // 8 for count in known]
        nodes = [lend(ids, count) for ids, count in zip(self.ids, known, strict=True)]
        if not self.apart:
            return nodes, None
        pairs = zip(self.roots, known, strict=True)
        return nodes, [lend(roots, count) for roots, count in pairs]


class _Taken:
    """The edges of all relations, hop after hop, in three arrays.

    Attributes:
        hops: per relation, how many were taken in each hop.
    """

    def __init__(self, plan: Plan) -> None:
        self.used, self.usual = 0, plan.size_hints
        self.moves: list[tuple[int, int, int]] = []
        self.hops: list[list[int]] = [[] for _ in plan.relations]
        expected = plan.size_hints.get("edges", 0)
        self.arrays = tuple(borrow(expected) for _ in range(3))

    def room(self, count: int) -> tuple[Array, ...]:
        """Room for `count` more edges: edge, to, by."""
        needed = self.used + count
        self.arrays = tuple(_with_room(x, self.used, needed) for x in self.arrays)
        return tuple(x[self.used : needed] for x in self.arrays)

    def close_hop(self, sizes: list[tuple[int, int]]) -> None:
        """Notes what a hop has taken: (relation, edges) in order."""
        for hops in self.hops:
            hops.append(0)
        for relation, size in sizes:
            self.hops[relation][-1] = size
            self.moves.append((relation, self.used, size))
            self.used += size

    def result(
        self, relations: Array, owners: Any
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Row, col and edge of every relation."""
        used, sizes = self.used, [sum(hops) for hops in self.hops]
        self.usual["edges"] = used + used // 8
        if len(sizes) == 1:  # it is in order already
            names = relations[0, record.EDGE_ID], relations[0, record.WIDE_EDGE_ID]
            edge, to, by = self.arrays
            if names[0]:
                parallel(translate, used, used, *names, edge, owners=owners)
            return [lend(by, used)], [lend(to, used)], [lend(edge, used)]
        index, edge = borrow(2 * used), borrow(used)
        moves = np.array(self.moves, np.int64).reshape(len(self.moves), 3)
        gather(moves, relations, *self.arrays, index, edge)
        for array in self.arrays:
            give_back(array)
        rows, cols = _ends(lend(index, 2 * used), sizes)
        return rows, cols, list(lend(edge, used).split(sizes))


def _address(array: Array) -> int:
    """The address of an array's cells."""
    address: int = array.__array_interface__["data"][0]
    return address


def _with_room(array: Array, used: int, needed: int) -> Array:
    """`array` with at least `needed` cells, of which the first `used` are kept."""
    if array.size >= needed:
        return array
    larger = borrow(max(needed, array.size + array.size // 2))
    larger[:used] = array[:used]
    return larger


class Walkers(Protocol):
    """Walkers on local rows, in trees, and what their streams depend on; all [w]."""

    @property
    def row(self) -> Tensor:
        """The numbers of their rows."""

    @property
    def root(self) -> Tensor:
        """Their trees; empty if no law asks."""

    @property
    def who(self) -> Tensor:
        """The numbers that key the random stream of each walker."""


def asked(
    plan: Plan, batch: Batch, walkers: Sequence[Walkers]
) -> list[tuple[Tensor, Tensor, Tensor] | None] | None:
    """Per relation how many edges each walker takes, these, and where they lead.

    None for a relation that takes nothing; None in all if kernels cannot read a law.
    """
    found = relation_table(plan, batch)
    if found is None:
        return None
    relations, kept = found
    counts = [some.row.numel() for some in walkers]
    segments, width = _segments(plan, 0, [0] * len(counts), counts)
    rows = [np.empty(width, np.int64) for _ in range(3)]  # start, count, end
    end = rows[2]
    nodes = np.zeros((len(walkers), columns.NODE_COLUMNS), np.int64)
    for own, some in zip(nodes, walkers, strict=True):
        own[columns.IDS] = some.row.data_ptr()
        own[columns.ROOTS] = some.root.data_ptr()
    owners = plan, batch, kept, list(walkers)
    drawn = _measure((relations, segments, nodes), plan.replace, rows, owners)
    edge, to, by = (np.empty(drawn, np.int64) for _ in range(3))
    # kernels give walker i the stream of ids[i] + roots[i] · SIZE, which is to be `who`
    nodes, rest = nodes.copy(), [some.who - some.row for some in walkers]
    nodes[:, columns.SIZE] = 1
    for own, shift in zip(nodes, rest, strict=True):
        own[columns.ROOTS] = shift.data_ptr()
    how = relations, segments, nodes, word(batch.key), plan.replace, True
    parallel(draw, width, drawn, *how, *rows, edge, to, by, owners=(owners, rest))
    check_relations(relations)
    sizes = np.diff(end, prepend=0)
    taken: list[tuple[Tensor, Tensor, Tensor] | None] = [None] * len(plan.relations)
    for number, first, stop, _, _ in segments.tolist():
        head, tail = int(end[first - 1]) if first else 0, int(end[stop - 1])
        parts = sizes[first:stop], edge[head:tail], by[head:tail]
        counted, edges, nodes_reached = (torch.from_numpy(x) for x in parts)
        taken[number] = counted, edges, nodes_reached
    return taken
