"""Queries: questions to the processes that hold some rows, with their answers.

A query is answered from the files of a part where these can be read, and sent to the
process that holds the part otherwise. Its message follows from its fields; what another
process has sent is checked before compiled code follows it.

In a hop of rooted sampling the walkers of all relations go out in one query per process
and come back in one answer. A draw depends on the key, the hop and the node alone: on
any process, it is the draw of one machine. `torch.hop` relabels the nodes reached, as
everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler._backends.record import (
    UNIFORM,
    Batch,
    Law,
    Plan,
    Relation,
    RemoteWalkers,
)
from gttf_sampler.bias import EdgeWeightBias
from gttf_sampler.distributed.book import Route
from gttf_sampler.distributed.messages import need, need_ids
from gttf_sampler.distributed.part import LocalRows, Part
from gttf_sampler.draw import Draw, Frontier, Walkers, draw_edges, draw_hop
from gttf_sampler.graph import tables
from gttf_sampler.random import WORD

if TYPE_CHECKING:
    from gttf_sampler.distributed.graph import PartitionedGraph

CPU = torch.device("cpu")
MOST = 1 << 46  # walkers, and edges of one
ABSENT = -1  # stands for a relation, a node type or an array that there is none of
HELD = ("cumulative_weight", "time")  # the holder of the rows has their tables
EMPTY = torch.empty(0)
NONE = torch.empty(0, dtype=torch.int64)


def ask_along(
    graph: PartitionedGraph, route: Route, query: BetweenQuery | StepQuery, other: str
) -> list[list[Tensor]]:
    """The answers of all processes on a route, about `node` and `other` [w] of each."""
    parts = zip(
        route.split(query.node), route.split(getattr(query, other)), strict=True
    )
    queries: dict[int, Query] = {}
    for rank, (node, own) in enumerate(parts):
        share: dict[str, Any] = {"node": node, other: own}
        if node.numel():
            queries[rank] = replace(query, **share)
    found = graph.ask(queries)
    return [found[rank] for rank in sorted(found)]


@dataclass(frozen=True, eq=False)
class BetweenQuery:
    """All edges of row node[i] to neighbor[i]: a count [w] per pair, and these [e]."""

    service: ClassVar[str] = "edges between nodes"
    needs_tables: ClassVar[bool] = True
    relation: int
    node: Tensor  # int64 [w]
    neighbor: Tensor  # int64 [w]

    def check(self, part: Part) -> None:
        """Raises a ValueError for nodes that are not here."""
        here = part.relation(self.relation)
        size = here.rows.find(self.node).numel()
        need_ids("neighbours", self.neighbor, 0, here.adj.num_cols, size)

    def answer(self, part: Part) -> list[Tensor]:
        """The count of edges per pair, and these, by their positions."""
        here = part.relation(self.relation)
        row = here.rows.locate(self.node)[1]
        which, edge = here.adj.edges_between(row, self.neighbor)
        size = torch.bincount(which, minlength=row.numel())
        return [size, here.whole_positions(row, size, edge)]

    def checked(self, answer: list[Tensor], part: Part) -> list[Tensor]:
        """The answer, which must have a count per pair and as many edges."""
        size, edge = need(answer, 2)
        size = need_ids("counts", size, 0, edge.numel() + 1, self.node.numel())
        most = part.relation(self.relation).whole_edges
        return [size, need_ids("edges", edge, 0, most, int(size.sum()))]


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
        here, key = part.relation(self.relation), self.key & WORD
        row = here.rows.locate(self.node)[1]
        none = row.new_empty(row.numel(), 0)
        walkers = Walkers(here.adj, none, row, row, random.stream(key, self.slot), key)
        bias = EdgeWeightBias() if self.weighted else None
        edge = draw_edges(walkers, bias, self.fanout, self.replace)
        degree = here.adj.row_range(row)[1]
        how = self.replace, self.stays
        reached = ops.arrive(here.adj.col, self.node, degree, edge, *how).view(-1)
        edge = edge.view(-1)
        whole = here.whole_positions(row, torch.full_like(row, self.fanout), edge)
        return [whole.masked_fill_(edge < 0, -1), reached]

    def checked(self, answer: list[Tensor], part: Part) -> list[Tensor]:
        """The answer, which must have as many edges and nodes as walkers take."""
        here, size = part.relation(self.relation), self.node.numel() * self.fanout
        edge, node = need(answer, 2)
        edge = need_ids("edges", edge, -1, here.whole_edges, size)
        return [edge, need_ids("nodes", node, -1, here.adj.num_cols, size)]


class Drawn(NamedTuple):
    """The edges that walkers of one relation took, walker after walker."""

    size: Tensor  # [w], how many each walker took
    edge: Tensor  # [e], by the numbers of the whole graph
    node: Tensor  # [e], where they lead


class Front(NamedTuple):
    """The walkers on nodes of one type."""

    kind: int  # the number of the type in the partitioned graph; ABSENT for none there
    node: Tensor  # [w]
    root: Tensor  # [w], their trees; empty if not needed


class Wanted(NamedTuple):
    """The draw that is asked for of one relation."""

    relation: int  # in the partitioned graph; ABSENT if it has no edges there
    front: int  # which of the query's fronts has its walkers
    fanout: int  # edges that a walker takes; -1 for all, 0 for none
    law: Law  # of tables that the holder has, it only says whether they matter


@dataclass(frozen=True, eq=False)
class HopQuery:
    """The edges that walkers of some relations take: size, edge and node of each."""

    service: ClassVar[str] = "neighbours in hop {}"
    key: int  # of the hop
    replace: bool
    disjoint: bool
    original: bool  # whether edges are to be named as the caller of the graph has
    fronts: list[Front]  # per node type
    wanted: list[Wanted]  # per relation, in the order in which the sampler has them

    @property
    def needs_tables(self) -> bool:
        """True if it is drawn by tables that are made of the rows."""
        laws = [want.law for want in self.wanted]
        return any(getattr(law, name) is not None for law in laws for name in HELD)

    @property
    def taken(self) -> list[int]:
        """The numbers of `wanted` that anything can be drawn of; answers have these."""
        return [
            number
            for number, want in enumerate(self.wanted)
            if want.relation != ABSENT and want.fanout
            if self.fronts[want.front].node.numel()
        ]

    def drawn(self, answer: list[Tensor]) -> dict[int, Drawn]:
        """An answer by the numbers of `wanted`."""
        parts = zip(self.taken, answer[::3], answer[1::3], answer[2::3], strict=True)
        return {number: Drawn(size, edge, node) for number, size, edge, node in parts}

    def check(self, part: Part) -> None:
        """Raises a ValueError for a query that compiled code must not follow."""
        kinds = list(part.books)
        for kind, node, root in self.fronts:
            if not ABSENT <= kind < len(kinds) or (kind == ABSENT and node.numel()):
                many = len(kinds)
                raise ValueError(f"a node type must be one of {many} (got {kind})")
            if kind != ABSENT:
                part.rows[kinds[kind]].find(node)
            if root.numel() or self.disjoint:
                need_ids("trees", root, 0, _check.MAX_NODES, node.numel())
        for want in self.wanted:
            if not 0 <= want.front < len(self.fronts):
                raise ValueError(f"nodes must be of the request (got {want.front})")
            if not -1 <= want.fanout < 1 << 62:
                raise ValueError(f"a fanout must be -1 or above (got {want.fanout})")
            front = self.fronts[want.front]
            if self.replace:
                _check.fits("fanout", 24 * want.fanout * front.node.numel())
            if want.relation != ABSENT:
                here = part.relation(want.relation)
                to = part.row_type(want.relation)
                if front.kind not in (ABSENT, kinds.index(to)):
                    raise ValueError(f"nodes of a relation must be of type {to!r}")
                _check_law(want.law, here, front)

    def answer(self, part: Part) -> list[Tensor]:
        """Size, edge and node of every relation of which anything can be drawn."""
        relations, walkers = list(part.relations.values()), self._walkers(part)
        rows, laws = [], []
        for want in self.wanted:  # for ABSENT another one, of which none is taken
            gone = want.relation == ABSENT
            here = relations[0 if gone else want.relation]
            laws.append(UNIFORM if gone else _own_law(here, want.law))
            rows.append(Relation(here.adj, want.front, 0, [0 if gone else want.fanout]))
        plan = Plan(tuple(rows), (), (), 1, self.replace, CPU)
        none: list[Any] = [None] * len(rows)
        batch = Batch([], [], self.disjoint, list(laws), none, self.key & WORD)
        taken: Any = ops.draw_for_remote(plan, batch, walkers)
        if taken is None:
            taken = _by_reference(plan, batch, walkers)
        found: list[Tensor] = []
        for number in self.taken:
            want, (size, edge, node) = self.wanted[number], taken[number]
            here = relations[want.relation]
            if self.original and here.edge_id is not None:
                name = here.edge_id.index_select(0, edge).to(torch.int64)
            else:
                name = here.whole_positions(walkers[want.front].row, size, edge)
            found += [size, name, node.to(torch.int64)]
        return found

    def _walkers(self, part: Part) -> list[RemoteWalkers]:
        found, kinds = [], list(part.books)
        for kind, node, root in self.fronts:
            row, who = node, node
            if kind != ABSENT:
                row = part.rows[kinds[kind]].locate(node)[1].to(torch.int64)
            if self.disjoint:
                who = node + root * part.books[kinds[kind]].num_nodes
            found.append(RemoteWalkers(row, root if root.numel() else row, who))
        return found

    def checked(self, answer: list[Tensor], part: Part) -> list[Tensor]:
        """The answer, which must have three arrays per relation that is drawn from."""
        need(answer, 3 * len(self.taken))
        found: list[Tensor] = []
        for number, (size, edge, node) in self.drawn(answer).items():
            want = self.wanted[number]
            here, count = part.relation(want.relation), edge.numel()
            most = here.whole_degree if want.fanout < 0 else want.fanout
            walkers = self.fronts[want.front].node.numel()
            size = need_ids("counts", size, 0, most + 1, walkers)
            if (total := int(size.sum())) != count:
                raise ValueError(f"edges must be {total} in all (got {count})")
            edge = need_ids("edges", edge, 0, here.whole_edges, count)
            found += [size, edge, need_ids("nodes", node, 0, here.adj.num_cols, count)]
        return found


Query = HopQuery | StepQuery | BetweenQuery
"""A question about rows of one part: `check` refuses one that a part cannot answer,
`answer` answers, and `checked` refuses answers of others that cannot be true."""


def _check_law(law: Law, here: LocalRows, front: Front) -> None:
    """Refuses a law of another process whose arrays do not fit rows and trees."""
    own = _own_law(here, law._replace(excluded_edges=None))
    trees = 0 if law.time_max is None else law.time_max.numel()
    _check.law(own, here.adj.num_edges, trees)
    _check.law(Law(excluded_edges=law.excluded_edges), here.whole_edges, 0)
    if law.time_max is not None:
        need_ids("trees", front.root, 0, trees, front.node.numel())


def _own_law(here: LocalRows, law: Law) -> Law:
    """A law with the masses and times of these rows, and local hidden edges."""
    if law == UNIFORM:
        return UNIFORM
    own: dict[str, Any] = {"has_zero_weight": False}
    if law.cumulative_weight is not None:
        own["has_zero_weight"] = tables.has_gaps(here.adj)
        own["cumulative_weight"] = tables.weight_table(here.adj)
    if law.time is not None:
        own["time"] = tables.sorted_time(here.adj)
    if law.excluded_edges is not None:
        hidden = here.local_positions(law.excluded_edges)
        own["excluded_edges"] = hidden if hidden.numel() else None
    return law._replace(**own)


def _by_reference(
    plan: Plan, batch: Batch, walkers: list[RemoteWalkers]
) -> list[Drawn]:
    """The draws of all relations, as the reference makes them."""
    fronts = [walkers[relation.dst_type].row for relation in plan.relations]
    totals = [
        int(relation.adj.row_range(row)[1].sum()) if relation.fanouts[0] < 0 else 0
        for relation, row in zip(plan.relations, fronts, strict=True)
    ]
    keys = [random.fold(batch.key, number) for number in range(len(fronts))]
    draws = draw_hop(plan, batch, 0, keys, walkers, totals)
    found = []
    for draw, row in zip(draws, fronts, strict=True):
        taken = draw.edge >= 0
        size = torch.bincount(draw.to[taken], minlength=row.numel())
        found.append(Drawn(size, draw.edge[taken], draw.node[taken]))
    return found


def draw_remote(
    graph: PartitionedGraph,
    plan: Plan,
    batch: Batch,
    hop: int,
    keys: Sequence[random.Key],
    known: Sequence[Frontier],
    totals: list[int] | None,
) -> list[Draw]:
    """The edges that all relations take in a hop, wherever their rows are."""
    key, walkers, routes, shares = int(random.fold(batch.key, hop)), [], [], []
    for kind, some in zip(graph.numbers(plan), known, strict=True):
        _, node, root = some.frontier()
        route = graph.route(kind, node)
        nodes, roots = route.split(node), [NONE] * len(route.counts)
        if batch.disjoint:
            roots = list(route.split(root))
        walkers.append((node, root))
        routes.append(route)
        shares.append([Front(kind, *own) for own in zip(nodes, roots, strict=True)])
    wanted = []
    for each, law in zip(plan.relations, batch.laws, strict=True):
        stated = law or UNIFORM
        blank: dict[str, Any] = {
            n: EMPTY for n in HELD if getattr(stated, n) is not None
        }
        draw = each.dst_type, each.fanouts[hop], stated._replace(**blank)
        wanted.append(Wanted(graph.number(each.adj), *draw))
    how = key, plan.replace, batch.disjoint, batch.original_edge_ids
    each_rank = enumerate(zip(*shares, strict=True))
    every = {rank: HopQuery(*how, list(own), wanted) for rank, own in each_rank}
    queries = {rank: query for rank, query in every.items() if query.taken}
    answers = graph.ask(queries, hop + 1)
    found = [queries[rank].drawn(answers[rank]) for rank in sorted(answers)]
    draws = []
    for number, (want, each) in enumerate(zip(wanted, plan.relations, strict=True)):
        node, root = walkers[want.front]
        taken = Drawn(node.new_zeros(node.numel()), NONE, NONE)
        if there := [drawn[number] for drawn in found if number in drawn]:
            taken = Drawn(*routes[want.front].join(there))
        to = torch.arange(node.numel())
        to = to.repeat_interleave(taken.size, output_size=taken.edge.numel())
        here = Walkers(each.adj, node.new_empty(node.numel(), 0), node, root, node, key)
        draws.append(Draw(here, taken.edge, to, taken.node))
    return draws
