"""The hop loop of rooted sampling where rows are in several processes.

In a hop the walkers of all relations go out in one query per process and come back in
one answer. The nodes that they reach are relabelled here, in the order of one machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from gttf_sampler import random
from gttf_sampler._backends.record import UNIFORM, Batch, Plan, Rooted
from gttf_sampler._backends.scratch import NodeTable, relabel
from gttf_sampler.backend import fast_backend
from gttf_sampler.distributed.hop import NOBODY, Drawn, HopQuery, Wanted

if TYPE_CHECKING:
    from gttf_sampler.distributed.graph import PartitionedGraph

NONE = torch.empty(0, dtype=torch.int64)


class Frontier(NamedTuple):
    """The nodes that were new in the last hop.

    Attributes:
        first: the local id of the first one.
        node: [w], global ids.
        root: [w], their trees.
    """

    first: int
    node: Tensor
    root: Tensor


class NodeIds:
    """The nodes of one type in order of first occurrence: a position is a local id.

    Attributes:
        root: [n], the trees of the nodes, where trees are disjoint.
        hops: how many nodes were new at each hop, seeds first.
    """

    def __init__(
        self, plan: Plan, batch: Batch, kind: int, table: NodeTable | None
    ) -> None:
        seeds, first = batch.seeds[kind], batch.first_root[kind]
        self.size, self.table = plan.sizes[kind], table
        self.hops = [seeds.numel()]
        self.root = torch.arange(first, first + seeds.numel())
        self._node = seeds
        self._fast: Any = None
        fast = getattr(fast_backend(seeds.device), "Numbers", None)
        if table is not None and fast is not None:
            self._fast = fast(seeds, table, self.size, plan.most_edges(batch.seeds))

    @property
    def node(self) -> Tensor:
        """[n], the nodes by their ids in the whole graph."""
        return self._node if self._fast is None else self._fast.nodes()

    def frontier(self) -> Frontier:
        """The nodes that were new in the last hop."""
        stop = sum(self.hops)
        first = stop - self.hops[-1]
        return Frontier(first, self.node[first:stop], self.root[first:stop])

    def relabel(self, reached: Tensor, trees: Tensor) -> Tensor:
        """Local ids of nodes [e] in trees [e], which a hop has reached in this order.

        They are written over `reached` if that saves time.
        """
        before = sum(self.hops)
        if self._fast is not None:
            local: Tensor = self._fast.number(reached)
            self.hops.append(self._fast.count - before)
            return local
        known = self._identity(self._node, self.root)
        local, new = relabel(known, self._identity(reached, trees), self.table)
        self._node = torch.cat([self._node, reached[new]])
        if self.table is None:
            self.root = torch.cat([self.root, trees[new]])
        self.hops.append(self._node.numel() - before)
        return local

    def _identity(self, node: Tensor, root: Tensor) -> Tensor:
        """The number that makes two nodes the same: with the tree where disjoint."""
        return node if self.table is not None else root * self.size + node


class _Edges(NamedTuple):
    """The edges of one relation that a hop has taken: local ids, and their numbers."""

    row: Tensor
    col: Tensor
    edge: Tensor


def sample_hops(graph: PartitionedGraph, plan: Plan, batch: Batch) -> Rooted:
    """A batch, bit for bit the one that a machine with all rows draws."""
    edges: list[list[_Edges]] = [[] for _ in plan.relations]
    with ExitStack() as stack:
        tables: Sequence[NodeTable | None] = [None] * len(plan.sizes)
        if not batch.disjoint:
            tables = stack.enter_context(plan.borrow_tables())
        nodes = [NodeIds(plan, batch, kind, table) for kind, table in enumerate(tables)]
        for hop in range(plan.depth):
            frontiers = [ids.frontier() for ids in nodes]
            draws = _draw(graph, plan, batch, hop, frontiers)
            found = _relabel(plan, batch, nodes, frontiers, draws)
            for taken, own in zip(edges, found, strict=True):
                taken.append(own)
    row, col, edge = (
        [torch.cat([NONE, *(getattr(hop, name) for hop in hops)]) for hops in edges]
        for name in _Edges._fields
    )
    return Rooted(
        node=[ids.node for ids in nodes],
        root=[ids.root for ids in nodes] if batch.disjoint else None,
        row=row,
        col=col,
        edge=edge,
        num_nodes=[ids.hops for ids in nodes],
        num_edges=[[hop.edge.numel() for hop in hops] for hops in edges],
    )


def _relabel(
    plan: Plan,
    batch: Batch,
    nodes: list[NodeIds],
    frontiers: list[Frontier],
    draws: list[Drawn],
) -> list[_Edges]:
    """The edges of a hop by local ids, with those of the nodes that are new."""
    walkers = [frontiers[relation.dst_type] for relation in plan.relations]
    local: dict[int, Tensor] = {}
    for kind, ids in enumerate(nodes):
        own = [
            n for n, relation in enumerate(plan.relations) if relation.src_type == kind
        ]
        reached = trees = torch.cat([NONE, *(draws[n].node for n in own)])
        if batch.disjoint:
            roots = (walkers[n].root.repeat_interleave(draws[n].size) for n in own)
            trees = torch.cat([NONE, *roots])
        sizes = [draws[n].node.numel() for n in own]
        parts = ids.relabel(reached, trees).split(sizes)
        local.update(zip(own, parts, strict=True))
    found = []
    for number, (here, draw) in enumerate(zip(walkers, draws, strict=True)):
        walker = torch.arange(here.first, here.first + draw.size.numel())
        to = walker.repeat_interleave(draw.size, output_size=draw.edge.numel())
        found.append(_Edges(local[number], to, draw.edge))
    return found


def _draw(
    graph: PartitionedGraph,
    plan: Plan,
    batch: Batch,
    hop: int,
    frontiers: list[Frontier],
) -> list[Drawn]:
    """The edges that all relations take in a hop, wherever their rows are."""
    kinds, ranks = graph.numbers(plan), range(graph.exchange.size)
    routes = [
        graph.route(kind, here.node)
        for kind, here in zip(kinds, frontiers, strict=True)
    ]
    pairs = list(zip(routes, frontiers, strict=True))
    nodes = [route.split(here.node) for route, here in pairs]
    roots: list[Sequence[Tensor]] = [[NONE for _ in ranks] for _ in pairs]
    if batch.disjoint:
        roots = [route.split(here.root) for route, here in pairs]
    laws = (UNIFORM if law is None else law for law in batch.laws)
    wanted = [
        Wanted(
            graph.number(relation.adj), relation.dst_type, relation.fanouts[hop], law
        )
        for relation, law in zip(plan.relations, laws, strict=True)
    ]
    asked = {w.nodes for w in wanted if w.relation != NOBODY and w.fanout}
    key = int(random.fold(batch.key, hop))
    queries = {
        rank: HopQuery(
            key=key,
            replace=plan.replace,
            disjoint=batch.disjoint,
            original=batch.original_edge_ids,
            kinds=kinds,
            nodes=[each[rank] for each in nodes],
            roots=[each[rank] for each in roots],
            wanted=wanted,
        )
        for rank in ranks
        if any(routes[kind].counts[rank] for kind in asked)
    }
    answers = graph.ask(HopQuery, queries, hop + 1)
    found = [queries[rank].drawn(answers[rank]) for rank in sorted(answers)]
    draws = []
    for number, want in enumerate(wanted):
        parts = [drawn[number] for drawn in found]
        there = [drawn for drawn in parts if drawn is not None]
        if there:
            draws.append(Drawn(*routes[want.nodes].join(there)))
        else:
            walkers = frontiers[want.nodes].node.numel()
            draws.append(Drawn(NONE.new_zeros(walkers), NONE, NONE))
    return draws
