"""The compiled loop of small batches: all hops in one call, on one thread.

A batch is drawn in memory that the last one was drawn in, so that nothing is allocated
but the result. Numbers go both ways in a `Request`, as numba takes microseconds for
every array that it hands back.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numba import int64, uint64

from gttf_sampler import _check
from gttf_sampler._backends import memory
from gttf_sampler._backends.memory import TREES, Array, Room, Workspace
from gttf_sampler._backends.numba.hop import (
    EDGE_RUN,
    NODE,
    RELATION,
    SEGMENT,
    admit,
    draw,
    gather_runs,
    note_hop,
    open_hop,
)
from gttf_sampler._backends.numba.relabel import insert_nodes, relabel_edges
from gttf_sampler._backends.numba.rng import GOLDEN, compiled, mix
from gttf_sampler._backends.numba.rows import as_table, longs, table_of
from gttf_sampler._backends.record import Batch, Plan, Rooted
from gttf_sampler.random import WORD


class Request(NamedTuple):
    """The numbers of a batch: what it asks, its room, and what was found.

    Attributes:
        key: of the batch, its bits as they are.
        replace: as in `Plan`.
        disjoint: as in `Batch`.
        base: the first value of the table of nodes that is of this batch.
        most: edges or walkers of a hop, beyond which the batch is not small.
        edges: room for edges, of the batch.
        walkers: room for walkers, of a hop.
        cells: room for nodes, of each type.
        nodes: how many the table of nodes must have room for.
        out_nodes: the address that nodes are copied to, types end to end.
        out_ends: that of senders and receivers.
        out_edges: that of edges.
        used: edges that were taken.
        runs: how many `EdgeRun` there are.
    """

    key: int
    replace: int
    disjoint: int
    base: int
    most: int
    edges: int
    walkers: int
    cells: int
    nodes: int
    out_nodes: int
    out_ends: int
    out_edges: int
    used: int
    runs: int


class Start(NamedTuple):
    """The seeds of one node type.

    Attributes:
        num_seeds: how many there are.
        seeds: the address of int64 [num_seeds].
        root: the number of the tree of the first.
    """

    num_seeds: int
    seeds: int
    root: int


REQUEST, START = table_of(Request), table_of(Start)
AT = Request(*range(len(Request._fields)))
ROOM = slice(AT.edges, AT.cells + 1)  # the fields of a `Room`
# how it ended
DONE, TOO_MANY, NO_ROOM, NO_NODE, EDITED = range(5)


@compiled
def sample(form, relations, fanouts, slots, space, hops, taken):
    """Draws a batch into `space`; returns how it ended.

    Where room in `space` or `slots` is too little, the request gets what is needed.
    `form` is `Form.numbers`.
    """
    requests, starts, nodes, segments, runs = form
    request, starts = as_table(requests, REQUEST)[0], as_table(starts, START)
    nodes, segments = as_table(nodes, NODE), as_table(segments, SEGMENT)
    runs, relations = as_table(runs, EDGE_RUN), as_table(relations, RELATION)
    kinds, depth = nodes.shape[0], fanouts.shape[1]
    disjoint, replace = request.disjoint != 0, request.replace != 0
    edges, walkers, cells = request.edges, request.walkers, request.cells
    key, base = uint64(request.key), request.base
    rest = space[3 * edges :]
    end = rest[2 * walkers : 3 * walkers]
    rows = rest[:walkers], rest[walkers : 2 * walkers], end
    place = space.ctypes.data + 8 * 3 * (edges + walkers)
    known, begin = np.zeros(kinds, np.int64), np.zeros(kinds, np.int64)
    more = np.zeros(kinds, np.int64)
    for kind in range(kinds):
        nodes[kind].ids = place + 8 * kind * cells
        nodes[kind].roots = place + 8 * (kinds + kind) * cells if disjoint else 0
        known[kind] = starts[kind].num_seeds
        request.cells = max(request.cells, known[kind] + 1)
    total = known.sum()
    if total > request.most:
        return TOO_MANY
    if request.cells > cells or slots.size < 4 * total:
        request.nodes = total
        return NO_ROOM
    for kind in range(kinds):
        seeds, ids = longs(starts[kind].seeds), longs(nodes[kind].ids)
        for i in range(known[kind]):
            if seeds[i] < 0 or seeds[i] >= nodes[kind].size:
                return NO_NODE
            ids[i] = seeds[i]
        if disjoint:
            roots = longs(nodes[kind].roots)
            for i in range(known[kind]):
                roots[i] = starts[kind].root + i
        hops[kind, 0] = known[kind]
    insert_nodes(nodes, known, slots, base)
    taken[:] = 0
    used, count = int64(0), 0
    for hop in range(depth):
        width, parts = open_hop(hop, relations, fanouts, known, begin, segments)
        if width > request.most:
            return TOO_MANY
        if width > walkers:
            request.walkers = width
            return NO_ROOM
        own, head, total = segments[:parts], used, int64(0)
        table = relations, own, nodes
        admit(0, width, table, replace, rows)
        for i in range(width):
            total += end[i]
            end[i] = total
        used, count = note_hop(hop, relations, own, end, used, count, runs, taken, more)
        if used > request.most:
            return TOO_MANY
        most = (known + more).max() + 1
        if used > edges or most > cells or slots.size < 4 * (known.sum() + total):
            request.edges, request.cells = max(used, edges), max(most, cells)
            request.nodes = known.sum() + total
            return NO_ROOM
        edge, to = space[head:used], space[edges + head : edges + used]
        by = space[2 * edges + head : 2 * edges + used]
        how = mix(key + uint64(hop + 1) * GOLDEN), replace
        draw(0, width, table, how, rows, (edge, to, by))
        begin[:] = known
        relabel_edges(0, width, table, slots, base, known, end, to, by)
        hops[:, hop + 1] = known - begin
    for relation in range(relations.shape[0]):
        if relations[relation].changed:
            return EDITED
    request.used, request.runs = used, count
    return DONE


@compiled
def export(form, relations, space, hops):
    """Copies what was drawn to the addresses of the request: nodes, ends and edges."""
    requests, _, nodes, _, runs = form
    request, nodes = as_table(requests, REQUEST)[0], as_table(nodes, NODE)
    runs, relations = as_table(runs, EDGE_RUN), as_table(relations, RELATION)
    out, at, kinds = longs(request.out_nodes), 0, nodes.shape[0]
    for part in range(2 if request.disjoint else 1):
        for kind in range(kinds):
            source = longs(nodes[kind].roots if part else nodes[kind].ids)
            size = hops[kind].sum()
            for i in range(uint64(size)):
                out[uint64(at) + i] = source[i]
            at += size
    edges = request.edges
    edge, to, by = space[:edges], space[edges : 2 * edges], space[2 * edges :]
    index, names = longs(request.out_ends), longs(request.out_edges)
    gather_runs(runs[: request.runs], relations, edge, to, by, index, names)


FEW_EDGES = 1 << 15  # fewer are not worth waking a thread for
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
        request: the words of a `Request`, at the places that `AT` names.
        words: the same memory, unsigned.
        nodes: `NodeRow` [types].
        starts: `Start` [types].
        segments: `Segment` [relations], scratch.
        runs: `EdgeRun` [relations · hops].
        hops: [types, hops + 1], numbers of new nodes.
        taken: [relations, hops], numbers of edges.
        numbers: all tables as plain numbers: request, starts, nodes, segments, runs.
    """

    def __init__(self, plan: Plan) -> None:
        kinds, relations = len(plan.sizes), len(plan.relations)
        every = [relation.fanouts for relation in plan.relations]
        self.fanouts = np.array(every, np.int64).reshape(relations, plan.depth)
        self.request = np.zeros(len(AT), np.int64)
        self.request[AT.replace], self.request[AT.most] = plan.replace, MOST_EDGES
        self.words = self.request.view(np.uint64)
        self.nodes = np.zeros(kinds, NODE)
        self.nodes["size"] = plan.sizes
        self.starts = np.zeros(kinds, START)
        self.segments = np.empty(relations, SEGMENT)
        self.runs = np.empty(relations * plan.depth, EDGE_RUN)
        self.hops = np.zeros((kinds, plan.depth + 1), np.int64)
        self.taken = np.zeros((relations, plan.depth), np.int64)
        tables = self.starts, self.nodes, self.segments, self.runs
        plain = (x.view(np.int64).reshape(x.size, x.itemsize // 8) for x in tables)
        self.numbers = (self.request[None], *plain)

    def sample(
        self, plan: Plan, batch: Batch, relations: Array, workspace: Workspace
    ) -> Rooted | None:
        """Draws a batch; None if it is too large."""
        request, starts = self.request, self.starts
        self.words[AT.key] = int(batch.key) & WORD
        request[AT.disjoint] = batch.disjoint
        seeds = [part.contiguous() for part in batch.seeds]
        for kind, part in enumerate(seeds):
            first = batch.first_root[kind]
            starts[kind] = Start(part.numel(), part.data_ptr(), first)
        while True:
            request[ROOM] = workspace.room
            slots, request[AT.base] = workspace.table.begin()
            tables, fanouts, space = self.numbers, self.fanouts, workspace.space
            hops, taken = self.hops, self.taken
            ended = sample(tables, relations, fanouts, slots, space, hops, taken)
            if ended == DONE:
                return self._result(plan, batch, relations, space)
            if ended == TOO_MANY:
                return None
            if ended == NO_NODE:
                raise IndexError("a seed is out of range")  # the caller words it
            if ended == EDITED:
                _check.changed()
            asked = Room(*request[ROOM].tolist())
            workspace.make_room(asked, int(request[AT.nodes]))

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
        used = int(request[AT.used])
        nodes, edges = memory.IDS.make(parts * sum(known)), memory.IDS.make(used)
        ends = memory.IDS.make(2 * used)
        request[AT.out_nodes] = nodes.data_ptr()
        request[AT.out_ends] = ends.data_ptr()
        request[AT.out_edges] = edges.data_ptr()
        export(self.numbers, relations, space, self.hops)
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
