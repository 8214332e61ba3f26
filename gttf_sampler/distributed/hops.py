"""Rooted sampling where rows are in several processes, hop by hop.

In a hop the walkers of all relations go out in one request per process and come back in
one answer. What they have reached is numbered here, in the order of one machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from gttf_sampler import random
from gttf_sampler._backends import ops
from gttf_sampler._backends.record import UNIFORM, Batch, Law, Plan, Rooted
from gttf_sampler._backends.scratch import NodeTable
from gttf_sampler.distributed.answer import Drawn
from gttf_sampler.distributed.reached import Reached
from gttf_sampler.distributed.request import NOBODY, Request, Wanted

if TYPE_CHECKING:
    from gttf_sampler.distributed.graph import PartitionedGraph


class Route(NamedTuple):
    """Which process is asked about which walker.

    Attributes:
        order: [w], the walkers process by process; None if one process has them all.
        counts: how many are asked of each process.
    """

    order: Tensor | None
    counts: list[int]

    @classmethod
    def of(cls, owner: Tensor, size: int) -> Route:
        """The route to the owners [w] of the walkers' rows."""
        counts: list[int] = torch.bincount(owner, minlength=size).tolist()
        if max(counts) == owner.numel():
            return cls(None, counts)
        return cls(owner.argsort(stable=True), counts)

    def split(self, values: Tensor) -> Sequence[Tensor]:
        """The values [w] that go to each process."""
        if self.order is not None:
            values = values.index_select(0, self.order)
        parts: Sequence[Tensor] = values.split(self.counts)
        return parts

    def join(self, parts: Sequence[Drawn]) -> Drawn:
        """What came back from all processes, in the order of the walkers."""
        if len(parts) == 1 and self.order is None:
            return Drawn(*(array.to(torch.int64) for array in parts[0]))
        count, edge, node = (
            torch.cat(arrays).to(torch.int64) for arrays in zip(*parts, strict=True)
        )
        if self.order is None:
            return Drawn(count, edge, node)
        own = torch.empty_like(count).index_copy_(0, self.order, count)
        start = (own.cumsum(0) - own).index_select(0, self.order)
        _, place = ops.expand(start, count, edge.numel())
        edge = torch.empty_like(edge).index_copy_(0, place, edge)
        return Drawn(own, edge, torch.empty_like(node).index_copy_(0, place, node))


def sample_hops(graph: PartitionedGraph, plan: Plan, batch: Batch) -> Rooted:
    """A batch, bit for bit the one that a machine with all rows draws."""
    kinds = graph.numbers(plan)
    edges: list[list[tuple[Tensor, Tensor, Tensor]]] = [[] for _ in plan.relations]
    with ExitStack() as stack:
        tables: Sequence[NodeTable | None] = [None] * len(plan.sizes)
        if not batch.disjoint:
            tables = stack.enter_context(plan.borrow_tables())
        nodes = [Reached(plan, batch, kind, table) for kind, table in enumerate(tables)]
        for hop in range(plan.depth):
            _sample_hop(graph, plan, batch, kinds, hop, nodes, edges)
    none = torch.empty(0, dtype=torch.int64)
    row, col, edge = (
        [torch.cat([none, *(hop[which] for hop in some)]) for some in edges]
        for which in range(3)
    )
    return Rooted(
        node=[some.node for some in nodes],
        root=[some.root for some in nodes] if batch.disjoint else None,
        row=row,
        col=col,
        edge=edge,
        num_nodes=[some.hops for some in nodes],
        num_edges=[[hop[2].numel() for hop in some] for some in edges],
    )


def _sample_hop(
    graph: PartitionedGraph,
    plan: Plan,
    batch: Batch,
    kinds: list[int],
    hop: int,
    nodes: list[Reached],
    edges: list[list[tuple[Tensor, Tensor, Tensor]]],
) -> None:
    """Asks for one hop, numbers what was reached and notes it."""
    draws = _ask(graph, plan, batch, kinds, hop, nodes)
    numbered: dict[int, Tensor] = {}
    none = torch.empty(0, dtype=torch.int64)
    frontiers = [some.frontier() for some in nodes]
    for kind, some in enumerate(nodes):
        own = [
            n for n, relation in enumerate(plan.relations) if relation.src_type == kind
        ]
        reached = torch.cat([draws[n].node for n in own] or [none])
        trees = reached
        if batch.disjoint:
            trees = torch.cat(
                [
                    frontiers[plan.relations[n].dst_type][2].repeat_interleave(
                        draws[n].size
                    )
                    for n in own
                ]
                or [reached]
            )
        local = some.number(reached, trees)
        parts = local.split([draws[n].node.numel() for n in own])
        numbered.update(zip(own, parts, strict=True))
    for number, (relation, draw) in enumerate(zip(plan.relations, draws, strict=True)):
        first, width = frontiers[relation.dst_type][0], draw.size.numel()
        walker = torch.arange(first, first + width)
        to = walker.repeat_interleave(draw.size, output_size=draw.edge.numel())
        edges[number].append((numbered[number], to, draw.edge))


def _ask(
    graph: PartitionedGraph,
    plan: Plan,
    batch: Batch,
    kinds: list[int],
    hop: int,
    nodes: list[Reached],
) -> list[Drawn]:
    """What all relations draw in a hop, wherever their rows are."""
    exchange = graph.exchange
    frontiers = [some.frontier() for some in nodes]
    routes = [
        Route.of(graph.owner(kind, node), exchange.size)
        for kind, (_, node, _) in zip(kinds, frontiers, strict=True)
    ]
    ids = [r.split(f[1]) for r, f in zip(routes, frontiers, strict=True)]
    none = torch.empty(0, dtype=torch.int64)
    roots: list[Sequence[Tensor]] = [[none] * exchange.size for _ in nodes]
    if batch.disjoint:
        roots = [r.split(f[2]) for r, f in zip(routes, frontiers, strict=True)]
    wanted = [
        Wanted(
            graph.number(relation.adj), relation.dst_type, relation.fanouts[hop], law
        )
        for relation, law in zip(plan.relations, _laws(batch), strict=True)
    ]
    asks = {
        relation.dst_type
        for relation, want in zip(plan.relations, wanted, strict=True)
        if want.relation != NOBODY and want.fanout
    }
    key = random.fold(batch.key, hop)
    how = key, plan.replace, batch.disjoint, batch.original_edge_ids, kinds
    requests = {
        rank: Request(
            *how, [each[rank] for each in ids], [each[rank] for each in roots], wanted
        )
        for rank in range(exchange.size)
        if any(routes[kind].counts[rank] for kind in asks)
    }
    found = graph.ask_rows(requests, hop)
    empty = Drawn(none, none, none)
    draws = []
    for number, want in enumerate(wanted):
        came = (found[rank][number] for rank in sorted(found))
        parts = [each for each in came if each is not None]
        if parts:
            draws.append(routes[want.nodes].join(parts))
            continue
        walkers = frontiers[want.nodes][1].numel()
        draws.append(empty._replace(size=none.new_zeros(walkers)))
    return draws


def _laws(batch: Batch) -> list[Law]:
    """The law of every relation, which there must be."""
    return [UNIFORM if law is None else law for law in batch.laws]
