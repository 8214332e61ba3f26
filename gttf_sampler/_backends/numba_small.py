"""Rooted batches of a few edges: one call on one thread, nothing allocated but them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gttf_sampler import _check
from gttf_sampler._backends import hop_kernels as columns
from gttf_sampler._backends import small_kernels as kernels
from gttf_sampler._backends.memory import IDS
from gttf_sampler._backends.plan import Batch, Plan, Rooted
from gttf_sampler._backends.scratch import Workspace
from gttf_sampler.random import WORD

Array = np.ndarray[Any, Any]

FEW_EDGES = 1 << 15  # fewer are not worth waking a thread for
ROOM = slice(kernels.EDGES, kernels.CELLS + 1)
MOST_EDGES = 4 * FEW_EDGES  # where so many are met after all, threads begin again


def sample_small(plan: Plan, batch: Batch, relations: Array) -> Rooted | None:
    """A batch in one call; None if it has many edges after all."""
    try:
        form = plan.forms.pop()  # atomic: no two threads get the same
    except IndexError:
        form = Form(plan)
    kinds = len(plan.sizes)
    workspace = plan.pools[0].take_workspace(kinds)
    found: Rooted | None = form.sample(plan, batch, relations, workspace)
    plan.pools[0].give_back_workspace(kinds, workspace)
    plan.forms.append(form)  # after an error, neither is used again
    return found


class Form:
    """What is asked of the kernels for batches of one plan, and what they answer.

    It does not know the plan, which keeps it: graphs are to go as soon as nobody has
    them, without a search for cycles.
    """

    def __init__(self, plan: Plan) -> None:
        kinds, relations = len(plan.sizes), len(plan.relations)
        every = [relation.fanouts for relation in plan.relations]
        self.fanouts = np.array(every, np.int64).reshape(relations, plan.depth)
        self.request = np.zeros(kernels.REQUEST_SIZE, np.int64)
        self.words = self.request.view(np.uint64)
        self.nodes = np.zeros((kinds, columns.NODE_COLUMNS), np.int64)
        self.nodes[:, columns.SIZE] = plan.sizes
        self.starts = np.zeros((kinds, kernels.START_COLUMNS), np.int64)
        self.segments = np.empty((relations, columns.SEGMENT_COLUMNS), np.int64)
        self.moves = np.empty((relations * plan.depth, 3), np.int64)
        self.hops = np.zeros((kinds, plan.depth + 1), np.int64)
        self.taken = np.zeros((relations, plan.depth), np.int64)
        self.sizes = np.zeros(2 * kinds + relations, np.int64)

    def sample(
        self, plan: Plan, batch: Batch, relations: Array, workspace: Workspace
    ) -> Rooted | None:
        """Draws a batch; None if it is too large."""
        request, starts, room = self.request, self.starts, ROOM
        request[room] = workspace.room
        self.words[kernels.KEY] = int(batch.key) & WORD
        request[kernels.REPLACE] = plan.replace
        request[kernels.APART] = batch.apart
        request[kernels.MOST] = MOST_EDGES
        seeds = [part.contiguous() for part in batch.seeds]
        for kind, part in enumerate(seeds):
            starts[kind] = part.numel(), part.data_ptr(), batch.first_root[kind]
        while True:
            slots, request[kernels.BASE] = workspace.table.begin()
            ended = kernels.sample(
                *(request, relations, self.fanouts, self.nodes, starts, slots),
                *(workspace.space, self.segments, self.moves, self.hops, self.taken),
                self.sizes,
            )
            if ended == kernels.DONE:
                return self._result(plan, batch, relations, workspace.space)
            if ended == kernels.TOO_MANY:
                return None
            if ended == kernels.NO_NODE:
                raise IndexError("a seed is out of range")  # the caller words it
            if ended == kernels.EDITED:
                _check.changed()
            workspace.make_room(request[room].tolist(), int(request[kernels.NODES]))
            request[room] = workspace.room

    def _result(
        self, plan: Plan, batch: Batch, relations: Array, space: Array
    ) -> Rooted:
        """What was drawn, in memory of its own.

        Nodes, ends and edges do not share it: hosts take the ends by their address,
        and torch moves all of a memory when a tensor of it goes to another process.
        """
        request, kinds = self.request, len(plan.sizes)
        count = 2 * kinds if batch.apart else kinds
        sizes = self.sizes[: count + len(relations)].tolist()
        used = int(request[kernels.USED])
        nodes, ends = IDS.make(sum(sizes[:count])), IDS.make(2 * used)
        edges = IDS.make(used)
        request[kernels.OUT_NODES] = nodes.data_ptr()
        request[kernels.OUT_ENDS] = ends.data_ptr()
        request[kernels.OUT_EDGES] = edges.data_ptr()
        place = space, self.moves, self.sizes
        kernels.export(request, relations, self.nodes, *place)
        if used:  # a batch without edges, as to warm up, says nothing of others
            plan.usual["edges"] = used + used // 8
        per_kind = list(torch.split_with_sizes(nodes, sizes[:count]))
        pairs = [size for size in sizes[count:] for _ in range(2)]
        both = torch.split_with_sizes(ends, pairs)
        return Rooted(
            node=per_kind[:kinds],
            root=per_kind[kinds:] if batch.apart else None,
            row=list(both[::2]),
            col=list(both[1::2]),
            edge=list(torch.split_with_sizes(edges, sizes[count:])),
            num_nodes=self.hops.tolist(),
            num_edges=self.taken.tolist(),
        )
