"""The hop loop of rooted sampling, over one relation or many.

In a hop all relations draw first, then each type of nodes numbers its new ones, and
then the host asks the device, once, how many there are.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from gttf_sampler import random
from gttf_sampler._backends import ops
from gttf_sampler._backends.record import UNIFORM, Batch, Plan, Rooted, named_edges
from gttf_sampler._backends.scratch import NodeTable, relabel
from gttf_sampler.bias.base import LawBias
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.rooted.hop import Draw, NodeSet, draw_relation


@dataclass
class EdgeSet:
    """The edges of one relation that have been taken, one tensor per hop."""

    row: list[Tensor] = field(default_factory=list)
    col: list[Tensor] = field(default_factory=list)
    edge: list[Tensor] = field(default_factory=list)

    def add(self, row: Tensor, col: Tensor, edge: Tensor) -> None:
        """Appends the edges of one hop."""
        self.row.append(row)
        self.col.append(col)
        self.edge.append(edge)


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


def sample_hops(plan: Plan, batch: Batch) -> Rooted:
    """A batch hop by hop, on any device and with any bias: the reference."""
    plan.ensure_nodes(batch)
    edges = [EdgeSet() for _ in plan.relations]
    pairs = zip(batch.biases, batch.laws, strict=True)
    batch = batch._replace(
        biases=[
            bias if bias is not None or law in (None, UNIFORM) else LawBias(law)
            for bias, law in pairs
        ]
    )
    with ExitStack() as stack:
        nodes = _first_nodes(plan, batch, stack)
        totals = _first_totals(plan, nodes)
        for hop, keys in enumerate(plan.keys(batch)):
            totals = _sample_hop(plan, batch, hop, keys, nodes, edges, totals)
    none = torch.empty(0, dtype=torch.int64, device=plan.device)
    row, col, edge = (
        [torch.cat([none, *getattr(some, name)]) for some in edges]
        for name in ("row", "col", "edge")
    )
    return Rooted(
        node=[some.node if plan.depth else some.node.clone() for some in nodes],
        root=[some.root for some in nodes] if batch.disjoint else None,
        row=row,
        col=col,
        edge=named_edges(plan, batch, edge),
        num_nodes=[some.hops for some in nodes],
        num_edges=[[hop.numel() for hop in some.edge] for some in edges],
    )


def _first_nodes(plan: Plan, batch: Batch, stack: ExitStack) -> list[NodeSet]:
    """The seeds of every type, with a table to number their neighbours in."""
    tables: Sequence[NodeTable | None] = [None] * len(plan.sizes)
    if not batch.disjoint:
        tables = stack.enter_context(plan.borrow_tables())
    biased = any(bias is not None for bias in batch.biases)
    return [
        NodeSet.of(seeds, first, size, biased, table)
        for seeds, first, size, table in zip(
            batch.seeds, batch.first_root, plan.sizes, tables, strict=True
        )
    ]


def _sample_hop(
    plan: Plan,
    batch: Batch,
    hop: int,
    keys: Sequence[random.Key],
    nodes: list[NodeSet],
    edges: list[EdgeSet],
    totals: list[int],
) -> list[int]:
    """Draws, numbers and notes one hop; returns how much the next one takes of all."""
    draws = [
        draw_relation(
            *(relation.adj, batch.biases[number], nodes[relation.dst_type]),
            *(relation.fanouts[hop], plan.replace),
            *(keys[number], totals[number] if totals else 0),
        )
        for number, relation in enumerate(plan.relations)
    ]
    arrivals = [
        _arrive(
            some,
            [
                d
                for d, r in zip(draws, plan.relations, strict=True)
                if r.src_type == kind
            ],
        )
        for kind, some in enumerate(nodes)
    ]
    there = [draw.edge >= 0 for draw in draws]
    taken, new, totals = _ask(
        [some.sum() for some in there],
        [arrival.new.sum() for arrival in arrivals],
        _next_totals(plan, arrivals, hop + 1),
    )
    _collect(plan, nodes, draws, arrivals, there, taken, edges)
    for some, arrival, count in zip(nodes, arrivals, new, strict=True):
        _settle(some, arrival, count)
    return totals


def _arrive(nodes: NodeSet, draws: list[Draw]) -> _Arrivals:
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
    root = _joined([draw.walkers.root for draw in draws])
    path = _joined([draw.walkers.path for draw in draws])
    if nodes.biased:
        here = _joined([draw.walkers.node for draw in draws])
        path = torch.cat([path, here[:, None]], dim=1)
    owner = _joined(parent)
    known = nodes.identity(nodes.node, nodes.root)
    reached = node
    if nodes.table is None:
        reached = nodes.identity(node, ops.take(root, owner))
    local, new = relabel(known, reached, nodes.table)
    return _Arrivals(node, local, new, owner, root, path)


def _collect(
    plan: Plan,
    nodes: list[NodeSet],
    draws: list[Draw],
    arrivals: list[_Arrivals],
    there: list[Tensor],
    taken: list[int],
    edges: list[EdgeSet],
) -> None:
    """Appends the edges of a hop, without the places where nothing was drawn."""
    offset = [0] * len(arrivals)
    for relation, draw, mask, count, kept in zip(
        plan.relations, draws, there, taken, edges, strict=True
    ):
        size, begin = draw.edge.numel(), offset[relation.src_type]
        offset[relation.src_type] += size
        local = arrivals[relation.src_type].local[begin : begin + size]
        start, _, _ = nodes[relation.dst_type].frontier()
        columns = [local, draw.to + start, draw.edge]
        if count < size:
            chosen = ops.compress(mask, count)
            columns = [ops.take(column, chosen) for column in columns]
        kept.add(*columns)


def _settle(nodes: NodeSet, arrivals: _Arrivals, count: int) -> None:
    """Appends the `count` new nodes of a hop."""
    chosen = ops.compress(arrivals.new, count)
    nodes.node = torch.cat([nodes.node, ops.take(arrivals.node, chosen)])
    if nodes.biased or nodes.table is None:
        parent = ops.take(arrivals.parent, chosen)
        nodes.root = torch.cat([nodes.root, ops.take(arrivals.root, parent)])
        nodes.path = arrivals.path.index_select(0, parent)
    else:
        nodes.root = nodes.node
        nodes.path = arrivals.path.new_empty(count, 0)
    nodes.hops.append(count)


def _first_totals(plan: Plan, nodes: list[NodeSet]) -> list[int]:
    """How many edges the seeds have, for relations that take them all."""
    relations = plan.relations
    if not any(plan.depth and relation.fanouts[0] < 0 for relation in relations):
        return []
    return _ask([_degree_sum(r.adj, nodes[r.dst_type].node) for r in relations])[0]


def _next_totals(plan: Plan, arrivals: list[_Arrivals], hop: int) -> list[Tensor]:
    """How many edges the new nodes have, which the host has not counted yet."""
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
