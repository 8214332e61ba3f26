"""Rooted sampling of the fast CPU backend: draws shared by threads, numbers by one.

A hop is drawn in parts; while the nodes of one part get their numbers, which has to be
done in order, the next ones are drawn. Relations without a frontier take no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.memory import (
    NO_TREES,
    TREES,
    Array,
    NodeTable,
    TreeTable,
    borrow,
    give_back,
    lend,
)
from gttf_sampler._backends.numba.hop import (
    NODE,
    RELATION,
    Sizes,
    admit,
    draw,
    gather_runs,
    note_hop,
    open_hop,
    reach,
)
from gttf_sampler._backends.numba.relabel import insert_nodes, relabel_edges
from gttf_sampler._backends.numba.rng import word
from gttf_sampler._backends.numba.small import FEW_EDGES, Form, sample_small
from gttf_sampler._backends.record import (
    UNIFORM,
    WIDE,
    Batch,
    Law,
    Plan,
    RemoteWalkers,
    Rooted,
    relation_rows,
)
from gttf_sampler._backends.threads import Calls, cut, parallel
from gttf_sampler.random import fold


def relation_table(plan: Plan, batch: Batch) -> tuple[Array, list[Tensor]] | None:
    """The numbers of the table that kernels read, and tensors that must outlive it.

    None if there is a relation that they cannot read.
    """
    found = relation_rows(plan, batch)
    if found is None:
        return None
    rows, held = found
    guarded = []
    for row, relation, law in zip(rows, plan.relations, batch.laws, strict=True):
        adj = relation.adj
        edges = adj.col.numel()
        names = adj.edge_id if batch.original_edge_ids else None
        if names is not None or law is not UNIFORM:
            edges = _shortest(edges, names, law)
        guarded.append(row + Sizes(adj.rowptr.numel() - 1, edges, adj.num_cols))
    shape = len(rows), RELATION.itemsize // 8
    return np.array(guarded, np.int64).reshape(shape), held.tensors


def _shortest(edges: int, names: Tensor | None, law: Law | None) -> int:
    """Edges that all arrays have; those that somebody edited may be shorter."""
    more = [names] if law is None else [names, law.cumulative_weight, law.time]
    return min([edges, *(array.numel() for array in more if array is not None)])


def check_relations(relations: Array) -> None:
    """Refuses a batch of a graph that was edited to lead out of itself."""
    if relations["changed"].any():
        _check.changed()


PARTS, PART = 8, 1 << 13  # how finely drawing and numbering a hop are interleaved


def rooted(plan: Plan, batch: Batch) -> Rooted | None:
    """Rooted sampling by laws; None where one has none; see `ops`."""
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
    run = Run(plan, batch, relations.view(RELATION)[:, 0], kept)
    for hop in range(plan.depth):
        run.hop(hop)
    return run.result()


class Run:
    """A batch that threads share: the nodes reached so far, and the edges taken.

    Scratch tables are lost if it ends in an error.

    Attributes:
        kept: memory that kernels read by its address, beside that of the plan.
        form: the argument buffers of the kernels.
        known: how many nodes of each type there are, in the order of their discovery.
        begin: how many there were before this hop, which are no frontier any more.
        more: the edges of the last hop to nodes of each type.
        nodes: the ids of every type, and its roots if trees are disjoint, by column of
            the table of the form.
        edges: of all relations, hop after hop: edge, to, by.
        tree: the slots of the table of trees, empty if they share nodes, and its base.
    """

    def __init__(
        self, plan: Plan, batch: Batch, relations: Array, kept: list[Tensor]
    ) -> None:
        self.plan, self.batch, self.relations, self.kept = plan, batch, relations, kept
        self.form, self.hints = Form(plan), plan.size_hints
        counts = [seeds.numel() for seeds in batch.seeds]
        self.known, self.begin, self.more = np.zeros((3, len(counts)), np.int64)
        self.known[:] = self.form.hops[:, 0] = counts
        self.used = self.runs = 0
        starts = {"ids": [seeds.numpy() for seeds in batch.seeds]}
        if batch.disjoint:
            pairs = zip(batch.first_root, counts, strict=True)
            starts["roots"] = [np.arange(first, first + size) for first, size in pairs]
        self.nodes: dict[str, list[Array]] = starts
        usual = self.hints.get("nodes", counts)
        for kind, (count, likely) in enumerate(zip(counts, usual, strict=True)):
            self._make_room_for(kind, max(count + 1, likely))
        self.trees, self.cells = NO_TREES, list[NodeTable]()
        self.tree = NO_TREES.slots, 0
        if batch.disjoint:
            self.trees = plan.pools[0].lease(TREES, TreeTable)
            self.tree = self.trees.begin()
        else:
            self._take_cells()
        self._enter(sum(counts), anew=True)
        self.edges = [borrow(self.hints.get("edges", 0)) for _ in range(3)]

    def _take_cells(self) -> None:
        """Takes a table per node type, with numbers for all that can be reached."""
        self.cells = self.plan.take_tables()
        most = self.plan.most_edges(self.batch.seeds) + 1
        rows = zip(self.form.nodes, self.batch.seeds, self.cells, strict=True)
        for row, seeds, own in rows:
            numbers = seeds.numel() + min(int(row["size"]), most)
            floor = own.reserve(numbers)
            row["cell"] = own.cell.data_ptr()
            row["wide_cell"] = WIDE[own.cell.dtype]
            row["floor"], row["limit"] = floor, floor + numbers

    def _enter(self, needed: int, anew: bool = False) -> None:
        """Enters the nodes; for trees, wherever their table has to be larger."""
        if self.trees is not NO_TREES and self.trees.make_room(needed):
            self.tree, anew = self.trees.begin(), True
        if anew:
            insert_nodes(self.form.nodes, self.known, *self.tree)

    def _make_room_for(self, kind: int, needed: int) -> None:
        """Makes room for so many nodes of a type."""
        for column, arrays in self.nodes.items():
            arrays[kind] = _with_room(arrays[kind], int(self.known[kind]), needed)
            self.form.nodes[column][kind] = _address(arrays[kind])

    def hop(self, hop: int) -> None:
        """Draws for all frontiers and numbers what they reach."""
        plan, batch, form = self.plan, self.batch, self.form
        width, parts = open_hop(
            hop, self.relations, form.fanouts, self.known, self.begin, form.segments
        )
        self.begin[:] = self.known
        if width == 0:
            return
        scratch = [borrow(width) for _ in range(3)]
        rows = tuple(array[:width] for array in scratch)  # start, count, end
        end, table = rows[2], (self.relations, form.segments[:parts], form.nodes)
        drawn = _admit(table, plan.replace, rows, self)
        _check.fits("fanouts", 24 * drawn)
        new = self._room_for_edges(hop, table[1], end)
        parts = cut(width, min(PARTS, drawn // PART))
        how = word(fold(batch.key, hop)), plan.replace
        calls = [partial(draw, lo, hi, table, how, rows, new) for lo, hi in parts]
        with Calls(calls, owners=self) as drawing:
            for part, (lo, hi) in enumerate(parts):
                drawing.wait(part)  # the next ones are drawn while it is numbered
                _, to, by = new
                relabel_edges(lo, hi, table, *self.tree, self.known, end, to, by)
        for array in scratch:
            give_back(array)
        form.hops[:, hop + 1] = self.known - self.begin

    def _room_for_edges(self, hop: int, segments: Array, end: Array) -> tuple[Any, ...]:
        """Room for the edges of a hop (edge, to, by), and for the nodes they reach."""
        used, form = self.used, self.form
        self.used, self.runs = note_hop(
            hop,
            self.relations,
            segments,
            end,
            used,
            self.runs,
            form.runs,
            form.taken,
            self.more,
        )
        self.edges = [_with_room(array, used, self.used) for array in self.edges]
        known, more = self.known.tolist(), self.more.tolist()
        for kind, size in enumerate(more):
            if size:  # as many as there are edges to them
                self._make_room_for(kind, known[kind] + size + 1)
        self._enter(sum(known) + sum(more))
        return tuple(array[used : self.used] for array in self.edges)

    def result(self) -> Rooted:
        """The arrays of the batch; the tables are for others from now on."""
        check_relations(self.relations)
        if self.cells:
            self.plan.give_back(self.cells)
        elif self.trees is not NO_TREES:
            self.plan.pools[0].give_back(TREES, self.trees)
        row, col, edge = self._ends_and_edges()
        known = self.known.tolist()
        self.hints["nodes"] = [count + count // 8 for count in known]
        nodes = {
            column: [lend(ids, count) for ids, count in zip(own, known, strict=True)]
            for column, own in self.nodes.items()
        }
        return Rooted(
            node=nodes["ids"],
            root=nodes.get("roots"),
            row=row,
            col=col,
            edge=edge,
            num_nodes=self.form.hops.tolist(),
            num_edges=self.form.taken.tolist(),
        )

    def _ends_and_edges(self) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Row, col and edge of every relation."""
        used, sizes, relations = self.used, self.form.taken.sum(1), self.relations
        self.hints["edges"] = used + used // 8
        if len(sizes) == 1:  # it is in order already
            names, wide = relations["edge_id"][0], relations["wide_edge_id"][0]
            edge, to, by = self.edges
            if names:
                parallel(reach, used, used, names, wide, edge, edge, owners=self)
            return [lend(by, used)], [lend(to, used)], [lend(edge, used)]
        index, edge = borrow(2 * used), borrow(used)
        runs, (taken, to, by) = self.form.runs[: self.runs], self.edges
        gather_runs(runs, relations, taken, to, by, index, edge)
        for array in self.edges:
            give_back(array)
        both = lend(index, 2 * used).split(sizes.repeat(2).tolist())
        edges = lend(edge, used).split(sizes.tolist())
        return list(both[::2]), list(both[1::2]), list(edges)


def _admit(
    table: tuple[Array, Array, Array], replace: bool, rows: Any, owners: Any
) -> int:
    """Finds the admissible range of every walker's row; returns the edges it takes.

    `rows` get the start, the length, and the number of edges up to each walker;
    `owners` have the memory that is read by its address.
    """
    end = rows[2]
    work = end.size * (4 if table[0]["time_kind"].any() else 1)
    parallel(admit, end.size, work, table, replace, rows, owners=owners)
    np.cumsum(end, out=end)
    return int(end[-1]) if end.size else 0


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


def draw_for_remote(
    plan: Plan, batch: Batch, walkers: Sequence[RemoteWalkers]
) -> list[tuple[Tensor, Tensor, Tensor] | None] | None:
    """The edges of one hop of walkers of another process; see `ops`."""
    found = relation_table(plan, batch)
    if found is None:
        return None
    numbers, kept = found
    relations = numbers.view(RELATION)[:, 0]
    form, none = Form(plan), np.zeros(len(walkers), np.int64)
    counts = np.array([some.row.numel() for some in walkers], np.int64)
    width, parts = open_hop(0, relations, form.fanouts, counts, none, form.segments)
    segments = form.segments[:parts]
    rows = tuple(np.empty(width, np.int64) for _ in range(3))  # start, count, end
    end = rows[2]
    nodes = np.zeros(len(walkers), NODE)
    nodes["ids"] = [some.row.data_ptr() for some in walkers]
    nodes["roots"] = [some.root.data_ptr() for some in walkers]
    owners = plan, batch, kept, list(walkers)
    drawn = _admit((relations, segments, nodes), plan.replace, rows, owners)
    edge, to, by = (np.empty(drawn, np.int64) for _ in range(3))
    # kernels give walker i the stream of ids[i] + roots[i] · SIZE, which is to be `who`
    nodes, rest = nodes.copy(), [some.who - some.row for some in walkers]
    nodes["size"], nodes["roots"] = 1, [shift.data_ptr() for shift in rest]
    table, how = (relations, segments, nodes), (word(batch.key), plan.replace)
    out, owned = (edge, to, by), (owners, rest)
    parallel(draw, width, drawn, table, how, rows, out, owners=owned)
    check_relations(relations)
    sizes = np.diff(end, prepend=0)
    taken: list[tuple[Tensor, Tensor, Tensor] | None] = [None] * len(plan.relations)
    for segment in segments:
        first, stop = int(segment["first"]), int(segment["stop"])
        head, tail = int(end[first - 1]) if first else 0, int(end[stop - 1])
        taken[segment["relation"]] = (
            torch.from_numpy(sizes[first:stop]),
            torch.from_numpy(edge[head:tail]),
            torch.from_numpy(by[head:tail]),
        )
    return taken
