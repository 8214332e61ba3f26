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

from gttf_sampler._backends import rooted_kernels as kernels
from gttf_sampler._backends.numba_rooted import _relations, word
from gttf_sampler._backends.plan import Batch, Plan
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
    nodes = np.zeros((len(walkers), kernels.NODE_COLUMNS), np.int64)
    for own, some in zip(nodes, walkers, strict=True):
        own[kernels.IDS] = some.row.data_ptr()
        own[kernels.ROOTS] = some.root.data_ptr()
    owners = plan, batch, kept, list(walkers)
    how = relations, segments, nodes, plan.replace
    parallel(kernels.measure, width, 4 * width, *how, start, count, end, owners=owners)
    sizes = end.copy()
    np.cumsum(end, out=end)
    drawn = int(end[-1]) if width else 0
    edge, to, by = (np.empty(drawn, np.int64) for _ in range(3))
    # kernels give walker i the stream of ids[i] + roots[i] · SIZE, which is to be `who`
    nodes, rest = nodes.copy(), [some.who - some.row for some in walkers]
    nodes[:, kernels.SIZE] = 1
    for own, shift in zip(nodes, rest, strict=True):
        own[kernels.ROOTS] = shift.data_ptr()
    key = word(batch.key)
    args = relations, segments, nodes, key, plan.replace, True, start, count, end
    parallel(kernels.draw, width, drawn, *args, edge, to, by, owners=(owners, rest))
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
    shape = (len(rows), kernels.SEGMENT_COLUMNS)
    return np.array(rows, np.int64).reshape(shape), width
