"""The fast CPU backend's draws for walkers on rows whose numbers are not their nodes'.

Where a graph is partitioned, a node's row has another number here than the node has in
the whole graph; the first says where the row is, the second what is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from gttf_sampler._backends import hop_kernels as columns
from gttf_sampler._backends import measure_kernels, number_kernels, rooted_kernels
from gttf_sampler._backends.numba_rooted import (
    WIDE,
    _relations,
    check_unchanged,
    word,
)
from gttf_sampler._backends.plan import Batch, Plan
from gttf_sampler._backends.scratch import NO_TREES, NodeTable
from gttf_sampler._backends.threads import parallel

Array = np.ndarray[Any, Any]


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
        """What tells each from all others."""


def asked(
    plan: Plan, batch: Batch, walkers: Sequence[Walkers]
) -> list[tuple[Tensor, Tensor, Tensor] | None] | None:
    """Per relation how many edges each walker takes, these, and where they lead.

    None for a relation that takes nothing; None in all if kernels cannot read a law.
    """
    found = _relations(plan, batch)
    if found is None:
        return None
    relations, kept = found
    segments, width = _segments(plan, walkers)
    start, count, end = (np.empty(width, np.int64) for _ in range(3))
    nodes = np.zeros((len(walkers), columns.NODE_COLUMNS), np.int64)
    for own, some in zip(nodes, walkers, strict=True):
        own[columns.IDS] = some.row.data_ptr()
        own[columns.ROOTS] = some.root.data_ptr()
    owners = plan, batch, kept, list(walkers)
    how = relations, segments, nodes, plan.replace, start, count, end
    parallel(measure_kernels.measure, width, 4 * width, *how, owners=owners)
    sizes = end.copy()
    np.cumsum(end, out=end)
    drawn = int(end[-1]) if width else 0
    edge, to, by = (np.empty(drawn, np.int64) for _ in range(3))
    # kernels give walker i the stream of ids[i] + roots[i] · SIZE, which is to be `who`
    nodes, rest = nodes.copy(), [some.who - some.row for some in walkers]
    nodes[:, columns.SIZE] = 1
    for own, shift in zip(nodes, rest, strict=True):
        own[columns.ROOTS] = shift.data_ptr()
    key = word(batch.key)
    args = relations, segments, nodes, key, plan.replace, True, start, count, end
    out, owned = (edge, to, by), (owners, rest)
    parallel(rooted_kernels.draw, width, drawn, *args, *out, owners=owned)
    check_unchanged(relations)
    taken: list[tuple[Tensor, Tensor, Tensor] | None] = [None] * len(plan.relations)
    for number, first, stop, _, _ in segments.tolist():
        head, tail = int(end[first - 1]) if first else 0, int(end[stop - 1])
        parts = sizes[first:stop], edge[head:tail], by[head:tail]
        counted, edges, nodes_reached = (torch.from_numpy(x) for x in parts)
        taken[number] = counted, edges, nodes_reached
    return taken


def _segments(plan: Plan, walkers: Sequence[Walkers]) -> tuple[Array, int]:
    """A row for each relation that takes anything, and how many walkers there are."""
    rows, width = [], 0
    for number, relation in enumerate(plan.relations):
        count, (fanout,) = walkers[relation.to].row.numel(), relation.fanouts
        if count and fanout:
            rows.append((number, width, width + count, 0, fanout))
            width += count
    shape = (len(rows), columns.SEGMENT_COLUMNS)
    return np.array(rows, np.int64).reshape(shape), width


class Numbers:
    """Local ids of the nodes of one type, in the order of their discovery.

    Args:
        seeds: [b], the first ones; of equal ones the first counts.
        table: scratch with a cell per node.
        size: how many nodes there are.
        most: no more than so many others will be reached.
    """

    def __init__(self, seeds: Tensor, table: NodeTable, size: int, most: int) -> None:
        count = seeds.numel()
        numbers = count + min(size, most + 1)
        self.known = np.array([count], np.int64)
        self.ids = np.empty(max(2 * count, 1 << 10), np.int64)
        self.ids[:count] = seeds.numpy()
        self.cell = table.cell
        floor = table.reserve(numbers)
        self.row = np.zeros((1, columns.NODE_COLUMNS), np.int64)
        self.row[0, columns.SIZE], self.row[0, columns.FLOOR] = size, floor
        self.row[0, columns.LIMIT] = floor + numbers
        self.row[0, columns.CELL] = self.cell.data_ptr()
        self.row[0, columns.WIDE_CELL] = WIDE[self.cell.dtype]
        self._note()
        number_kernels.enter_nodes(self.row, self.known, NO_TREES.slots, 0)

    def _note(self) -> None:
        """Writes down where the ids are now."""
        self.row[0, columns.IDS] = self.ids.__array_interface__["data"][0]

    def number(self, reached: Tensor) -> Tensor:
        """Local ids of nodes [e], written over them; new ones are appended."""
        known, by = int(self.known[0]), reached.numpy()
        needed = known + by.size + 1
        if self.ids.size < needed:
            larger = np.empty(needed + needed // 2, np.int64)
            larger[:known] = self.ids[:known]
            self.ids = larger
        self._note()
        relations = np.zeros((1, columns.RELATION_COLUMNS), np.int64)
        segments = np.array([[0, 0, 1, 0, 1]], np.int64)  # one walker took all of them
        table = relations, segments, self.row, NO_TREES.slots, 0
        number_kernels.number(0, 1, *table, self.known, np.array([by.size]), by, by)
        return reached

    @property
    def count(self) -> int:
        """How many nodes are known."""
        return int(self.known[0])

    def nodes(self) -> Tensor:
        """All nodes that are known."""
        return torch.from_numpy(self.ids[: self.count])
