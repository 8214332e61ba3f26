"""Rooted sampling on a GPU: a handful of launches per hop, whatever is in the graph.

Kernels read from the device how much there is of everything. The host knows bounds: in
`rooted` it asks once per hop and makes arrays as large as they have to be, in
`rooted_padded` it never asks.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.record import (
    Batch,
    Held,
    Padded,
    Plan,
    RelationRow,
    Rooted,
    relation_rows,
)
from gttf_sampler._backends.streams import is_captured
from gttf_sampler._backends.triton import launch as how
from gttf_sampler._backends.triton.draw import measure
from gttf_sampler._backends.triton.hop import draw, finish, pad, take
from gttf_sampler._backends.triton.launch import (
    Address,
    Slab,
    blocks,
    bucket,
    in_line,
    key_of,
    launch_long,
)
from gttf_sampler._backends.triton.record import Arguments, shape_of
from gttf_sampler._backends.triton.relabel import (
    MOST,
    Cells,
    Slots,
    captured_tables,
    enter,
    likely_entries,
    mark,
    settle,
)

MANY = 1 << 22  # edges that there is always room for, to ask the device less often


class Run:
    """One batch: its tables on the device, and the arrays of its hops.

    Attributes:
        given: the words of the batch, and what kernels have counted.
        position: how many seeds and edges there have been before this hop, at most.
    """

    def __init__(
        self,
        plan: Plan,
        batch: Batch,
        tables: Cells | Slots,
        rows: list[RelationRow],
        rooms: tuple[list[int], list[int]] | None = None,
    ) -> None:
        self.plan, self.batch, self.tables = plan, batch, tables
        self.key, self.apart = key_of(batch.key), isinstance(tables, Slots)
        self.sizes = len(plan.sizes), len(plan.relations), plan.depth
        self.position = sum(seeds.numel() for seeds in batch.seeds)
        self.held: list[Any] = []  # what kernels read by its address
        tables.make_room(self.position)
        self.given = Arguments(plan, batch, rows, tables)
        self.given.write(rooms)
        counts = [seeds.numel() for seeds in batch.seeds]
        self.seeds = batch.seeds[counts.index(max(counts))]
        if sum(counts) > self.seeds.numel():
            self.seeds = torch.cat(batch.seeds)
        self.seeds = in_line(self.seeds)
        (roots,) = self._slab(self.position if self.apart else 0)
        launch_long(
            enter,
            (max(1, blocks(max(counts), how.ENTRIES)), self.sizes[0]),
            *(*self._table(0), self.seeds, roots, tables.slots),
            APART=self.apart,
            B=how.ENTRIES,
        )

    def _empty(self, size: int) -> Tensor:
        """Room for numbers of int64 on the device."""
        return torch.empty(size, dtype=torch.int64, device=self.plan.device)

    def _slab(self, *sizes: int) -> list[Address]:
        """Arrays that last as long as the batch is drawn."""
        slab = Slab(sizes, self.plan.device)
        self.held.append(slab)
        return slab.at

    def _table(self, hop: int) -> tuple[Tensor, Address, int]:
        """The tables that kernels of a hop read, and their shape."""
        return self.given.words, self.given.levels, shape_of(*self.sizes, hop)

    def first_totals(self) -> list[int]:
        """Upper bounds of the seeds' edges, for relations that take them all."""
        every = [
            self.batch.seeds[relation.dst_type].numel() * relation.adj.max_degree
            if self.plan.depth and relation.fanouts[0] < 0
            else 0
            for relation in self.plan.relations
        ]
        return every if sum(every) <= MANY else self.ask(0)[-len(every) :]

    def ask(self, level: int) -> list[int]:
        """New nodes, edges taken, edges in front: what the host waits for."""
        kinds, relations, _ = self.sizes
        return self.given.read(level, kinds + 2 * relations)

    def hop(self, hop: int, fronts: list[int], edges: list[int]) -> None:
        """One hop for frontiers and edges of at most so many nodes and edges."""
        plan, apart, total = self.plan, self.apart, sum(edges)
        relations = plan.relations
        if plan.device.type == "cpu":  # elsewhere, torch says what does not fit
            _check.fits("fanouts", 40 * total)
        if self.position + total >= MOST:
            rule = f"must take fewer than {MOST} edges and seeds in one batch"
            _check.fail("fanouts", rule, self.position + total, "use smaller batches")
        if self.tables.make_room(self.position + total):
            self.given.write_types()
        fanouts = [relation.fanouts[hop] for relation in relations]
        width = max(
            fronts[relation.dst_type] if fanout else 0
            for relation, fanout in zip(relations, fanouts, strict=True)
        )
        room = bucket(max(fanouts))
        lanes = max(1, how.LANES // room)
        walkers = blocks(width, lanes), len(relations)
        grid = blocks(max(edges), how.ENTRIES), len(relations)
        wide, sums, more = len(relations) * width, math.prod(walkers), math.prod(grid)
        parts = 7 if apart else 5
        arrays = self._slab(wide, wide, wide, sums, more, *[total] * parts)
        rows, (walker_sums, edge_sums) = tuple(arrays[:3]), arrays[3:5]
        edge, receiver, reached, ids, local = arrays[5:10]
        landed, roots = arrays[10:] if apart else (reached, ids)
        table = self._table(hop)
        out = (edge, receiver, landed, reached), self.position, self.tables.slots
        traits = self.given.traits
        launch_long(
            measure,
            walkers,
            *(*table, rows, walker_sums, width),
            REPLACE=plan.replace,
            TIMES=traits.times,
            HIDES=traits.hides,
            GAPS=traits.gaps,
            B=lanes,
            F=room,
        )
        launch_long(
            draw,
            walkers,
            *(*table, self.key, rows, walker_sums, width, *out),
            REPLACE=plan.replace,
            MASS=traits.mass,
            HIDES=traits.hides,
            APART=apart,
            B=lanes,
            F=room,
        )
        if min(fanouts) < 0:
            launch_long(
                take,
                grid,
                *(*table, rows, width, *out),
                HIDES=traits.hides,
                APART=apart,
                B=how.ENTRIES,
            )
        claims, nodes = out[1:], (ids, roots, local)
        constants = {"APART": apart, "B": how.ENTRIES}
        launch_long(mark, grid, *table, reached, *claims, edge_sums, **constants)
        launch_long(settle, grid, *table, *out, edge_sums, nodes, **constants)

    def finish(
        self, edges: list[int], nodes: list[int], longest: int, padded: bool = False
    ) -> dict[str, Any]:
        """The arrays of `Rooted`, with room for so many edges and nodes."""
        kinds, relations, depth = self.sizes
        apart = self.apart
        if not padded:
            self.given.write_places(edges, nodes)
        row, col, edge = (self._empty(sum(edges)) for _ in range(3))
        node = self._empty(sum(nodes))
        root = self._empty(sum(nodes)) if apart else node
        args = *self._table(0), (row, col, edge, node, root)
        parts = relations * depth + kinds * (depth + 1)
        constants = {"APART": apart, "B": how.ENTRIES}
        launch_long(finish, (blocks(longest, how.ENTRIES), parts), *args, **constants)
        if padded:
            grid = blocks(max(*edges, *nodes), how.ENTRIES), relations + kinds
            launch_long(pad, grid, *args, **constants)
        return {
            "node": _split(node, nodes),
            "root": _split(root, nodes) if self.batch.disjoint else None,
            "row": _split(row, edges),
            "col": _split(col, edges),
            "edge": _split(edge, edges),
        }


def _split(values: Tensor, sizes: list[int]) -> list[Tensor]:
    """Parts of so many values."""
    return [values] if len(sizes) == 1 else list(values.split(sizes))


def _readable(plan: Plan, batch: Batch) -> tuple[list[RelationRow], Held] | None:
    """`relation_rows`; None where draws by weight do not fit into registers."""
    found = relation_rows(plan, batch)
    if found is None or plan.replace:
        return found
    for row, relation in zip(found[0], plan.relations, strict=True):
        if row.cumulative_weight and max(relation.fanouts, default=0) > how.WIDEST:
            return None
    return found


def rooted(plan: Plan, batch: Batch) -> Rooted | None:
    """Rooted sampling by laws; None where one has none; see `torch.rows`."""
    found = _readable(plan, batch)
    if found is None:
        return None
    rows, held = found
    plan.ensure_nodes(batch)
    apart = batch.disjoint
    tables = Slots(plan, likely_entries(plan, batch)) if apart else Cells(plan, batch)
    run = Run(plan, batch, tables, rows)
    run.held.append(held)
    new = [[seeds.numel()] for seeds in batch.seeds]
    taken: list[list[int]] = [[] for _ in plan.relations]
    totals = run.first_totals()
    for hop in range(plan.depth):
        fronts = [counts[-1] for counts in new]
        asked = [0] * (len(new) + 2 * len(taken))
        edges = [
            fronts[relation.dst_type] * relation.fanouts[hop]
            if relation.fanouts[hop] >= 0
            else total
            for relation, total in zip(plan.relations, totals, strict=True)
        ]
        if any(edges):
            run.hop(hop, fronts, edges)
            asked = run.ask(hop + 1)
        for counts, count in zip((*new, *taken), asked, strict=False):
            counts.append(count)
        run.position += sum(counts[-1] for counts in taken)
        totals = asked[-len(taken) :]
    run.tables.give_back()
    nodes, most = [sum(counts) for counts in new], [sum(counts) for counts in taken]
    longest = max((max(counts, default=0) for counts in (*new, *taken)), default=0)
    arrays = run.finish(most, nodes, longest)
    return Rooted(**arrays, num_nodes=new, num_edges=taken)


def rooted_padded(plan: Plan, batch: Batch) -> Padded | None:
    """`rooted` with static shapes, without a word to the host; see `torch.rows`."""
    found = _readable(plan, batch)
    if found is None:
        return None
    rows, held = found
    bounds = plan.bounds(batch.seeds, batch.disjoint)
    most = sum(sum(edges) for edges in bounds.edges)
    entries = most + sum(seeds.numel() for seeds in batch.seeds)
    if batch.disjoint:
        tables: Cells | Slots = Slots(plan, entries)
    elif is_captured(plan.device):
        tables = captured_tables(plan, batch, entries)
    else:
        tables = Cells(plan, batch)
    rooms = [sum(edges) for edges in bounds.edges], [size + 1 for size in bounds.most]
    run = Run(plan, batch, tables, rows, rooms)
    run.held.append(held)
    for hop in range(plan.depth):
        edges = [own[hop] for own in bounds.edges]
        if any(edges):
            run.hop(hop, [own[hop] for own in bounds.nodes], edges)
            run.position += sum(edges)
    longest = max(max(own, default=0) for own in (*bounds.nodes, *bounds.edges))
    arrays = run.finish(*rooms, longest, padded=True)
    run.tables.give_back()
    kinds = len(plan.sizes)
    return Padded(
        **arrays,
        num_nodes=[run.given.column(kind) for kind in range(kinds)],
        num_edges=[run.given.column(kinds + n)[1:] for n in range(len(plan.relations))],
    )
