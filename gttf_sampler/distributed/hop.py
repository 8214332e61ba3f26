"""Rooted sampling where rows are in several processes.

In a hop the walkers of all relations go out in one query per process and come back in
one answer. A draw depends on the key, the hop and the node alone: whoever draws, it is
the draw of one machine. `torch.hop` relabels the nodes reached, as everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends.record import UNIFORM, Batch, Law, Plan, Relation, Rooted
from gttf_sampler._backends.torch.hop import sample_hops
from gttf_sampler.backend import fast_backend
from gttf_sampler.distributed.messages import narrow, need, need_ids
from gttf_sampler.distributed.part import LocalRows, Part
from gttf_sampler.draw import Draw, Frontier, Walkers, draw_relation
from gttf_sampler.graph import tables
from gttf_sampler.random import WORD

if TYPE_CHECKING:
    from gttf_sampler.distributed.graph import PartitionedGraph

CPU = torch.device("cpu")
NOBODY = -1  # stands for a relation, a node type or an array that there is none of
HELD = ("cumulative_weight", "time")  # the holder of the rows has their tables
EMPTY = torch.empty(0)
NONE = torch.empty(0, dtype=torch.int64)


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


class _Walkers(NamedTuple):
    """Walkers on rows that are here; what `draw_relation` calls a frontier."""

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

    def narrowed(self, part: Part) -> HopQuery:
        """The query to be sent: of the holder's tables, only whether they matter."""
        sizes = [book.num_nodes for book in part.books.values()]
        pairs = zip(self.nodes, self.kinds, strict=True)
        return replace(
            self,
            nodes=[narrow(node, sizes[kind]) for node, kind in pairs],
            roots=[narrow(root, 1) for root in self.roots],
            wanted=[want._replace(law=_told(want.law)) for want in self.wanted],
        )

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
        relations = list(part.relations.values())
        walkers = self._walkers(part)
        rows, laws = [], []
        for want in self.wanted:  # for NOBODY another one, of which none is taken
            gone = want.relation == NOBODY
            here = relations[0 if gone else want.relation]
            laws.append(UNIFORM if gone else _own_law(here, want.law))
            fanout = 0 if gone else want.fanout
            rows.append(Relation(here.adj, want.nodes, 0, [fanout]))
        plan = Plan(tuple(rows), (), (), 1, self.replace, CPU)
        none: list[Any] = [None] * len(rows)
        batch = Batch([], [], self.disjoint, list(laws), none, self.key & WORD)
        fast = getattr(fast_backend(CPU, "rooted"), "asked", None)
        taken = None if fast is None else fast(plan, batch, walkers)
        if taken is None:
            taken = [_by_reference(plan, batch, walkers, n) for n in range(len(rows))]
        found: list[Tensor] = []
        for want, own in zip(self.wanted, taken, strict=True):
            if own is not None:
                here, (size, edge, node) = relations[want.relation], own
                if self.original and here.edge_id is not None:
                    name = here.edge_id.index_select(0, edge)
                else:
                    name = here.whole_positions(walkers[want.nodes].row, size, edge)
                found += [narrow(size, 1), narrow(name, here.whole_edges)]
                found.append(narrow(node, here.adj.num_cols))
        return found

    def _walkers(self, part: Part) -> list[_Walkers]:
        found, kinds = [], list(part.books)
        for kind, node, root in zip(self.kinds, self.nodes, self.roots, strict=True):
            node, root = node.to(torch.int64), root.to(torch.int64)
            row = node if kind == NOBODY else part.rows[kinds[kind]].locate(node)[1]
            who = node
            if self.disjoint:
                who = node + root * part.books[kinds[kind]].num_nodes
            found.append(_Walkers(row, root if root.numel() else row, who))
        return found

    def checked(self, answer: list[Tensor], part: Part) -> list[Tensor]:
        """Three arrays for every relation of which anything can be drawn."""
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


def _told(law: Law) -> Law:
    """A law as others are told it, with nothing in the tables that they have."""
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
    own = law._replace(has_zero_weight=False)
    if law.cumulative_weight is not None:
        gaps = tables.has_gaps(here.adj)
        own = own._replace(
            cumulative_weight=tables.weight_table(here.adj), has_zero_weight=gaps
        )
    if law.time is not None:
        own = own._replace(time=tables.sorted_time(here.adj))
    if law.excluded_edges is not None:
        hidden = here.local_positions(law.excluded_edges)
        own = own._replace(excluded_edges=hidden if hidden.numel() else None)
    return own


def _by_reference(
    plan: Plan, batch: Batch, walkers: list[_Walkers], number: int
) -> Drawn | None:
    """The draw of one relation, as `torch.hop` makes it."""
    relation, law = plan.relations[number], batch.laws[number]
    here, (fanout,) = walkers[relation.dst_type], relation.fanouts
    if fanout == 0 or here.row.numel() == 0:
        return None
    total = int(relation.adj.row_range(here.row)[1].sum()) if fanout < 0 else 0
    key = random.fold(batch.key, number)
    rule = None if law == UNIFORM else law
    drawn = draw_relation(relation.adj, rule, here, fanout, plan.replace, key, total)
    taken = drawn.edge >= 0
    to, edge, node = (x[taken] for x in (drawn.to, drawn.edge, drawn.node))
    return Drawn(torch.bincount(to, minlength=here.row.numel()), edge, node)


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
    wanted = [
        Wanted(graph.number(each.adj), each.dst_type, each.fanouts[hop], law or UNIFORM)
        for each, law in zip(plan.relations, batch.laws, strict=True)
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
    for number, (want, each) in enumerate(zip(wanted, plan.relations, strict=True)):
        there = [own for drawn in found if (own := drawn[number]) is not None]
        node, root = frontiers[want.nodes]
        size = node.new_zeros(node.numel())
        taken = Drawn(size, NONE, NONE)
        if there:
            taken = Drawn(*routes[want.nodes].join(there))
        to = torch.arange(node.numel())
        to = to.repeat_interleave(taken.size, output_size=taken.edge.numel())
        here = Walkers(each.adj, node.new_empty(node.numel(), 0), node, root, node, key)
        draws.append(Draw(here, taken.edge, to, taken.node))
    return draws
