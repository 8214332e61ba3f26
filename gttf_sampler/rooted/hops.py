"""The hop loop of rooted sampling: any device, any bias, exact shapes or static ones.

In a hop all relations draw first, then each type of nodes numbers its new ones. Where
shapes are exact, the host then asks the device, once, how many there are. Where they
are static, arrays are as long as they can ever have to be, walkers stand on -1 where
there are fewer, counts stay on the device, and nobody asks.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler._backends.record import (
    UNIFORM,
    Batch,
    Padded,
    Plan,
    Relation,
    Rooted,
    named_edges,
)
from gttf_sampler._backends.scratch import NodeTable, relabel
from gttf_sampler.bias.base import LawBias
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.rooted.hop import Draw, draw_relation


@dataclass
class _Nodes:
    """The nodes of one type that have been reached, in order of discovery.

    Attributes:
        node: [n], global ids; the position is the local id.
        root: [n], the number of the seed a node was reached from first.
        size: how many nodes of this type the graph has.
        disjoint: whether a node is another one in every tree.
        biased: whether anything asks for `root` and `path`; else they stay blank.
    """

    node: Tensor
    root: Tensor
    size: int
    disjoint: bool
    biased: bool

    def identity(self, node: Tensor, root: Tensor) -> Tensor:
        """The key by which nodes are told apart: the id, and the tree if disjoint."""
        if not self.disjoint:
            return node
        return (root * self.size + node).masked_fill_(node < 0, -1)


@dataclass
class NodeSet(_Nodes):
    """Nodes with exact shapes.

    Attributes:
        path: [frontier, hop], how the nodes of the last hop were reached.
        table: scratch for relabelling; None to relabel by sorting.
        hops: how many nodes were new at each hop, seeds first.
    """

    path: Tensor
    table: NodeTable | None
    hops: list[int]

    def frontier(self) -> tuple[int, Tensor, Tensor]:
        """The first local id of the last hop's new nodes, their ids and their roots."""
        start = self.node.numel() - self.hops[-1]
        return start, self.node[start:], self.root[start:]

    def local(self, to: Tensor) -> Tensor:
        """Local ids of positions in the frontier."""
        return to + self.frontier()[0]

    def relabel(self, reached: Tensor) -> tuple[Tensor, Tensor]:
        """Local ids [e] of identities, and which of them are new."""
        return relabel(self.identity(self.node, self.root), reached, self.table)

    def append(self, arrivals: "_Arrivals", count: int) -> None:
        """Appends the `count` new nodes of a hop."""
        chosen, root = ops.compress(arrivals.new, count), self.root
        self.node = torch.cat([self.node, ops.take(arrivals.node, chosen)])
        self.root, self.path = self.node, self.path.new_empty(count, 0)
        if self.biased or self.disjoint:
            parent = ops.take(arrivals.parent, chosen)
            self.root = torch.cat([root, ops.take(arrivals.root, parent)])
            if self.biased:
                self.path = arrivals.path.index_select(0, parent)
        self.hops.append(count)


@dataclass
class PaddedNodeSet(_Nodes):
    """Nodes with static shapes, for draws by laws.

    `node` is [N + 2]: -1 in places that nothing has been written to, N among them. The
    last place takes what must not be written. `root` is `node` unless trees are
    disjoint.

    Attributes:
        first: the local id of the first node of the last hop.
        known: no more nodes than these have been reached.
        width: no more nodes than these are new in the last hop.
        hops: [] each, how many were new at each hop, seeds first.
    """

    first: int | Tensor
    known: int
    width: int
    hops: list[Tensor]
    _front: tuple[Tensor, Tensor, Tensor] | None = None

    @property
    def path(self) -> Tensor:
        """[width, 0]: laws do not ask how walkers came."""
        return self.node.new_empty(self.width, 0)

    def frontier(self) -> tuple[Tensor, Tensor, Tensor]:
        """Local ids [w] of the last hop, the nodes that stand there, and their trees.

        What is beyond the last of them is -1, as nothing has been written there.
        """
        if self._front is None:
            place = torch.arange(self.width, device=self.node.device) + self.first
            place.clamp_(max=self.node.numel() - 2)
            node = ops.take(self.node, place)
            root = ops.take(self.root, place) if self.disjoint else node
            self._front = place, node, root
        return self._front

    def local(self, to: Tensor) -> Tensor:
        """Local ids of positions in the frontier."""
        return ops.take(self.frontier()[0], to)

    def relabel(self, reached: Tensor) -> tuple[Tensor, Tensor]:
        """Local ids [e] of identities, and which of them are new."""
        known = self.identity(self.node[: self.known], self.root[: self.known])
        return relabel(known, reached, None, self.first + self.hops[-1])

    def append(self, arrivals: "_Arrivals", width: int) -> None:
        """Writes the new nodes of a hop to their places, at most `width` of them."""
        place = arrivals.local.masked_fill(~arrivals.new, self.node.numel() - 1)
        self.node.scatter_(0, place, arrivals.node)
        if self.disjoint:
            self.root.scatter_(0, place, ops.take(arrivals.root, arrivals.parent))
        self.first, self.width = self.first + self.hops[-1], width
        self.known = min(self.known + width, self.node.numel() - 2)
        self.hops.append(arrivals.new.sum())
        self._front = None


@dataclass
class EdgeSet:
    """The edges of one relation that have been taken, one tensor per hop.

    Attributes:
        row: local ids of the senders.
        col: local ids of the receivers.
        edge: positions in `adj.col`; -1 where shapes are static and there is none.
    """

    row: list[Tensor] = field(default_factory=list)
    col: list[Tensor] = field(default_factory=list)
    edge: list[Tensor] = field(default_factory=list)

    def add(self, row: Tensor, col: Tensor, edge: Tensor) -> None:
        """Appends the edges of one hop."""
        self.row.append(row)
        self.col.append(col)
        self.edge.append(edge)

    def joined(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Row, col and edge of all hops."""
        none = like.new_empty(0)
        row, col, edge = (
            torch.cat([none, *part]) for part in (self.row, self.col, self.edge)
        )
        return row, col, edge


class _Arrivals(NamedTuple):
    """The nodes of one type that a hop has reached, of all relations end to end.

    Attributes:
        node: [e], global ids, -1 for none.
        local: [e], local ids.
        new: [e], whether an entry introduces a node.
        parent: [e], positions in `root` and `path`.
        root, path: the tree of every parent, and the way to it and through it.
    """

    node: Tensor
    local: Tensor
    new: Tensor
    parent: Tensor
    root: Tensor
    path: Tensor


class _Hop(NamedTuple):
    """One hop: what relations drew, what types were reached, the edges in between.

    Attributes:
        draws: per relation.
        arrivals: per node type.
        row: per relation [e], local ids of the senders.
        col: per relation [e], local ids of the receivers.
    """

    draws: list[Draw]
    arrivals: list[_Arrivals]
    row: list[Tensor]
    col: list[Tensor]


def sample_hops(plan: Plan, batch: Batch) -> Rooted:
    """A batch hop by hop, on any device and with any bias: the reference."""
    plan.ensure_nodes(batch)
    edges = [EdgeSet() for _ in plan.relations]
    pairs = zip(batch.biases, batch.laws, strict=True)
    biases = [
        bias if bias is not None or law in (None, UNIFORM) else LawBias(law)
        for bias, law in pairs
    ]
    batch = batch._replace(biases=biases)
    with ExitStack() as stack:
        nodes = _first_nodes(plan, batch, stack)
        totals = _first_totals(plan, nodes)
        for hop, keys in enumerate(plan.keys(batch)):
            made = _make_hop(plan, batch, hop, keys, nodes, totals)
            there = [draw.edge >= 0 for draw in made.draws]
            taken, new, totals = _ask(
                [some.sum() for some in there],
                [arrival.new.sum() for arrival in made.arrivals],
                _next_totals(plan, made.arrivals, hop + 1),
            )
            for number, (kept, count) in enumerate(zip(edges, taken, strict=True)):
                edge = made.draws[number].edge
                columns = [made.row[number], made.col[number], edge]
                if count < edge.numel():  # without places where nothing was drawn
                    chosen = ops.compress(there[number], count)
                    columns = [ops.take(column, chosen) for column in columns]
                kept.add(*columns)
            for some, arrival, count in zip(nodes, made.arrivals, new, strict=True):
                some.append(arrival, count)
    none = torch.empty(0, dtype=torch.int64, device=plan.device)
    joined = [some.joined(none) for some in edges]
    return Rooted(
        node=[some.node if plan.depth else some.node.clone() for some in nodes],
        root=[some.root for some in nodes] if batch.disjoint else None,
        row=[row for row, _, _ in joined],
        col=[col for _, col, _ in joined],
        edge=named_edges(plan, batch, [edge for _, _, edge in joined]),
        num_nodes=[some.hops for some in nodes],
        num_edges=[[hop.numel() for hop in some.edge] for some in edges],
    )


def sample_padded(plan: Plan, batch: Batch) -> Padded:
    """A batch of static shapes, on any device, without waiting for it."""
    bounds = plan.bounds(batch.seeds, batch.disjoint)
    _check.fits("fanouts", 64 * sum(map(sum, bounds.edges)))
    nodes = [
        _padded_seeds(seeds, first, size, most, batch.disjoint)
        for seeds, first, size, most in zip(
            batch.seeds, batch.first_root, plan.sizes, bounds.most, strict=True
        )
    ]
    edges = [EdgeSet() for _ in plan.relations]
    for hop, keys in enumerate(plan.keys(batch)):
        made = _make_hop(plan, batch, hop, keys, nodes, None)
        for number, kept in enumerate(edges):
            kept.add(made.row[number], made.col[number], made.draws[number].edge)
        for some, arrival, widths in zip(
            nodes, made.arrivals, bounds.nodes, strict=True
        ):
            some.append(arrival, widths[hop + 1])
    columns = [
        _compact(some, relation, nodes, batch.original_edge_ids)
        for some, relation in zip(edges, plan.relations, strict=True)
    ]
    row, col, edge, num_edges = ([each[i] for each in columns] for i in range(4))
    return Padded(
        node=[some.node[:-1].clamp(min=0) for some in nodes],
        root=[some.root[:-1] for some in nodes] if batch.disjoint else None,
        row=row,
        col=col,
        edge=edge,
        num_nodes=[torch.stack(some.hops) for some in nodes],
        num_edges=num_edges,
    )


def _first_nodes(plan: Plan, batch: Batch, stack: ExitStack) -> list[NodeSet]:
    """The seeds of every type, with a table to number their neighbours in."""
    tables: Sequence[NodeTable | None] = [None] * len(plan.sizes)
    if not batch.disjoint:
        tables = stack.enter_context(plan.borrow_tables())
    biased = any(bias is not None for bias in batch.biases)
    nodes = []
    for seeds, first, size, table in zip(
        batch.seeds, batch.first_root, plan.sizes, tables, strict=True
    ):
        count = seeds.numel()
        root = torch.arange(first, first + count, device=seeds.device)
        path = seeds.new_empty(count, 0)
        own = seeds, root, size, batch.disjoint, biased
        nodes.append(NodeSet(*own, path=path, table=table, hops=[count]))
    return nodes


def _padded_seeds(
    seeds: Tensor, first: int, size: int, most: int, disjoint: bool
) -> PaddedNodeSet:
    """The seeds alone, with room for so many nodes; trees are numbered from `first`."""
    count, device = seeds.numel(), seeds.device
    node = seeds.new_full((most + 2,), -1)
    node[:count] = seeds
    root = node
    if disjoint:
        root = seeds.new_zeros(most + 2)
        root[:count] = torch.arange(first, first + count, device=device)
    total = torch.full((), count, device=device)
    own = node, root, size, disjoint, False
    return PaddedNodeSet(*own, first=0, known=count, width=count, hops=[total])


def _make_hop(
    plan: Plan,
    batch: Batch,
    hop: int,
    keys: Sequence[random.Key],
    nodes: Sequence[NodeSet | PaddedNodeSet],
    totals: list[int] | None,
) -> _Hop:
    """Draws for all frontiers and numbers what they reach.

    `totals` are the edges in front of relations that take all; None for static shapes.
    """
    draws = []
    for number, relation in enumerate(plan.relations):
        static = (batch.laws[number] or UNIFORM) if totals is None else None
        total = totals[number] if totals else 0
        fanout, here = relation.fanouts[hop], nodes[relation.dst_type]
        rest = fanout, plan.replace, keys[number], total, static
        draws.append(draw_relation(relation.adj, batch.biases[number], here, *rest))
    row: list[Tensor] = [draw.edge for draw in draws]
    arrivals = []
    for kind, some in enumerate(nodes):
        relations = enumerate(plan.relations)
        own = [n for n, relation in relations if relation.src_type == kind]
        arrivals.append(_arrive(some, [draws[n] for n in own]))
        sizes = [draws[n].edge.numel() for n in own]
        for n, part in zip(own, arrivals[kind].local.split(sizes), strict=True):
            row[n] = part
    pairs = zip(plan.relations, draws, strict=True)
    col = [nodes[relation.dst_type].local(draw.to) for relation, draw in pairs]
    return _Hop(draws, arrivals, row, col)


def _arrive(nodes: NodeSet | PaddedNodeSet, draws: list[Draw]) -> _Arrivals:
    """Numbers what the draws have reached, in their order."""
    if not draws:
        none = nodes.node.new_empty(0)
        way = none.new_empty(0, nodes.path.shape[1] + nodes.biased)
        return _Arrivals(none, none, none.to(torch.bool), none, none, way)
    parent, width = [], 0
    for draw in draws:
        parent.append(draw.to + width if width else draw.to)
        width += draw.walkers.node.numel()
    node = _joined([draw.node for draw in draws])
    root, path = node, nodes.path  # unless anybody asks
    if nodes.biased or nodes.disjoint:
        root = _joined([draw.walkers.root for draw in draws])
    if nodes.biased:
        here = _joined([draw.walkers.node for draw in draws])[:, None]
        path = _joined([draw.walkers.path for draw in draws])
        path = torch.cat([path, here], dim=1)
    owner = _joined(parent)
    reached = node
    if nodes.disjoint:
        reached = nodes.identity(node, ops.take(root, owner))
    local, new = nodes.relabel(reached)
    return _Arrivals(node, local, new, owner, root, path)


def _compact(
    edges: EdgeSet, relation: Relation, nodes: list[PaddedNodeSet], original: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """row, col and edge [E] of one relation, padding last; and how many per hop."""
    sender, receiver = nodes[relation.src_type].node, nodes[relation.dst_type].node
    row, col, edge = edges.joined(receiver)
    there = edge >= 0
    parts = there.split([hop.numel() for hop in edges.edge])
    count = torch.stack([part.sum() for part in parts]) if parts else edge
    size = edge.numel()
    place = there.cumsum(0).sub_(1).masked_fill_(~there, size)
    ids = relation.adj.edge_id
    if original and ids is not None:
        edge = ops.take_or_none(ids, edge)
    dummies = sender.numel() - 2, receiver.numel() - 2, 0
    row, col, edge = (
        column.new_full((size + 1,), dummy).scatter_(0, place, column)[:size]
        for column, dummy in zip((row, col, edge), dummies, strict=True)
    )
    return row, col, edge, count


def _first_totals(plan: Plan, nodes: list[NodeSet]) -> list[int]:
    """Counts the edges of the seeds, for relations that take them all."""
    relations = plan.relations
    if not any(plan.depth and relation.fanouts[0] < 0 for relation in relations):
        return []
    return _ask([_degree_sum(r.adj, nodes[r.dst_type].node) for r in relations])[0]


def _next_totals(plan: Plan, arrivals: list[_Arrivals], hop: int) -> list[Tensor]:
    """Sums [] of the edges of new nodes, which the host has not counted yet."""
    sums: list[Tensor] = []
    if hop == plan.depth or all(r.fanouts[hop] >= 0 for r in plan.relations):
        return sums  # nobody will ask
    for relation in plan.relations:
        there = arrivals[relation.dst_type]
        if relation.fanouts[hop] < 0:
            new = there.node.masked_fill(~there.new, -1)
            sums.append(_degree_sum(relation.adj, new))
        else:
            sums.append(there.node.new_zeros(()))
    return sums


def _degree_sum(adj: CompactAdj, node: Tensor) -> Tensor:
    """The number of edges in front of the nodes, left on the device."""
    return adj.row_range(node)[1].sum()


def _joined(parts: list[Tensor]) -> Tensor:
    """The tensors end to end; one alone is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _ask(*groups: list[Tensor]) -> list[list[int]]:
    """The numbers behind 0-dim tensors: the one time a hop waits for the device."""
    flat = [number for group in groups for number in group]
    numbers = iter(torch.stack(flat).tolist() if flat else [])
    return [[next(numbers) for _ in group] for group in groups]
