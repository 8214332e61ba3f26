"""The hop loop of rooted sampling: any device, any bias, exact shapes or static ones.

In a hop all relations draw first, then each type of nodes numbers its new ones. Where
shapes are exact, the host then asks the device, once, how many there are, and rows may
be in other processes, which draw. Where shapes are static, arrays are as long as they
can ever have to be, walkers stand on -1 where there are fewer, counts stay on the
device, and nobody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._backends.memory import NodeTable
from gttf_sampler._backends.record import (
    Batch,
    Padded,
    Plan,
    Rooted,
    named_edges,
)

if TYPE_CHECKING:  # which draws with the help of backends
    from gttf_sampler.draw import Draw


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
        return ops.relabel(self.identity(self.node, self.root), reached, self.table)

    def append(self, arrivals: _Reached, count: int) -> None:
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
    def dummy(self) -> int:
        """N, the local id of no node."""
        return self.node.numel() - 2

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
            place.clamp_(max=self.dummy)
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
        return ops.relabel(known, reached, None, self.first + self.hops[-1])

    def append(self, arrivals: _Reached, width: int) -> None:
        """Writes the new nodes of a hop to their places, at most `width` of them."""
        place = arrivals.local.masked_fill(~arrivals.new, self.node.numel() - 1)
        self.node.scatter_(0, place, arrivals.node)
        if self.disjoint:
            self.root.scatter_(0, place, ops.take(arrivals.root, arrivals.parent))
        self.first, self.width = self.first + self.hops[-1], width
        self.known = min(self.known + width, self.dummy)
        self.hops.append(arrivals.new.sum())
        self._front = None


class _Reached(NamedTuple):
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


class _Edges(NamedTuple):
    """The edges that one relation has taken in one hop, or in all of them.

    Attributes:
        row, col: [e], local ids of the senders and the receivers.
        edge: [e], positions in `adj.col`; -1 where nothing was drawn.
    """

    row: Tensor
    col: Tensor
    edge: Tensor


DrawHop = Callable[..., list["Draw"]]
"""Draws for all relations; `draw_hop` of `gttf_sampler.draw` after the batch."""


def sample_hops(
    plan: Plan, batch: Batch, draw: DrawHop, remote: bool = False
) -> Rooted:
    """A batch hop by hop, on any device and with any bias: the reference.

    Args:
        plan: of the sampler.
        batch: the seeds, and what is asked.
        draw: draws the edges of a hop.
        remote: whether rows are in other processes, so that nobody here knows how many
            edges are in front of the walkers.
    """
    plan.ensure_nodes(batch)
    edges: list[list[_Edges]] = [[] for _ in plan.relations]
    tables = [] if batch.disjoint else plan.take_tables()  # lost if there is an error
    nodes = _first_nodes(plan, batch, tables or [None] * len(plan.sizes))
    (totals,) = _ask([] if remote else _totals(plan, 0, batch.seeds))
    for hop, keys in enumerate(plan.keys(batch)):
        draws = draw(hop, keys, nodes, totals)
        taken, arrivals = _number(plan, nodes, draws)
        there = [each.edge >= 0 for each in taken]
        counts, new, totals = _ask(
            [some.sum() for some in there],
            [arrival.new.sum() for arrival in arrivals],
            [] if remote else _totals(plan, hop + 1, arrivals),
        )
        for number, count in enumerate(counts):
            own = taken[number]
            if count < own.edge.numel():  # without places where nothing was drawn
                chosen = ops.compress(there[number], count)
                own = _Edges(*[ops.take(column, chosen) for column in own])
            edges[number].append(own)
        for some, arrival, count in zip(nodes, arrivals, new, strict=True):
            some.append(arrival, count)
    if tables:
        plan.give_back(tables)
    joined = [_join_hops(hops, plan.device) for hops in edges]
    return Rooted(
        node=[some.node if plan.depth else some.node.clone() for some in nodes],
        root=[some.root for some in nodes] if batch.disjoint else None,
        row=[each.row for each in joined],
        col=[each.col for each in joined],
        edge=named_edges(plan, batch, [each.edge for each in joined]),
        num_nodes=[some.hops for some in nodes],
        num_edges=[[own.edge.numel() for own in hops] for hops in edges],
    )


def sample_padded(plan: Plan, batch: Batch, draw: DrawHop) -> Padded:
    """A batch of static shapes, on any device, without waiting for it."""
    bounds = plan.bounds(batch.seeds, batch.disjoint)
    _check.fits("fanouts", 64 * sum(map(sum, bounds.edges)))
    nodes = [
        _padded_seeds(seeds, first, size, most, batch.disjoint)
        for seeds, first, size, most in zip(
            batch.seeds, batch.first_root, plan.sizes, bounds.most, strict=True
        )
    ]
    edges: list[list[_Edges]] = [[] for _ in plan.relations]
    for hop, keys in enumerate(plan.keys(batch)):
        draws = draw(hop, keys, nodes, None)
        taken, arrivals = _number(plan, nodes, draws)
        for hops, own in zip(edges, taken, strict=True):
            hops.append(own)
        for some, arrival, widths in zip(nodes, arrivals, bounds.nodes, strict=True):
            some.append(arrival, widths[hop + 1])
    found, num_edges = [], []
    for relation, hops in zip(plan.relations, edges, strict=True):
        joined = _join_hops(hops, plan.device)
        there = joined.edge >= 0
        parts = there.split([own.edge.numel() for own in hops])
        num_edges.append(torch.stack([p.sum() for p in parts]) if hops else joined.edge)
        if batch.original_edge_ids and relation.adj.edge_id is not None:
            named = ops.take_or_none(relation.adj.edge_id, joined.edge)
            joined = joined._replace(edge=named)
        dummies = nodes[relation.src_type].dummy, nodes[relation.dst_type].dummy, 0
        found.append(_compact(joined, there, dummies))
    return Padded(
        node=[some.node[:-1].clamp(min=0) for some in nodes],
        root=[some.root[:-1] for some in nodes] if batch.disjoint else None,
        row=[each.row for each in found],
        col=[each.col for each in found],
        edge=[each.edge for each in found],
        num_nodes=[torch.stack(some.hops) for some in nodes],
        num_edges=num_edges,
    )


def _first_nodes(
    plan: Plan, batch: Batch, tables: Sequence[NodeTable | None]
) -> list[NodeSet]:
    """The seeds of every type, with a table to number their neighbours in."""
    biased = any(bias is not None for bias in batch.biases)
    nodes = []
    for seeds, first, size, table in zip(
        batch.seeds, batch.first_root, plan.sizes, tables, strict=True
    ):
        count = seeds.numel()
        root = torch.arange(first, first + count, device=seeds.device)
        own = NodeSet(
            node=seeds,
            root=root,
            size=size,
            disjoint=batch.disjoint,
            biased=biased,
            path=seeds.new_empty(count, 0),
            table=table,
            hops=[count],
        )
        nodes.append(own)
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
    return PaddedNodeSet(
        node=node,
        root=root,
        size=size,
        disjoint=disjoint,
        biased=False,
        first=0,
        known=count,
        width=count,
        hops=[torch.full((), count, device=device)],
    )


def _number(
    plan: Plan, nodes: Sequence[NodeSet | PaddedNodeSet], draws: list[Draw]
) -> tuple[list[_Edges], list[_Reached]]:
    """The edges that each relation takes and the nodes of each type that they reach."""
    row: list[Tensor] = [draw.edge for draw in draws]
    arrivals = []
    for kind, some in enumerate(nodes):
        own = [n for n, r in enumerate(plan.relations) if r.src_type == kind]
        arrivals.append(_relabel_reached(some, [draws[n] for n in own]))
        sizes = [draws[n].edge.numel() for n in own]
        for n, part in zip(own, arrivals[kind].local.split(sizes), strict=True):
            row[n] = part
    taken = [
        _Edges(sender, nodes[relation.dst_type].local(draw.to), draw.edge)
        for sender, relation, draw in zip(row, plan.relations, draws, strict=True)
    ]
    return taken, arrivals


def _relabel_reached(nodes: NodeSet | PaddedNodeSet, draws: list[Draw]) -> _Reached:
    """Numbers what the draws have reached, in their order."""
    if not draws:
        none = nodes.node.new_empty(0)
        way = none.new_empty(0, nodes.path.shape[1] + nodes.biased)
        return _Reached(none, none, none.to(torch.bool), none, none, way)
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
    return _Reached(node, local, new, owner, root, path)


def _join_hops(hops: list[_Edges], device: torch.device) -> _Edges:
    """The edges of all hops of one relation, end to end."""
    none = torch.empty(0, dtype=torch.int64, device=device)
    return _Edges(
        *[torch.cat([none, *part]) for part in zip(*hops, strict=True)] or [none] * 3
    )


def _compact(edges: _Edges, there: Tensor, dummies: tuple[int, int, int]) -> _Edges:
    """Edges [E] with those that are there first, dummies behind them."""
    size = there.numel()
    place = there.cumsum(0).sub_(1).masked_fill_(~there, size)
    return _Edges(
        *(
            column.new_full((size + 1,), dummy).scatter_(0, place, column)[:size]
            for column, dummy in zip(edges, dummies, strict=True)
        )
    )


def _totals(plan: Plan, hop: int, front: Sequence[Tensor | _Reached]) -> list[Tensor]:
    """Sums [] of the edges in front of new nodes, for relations that take them all."""
    if hop >= plan.depth or all(r.fanouts[hop] >= 0 for r in plan.relations):
        return []  # nobody will ask
    sums = []
    for relation in plan.relations:
        node = front[relation.dst_type]
        if isinstance(node, _Reached):
            node = node.node.masked_fill(~node.new, -1)
        takes_all = relation.fanouts[hop] < 0
        count = relation.adj.row_range(node)[1] if takes_all else node[:0]
        sums.append(count.sum())
    return sums


def _joined(parts: list[Tensor]) -> Tensor:
    """The tensors end to end; one alone is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _ask(*groups: list[Tensor]) -> list[list[int]]:
    """The numbers behind 0-dim tensors: the one time a hop waits for the device."""
    flat = [number for group in groups for number in group]
    numbers = iter(torch.stack(flat).tolist() if flat else [])
    return [[next(numbers) for _ in group] for group in groups]
