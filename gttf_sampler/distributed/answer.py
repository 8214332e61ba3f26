"""What the holder of rows draws for whoever asks: the draws of one machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends.record import UNIFORM, Batch, Law, Plan, Relation
from gttf_sampler.backend import fast_backend
from gttf_sampler.bias.base import LawBias
from gttf_sampler.distributed.part import LocalRows, Part
from gttf_sampler.distributed.request import NOBODY, Request
from gttf_sampler.distributed.wire import narrow, need, need_ids
from gttf_sampler.graph import tables
from gttf_sampler.rooted.hop import draw_relation

if TYPE_CHECKING:
    from gttf_sampler.distributed.adj import PartitionedAdj

CPU = torch.device("cpu")


class Drawn(NamedTuple):
    """What walkers of one relation took.

    Attributes:
        size: [w], how many edges each walker took.
        edge: [e], by the numbers of the whole graph, walker after walker.
        node: [e], where they lead.
    """

    size: Tensor
    edge: Tensor
    node: Tensor


class _Walkers(NamedTuple):
    """Walkers on rows that are here; what `draw_relation` calls a frontier.

    Attributes:
        row: [w], the local rows of their nodes.
        root: [w], their trees.
        who: [w], what tells a walker from others all over the graph.
    """

    row: Tensor
    root: Tensor
    who: Tensor

    @property
    def path(self) -> Tensor:
        """[w, 0]: nobody asks how they came."""
        return self.row.new_empty(self.row.numel(), 0)

    def frontier(self) -> tuple[int, Tensor, Tensor]:
        """All of them."""
        return 0, self.row, self.root

    def identity(self, node: Tensor, root: Tensor) -> Tensor:
        """What their random streams depend on."""
        return self.who


def drawn_of(
    arrays: list[Tensor], request: Request, adjs: Sequence[PartitionedAdj]
) -> list[Drawn | None]:
    """The answer of another process to a request, checked; see `answer`."""
    there, *rest = arrays or [torch.empty(0)]
    takes = [
        want.relation != NOBODY and want.fanout and request.nodes[want.nodes].numel()
        for want in request.wanted
    ]
    if there.dtype != torch.bool or there.tolist() != [bool(some) for some in takes]:
        raise ValueError("draws must be of the relations that were asked for")
    parts = iter(need(rest, 3 * sum(map(bool, takes))))
    found: list[Drawn | None] = []
    for want, some in zip(request.wanted, takes, strict=True):
        if not some:
            found.append(None)
            continue
        size, edge, node = (next(parts) for _ in range(3))
        adj, count = adjs[want.relation], edge.numel()
        most = adj.max_degree if want.fanout < 0 else want.fanout
        size = need_ids("counts", size, 0, most + 1, int(some))
        if int(size.sum()) != count:
            raise ValueError(f"edges must be {int(size.sum())} in all (got {count})")
        edge = need_ids("edges", edge, 0, adj.num_edges, count)
        node = need_ids("nodes", node, 0, adj.num_cols, count)
        found.append(Drawn(size, edge, node))
    return found


def check_request(part: Part, request: Request) -> None:
    """Refuses a request of another process that compiled code must not follow."""
    kinds = list(part.books)
    for kind, node, root in zip(
        request.kinds, request.nodes, request.roots, strict=True
    ):
        if not NOBODY <= kind < len(kinds) or (kind == NOBODY and node.numel()):
            raise ValueError(f"a node type must be one of {len(kinds)} (got {kind})")
        if kind != NOBODY:
            part.rows[kinds[kind]].find(node)
        if root.numel() or request.apart:
            need_ids("trees", root, 0, _check.MAX_NODES, node.numel())
    for want in request.wanted:
        if not 0 <= want.nodes < len(request.kinds):
            raise ValueError(f"nodes must be of the request (got {want.nodes})")
        if not -1 <= want.fanout < 1 << 62:
            raise ValueError(f"a fanout must be -1 or above (got {want.fanout})")
        if request.replace:
            _check.fits("fanout", 24 * want.fanout * request.nodes[want.nodes].numel())
        if want.relation != NOBODY:
            here = part.relation(want.relation)
            to = list(part.relations)[want.relation][2]
            if request.kinds[want.nodes] not in (NOBODY, kinds.index(to)):
                raise ValueError(f"nodes of a relation must be of type {to!r}")
            root = request.roots[want.nodes]
            edges = part.header["relations"][want.relation]["num_edges"]
            _check_law(want.law, here, request.nodes[want.nodes], root, edges)


def _check_law(
    law: Law, here: LocalRows, node: Tensor, root: Tensor, edges: int
) -> None:
    """Refuses a law of another process whose arrays do not fit rows and trees."""
    if law.time is not None and here.adj.edge_time is None:
        raise ValueError("times must be asked of edges that have some")
    if law.cumulative_weight is not None and here.adj.edge_weight is None:
        raise ValueError("weights must be asked of edges that have some")
    if law.excluded_edges is not None and law.excluded_edges.dtype != torch.int64:
        raise ValueError(f"hidden edges must be int64 (got {law.excluded_edges.dtype})")
    _check.law(Law(excluded_edges=law.excluded_edges), edges, 0)
    if (law.time is None) != (law.time_max is None):
        raise ValueError("times must be given where edges are drawn by time")
    if law.time_max is not None:
        trees = law.time_max.numel()
        if law.time_min is not None and law.time_min.numel() != trees:
            raise ValueError(f"times must be {trees} (got {law.time_min.numel()})")
        need_ids("trees", root, 0, trees, node.numel())


def answer(part: Part, request: Request) -> list[Drawn | None]:
    """The edges that walkers take of rows in this part; None where none is asked."""
    kinds = list(part.books)
    relations = list(part.relations.values())
    walkers = []
    parts = zip(request.kinds, request.nodes, request.roots, strict=True)
    for kind, node, root in parts:
        row = node if kind == NOBODY else part.rows[kinds[kind]].locate(node)[1]
        who = node
        if request.apart:
            who = node + root * part.books[kinds[kind]].num_nodes
        walkers.append(_Walkers(row, root if root.numel() else row, who))
    stand_in = relations[0].adj  # for relations that nobody asks for
    rows, laws = [], []
    for want in request.wanted:
        here = None if want.relation < 0 else relations[want.relation]
        laws.append(UNIFORM if here is None else _own_law(here, want.law))
        adj = stand_in if here is None else here.adj
        rows.append(Relation(adj, want.nodes, 0, [want.fanout]))
    plan = Plan(tuple(rows), (), (), 1, request.replace, CPU)
    none: list[None] = [None] * len(rows)
    batch = Batch([], [], request.apart, list(laws), list(none), request.key)
    fast = getattr(fast_backend(CPU), "asked", None)
    taken = None if fast is None else fast(plan, batch, walkers)
    if taken is None:
        taken = [_by_reference(plan, batch, walkers, n) for n in range(len(rows))]
    found: list[Drawn | None] = []
    for want, own in zip(request.wanted, taken, strict=True):
        if own is None or want.relation < 0:
            found.append(None)
            continue
        here, (count, edge, node) = relations[want.relation], own
        row = walkers[want.nodes].row
        found.append(_named(part, want.relation, here, request, row, count, edge, node))
    return found


def _named(
    part: Part,
    number: int,
    here: LocalRows,
    request: Request,
    row: Tensor,
    count: Tensor,
    edge: Tensor,
    node: Tensor,
) -> Drawn:
    """What was drawn, by the numbers of the whole graph."""
    if request.original and here.edge_id is not None:
        name = here.edge_id.index_select(0, edge)
    else:
        name = here.whole_positions(row, count, edge)
    every = part.header["relations"][number]["num_edges"]
    cols = here.adj.num_cols
    return Drawn(narrow(count, 1), narrow(name, every), narrow(node, cols))


def _own_law(here: LocalRows, law: Law) -> Law:
    """A law with the masses and times of these rows, and local hidden edges."""
    if law == UNIFORM:
        return UNIFORM
    own = law
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
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Count, edge and node of one relation, as `rooted.hops` draws them."""
    relation, law = plan.relations[number], batch.laws[number]
    here, (fanout,) = walkers[relation.dst_type], relation.fanouts
    if fanout == 0 or here.row.numel() == 0:
        return None
    total = int(relation.adj.row_range(here.row)[1].sum()) if fanout < 0 else 0
    bias = None if law is None or law == UNIFORM else LawBias(law)
    key = random.fold(batch.key, number)
    drawn = draw_relation(relation.adj, bias, here, fanout, plan.replace, key, total)
    taken = drawn.edge >= 0
    to, edge, node = (x[taken] for x in (drawn.to, drawn.edge, drawn.node))
    return torch.bincount(to, minlength=here.row.numel()), edge, node
