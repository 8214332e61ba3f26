"""Forests on a partitioned graph: whoever has a row takes the steps of walkers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler.bias import EdgeWeightBias
from gttf_sampler.distributed.messages import narrow, need, need_ids
from gttf_sampler.distributed.part import Part
from gttf_sampler.draw import Walkers, draw_edges
from gttf_sampler.random import WORD, Key

if TYPE_CHECKING:
    from gttf_sampler.distributed.graph import PartitionedGraph

MOST = 1 << 46  # walkers, and edges of one


@dataclass(frozen=True, eq=False)
class StepQuery:
    """One step of walkers: the edges [w · f] that they take, and where these lead.

    Attributes:
        relation: the number of the relation.
        key: of the depth.
        fanout: how many edges a walker takes.
        replace: whether a neighbour can be drawn twice.
        stays: whether walkers without neighbours stay where they are.
        weighted: whether edges are drawn by their weights.
        node: [w], where walkers stand.
        slot: [w], their places in the forest, which their random streams depend on.
    """

    service: ClassVar[str] = "steps of walkers"
    relation: int
    key: int
    fanout: int
    replace: bool
    stays: bool
    weighted: bool
    node: Tensor
    slot: Tensor

    @property
    def needs_tables(self) -> bool:
        """True if it is drawn by tables that are made of the rows."""
        return self.weighted

    def narrowed(self, part: Part) -> StepQuery:
        """The query to be sent."""
        size = part.books[part.row_type(self.relation)].num_nodes
        return replace(self, node=narrow(self.node, size), slot=narrow(self.slot, 1))

    def check(self, part: Part) -> None:
        """Raises a ValueError for walkers whose rows are not here."""
        here = part.relation(self.relation)
        if not 0 < self.fanout < MOST:
            raise ValueError(f"a fanout must be above 0 (got {self.fanout})")
        _check.fits("fanout", 16 * self.fanout * self.node.numel())
        here.rows.find(self.node)
        need_ids("walkers", self.slot, 0, MOST, self.node.numel())

    def answer(self, part: Part) -> list[Tensor]:
        """The steps, as a machine with all rows takes them."""
        here = part.relation(self.relation)
        node, slot = (x.to(torch.int64) for x in (self.node, self.slot))
        row = here.rows.locate(node)[1]
        key = self.key & WORD
        stream = random.stream(key, slot)
        none = row.new_empty(row.numel(), 0)
        walkers = Walkers(here.adj, none, row, row, stream, key)
        bias = EdgeWeightBias() if self.weighted else None
        edge = draw_edges(walkers, bias, self.fanout, self.replace)
        degree = here.adj.row_range(row)[1]
        how = self.replace, self.stays
        reached = ops.arrive(here.adj.col, node, degree, edge, *how).view(-1)
        edge = edge.view(-1)
        whole = here.whole_positions(row, torch.full_like(row, self.fanout), edge)
        whole = whole.masked_fill_(edge < 0, -1)
        return [narrow(whole, here.whole_edges), narrow(reached, here.adj.num_cols)]

    def checked(self, answer: list[Tensor], part: Part) -> list[Tensor]:
        """As many edges as walkers take, and as many nodes."""
        here, size = part.relation(self.relation), self.node.numel() * self.fanout
        edge, node = need(answer, 2)
        edge = need_ids("edges", edge, -1, here.whole_edges, size)
        return [edge, need_ids("nodes", node, -1, here.adj.num_cols, size)]


def walk(
    graph: PartitionedGraph,
    relation: int,
    seeds: Tensor,
    fanouts: Sequence[int],
    weighted: bool,
    with_replacement: bool,
    key: Key,
    stays: bool,
) -> list[tuple[Tensor, Tensor]]:
    """(edges, nodes) [w, f] of every depth, as a machine with all rows draws them."""
    levels, node = [], seeds
    for depth, fanout in enumerate(fanouts):
        walker = (node >= 0).nonzero().view(-1)  # the others have stopped
        here = node.index_select(0, walker)
        route = graph.route(graph.row_type(relation), here)
        ids, slots = (route.split(x) for x in (here, walker))
        own = int(random.fold(key, depth))
        how = relation, own, fanout, with_replacement, stays, weighted
        queries = {
            rank: StepQuery(*how, ids[rank], slots[rank])
            for rank, count in enumerate(route.counts)
            if count
        }
        found = graph.ask(StepQuery, queries)
        edge, reached = (node.new_full((node.numel(), fanout), -1) for _ in range(2))
        for rank, (edges, nodes) in found.items():
            edge[slots[rank]] = edges.to(torch.int64).view(-1, fanout)
            reached[slots[rank]] = nodes.to(torch.int64).view(-1, fanout)
        levels.append((edge, reached))
        node = reached.view(-1)
    return levels
