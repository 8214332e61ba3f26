"""Query: a question to the process that holds some rows, with its answer.

A query is answered from the files of a part where these can be read, and sent to the
process that holds the part otherwise. Its message follows from its fields; what another
process has sent is checked before compiled code follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from gttf_sampler._backends import ops
from gttf_sampler.distributed.messages import need, need_ids
from gttf_sampler.distributed.part import Part

if TYPE_CHECKING:
    from gttf_sampler.distributed.graph import PartitionedGraph


class Query(Protocol):
    """A question about rows of one part.

    Attributes:
        service: what is asked for, in words; "{}" in it stands for a detail.
    """

    service: ClassVar[str]

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
    """The process that is asked about each walker.

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
    """All edges of row node[i] to neighbor[i]: a count [w] per pair, and these [e].

    Attributes:
        relation: the number of the relation.
        node, neighbor: int64 [w].
    """

    service: ClassVar[str] = "edges between nodes"
    needs_tables: ClassVar[bool] = True
    relation: int
    node: Tensor
    neighbor: Tensor

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
