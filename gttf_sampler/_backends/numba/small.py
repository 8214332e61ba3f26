"""The compiled loop of small batches: all hops in one call, on one thread.

A batch is drawn in memory that the last one was drawn in, so that nothing is allocated
but the result. Numbers go both ways in `request`, as numba takes microseconds for every
array that it hands back.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from numba import int64, uint64

from gttf_sampler import _check
from gttf_sampler._backends import memory
from gttf_sampler._backends.memory import TREES, Array, Workspace
from gttf_sampler._backends.numba import hop as tt
from gttf_sampler._backends.numba.hop import draw, gather, measure, note_hop, open_hop
from gttf_sampler._backends.numba.relabel import insert_nodes, relabel_edges
from gttf_sampler._backends.numba.rng import GOLDEN, compiled, mix
from gttf_sampler._backends.numba.rows import longs
from gttf_sampler._backends.record import Batch, Plan, Rooted
from gttf_sampler.random import WORD

# what `request` asks, what room there is, and what was found
KEY, REPLACE, APART, BASE, MOST, EDGES, WALKERS, CELLS, NODES = range(9)
OUT_NODES, OUT_ENDS, OUT_EDGES, USED, MOVED, REQUEST_SIZE = range(9, 15)
# columns of `starts`
COUNT, SEEDS, ROOT, START_COLUMNS = range(4)
# how it ended
DONE, TOO_MANY, NO_ROOM, NO_NODE, EDITED = range(5)


@compiled
def sample(request, relations, fanouts, starts, slots, space, form):
    """Draws a batch into `space`; returns how it ended.

    Where room in `space` or `slots` is too little, `request` gets what is needed. The
    arrays of `form` are those of `Form`.
    """
    nodes, segments, moves, hops, taken = form
    kinds, depth = nodes.shape[0], fanouts.shape[1]
    apart, replace = request[APART] != 0, request[REPLACE] != 0
    edges, walkers, cells = request[EDGES], request[WALKERS], request[CELLS]
    key, base = uint64(request[KEY]), request[BASE]
    rest = space[3 * edges :]
    end = rest[2 * walkers : 3 * walkers]
    rows = rest[:walkers], rest[walkers : 2 * walkers], end
    place = space.ctypes.data + 8 * 3 * (edges + walkers)
    known, begin = np.zeros(kinds, np.int64), np.zeros(kinds, np.int64)
    more = np.zeros(kinds, np.int64)
    for kind in range(kinds):
        nodes[kind, tt.IDS] = place + 8 * kind * cells
        nodes[kind, tt.ROOTS] = place + 8 * (kinds + kind) * cells if apart else 0
        known[kind] = starts[kind, COUNT]
        request[CELLS] = max(request[CELLS], known[kind] + 1)
    total = known.sum()
    if total > request[MOST]:
        return TOO_MANY
    if request[CELLS] > cells or slots.size < 4 * total:
        request[NODES] = total
        return NO_ROOM
    for kind in range(kinds):
        seeds, ids = longs(starts[kind, SEEDS]), longs(nodes[kind, tt.IDS])
        for i in range(known[kind]):
            if seeds[i] < 0 or seeds[i] >= nodes[kind, tt.SIZE]:
                return NO_NODE
            ids[i] = seeds[i]
        if apart:
            roots = longs(nodes[kind, tt.ROOTS])
            for i in range(known[kind]):
                roots[i] = starts[kind, ROOT] + i
        hops[kind, 0] = known[kind]
    insert_nodes(nodes, known, slots, base)
    taken[:] = 0
    used, moved = int64(0), 0
    for hop in range(depth):
        width, parts = open_hop(hop, relations, fanouts, known, begin, segments)
        if width > request[MOST]:
            return TOO_MANY
        if width > walkers:
            request[WALKERS] = width
            return NO_ROOM
        own, head, total = segments[:parts], used, int64(0)
        table = relations, own, nodes
        measure(0, width, table, replace, rows)
        for i in range(width):
            total += end[i]
            end[i] = total
        noted = moves, taken, more
        used, moved = note_hop(hop, relations, own, end, used, moved, *noted)
        if used > request[MOST]:
            return TOO_MANY
        most = (known + more).max() + 1
        if used > edges or most > cells or slots.size < 4 * (known.sum() + total):
            request[EDGES], request[CELLS] = max(used, edges), max(most, cells)
            request[NODES] = known.sum() + total
            return NO_ROOM
        edge, to = space[head:used], space[edges + head : edges + used]
        by = space[2 * edges + head : 2 * edges + used]
        how = mix(key + uint64(hop + 1) * GOLDEN), replace
        draw(0, width, table, how, rows, (edge, to, by))
        begin[:] = known
        relabel_edges(0, width, table, slots, base, known, end, to, by)
        hops[:, hop + 1] = known - begin
    if relations[:, tt.CHANGED].any():
        return EDITED
    request[USED], request[MOVED] = used, moved
    return DONE


@compiled
def export(request, relations, nodes, space, moves, hops):
    """Copies what was drawn to the addresses in `request`: nodes, ends and edges."""
    out, at, kinds = longs(request[OUT_NODES]), 0, nodes.shape[0]
    for part in range(2 if request[APART] else 1):
        for kind in range(kinds):
            source = longs(nodes[kind, tt.ROOTS if part else tt.IDS])
            size = hops[kind].sum()
            for i in range(uint64(size)):
                out[uint64(at) + i] = source[i]
            at += size
    edges = request[EDGES]
    edge, to, by = space[:edges], space[edges : 2 * edges], space[2 * edges :]
    index, names = longs(request[OUT_ENDS]), longs(request[OUT_EDGES])
    gather(moves[: request[MOVED]], relations, edge, to, by, index, names)


FEW_EDGES = 1 << 15  # fewer are not worth waking a thread for
ROOM = slice(EDGES, CELLS + 1)
MOST_EDGES = 4 * FEW_EDGES  # where so many are met after all, threads begin again


def sample_small(plan: Plan, batch: Batch, relations: Array) -> Rooted | None:
    """A batch in one call; None if it has many edges after all."""
    form = plan.argument_pool.take() or Form(plan)
    pool, kinds = plan.pools[0], len(plan.sizes)
    workspace = pool.lease(TREES - kinds, partial(Workspace, kinds))
    found: Rooted | None = form.sample(plan, batch, relations, workspace)
    pool.give_back(TREES - kinds, workspace)
    plan.argument_pool.give_back(form)  # after an error, neither is used again
    return found


class Form:
    """The argument buffers of the kernels for batches of one plan, in both directions.

    It does not know the plan, which keeps it: graphs are to go as soon as nobody has
    them, without a search for cycles.

    Attributes:
        fanouts: [relations, hops].
        request: the key, how to draw, what room there is; and what was found.
        nodes: [types], a row each; see `numba.hop`.
        starts: [types]: how many seeds, where they are, and the number of the first.
        segments: [relations], scratch.
        moves: [relations · hops, 3], where edges of a hop and a relation are.
        hops: [types, hops + 1], numbers of new nodes.
        taken: [relations, hops], numbers of edges.
    """

    def __init__(self, plan: Plan) -> None:
        kinds, relations = len(plan.sizes), len(plan.relations)
        every = [relation.fanouts for relation in plan.relations]
        self.fanouts = np.array(every, np.int64).reshape(relations, plan.depth)
        self.request = np.zeros(REQUEST_SIZE, np.int64)
        self.words = self.request.view(np.uint64)
        self.nodes = np.zeros((kinds, tt.NODE_COLUMNS), np.int64)
        self.nodes[:, tt.SIZE] = plan.sizes
        self.starts = np.zeros((kinds, START_COLUMNS), np.int64)
        self.segments = np.empty((relations, tt.SEGMENT_COLUMNS), np.int64)
        self.moves = np.empty((relations * plan.depth, 3), np.int64)
        self.hops = np.zeros((kinds, plan.depth + 1), np.int64)
        self.taken = np.zeros((relations, plan.depth), np.int64)
        about = self.nodes, self.segments, self.moves
        self.arrays = *about, self.hops, self.taken

    def sample(
        self, plan: Plan, batch: Batch, relations: Array, workspace: Workspace
    ) -> Rooted | None:
        """Draws a batch; None if it is too large."""
        request, starts, room = self.request, self.starts, ROOM
        request[room] = workspace.room
        self.words[KEY] = int(batch.key) & WORD
        request[REPLACE] = plan.replace
        request[APART] = batch.disjoint
        request[MOST] = MOST_EDGES
        seeds = [part.contiguous() for part in batch.seeds]
        for kind, part in enumerate(seeds):
            starts[kind] = part.numel(), part.data_ptr(), batch.first_root[kind]
        while True:
            slots, request[BASE] = workspace.table.begin()
            given = request, relations, self.fanouts, starts, slots
            ended = sample(*given, workspace.space, self.arrays)
            if ended == DONE:
                return self._result(plan, batch, relations, workspace.space)
            if ended == TOO_MANY:
                return None
            if ended == NO_NODE:
                raise IndexError("a seed is out of range")  # the caller words it
            if ended == EDITED:
                _check.changed()
            workspace.make_room(request[room].tolist(), int(request[NODES]))
            request[room] = workspace.room

    def _result(
        self, plan: Plan, batch: Batch, relations: Array, space: Array
    ) -> Rooted:
        """Copies the batch into memory of its own.

        Nodes, ends and edges do not share it: hosts take the ends by their address,
        and torch moves all of a memory when a tensor of it goes to another process.
        """
        request, parts = self.request, 2 if batch.disjoint else 1
        num_nodes, num_edges = self.hops.tolist(), self.taken.tolist()
        known, taken = [sum(own) for own in num_nodes], [sum(own) for own in num_edges]
        used = int(request[USED])
        nodes, edges = memory.IDS.make(parts * sum(known)), memory.IDS.make(used)
        ends = memory.IDS.make(2 * used)
        request[OUT_NODES] = nodes.data_ptr()
        request[OUT_ENDS] = ends.data_ptr()
        request[OUT_EDGES] = edges.data_ptr()
        export(request, relations, self.nodes, space, self.moves, self.hops)
        if used:  # a batch without edges, as to warm up, says nothing of others
            plan.size_hints["edges"] = used + used // 8
        per_kind = torch.split_with_sizes(nodes, parts * known)
        both = torch.split_with_sizes(ends, [size for size in taken for _ in range(2)])
        return Rooted(
            node=list(per_kind[: len(known)]),
            root=list(per_kind[len(known) :]) if batch.disjoint else None,
            row=list(both[::2]),
            col=list(both[1::2]),
            edge=list(torch.split_with_sizes(edges, taken)),
            num_nodes=num_nodes,
            num_edges=num_edges,
        )
