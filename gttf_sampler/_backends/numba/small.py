"""The compiled loop of small batches: all hops in one call, on one thread.

A batch is drawn in memory that the last one was drawn in, so that nothing is allocated
but the result. Numbers go both ways in `request`, as numba takes microseconds for every
array that it hands back.
"""

from __future__ import annotations

import numpy as np
import torch
from numba import int64, uint64

from gttf_sampler import _check
from gttf_sampler._backends import memory
from gttf_sampler._backends.memory import Array
from gttf_sampler._backends.numba import record as columns
from gttf_sampler._backends.numba.hop import draw, gather
from gttf_sampler._backends.numba.record import (
    BEGIN,
    CHANGED,
    FANOUT,
    FIRST,
    IDS,
    RELATION,
    ROOTS,
    SIZE,
    STOP,
)
from gttf_sampler._backends.numba.relabel import insert_nodes, relabel_edges
from gttf_sampler._backends.numba.rng import GOLDEN, compiled, mix
from gttf_sampler._backends.numba.rows import longs, measure
from gttf_sampler._backends.record import DST_TYPE, SRC_TYPE, Batch, Plan, Rooted
from gttf_sampler._backends.scratch import Workspace
from gttf_sampler.random import WORD

# what `request` asks, what room there is, and what was found
KEY, REPLACE, APART, BASE, MOST, EDGES, WALKERS, CELLS, NODES = range(9)
OUT_NODES, OUT_ENDS, OUT_EDGES, USED, MOVED, REQUEST_SIZE = range(9, 15)
# columns of `starts`
COUNT, SEEDS, ROOT, START_COLUMNS = range(4)
# how it ended
DONE, TOO_MANY, NO_ROOM, NO_NODE, EDITED = range(5)


@compiled
def sample(
    request,
    relations,
    fanouts,
    nodes,
    starts,
    slots,
    space,
    segments,
    moves,
    hops,
    taken,
    sizes,
):
    """Draws a batch into `space`.

    Args:
        request: the key, whether neighbours can be drawn twice, whether trees are
            apart, a base above all values in `slots`, the most worth it; room for
            edges, walkers of a hop and nodes of a type in `space`. Where that is too
            little, what is needed is put in its place; NODES is for `slots`.
        relations: what to draw from; see `numba.record`.
        fanouts: [relations, hops].
        nodes: [types]; only their sizes are given.
        starts: [types]: how many seeds, where they are, and the number of the first.
        slots: the hash table of nodes, or of (tree, node) pairs.
        space: edges in three parts, walkers in three, nodes of all types, their trees.
        segments: scratch.
        moves: gets what `export` has to bring together, MOVED of them.
        hops: [types, hops + 1], gets the number of nodes.
        taken: [relations, hops], gets the number of edges.
        sizes: gets the sizes of all parts that `export` makes.

    Returns:
        DONE, TOO_MANY seeds, walkers or edges, NO_ROOM, NO_NODE where a seed is none,
        or EDITED where a graph was changed.
    """
    kinds, depth = nodes.shape[0], fanouts.shape[1]
    apart, replace = request[APART] != 0, request[REPLACE] != 0
    edges, walkers, cells = request[EDGES], request[WALKERS], request[CELLS]
    key, base = uint64(request[KEY]), request[BASE]
    rows = space[3 * edges :]
    start, count = rows[:walkers], rows[walkers : 2 * walkers]
    end = rows[2 * walkers : 3 * walkers]
    place = space.ctypes.data + 8 * 3 * (edges + walkers)
    known, begin = np.zeros(kinds, np.int64), np.zeros(kinds, np.int64)
    more = np.zeros(kinds, np.int64)
    total = int64(0)
    for kind in range(kinds):
        nodes[kind, IDS] = place + 8 * kind * cells
        nodes[kind, ROOTS] = place + 8 * (kinds + kind) * cells if apart else 0
        known[kind] = starts[kind, COUNT]
        total += known[kind]
        if known[kind] >= cells:
            request[CELLS] = max(request[CELLS], known[kind] + 1)
    if total > request[MOST]:
        return TOO_MANY
    if request[CELLS] > cells or slots.size < 4 * total:
        request[NODES] = total
        return NO_ROOM
    for kind in range(kinds):
        seeds, ids = longs(starts[kind, SEEDS]), longs(nodes[kind, IDS])
        for i in range(known[kind]):
            if seeds[i] < 0 or seeds[i] >= nodes[kind, SIZE]:
                return NO_NODE
            ids[i] = seeds[i]
        if apart:
            roots = longs(nodes[kind, ROOTS])
            for i in range(known[kind]):
                roots[i] = starts[kind, ROOT] + i
        hops[kind, 0] = known[kind]
    insert_nodes(nodes, known, slots, base)
    taken[:] = 0
    used, moved = int64(0), 0
    for hop in range(depth):
        width, parts = int64(0), 0
        for relation in range(relations.shape[0]):
            kind, fanout = relations[relation, DST_TYPE], fanouts[relation, hop]
            size = known[kind] - begin[kind]
            if size and fanout:
                row = segments[parts]
                row[RELATION], row[FIRST], row[STOP] = relation, width, width + size
                row[BEGIN], row[FANOUT] = begin[kind], fanout
                width += size
                parts += 1
        if width > request[MOST]:
            return TOO_MANY
        if width > walkers:
            request[WALKERS] = width
            return NO_ROOM
        own = segments[:parts]
        measure(0, width, relations, own, nodes, replace, start, count, end)
        total = int64(0)
        for i in range(width):
            total += end[i]
            end[i] = total
        more[:] = 0
        head = used
        for s in range(parts):
            first, stop = own[s, FIRST], own[s, STOP]
            size = end[stop - 1] - (end[first - 1] if first else 0)
            relation = own[s, RELATION]
            taken[relation, hop] = size
            moves[moved, 0], moves[moved, 1], moves[moved, 2] = relation, used, size
            more[relations[relation, SRC_TYPE]] += size
            moved, used = moved + 1, used + size
        if used > request[MOST]:
            return TOO_MANY
        most = int64(0)
        for kind in range(kinds):
            most = max(most, known[kind] + more[kind] + 1)
        if used > edges or most > cells or slots.size < 4 * (known.sum() + total):
            request[EDGES], request[CELLS] = max(used, edges), max(most, cells)
            request[NODES] = known.sum() + total
            return NO_ROOM
        edge, to = space[head:used], space[edges + head : edges + used]
        by = space[2 * edges + head : 2 * edges + used]
        hop_key = mix(key + uint64(hop + 1) * GOLDEN)
        how = hop_key, replace, apart
        draw(0, width, relations, own, nodes, *how, start, count, end, edge, to, by)
        for kind in range(kinds):
            begin[kind] = known[kind]
        relabel_edges(0, width, relations, own, nodes, slots, base, known, end, to, by)
        for kind in range(kinds):
            hops[kind, hop + 1] = known[kind] - begin[kind]
    for relation in range(relations.shape[0]):
        if relations[relation, CHANGED]:
            return EDITED
    request[USED], request[MOVED] = used, moved
    _note_sizes(known, taken, apart, sizes)
    return DONE


@compiled
def _note_sizes(known, taken, apart, sizes):
    """Notes the numbers of nodes of every type, of their trees, and of edges."""
    kinds = known.size
    for kind in range(kinds):
        sizes[kind] = known[kind]
        if apart:
            sizes[kinds + kind] = known[kind]
    for relation in range(taken.shape[0]):
        at = relation + (2 * kinds if apart else kinds)
        sizes[at] = taken[relation].sum()


@compiled
def export(request, relations, nodes, space, moves, sizes):
    """Copies what was drawn to the addresses in `request`: nodes, ends and edges."""
    out, at, kinds = longs(request[OUT_NODES]), 0, nodes.shape[0]
    for part in range(2 if request[APART] else 1):
        for kind in range(kinds):
            source = longs(nodes[kind, ROOTS if part else IDS])
            for i in range(uint64(sizes[kind])):
                out[uint64(at) + i] = source[i]
            at += sizes[kind]
    edges = request[EDGES]
    edge, to, by = space[:edges], space[edges : 2 * edges], space[2 * edges :]
    index, names = longs(request[OUT_ENDS]), longs(request[OUT_EDGES])
    gather(moves[: request[MOVED]], relations, edge, to, by, index, names)


FEW_EDGES = 1 << 15  # fewer are not worth waking a thread for
ROOM = slice(EDGES, CELLS + 1)
MOST_EDGES = 4 * FEW_EDGES  # where so many are met after all, threads begin again


def sample_small(plan: Plan, batch: Batch, relations: Array) -> Rooted | None:
    """A batch in one call; None if it has many edges after all."""
    try:
        form = plan.argument_pool.pop()  # atomic: no two threads get the same
    except IndexError:
        form = Form(plan)
    kinds = len(plan.sizes)
    workspace = plan.pools[0].take_workspace(kinds)
    found: Rooted | None = form.sample(plan, batch, relations, workspace)
    plan.pools[0].give_back_workspace(kinds, workspace)
    plan.argument_pool.append(form)  # after an error, neither is used again
    return found


class Form:
    """The argument buffers of the kernel for batches of one plan, in both directions.

    It does not know the plan, which keeps it: graphs are to go as soon as nobody has
    them, without a search for cycles.
    """

    def __init__(self, plan: Plan) -> None:
        kinds, relations = len(plan.sizes), len(plan.relations)
        every = [relation.fanouts for relation in plan.relations]
        self.fanouts = np.array(every, np.int64).reshape(relations, plan.depth)
        self.request = np.zeros(REQUEST_SIZE, np.int64)
        self.words = self.request.view(np.uint64)
        self.nodes = np.zeros((kinds, columns.NODE_COLUMNS), np.int64)
        self.nodes[:, columns.SIZE] = plan.sizes
        self.starts = np.zeros((kinds, START_COLUMNS), np.int64)
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
        self.words[KEY] = int(batch.key) & WORD
        request[REPLACE] = plan.replace
        request[APART] = batch.disjoint
        request[MOST] = MOST_EDGES
        seeds = [part.contiguous() for part in batch.seeds]
        for kind, part in enumerate(seeds):
            starts[kind] = part.numel(), part.data_ptr(), batch.first_root[kind]
        while True:
            slots, request[BASE] = workspace.table.begin()
            ended = sample(
                *(request, relations, self.fanouts, self.nodes, starts, slots),
                *(workspace.space, self.segments, self.moves, self.hops, self.taken),
                self.sizes,
            )
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
        request, kinds = self.request, len(plan.sizes)
        count = 2 * kinds if batch.disjoint else kinds
        sizes = self.sizes[: count + len(relations)].tolist()
        used = int(request[USED])
        nodes, ends = memory.IDS.make(sum(sizes[:count])), memory.IDS.make(2 * used)
        edges = memory.IDS.make(used)
        request[OUT_NODES] = nodes.data_ptr()
        request[OUT_ENDS] = ends.data_ptr()
        request[OUT_EDGES] = edges.data_ptr()
        place = space, self.moves, self.sizes
        export(request, relations, self.nodes, *place)
        if used:  # a batch without edges, as to warm up, says nothing of others
            plan.size_hints["edges"] = used + used // 8
        per_kind = list(torch.split_with_sizes(nodes, sizes[:count]))
        pairs = [size for size in sizes[count:] for _ in range(2)]
        both = torch.split_with_sizes(ends, pairs)
        return Rooted(
            node=per_kind[:kinds],
            root=per_kind[kinds:] if batch.disjoint else None,
            row=list(both[::2]),
            col=list(both[1::2]),
            edge=list(torch.split_with_sizes(edges, sizes[count:])),
            num_nodes=self.hops.tolist(),
            num_edges=self.taken.tolist(),
        )
