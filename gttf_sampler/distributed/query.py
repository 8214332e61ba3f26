"""Queries: questions to the processes that hold some rows, with their answers.

A query is answered from the files of a part where these can be read, and sent to the
process that holds the part otherwise. Its message follows from its fields; what another
process has sent is checked before compiled code follows it.

In a hop of rooted sampling the walkers of all relations go out in one query per process
and come back in one answer. A draw depends on the key, the hop and the node alone:
whoever draws, it is the draw of one machine. `torch.hop` relabels the nodes reached, as
everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler._backends.record import UNIFORM, Batch, Law, Plan, Relation, Rooted
from gttf_sampler._backends.torch.hop import sample_hops
from gttf_sampler.backend import fast_backend
from gttf_sampler.bias import EdgeWeightBias
from gttf_sampler.distributed.book import Route
from gttf_sampler.distributed.messages import need, need_ids
from gttf_sampler.distributed.part import LocalRows, Part
from gttf_sampler.draw import Draw, Frontier, Walkers, draw_edges, draw_hop
from gttf_sampler.graph import tables
from gttf_sampler.random import WORD, Key

if TYPE_CHECKING:
    from gttf_sampler.distributed.graph import PartitionedGraph

CPU = torch.device("cpu")
MOST = 1 << 46  # walkers, and edges of one
NOBODY = -1  # stands for a relation, a node type or an array that there is none of
HELD = ("cumulative_weight", "time")  # the holder of the rows has their tables
EMPTY = torch.empty(0)
NONE = torch.empty(0, dtype=torch.int64)


class Query(Protocol):
    """A question about rows of one part; `service` says what is asked for, in words."""

    service: ClassVar[str]  # "{}" in it stands for a detail

    @property
    def needs_tables(self) -> bool:
        """True if it takes tables that the holder of the rows makes of them, once."""

    def check(self, part: Part) -> None:
        """Raises a ValueError for a query that this part cannot answer."""

    def answer(self, part: Part) -> list[Tensor]:
        """The answer of the holder of a part."""

    def checked(self, answer: list[Tensor], part: Part) -> list[Tensor]:
        """The answer of another process, if the holder of the rows can have sent it."""


def _ask(
    graph: PartitionedGraph,
    route: Route,
    make: Callable[[Sequence[Tensor]], Query],
    *values: Tensor,
) -> list[list[Tensor]]:
    """The answers of all processes on a route, to the `values` [w] that go there."""
    parts = zip(*(route.split(each) for each in values), strict=True)
    queries = {
        rank: make(own)
        for rank, (own, count) in enumerate(zip(parts, route.counts, strict=True))
        if count
    }
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


def edges_between(
    graph: PartitionedGraph, relation: int, node: Tensor, neighbor: Tensor
) -> tuple[Tensor, Tensor]:
    """The pairs (node, neighbor) that have edges, and these."""
    route = graph.route(graph.row_type(relation), node)
    found = _ask(graph, route, lambda x: BetweenQuery(relation, *x), node, neighbor)
    if not found:
        return node[:0], node[:0]
    size, edge = route.join(found)
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
        own = int(random.fold(key, depth))
        how = relation, own, fanout, with_replacement, stays, weighted
        found = _ask(graph, route, partial(_step, how), here, walker)
        level = node.new_full((2, node.numel(), fanout), -1)
        if found:
            asked = walker if route.order is None else walker[route.order]
            columns = [torch.cat(x).view(-1, fanout) for x in zip(*found, strict=True)]
            level[:, asked] = torch.stack(columns)
        levels.append((level[0], level[1]))
        node = level[1].view(-1)
    return levels


def _step(how: tuple[int, int, int, bool, bool, bool], own: Any) -> StepQuery:
    return StepQuery(*how, *own)


class Drawn(NamedTuple):
    """The edges that walkers of one relation took, walker after walker."""

    size: Tensor  # [w], how many each walker took
    edge: Tensor  # [e], by the numbers of the whole graph
    node: Tensor  # [e], where they lead


class Wanted(NamedTuple):
    """The draw that is asked for of one relation."""

    relation: int  # in the partitioned graph; NOBODY if it has no edges there
    nodes: int  # which of the query's arrays of nodes have walkers on them
    fanout: int  # edges that a walker takes; -1 for all, 0 for none
    law: Law  # of tables that the holder has, it only says whether they matter


class _LocalWalkers(NamedTuple):
    """Walkers on rows that are here; what `draw_hop` calls a frontier."""

    row: Tensor  # [w], the local rows of their nodes
    root: Tensor  # [w], their trees
    who: Tensor  # [w], what tells a walker from others all over the graph

    @property
    def path(self) -> Tensor:
        """[w, 0]: nobody asks how they came."""
        return self.row.new_empty(self.row.numel(), 0)

    def frontier(self) -> tuple[int, Tensor, Tensor]:
        """All of them."""
        return 0, self.row, self.root

    def identity(self, node: Tensor, root: Tensor) -> Tensor:
        """The numbers that their random streams depend on."""
        return self.who


@dataclass(frozen=True, eq=False)
class HopQuery:
    """The edges that walkers of some relations take: size, edge and node of each."""

    service: ClassVar[str] = "neighbours in hop {}"
    key: int  # of the hop
    replace: bool
    disjoint: bool
    original: bool  # whether edges are to be named as the caller of the graph has
    kinds: list[int]  # the numbers of the node types of `nodes`
    nodes: list[Tensor]  # [w] per node type
    roots: list[Tensor]  # [w] per node type, the trees; empty if nobody asks
    wanted: list[Wanted]  # per relation, in the order in which the sampler has them

    @property
    def needs_tables(self) -> bool:
        """True if it is drawn by tables that are made of the rows."""
        laws = [want.law for want in self.wanted]
        return any(getattr(law, name) is not None for law in laws for name in HELD)

    def takes(self, want: Wanted) -> bool:
        """True if anything can be drawn of a relation; the answer has no others."""
        some = want.relation != NOBODY and want.fanout != 0
        return some and self.nodes[want.nodes].numel() > 0

    def check(self, part: Part) -> None:
        """Raises a ValueError for a query that compiled code must not follow."""
        kinds = list(part.books)
        for kind, node, root in zip(self.kinds, self.nodes, self.roots, strict=True):
            if not NOBODY <= kind < len(kinds) or (kind == NOBODY and node.numel()):
                many = len(kinds)
                raise ValueError(f"a node type must be one of {many} (got {kind})")
            if kind != NOBODY:
                part.rows[kinds[kind]].find(node)
            if root.numel() or self.disjoint:
                need_ids("trees", root, 0, _check.MAX_NODES, node.numel())
        for want in self.wanted:
            if not 0 <= want.nodes < len(self.kinds):
                raise ValueError(f"nodes must be of the request (got {want.nodes})")
            if not -1 <= want.fanout < 1 << 62:
                raise ValueError(f"a fanout must be -1 or above (got {want.fanout})")
            node, root = self.nodes[want.nodes], self.roots[want.nodes]
            if self.replace:
                _check.fits("fanout", 24 * want.fanout * node.numel())
            if want.relation != NOBODY:
                here = part.relation(want.relation)
                to = part.row_type(want.relation)
                if self.kinds[want.nodes] not in (NOBODY, kinds.index(to)):
                    raise ValueError(f"nodes of a relation must be of type {to!r}")
                _check_law(want.law, here, node, root)

    def answer(self, part: Part) -> list[Tensor]:
        """Size, edge and node of every relation of which anything can be drawn."""
        relations, walkers = list(part.relations.values()), self._walkers(part)
        rows, laws = [], []
        for want in self.wanted:  # for NOBODY another one, of which none is taken
            gone = want.relation == NOBODY
            here = relations[0 if gone else want.relation]
            laws.append(UNIFORM if gone else _own_law(here, want.law))
            rows.append(Relation(here.adj, want.nodes, 0, [0 if gone else want.fanout]))
        plan = Plan(tuple(rows), (), (), 1, self.replace, CPU)
        none: list[Any] = [None] * len(rows)
        batch = Batch([], [], self.disjoint, list(laws), none, self.key & WORD)
        fast = getattr(fast_backend(CPU, "rooted"), "asked", None)
        taken: Any = None if fast is None else fast(plan, batch, walkers)
        if taken is None:
            taken = _by_reference(plan, batch, walkers)
        found: list[Tensor] = []
        for want, own in zip(self.wanted, taken, strict=True):
            if self.takes(want):
                here, (size, edge, node) = relations[want.relation], own
                if self.original and here.edge_id is not None:
                    name = here.edge_id.index_select(0, edge).to(torch.int64)
                else:
                    name = here.whole_positions(walkers[want.nodes].row, size, edge)
                found += [size, name, node.to(torch.int64)]
        return found

    def _walkers(self, part: Part) -> list[_LocalWalkers]:
        found, kinds = [], list(part.books)
        for kind, node, root in zip(self.kinds, self.nodes, self.roots, strict=True):
            row, who = node, node
            if kind != NOBODY:
                row = part.rows[kinds[kind]].locate(node)[1].to(torch.int64)
            if self.disjoint:
                who = node + root * part.books[kinds[kind]].num_nodes
            found.append(_LocalWalkers(row, root if root.numel() else row, who))
        return found

    def checked(self, answer: list[Tensor], part: Part) -> list[Tensor]:
        """The answer, which must have three arrays per relation that is drawn from."""
        takes = [want for want in self.wanted if self.takes(want)]
        parts, found = iter(need(answer, 3 * len(takes))), list[Tensor]()
        for want in takes:
            size, edge, node = (next(parts) for _ in range(3))
            here, count = part.relation(want.relation), edge.numel()
            most = here.whole_degree if want.fanout < 0 else want.fanout
            walkers = self.nodes[want.nodes].numel()
            size = need_ids("counts", size, 0, most + 1, walkers)
            if (total := int(size.sum())) != count:
                raise ValueError(f"edges must be {total} in all (got {count})")
            edge = need_ids("edges", edge, 0, here.whole_edges, count)
            found += [size, edge, need_ids("nodes", node, 0, here.adj.num_cols, count)]
        return found

    def drawn(self, answer: list[Tensor]) -> list[Drawn | None]:
        """An answer by relation; None for those of which nothing can be drawn."""
        parts = iter(answer)
        return [
            Drawn(next(parts), next(parts), next(parts)) if self.takes(want) else None
            for want in self.wanted
        ]


def _without_tables(law: Law) -> Law:
    """A law with empty tables, which whoever has the rows replaces by its own."""
    held: dict[str, Any] = {n: EMPTY for n in HELD if getattr(law, n) is not None}
    return law._replace(**held)


def _check_law(law: Law, here: LocalRows, node: Tensor, root: Tensor) -> None:
    """Refuses a law of another process whose arrays do not fit rows and trees."""
    if law.time is not None and here.adj.edge_time is None:
        raise ValueError("times must be asked of edges that have some")
    if law.cumulative_weight is not None and here.adj.edge_weight is None:
        raise ValueError("weights must be asked of edges that have some")
    if law.excluded_edges is not None and law.excluded_edges.dtype != torch.int64:
        raise ValueError(f"hidden edges must be int64 (got {law.excluded_edges.dtype})")
    _check.law(Law(excluded_edges=law.excluded_edges), here.whole_edges, 0)
    if (law.time is None) != (law.time_max is None):
        raise ValueError("times must be given where edges are drawn by time")
    if law.time_max is not None:
        trees = law.time_max.numel()
        if law.time_min is not None and law.time_min.numel() != trees:
            raise ValueError(f"times must be {trees} (got {law.time_min.numel()})")
        need_ids("trees", root, 0, trees, node.numel())


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


def _by_reference(plan: Plan, batch: Batch, walkers: list[_LocalWalkers]) -> list[Any]:
    """The draws of all relations, as the reference makes them; see `numba.batch`."""
    keys = [random.fold(batch.key, number) for number in range(len(plan.relations))]
    fronts = [(x.adj, walkers[x.dst_type].row, x.fanouts[0]) for x in plan.relations]
    totals = [
        int(adj.row_range(row)[1].sum()) if fanout < 0 else 0
        for adj, row, fanout in fronts
    ]
    found = []
    for drawn, (_, row, _) in zip(
        draw_hop(plan, batch, 0, keys, walkers, totals), fronts, strict=True
    ):
        taken = drawn.edge >= 0
        size = torch.bincount(drawn.to[taken], minlength=row.numel())
        found.append((size, drawn.edge[taken], drawn.node[taken]))
    return found


def sample_remote(graph: PartitionedGraph, plan: Plan, batch: Batch) -> Rooted:
    """A batch, bit for bit the one that a machine with all rows draws."""
    none: list[Any] = [None] * len(plan.relations)
    return sample_hops(
        plan,
        batch._replace(biases=none, original_edge_ids=False),
        partial(_draw, graph, plan, batch),
        remote=True,
    )


def _draw(
    graph: PartitionedGraph,
    plan: Plan,
    batch: Batch,
    hop: int,
    keys: Sequence[random.Key],
    known: Sequence[Frontier],
    totals: list[int] | None,
) -> list[Draw]:
    """The edges that all relations take in a hop, wherever their rows are."""
    kinds, ranks = graph.numbers(plan), range(graph.exchange.size)
    frontiers = [some.frontier()[1:] for some in known]
    routes = [
        graph.route(kind, node)
        for kind, (node, _) in zip(kinds, frontiers, strict=True)
    ]
    pairs = list(zip(routes, frontiers, strict=True))
    nodes = [route.split(node) for route, (node, _) in pairs]
    roots: list[Sequence[Tensor]] = [[NONE for _ in ranks] for _ in pairs]
    if batch.disjoint:
        roots = [route.split(root) for route, (_, root) in pairs]
    wanted = []
    for each, law in zip(plan.relations, batch.laws, strict=True):
        told = _without_tables(law or UNIFORM)
        number, fanout = graph.number(each.adj), each.fanouts[hop]
        wanted.append(Wanted(number, each.dst_type, fanout, told))
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
    answers = graph.ask(queries, hop + 1)
    found = [queries[rank].drawn(answers[rank]) for rank in sorted(answers)]
    draws = []
    for number, (want, each) in enumerate(zip(wanted, plan.relations, strict=True)):
        there = [own for drawn in found if (own := drawn[number]) is not None]
        node, root = frontiers[want.nodes]
        taken = Drawn(node.new_zeros(node.numel()), NONE, NONE)
        if there:
            taken = Drawn(*routes[want.nodes].join(there))
        to = torch.arange(node.numel())
        to = to.repeat_interleave(taken.size, output_size=taken.edge.numel())
        here = Walkers(each.adj, node.new_empty(node.numel(), 0), node, root, node, key)
        draws.append(Draw(here, taken.edge, to, taken.node))
    return draws
