"""Query: a question to the process that holds some rows, with its answer.

A query is answered from the files of a part where these can be read, and sent to the
process that holds the part otherwise. Its message follows from its fields; what another
process has sent is checked before compiled code follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

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


class Query(Protocol):
    """A question about rows of one part; `service` says what is asked for, in words."""

    service: ClassVar[str]  # "{}" in it stands for a detail

    @property
    def needs_tables(self) -> bool:
        """True if it takes tables that the holder of the rows makes of them, once."""

    def narrowed(self, part: Part) -> Query:
        """The query to be sent: ids in half of the bytes where those of a part fit."""

    def check(self, part: Part) -> None:
        """Raises a ValueError for a query that this part cannot answer."""

    def answer(self, part: Part) -> list[Tensor]:
        """The answer of the holder of a part."""

    def checked(self, answer: list[Tensor], part: Part) -> list[Tensor]:
        """The answer of another process, if the holder of the rows can have sent it."""


class Route(NamedTuple):
    """The process that is asked about each walker."""

    order: Tensor | None  # [w], walkers process by process; None if one has them all
    counts: list[int]  # how many are asked of each process

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

    def join(self, parts: Sequence[Sequence[Tensor]]) -> list[Tensor]:
        """Answers of all processes, in the order of the walkers.

        An answer is a count [w] and what there is so many of per walker, [e] each.
        """
        columns = [
            (arrays[0] if len(arrays) == 1 else torch.cat(arrays)).to(torch.int64)
            for arrays in zip(*parts, strict=True)
        ]
        if self.order is None:
            return columns
        count, *rest = columns
        own = torch.empty_like(count).index_copy_(0, self.order, count)
        start = (own.cumsum(0) - own).index_select(0, self.order)
        _, place = ops.expand(start, count, rest[0].numel())
        return [own, *(torch.empty_like(x).index_copy_(0, place, x) for x in rest)]


@dataclass(frozen=True, eq=False)
class BetweenQuery:
    """All edges of row node[i] to neighbor[i]: a count [w] per pair, and these [e]."""

    service: ClassVar[str] = "edges between nodes"
    needs_tables: ClassVar[bool] = True
    relation: int
    node: Tensor  # int64 [w]
    neighbor: Tensor  # int64 [w]

    def narrowed(self, part: Part) -> BetweenQuery:
        """The query to be sent."""
        return self

    def check(self, part: Part) -> None:
        """Raises a ValueError for nodes that are not here."""
        here = part.relation(self.relation)
        size = here.rows.find(self.node).numel()
        need_ids("neighbours", self.neighbor, 0, here.adj.num_cols, size)

    def answer(self, part: Part) -> list[Tensor]:
        """The count of edges per pair, and these, by their positions."""
        here = part.relation(self.relation)
        row = here.rows.locate(self.node.to(torch.int64))[1]
        which, edge = here.adj.edges_between(row, self.neighbor)
        size = torch.bincount(which, minlength=row.numel())
        return [size, here.whole_positions(row, size, edge)]

    def checked(self, answer: list[Tensor], part: Part) -> list[Tensor]:
        """Counts per pair, and as many edges."""
        size, edge = need(answer, 2)
        size = need_ids("counts", size, 0, edge.numel() + 1, self.node.numel())
        most = part.relation(self.relation).whole_edges
        return [size, need_ids("edges", edge, 0, most, int(size.sum()))]


def edges_between(
    graph: PartitionedGraph, relation: int, node: Tensor, neighbor: Tensor
) -> tuple[Tensor, Tensor]:
    """The pairs (node, neighbor) that have edges, and these."""
    route = graph.route(graph.row_type(relation), node)
    nodes, neighbors = route.split(node), route.split(neighbor)
    queries = {
        rank: BetweenQuery(relation, nodes[rank], neighbors[rank])
        for rank, count in enumerate(route.counts)
        if count
    }
    found = graph.ask(BetweenQuery, queries)
    if not found:
        return node[:0], node[:0]
    size, edge = route.join([found[rank] for rank in sorted(found)])
    return torch.arange(node.numel()).repeat_interleave(size), edge


@dataclass(frozen=True, eq=False)
class StepQuery:
    """One step of walkers: the edges [w · f] that they take, and where these lead."""

    service: ClassVar[str] = "steps of walkers"
    relation: int
    key: int  # of the depth
    fanout: int
    replace: bool
    stays: bool  # whether walkers without neighbours stay where they are
    weighted: bool
    node: Tensor  # [w], where walkers stand
    slot: Tensor  # [w], places in the forest, which their random streams depend on

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
        none = row.new_empty(row.numel(), 0)
        walkers = Walkers(here.adj, none, row, row, random.stream(key, slot), key)
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
