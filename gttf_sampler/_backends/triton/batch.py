"""Rooted sampling on a GPU: a handful of launches per hop, whatever is in the graph.

Kernels read from the device how much there is of everything. The host knows bounds: in
`rooted` it asks once per hop and makes arrays as large as they have to be, in
`rooted_padded` it never asks.
"""

from __future__ import annotations

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
from gttf_sampler._backends.triton import launch as how
from gttf_sampler._backends.triton.draw import measure
from gttf_sampler._backends.triton.hop import draw, finish, pad, take
from gttf_sampler._backends.triton.launch import blocks, bucket, key_of, launch
from gttf_sampler._backends.triton.record import Arguments, shape_of
from gttf_sampler._backends.triton.relabel import (
    MOST,
    Cells,
    Slots,
    enter,
    likely_entries,
    mark,
    settle,
)

MANY = 1 << 22  # edges that there is always room for, to ask the device less often


class Run:
    """One batch: its tables on the device, and the arrays of its hops.

    Attributes:
        levels: what kernels have counted, a row per level; see `triton.record`.
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
        self.key = key_of(batch.key)
        self.sizes = len(plan.sizes), len(plan.relations), plan.depth
        self.position = sum(seeds.numel() for seeds in batch.seeds)
        self.held: list[Any] = []  # what kernels read by its address
        tables.make_room(self.position)
        self.given = Arguments(plan, batch, rows, tables)
        self.levels = self.given.levels
        self.given.write(rooms)
        some = [seeds for seeds in batch.seeds if seeds.numel()]
        self.seeds = self._empty(0) if not some else some[0].contiguous()
        if len(some) > 1:
            self.seeds = torch.cat(some)
        self.roots = self._empty(self.position if batch.disjoint else 0)
        widest = max(seeds.numel() for seeds in batch.seeds)
        launch(
            enter,
            (max(1, blocks(widest, how.ENTRIES)), self.sizes[0]),
            *(*self._table(0), self.seeds, self.roots, tables.slots),
            APART=batch.disjoint,
            B=how.ENTRIES,
        )

    def _empty(self, *shape: int) -> Tensor:
        """Room for numbers of int64 on the device."""
        return torch.empty(shape, dtype=torch.int64, device=self.plan.device)

    def _table(self, hop: int) -> tuple[Tensor, Tensor, int]:
        """The tables that kernels of a hop read, and their shape."""
        return self.given.words, self.levels, shape_of(*self.sizes, hop)

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
        numbers: list[int] = self.levels[level, : kinds + 2 * relations].tolist()
        return numbers

    def hop(self, hop: int, fronts: list[int], edges: list[int]) -> None:
        """One hop for frontiers and edges of at most so many nodes and edges."""
        plan, apart, total = self.plan, self.batch.disjoint, sum(edges)
        relations = plan.relations
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
        width += width % 2  # arrays start where kernels are compiled for
        room = bucket(max(fanouts))
        lanes = max(1, how.LANES // room)
        of_walkers = self._empty(3, len(relations), width)
        edge, receiver, reached = (self._empty(total) for _ in range(3))
        landed = self._empty(total) if apart else reached
        grid = blocks(width, lanes), len(relations)
        sums = self._empty(grid[0] * grid[1])
        table, rows = self._table(hop), of_walkers.unbind(0)
        out = (edge, receiver, landed, reached), self.position, self.tables.slots
        traits = self.given.traits
        launch(
            measure,
            grid,
            *(*table, rows, sums, width),
            REPLACE=plan.replace,
            TIMES=traits.times,
            HIDES=traits.hides,
            GAPS=traits.gaps,
            B=lanes,
            F=room,
        )
        launch(
            draw,
            grid,
            *(*table, self.key, rows, sums, width, *out),
            REPLACE=plan.replace,
            MASS=traits.mass,
            HIDES=traits.hides,
            APART=apart,
            B=lanes,
            F=room,
        )
        grid = blocks(max(edges), how.ENTRIES), len(relations)
        if min(fanouts) < 0:
            launch(
                take,
                grid,
                *(*table, rows, width, *out),
                HIDES=traits.hides,
                APART=apart,
                B=how.ENTRIES,
            )
        self._settle(hop, grid, out)

    def _settle(self, hop: int, grid: tuple[int, int], out: tuple[Any, ...]) -> None:
        """Gives the nodes that a hop has reached their numbers."""
        (*arrays, reached), *claims = out
        table, apart, size = self._table(hop), self.batch.disjoint, reached.numel()
        sums = self._empty(grid[0] * grid[1])
        ids, local = self._empty(size), self._empty(size)
        nodes = ids, self._empty(size) if apart else ids, local
        self.held += [*arrays, reached, *nodes]
        constants = {"APART": apart, "B": how.ENTRIES}
        launch(mark, grid, *table, reached, *claims, sums, **constants)
        launch(settle, grid, *table, *out, sums, nodes, **constants)

    def finish(
        self, edges: list[int], nodes: list[int], longest: int, padded: bool = False
    ) -> dict[str, Any]:
        """The arrays of `Rooted`, with room for so many edges and nodes."""
        kinds, relations, depth = self.sizes
        apart = self.batch.disjoint
        if not padded:
            self.given.write_places(edges, nodes)
        row, col, edge = (self._empty(sum(edges)) for _ in range(3))
        node = self._empty(sum(nodes))
        root = self._empty(sum(nodes)) if apart else node
        args = *self._table(0), (row, col, edge, node, root)
        parts = relations * depth + kinds * (depth + 1)
        constants = {"APART": apart, "B": how.ENTRIES}
        launch(finish, (blocks(longest, how.ENTRIES), parts), *args, **constants)
        if padded:
            grid = blocks(max(*edges, *nodes), how.ENTRIES), relations + kinds
            launch(pad, grid, *args, **constants)
        return {
            "node": list(node.split(nodes)),
            "root": list(root.split(nodes)) if apart else None,
            "row": list(row.split(edges)),
            "col": list(col.split(edges)),
            "edge": list(edge.split(edges)),
        }


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
    """`rooted` with static shapes, without a word to the host; see `torch.rows`.

    Where trees are not apart, the cells of a table are cleared at the end, not stamped:
    a captured graph writes the same numbers every time.
    """
    found = _readable(plan, batch)
    if found is None:
        return None
    rows, held = found
    bounds = plan.bounds(batch.seeds, batch.disjoint)
    most = sum(sum(edges) for edges in bounds.edges)
    entries = most + sum(seeds.numel() for seeds in batch.seeds)
    tables = Slots(plan, entries) if batch.disjoint else Cells(plan, batch, entries)
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
        num_nodes=[run.levels[:, kind] for kind in range(kinds)],
        num_edges=[run.levels[1:, kinds + n] for n in range(len(plan.relations))],
    )
