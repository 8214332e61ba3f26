"""Rooted sampling of the fast CPU backend: draws shared by threads, numbers by one.

A hop is drawn in parts; while the nodes of one part get their numbers, which has to be
done in order, the next ones are drawn. Relations without a frontier take no part.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import rooted_kernels as kernels
from gttf_sampler._backends.memory import borrow, give_back, lend
from gttf_sampler._backends.plan import Batch, Law, Plan, Rooted
from gttf_sampler._backends.scratch import NodeTable, TreeTable
from gttf_sampler._backends.threads import parallel, start
from gttf_sampler.random import WORD, Key, fold

if TYPE_CHECKING:
    from gttf_sampler.graph.compact import CompactAdj

Array = np.ndarray[Any, Any]

PARTS, PART = 8, 1 << 13  # how finely drawing and numbering a hop are interleaved
WIDE = {torch.int32: 0, torch.int64: 1}
KINDS = {
    torch.int32: kernels.INT32,
    torch.int64: kernels.INT64,
    torch.float32: kernels.FLOAT32,
    torch.float64: kernels.FLOAT64,
}


def rooted(plan: Plan, batch: Batch) -> Rooted | None:
    """Rooted sampling by laws; None where one has none; see `torch_rooted`."""
    relations = _relations(plan, batch.laws)
    if relations is None:
        return None
    with ExitStack() as stack:
        reached = _Reached(plan, batch, stack)
        taken = _Taken(plan, batch)
        for hop in range(plan.depth):
            _sample_hop(plan, batch, hop, relations[0], reached, taken)
        return Rooted(*reached.result(), *taken.result(), reached.hops, taken.hops)


def word(key: Key) -> Any:
    """A key as the unsigned number that kernels take."""
    return np.uint64(int(key) & WORD)


def _relations(plan: Plan, laws: list[Law | None]) -> tuple[Array, list[Tensor]] | None:
    """The table that kernels read, and tensors that must outlive it.

    None if there is a relation that they cannot read.
    """
    rows, kept = [], []
    for (adj, to, by, _), law in zip(plan.relations, laws, strict=True):
        if law is None or not _readable(adj):
            return None
        wide, kind, before = WIDE[adj.col.dtype], 0, None
        addresses = [0, 0, 0, 0]  # of mass, time, latest, before
        hides, hidden = 0, 0
        if law.mass is not None:
            addresses[0] = law.mass.data_ptr()
        if law.time is not None and law.latest is not None:
            kind = KINDS.get(law.time.dtype, 0)
            if kind == 0 or not law.time.is_contiguous():
                return None
            dtype = torch.float64 if law.time.is_floating_point() else torch.int64
            latest = law.latest.to("cpu", dtype).contiguous()
            addresses[1:3] = law.time.data_ptr(), latest.data_ptr()
            kept.append(latest)
            if law.before is not None:
                before = law.before.to("cpu", dtype).contiguous()
                addresses[3] = before.data_ptr()
                kept.append(before)
        if law.hidden is not None and law.hidden.numel():
            own = law.hidden.to("cpu", torch.int64).contiguous()
            hidden, hides = own.data_ptr(), own.numel()
            kept.append(own)
        mass, time, latest_at, before_at = addresses
        rows.append(
            (
                *(adj.rowptr.data_ptr(), adj.col.data_ptr(), wide, mass, law.gaps),
                *(time, kind, latest_at, before_at, law.last, hidden, hides, to, by),
            )
        )
    shape = (len(rows), kernels.RELATION_COLUMNS)
    return np.array(rows, np.int64).reshape(shape), kept


def _sample_hop(
    plan: Plan,
    batch: Batch,
    hop: int,
    relations: Array,
    reached: _Reached,
    taken: _Taken,
) -> None:
    """Draws for all frontiers and numbers what they reach."""
    segments, width = reached.segments(plan, hop)
    if width == 0:
        reached.close_hop()
        taken.close_hop([])
        return
    scratch = [borrow(width) for _ in range(3)]
    rows = [array[:width] for array in scratch]  # start, count, end
    end = rows[2]
    table = relations, segments, reached.table
    parallel(kernels.measure, width, 8 * width, *table, plan.replace, *rows)
    np.cumsum(end, out=end)
    drawn = int(end[-1])
    _check.fits("fanouts", 24 * drawn)
    ends = end[segments[:, kernels.STOP] - 1].tolist()
    sizes = [last - first for first, last in zip([0, *ends], ends, strict=False)]
    reached.make_room(segments, relations, sizes)
    new = taken.room(drawn)  # edge, to, by
    parts = max(1, min(PARTS, drawn // PART))
    bounds = [width * part // parts for part in range(parts + 1)]
    how = word(fold(batch.key, hop)), plan.replace, batch.apart
    waits = start(kernels.draw, bounds, *table, *how, *rows, *new)
    for wait, lo, hi in zip(waits, bounds, bounds[1:], strict=False):
        wait()  # for this part; the next ones are drawn while it is numbered
        kernels.number(lo, hi, *table, *reached.tree, reached.known, end, *new[1:])
    for array in scratch:
        give_back(array)
    reached.close_hop()
    taken.close_hop(list(zip(segments[:, 0].tolist(), sizes, strict=True)))


class _Reached:
    """The nodes of every type, in the order of their discovery.

    Attributes:
        table: a row per node type for the kernels.
        known: how many nodes of each type there are.
        tree: the slots of a table of trees, empty if trees share nodes, and its base.
        hops: per node type, how many were new in each hop.
    """

    def __init__(self, plan: Plan, batch: Batch, stack: ExitStack) -> None:
        self.sizes, self.apart = plan.sizes, batch.apart
        counts = [seeds.numel() for seeds in batch.seeds]
        self.known = np.array(counts, np.int64)
        self.hops = [[count] for count in counts]
        self.begin = [0] * len(counts)
        self.table = np.zeros((len(counts), kernels.NODE_COLUMNS), np.int64)
        self.ids: list[Array] = []
        self.roots: list[Array] = []
        self.tree: tuple[Array, int] = (np.empty(0, np.int64), 0)
        self.usual = plan.usual.setdefault("nodes", [0] * len(counts))
        for kind, (seeds, count) in enumerate(zip(batch.seeds, counts, strict=True)):
            expected = max(count + 1, self.usual[kind])
            ids = borrow(expected)
            ids[:count] = seeds.numpy()
            self.ids.append(ids)
            if batch.apart:
                roots = borrow(expected)
                first = batch.first_root[kind]
                roots[:count] = np.arange(first, first + count)
                self.roots.append(roots)
            self.table[kind, kernels.SIZE] = plan.sizes[kind]
            self._note(kind)
        if batch.apart:
            self.trees: TreeTable = stack.enter_context(plan.borrow_trees())
            self._enter_trees(sum(counts))
        else:
            tables = stack.enter_context(plan.borrow_tables())
            for kind, own in enumerate(tables):
                self._enter(plan, batch, kind, own)

    def _note(self, kind: int) -> None:
        """Writes down where the arrays of a type are now."""
        self.table[kind, kernels.IDS] = _address(self.ids[kind])
        if self.apart:
            self.table[kind, kernels.ROOTS] = _address(self.roots[kind])

    def _enter(self, plan: Plan, batch: Batch, kind: int, own: NodeTable) -> None:
        """Numbers the seeds of a type, and reserves numbers for all its other nodes."""
        seeds = batch.seeds[kind]
        most = seeds.numel() + min(plan.sizes[kind], plan.most_edges(batch.seeds) + 1)
        floor = own.reserve(most)
        row = self.table[kind]
        row[kernels.CELL] = own.cell.data_ptr()
        row[kernels.WIDE_CELL] = WIDE[own.cell.dtype]
        row[kernels.FLOOR], row[kernels.LIMIT] = floor, floor + most
        if seeds.numel():
            kernels.enter_seeds(seeds.numpy(), own.cell.numpy(), floor)

    def _enter_trees(self, needed: int) -> None:
        """Makes sure that the table of trees has slots for `needed` nodes."""
        if self.trees.make_room(needed) or self.tree[0].size == 0:
            self.tree = self.trees.slots, self.trees.reserve()
            kernels.enter_nodes(self.table, self.known, *self.tree)

    def segments(self, plan: Plan, hop: int) -> tuple[Array, int]:
        """The walkers of a hop: a row per relation that has any, and their number."""
        rows, width, known = [], 0, self.known.tolist()
        for number, relation in enumerate(plan.relations):
            fanout = relation.fanouts[hop]
            begin = self.begin[relation.to]
            count = known[relation.to] - begin
            if count and fanout:
                rows.append((number, width, width + count, begin, fanout))
                width += count
        shape = (len(rows), kernels.SEGMENT_COLUMNS)
        return np.array(rows, np.int64).reshape(shape), width

    def make_room(self, segments: Array, relations: Array, sizes: list[int]) -> None:
        """Makes room for as many new nodes as there are edges."""
        more: dict[int, int] = {}
        kinds = relations[segments[:, kernels.RELATION], kernels.BY].tolist()
        for kind, size in zip(kinds, sizes, strict=True):
            more[kind] = more.get(kind, 0) + size
        known = self.known.tolist()
        for kind, size in more.items():
            needed = known[kind] + size + 1
            self.ids[kind] = _with_room(self.ids[kind], known[kind], needed)
            if self.apart:
                self.roots[kind] = _with_room(self.roots[kind], known[kind], needed)
            self._note(kind)
        if self.apart:
            self._enter_trees(sum(known) + sum(sizes))

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

    def __init__(self, plan: Plan, batch: Batch) -> None:
        self.used, self.usual = 0, plan.usual
        self.moves: list[tuple[int, int, int]] = []
        self.hops: list[list[int]] = [[] for _ in plan.relations]
        expected = plan.usual.get("edges", 0)
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

    def result(self) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Row, col and edge of every relation."""
        self.usual["edges"] = self.used + self.used // 8
        edge, to, by = self.arrays
        if len(self.hops) > 1:
            edge, to, by = self._by_relation()
        sizes = [sum(hops) for hops in self.hops]
        parts = [list(lend(x, self.used).split(sizes)) for x in (by, to, edge)]
        return parts[0], parts[1], parts[2]

    def _by_relation(self) -> tuple[Array, ...]:
        """The arrays with all edges of a relation together."""
        rows, at = [], 0
        for number in range(len(self.hops)):
            for relation, source, size in self.moves:
                if relation == number and size:
                    rows.append((source, at, size))
                    at += size
        if all(source == target for source, target, _ in rows):
            return self.arrays
        moved = tuple(borrow(self.used) for _ in range(3))
        moves = np.array(rows, np.int64).reshape(len(rows), 3)
        kernels.gather_segments(moves, *self.arrays, *moved)
        for array in self.arrays:
            give_back(array)
        return moved


def _readable(adj: CompactAdj) -> bool:
    """Whether kernels can read the rows by their addresses."""
    return adj.col.dtype in WIDE and adj.col.is_contiguous()


def _address(array: Array) -> int:
    """Where the cells of an array are."""
    address: int = array.__array_interface__["data"][0]
    return address


def _with_room(array: Array, used: int, needed: int) -> Array:
    """`array` with at least `needed` cells, of which the first `used` are kept."""
    if array.size >= needed:
        return array
    larger = borrow(max(needed, array.size + array.size // 2))
    larger[:used] = array[:used]
    return larger
