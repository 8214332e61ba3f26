"""PartitionedGraph: a graph of which every process has a part.

A relation of it, `PartitionedAdj`, takes the place of a CompactAdj, and values of its
nodes, `PartitionedFeatures`, that of a tensor.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler._backends.memory import ScratchPool, empty_rows
from gttf_sampler._backends.record import UNIFORM, Batch, Law, Plan, Rooted
from gttf_sampler._backends.torch.gather import Move, Moves
from gttf_sampler._backends.torch.hop import sample_hops
from gttf_sampler.distributed.book import Route, RowIndex, RowLocator
from gttf_sampler.distributed.exchange import Exchange, rendezvous
from gttf_sampler.distributed.messages import blank, decode, encode, narrow, need
from gttf_sampler.distributed.part import ONLY, Part, open_part, whereabouts
from gttf_sampler.distributed.query import (
    ABSENT,
    CPU,
    BetweenQuery,
    HopQuery,
    Query,
    StepQuery,
    ask_along,
    draw_remote,
)
from gttf_sampler.features import FeatureFile
from gttf_sampler.graph import tables
from gttf_sampler.graph.compact import (
    CompactAdj,
    RemoteRows,
    checked_pairs,
    described_nodes,
)
from gttf_sampler.graph.exchange import Array, unpacked
from gttf_sampler.random import Key
from gttf_sampler.subgraph import EdgeType

TIMEOUT = 60.0
QUERIES = (HopQuery, StepQuery, BetweenQuery)


class PartitionedAdj(RemoteRows):
    """A graph whose rows are in several processes, with the batches of one machine.

    >>> import tempfile
    >>> from gttf_sampler import CompactAdj, sample_rooted
    >>> from gttf_sampler.distributed import PartitionedAdj, partition
    >>> star = CompactAdj.from_edge_index([[1, 2, 3, 4], [0, 0, 0, 2]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     facts = partition(star, folder, parts=1)
    ...     adj = PartitionedAdj.open(folder)
    >>> sample_rooted(adj, seeds=[0], fanouts=[-1, -1])
    Subgraph(5 nodes, hops 1 + 3 + 1, 4 edges on cpu)

    `sample_rooted` takes it where it takes a `CompactAdj`, also one per edge type, and
    so does `traverse`. Biases must be such that a `Law` can state them: weights,
    times and hidden edges can, functions and node2vec need the rows here.

    Attributes:
        graph, edge_type: of which it is a relation, and which one.
        local: the rows of this process, with columns of the whole graph.
        num_rows, num_cols, num_edges, max_degree, direction: of the whole graph.
    """

    def __init__(self, graph: PartitionedGraph, edge_type: EdgeType) -> None:
        self.graph, self.edge_type = graph, edge_type
        self.local: CompactAdj = graph.part.relations[edge_type].adj
        header = graph.part.header
        entry = next(r for r in header["relations"] if tuple(r["type"]) == edge_type)
        self.num_rows = graph.part.books[edge_type[2]].num_nodes
        self.num_cols = graph.part.books[edge_type[0]].num_nodes
        self.num_edges, self.max_degree = entry["num_edges"], entry["max_degree"]
        self.direction: str = entry["direction"]
        self.scratch = ScratchPool()
        self._number = list(graph.part.relations).index(edge_type)
        self._kind = list(graph.part.books).index(edge_type[2])  # of its rows

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], group: Any = None, **options: Any
    ) -> PartitionedAdj:
        """Opens a graph without types; see `PartitionedGraph.open`, and close that."""
        return PartitionedGraph.open(path, group, **options).adj

    def seen_with(self, *, weights: bool, times: bool) -> PartitionedAdj:
        """The same relation, as if edges had no weights or no times unless wanted."""
        weight = self.local.edge_weight if weights else None
        time = self.local.edge_time if times else None
        if weight is self.local.edge_weight and time is self.local.edge_time:
            return self
        found = copy.copy(self)
        local = replace(self.local, edge_weight=weight, edge_time=time)
        found.local = local.trusted()
        return found

    def edges_between(self, node: Any, neighbor: Any) -> tuple[Tensor, Tensor]:
        """All edges of row node[i] to neighbor[i]; see `CompactAdj.edges_between`.

        Their positions are those in the whole graph.
        """
        query = BetweenQuery(self._number, *checked_pairs(self, node, neighbor))
        route = self.graph.route(self._kind, query.node)
        found = ask_along(self.graph, route, query, "neighbor")
        if not found:
            return query.node[:0], query.node[:0]
        size, edge = route.join(found)
        return torch.arange(query.node.numel()).repeat_interleave(size), edge

    @property
    def node_id(self) -> Array | None:
        """The ids [n] that nodes of the rows have elsewhere; None if they have none."""
        return self.graph.node_id(self.edge_type[2])

    @property
    def edge_weight(self) -> Tensor | None:
        """The weights of the rows that are here; None if edges have none."""
        return self.local.edge_weight

    @property
    def edge_time(self) -> Tensor | None:
        """The times of the rows that are here; None if edges have none."""
        return self.local.edge_time

    def close(self) -> None:
        """Answers the others until all are done, then leaves them."""
        self.graph.close()

    def law_of(self, bias: Any, trees: int | None = None) -> Law:
        """The law of a bias; refuses one that has to see the rows."""
        law: Law | None = bias.law(self.local)
        if law is None:
            rule = (
                "must be stated as data on a partitioned graph (weights, times, hidden"
            )
            rule = f"{rule} edges), where others cannot see the rows"
            _check.fail("bias", rule, bias, "open the whole graph as a CompactAdj")
        mass = law.cumulative_weight
        if mass is not None and mass is not tables.weight_table(self.local):
            rule = "must be that of EdgeWeightBias().law(adj) on a partitioned graph"
            _check.fail("law.cumulative_weight", rule, mass)
        if trees is not None:
            _check.law(law._replace(excluded_edges=None), self.local.num_edges, trees)
            _check.law(Law(excluded_edges=law.excluded_edges), self.num_edges, trees)
        return law

    def sample(self, plan: Plan, batch: Batch) -> Rooted:
        """A batch, bit for bit the one that a machine with all rows draws."""
        none: list[Any] = [None] * len(plan.relations)
        draw = partial(draw_remote, self.graph, plan, batch)
        batch = batch._replace(biases=none, original_edge_ids=False)
        return sample_hops(plan, batch, draw, remote=True)

    def walk(
        self,
        seeds: Tensor,
        fanouts: Sequence[int],
        bias: Any,
        replace: bool,
        key: Key,
        stays: bool,
    ) -> list[tuple[Tensor, Tensor]]:
        """(edges, nodes) [w, f] of every depth, as a machine with all rows draws."""
        law = UNIFORM if bias is None else self.law_of(bias)
        weighted = law.cumulative_weight is not None
        if law._replace(cumulative_weight=None, has_zero_weight=False) != UNIFORM:
            rule = "must be None or EdgeWeightBias() in 'traverse' on this graph"
            _check.fail("bias", rule, bias, "'sample_rooted' takes it")
        levels, node = [], seeds
        for depth, fanout in enumerate(fanouts):
            walker = (node >= 0).nonzero().view(-1)  # the others have stopped
            here = node.index_select(0, walker)
            how = int(random.fold(key, depth)), fanout, replace, stays, weighted
            query = StepQuery(self._number, *how, here, walker)
            route = self.graph.route(self._kind, here)
            found = ask_along(self.graph, route, query, "slot")
            level = node.new_full((2, node.numel(), fanout), -1)
            if found:
                asked = walker if route.order is None else walker[route.order]
                steps = [
                    torch.cat(x).view(-1, fanout) for x in zip(*found, strict=True)
                ]
                level[:, asked] = torch.stack(steps)
            levels.append((level[0], level[1]))
            node = level[1].view(-1)
        return levels

    def __repr__(self) -> str:
        """Numbers of nodes and edges, in all and here."""
        nodes = described_nodes(self)
        here = f"{self.local.num_rows:,} rows and {self.local.num_edges:,} of them here"
        return f"PartitionedAdj({nodes}, {self.num_edges:,} edges, {here})"


class PartitionedGraph:
    """A graph of which every process has a part; `open` makes it, in all of them.

    Attributes:
        part: what this process has.
        near: the parts that can be read from here, by rank: its own, and those of other
            processes of this machine, whose files are in memory once for all of them.
        exchange: its link to the others.
        adjs: the graph of every edge type (source, relation, target); ("", "", "") if
            there are no types.
        features: by (node type, name); the type is "" if there are none.
    """

    def __init__(
        self, part: Part, exchange: Exchange, near: Mapping[int, Part] | None = None
    ) -> None:
        self.part, self.exchange = part, exchange
        self.near: dict[int, Part] = {**(near or {}), exchange.rank: part}
        self.adjs: dict[EdgeType, PartitionedAdj] = {
            kind: PartitionedAdj(self, kind) for kind in part.relations
        }
        self._services = {kind: self._serve(kind) for kind in QUERIES}
        self.features: dict[tuple[str, str], PartitionedFeatures] = {
            key: PartitionedFeatures(self, *key) for key in part.features
        }
        self._names: dict[str, Array | None] = {}
        exchange.start()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        group: Any = None,
        *,
        timeout: float = TIMEOUT,
        verify: bool = True,
        direct: bool = True,
    ) -> PartitionedGraph:
        """Opens the part of this process; all processes of the group must call it.

        Args:
            path: what `partition` wrote, into as many parts as there are processes.
            group: of `torch.distributed`; by default all processes, or this one alone
                where `torch.distributed` was not started.
            timeout: seconds within which another process must answer.
            verify: whether to compare checksums, which reads all of the part once.
            direct: whether to read the files of processes on this machine, instead of
                asking these. No batch depends on it.
        """
        timeout = _check.positive("timeout", timeout)
        direct = _check.yes_or_no("direct", direct)
        folder = _check.path("path", path)

        def prepare(rank: int, size: int) -> tuple[Part, str, str]:
            part = open_part(path, rank, verify)
            if part.header["parts"] != size:
                parts = part.header["parts"]
                rule = f"must be cut into as many parts as there are processes, {size}"
                _check.fail("path", rule, parts, f"start {parts} processes")
            return part, str(part.header["crc32"]), whereabouts(folder, rank)

        exchange, part, notes = rendezvous(group, timeout, prepare)
        try:
            near = {
                rank: open_part(path, rank, False, like=part)
                for rank, note in enumerate(notes)
                if direct and note and rank != exchange.rank
                if note == whereabouts(folder, rank)  # the very file that is seen here
            }
        except Exception as error:
            exchange.abort(error)
            raise
        return cls(part, exchange, near)

    @property
    def adj(self) -> PartitionedAdj:
        """The graph, if it has no types."""
        if list(self.adjs) != [ONLY]:
            kinds = list(self.adjs)
            _check.fail("adj", "must be asked of a graph without types", kinds, "adjs")
        return self.adjs[ONLY]

    def own_nodes(self, kind: str = "") -> Tensor:
        """The nodes of a type that are this process's own, ascending."""
        _check.known_types("kind", [kind], list(self.part.books), "node types")
        return self.part.books[kind].nodes_of(self.part.number)

    def node_id(self, kind: str = "") -> Array | None:
        """The ids [n] that nodes of a type have elsewhere; None if they have none.

        They are read when they are asked for first, all of the graph's, not only those
        of this part: batches have nodes of any part.
        """
        _check.known_types("kind", [kind], list(self.part.books), "node types")
        if kind not in self._names:
            self._names[kind] = unpacked(dict(self.part.names[kind]))
        return self._names[kind]

    def close(self) -> None:
        """Answers the others until all are done, then leaves them."""
        self.exchange.close()

    def __enter__(self) -> PartitionedGraph:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Closes it; tells the others if there was an error."""
        if error is None:
            self.close()
        else:
            self.exchange.abort(error)

    def number(self, adj: Any) -> int:
        """The number of a relation; ABSENT for one of another graph, without edges."""
        if isinstance(adj, PartitionedAdj) and adj.graph is self:
            return adj._number
        if adj.num_edges:
            rule = "must hold relations of one partitioned graph"
            _check.fail("adj", rule, "others, too")
        return ABSENT

    def numbers(self, plan: Plan) -> list[int]:
        """The number of each node type of a plan in this graph."""
        found, kinds = [ABSENT] * len(plan.sizes), list(self.part.books)
        for relation in plan.relations:
            if self.number(relation.adj) != ABSENT:
                by, _, to = relation.adj.edge_type  # type: ignore[attr-defined]
                found[relation.src_type] = kinds.index(by)
                found[relation.dst_type] = kinds.index(to)
        return found

    def route(self, kind: int, node: Tensor) -> Route:
        """The route to the processes to ask about nodes [w] of a type.

        This process itself is asked for what it has, also of replicated rows.
        """
        here, size = self.exchange.rank, self.exchange.size
        if kind == ABSENT or size == 1:
            return Route(None, [node.numel() if x == here else 0 for x in range(size)])
        name = list(self.part.books)[kind]
        owner = self.part.books[name].part_of(node)
        if self.part.header["replicate"]:
            owner[self.part.rows[name].locate(node)[0]] = here
        return Route.of(owner, size)

    def ask(
        self, queries: Mapping[int, Query], detail: int = 0
    ) -> dict[int, list[Tensor]]:
        """The answers of all processes; this one answers while the others do.

        All queries are of one kind. Parts that are read from here are not asked for,
        unless it takes tables of weights or times: these are made once per part.
        """
        if not queries:
            return {}
        here, service = self.exchange.rank, 0
        local: dict[int, Part] = {}
        messages = {}
        for rank, query in queries.items():
            service = self._services[type(query)]
            if rank == here or (rank in self.near and not query.needs_tables):
                local[rank] = self.near[rank]
            else:
                messages[rank] = encode(query)
        asked = self.exchange.ask(service, messages, detail)
        found = {rank: queries[rank].answer(part) for rank, part in local.items()}

        def checked(rank: int, arrays: list[Tensor]) -> list[Tensor]:
            return queries[rank].checked(arrays, self.part)

        return {**found, **self.exchange.answers(asked, checked)}

    def _serve(self, kind: type[Query]) -> int:
        """Registers the answer to queries of one kind; returns the service's number."""

        def answer(arrays: list[Tensor]) -> list[Tensor]:
            query = decode(kind, arrays)
            query.check(self.part)
            return [narrow(array) for array in query.answer(self.part)]

        return self.exchange.serve(kind.service, answer)

    def __repr__(self) -> str:
        """Numbers of nodes and edges, and which part is here."""
        nodes = sum(book.num_nodes for book in self.part.books.values())
        edges = sum(adj.num_edges for adj in self.adjs.values())
        part = f"part {self.part.number} of {self.part.header['parts']}"
        return f"PartitionedGraph({nodes:,} nodes, {edges:,} edges, {part})"


class PartitionedFeatures:
    """Values [n, ...] of which every process has the rows of its own nodes.

    >>> import tempfile
    >>> import torch
    >>> from gttf_sampler import CompactAdj
    >>> from gttf_sampler.distributed import PartitionedGraph, partition
    >>> ring = CompactAdj.from_edge_index([[0, 1, 2], [1, 2, 0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     facts = partition(ring, folder, parts=1, features={"x": torch.eye(3)})
    ...     x = PartitionedGraph.open(folder).features["", "x"]
    ...     x[torch.tensor([2, 0])].tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]

    What this process and others of its machine have is read from their files. What
    processes of other machines have is asked of them, all rows of a call in one
    exchange. `cache` keeps those of them that are asked for most.

    Attributes:
        name: of the values.
        kind: the type of the nodes; "" if there are no types.
        own: [k, ...], the rows of this process, in the order of its nodes.
        hits, misses: how many rows of others were found in the cache, and were not.
    """

    def __init__(self, graph: PartitionedGraph, kind: str, name: str) -> None:
        self.graph, self.kind, self.name = graph, kind, name
        self.own: FeatureFile = graph.part.features[kind, name]
        self.hits = self.misses = 0
        self._book = book = graph.part.books[kind]
        local = {rank: part.features[kind, name] for rank, part in graph.near.items()}
        self._places = RowLocator(book, local, self._rows_of)
        self._rows = self._rows_of(graph.part.number)
        of = f"{kind}.{name}".strip(".")
        self._service = graph.exchange.serve(f"rows of feature {of!r}", self._answer)

    def _rows_of(self, rank: int) -> RowIndex:
        """The index of a part's own rows, a part that is read here."""
        part = self.graph.near[rank]
        if part.header["replicate"]:  # then a part has rows of other nodes, too
            return RowIndex(self._book.nodes_of(rank), len(self))
        return part.rows[self.kind]

    @property
    def shape(self) -> torch.Size:
        """[n, ...], the shape of the values of all nodes."""
        return torch.Size([self._book.num_nodes, *self.own.shape[1:]])

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the values."""
        return self.own.dtype

    def __len__(self) -> int:
        """The number of nodes."""
        return self._book.num_nodes

    def __getitem__(self, node: Any) -> Tensor:
        """The rows [k, ...] of nodes [k], in their order; they may repeat."""
        ids = _check.integers("node", node).to("cpu", torch.int64).contiguous()
        _check.within("node", ids, len(self))
        return self.rows(ids)

    def rows(self, ids: Tensor) -> Tensor:
        """The rows of ids, int64 [k], that are known to be sound."""
        found = empty_rows((ids.numel(), *self.own.shape[1:]), self.dtype)
        places = self._places.find(ids)
        away = {part: some for part, some in places.items() if some.source is None}
        self.misses += sum(some.row.numel() for some in away.values())
        messages = {part: [narrow(some.row)] for part, some in away.items()}
        asked = self.graph.exchange.ask(self._service, messages)
        for some in places.values():
            if isinstance(some.source, FeatureFile):
                some.source.rows(some.row, found, some.to)
            elif some.source is not None:
                self.hits += some.row.numel()
                _move(Move([some.source], some.row, found, some.to))

        def read(rank: int, arrays: list[Tensor]) -> Tensor:
            (values,) = need(arrays, 1)
            shape = torch.Size([away[rank].row.numel(), *self.own.shape[1:]])
            if (values.dtype, values.numel()) != (self.dtype, shape.numel()):
                got = f"{values.numel()} of {values.dtype}"
                rule = f"must be {shape.numel()} of {self.dtype}"
                raise ValueError(f"values {rule} (got {got})")
            return values.view(shape)

        for part, rows in self.graph.exchange.answers(asked, read).items():
            _move(Move([rows], None, found, away[part].to))
        return found

    def cache(self, nbytes: int) -> PartitionedFeatures:
        """Keeps rows of others, as many as fit into `nbytes`; returns itself.

        Those of the nodes that most edges lead to; of at most a tenth of all nodes,
        or of the share that is replicated. The rows of this process stay on disk;
        `own.cache` keeps some of these in memory.
        """
        nbytes = _check.size("nbytes", nbytes)
        wanted = self.graph.part.wanted[self.kind]
        self._places.keep(wanted, None)
        local = torch.tensor(sorted(self._places.local))
        wanted = wanted[~torch.isin(self._book.part_of(wanted), local)]
        row = self.own.shape[1:].numel() * self.dtype.itemsize
        nodes = wanted[: nbytes // max(row, 1)].sort().values
        if nodes.numel():
            self._places.keep(nodes, self.rows(nodes).clone())
        self.hits = self.misses = 0
        return self

    def _answer(self, arrays: list[Tensor]) -> Tensor:
        """Rows for another process, written into the message itself."""
        position = self._rows.find(need(arrays, 1)[0])
        shape = position.numel(), *self.own.shape[1:]
        message, (rows,) = blank([(self.dtype, torch.Size(shape).numel())])
        self.own.rows(position, rows.view(shape))
        return message

    def __repr__(self) -> str:
        """Name, shape and the share of rows that came from the cache."""
        asked = self.hits + self.misses
        share = self.hits / max(1, asked)
        rate = f", {share:.0%} of others' rows in the cache" if asked else ""
        cached = self._places.cached
        kept = f", {cached:,} rows cached" if cached else ""
        about = f"{self.name!r}, {list(self.shape)}, {self.own.shape[0]:,} rows here"
        return f"PartitionedFeatures({about}{kept}{rate})"


def _move(move: Move) -> None:
    ops.gather(Moves(CPU, [move]))
