"""PartitionedGraph: all that a process needs of a graph of which it has a part."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.record import Plan
from gttf_sampler.distributed.adj import PartitionedAdj
from gttf_sampler.distributed.answer import Drawn, answer, check_request, drawn_of
from gttf_sampler.distributed.exchange import Exchange
from gttf_sampler.distributed.features import PartitionedFeatures
from gttf_sampler.distributed.hops import Route
from gttf_sampler.distributed.layout import whereabouts
from gttf_sampler.distributed.meet import meet
from gttf_sampler.distributed.part import Part, open_part
from gttf_sampler.distributed.request import NOBODY, Request
from gttf_sampler.distributed.source import ONLY
from gttf_sampler.distributed.walk import answer_walk, steps_of
from gttf_sampler.distributed.wire import need, need_ids
from gttf_sampler.graph import names
from gttf_sampler.subgraph import EdgeType

TIMEOUT = 60.0


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
        self._kinds = {name: number for number, name in enumerate(part.books)}
        self._sizes = [book.num_nodes for book in part.books.values()]
        self._rows = exchange.serve("neighbours in hop {}", self._answer_rows)
        self._walks = exchange.serve("steps of walkers", self._answer_walk)
        self._between = exchange.serve("edges between nodes", self._answer_between)
        self.features: dict[tuple[str, str], PartitionedFeatures] = {
            key: PartitionedFeatures(self, *key) for key in part.features
        }
        self._names: dict[str, names.Array | None] = {}
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
            note = whereabouts(folder, rank)
            return part, str(part.header["crc32"]), note

        exchange, part, notes = meet(group, timeout, prepare)
        try:
            near = {
                rank: open_part(path, rank, False, like=part)
                for rank, note in enumerate(notes)
                if direct and rank != exchange.rank and _is_here(note, folder, rank)
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

    def node_id(self, kind: str = "") -> names.Array | None:
        """What the nodes [n] of a type are called; None if these are their numbers.

        Names are read when they are asked for first, all of the graph's, not only those
        of this part: batches have nodes of any part.
        """
        _check.known_types("kind", [kind], list(self.part.books), "node types")
        if kind not in self._names:
            self._names[kind] = names.unpacked(dict(self.part.names[kind]))
        return self._names[kind]

    def close(self) -> None:
        """Answers the others until all are done, then leaves them."""
        self.exchange.close()

    def __enter__(self) -> PartitionedGraph:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes it; tells the others if there was an error."""
        if error is None:
            self.close()
        else:
            self.exchange.abort(error)

    def number(self, adj: Any) -> int:
        """The number of a relation; NOBODY for one of another graph, without edges."""
        if isinstance(adj, PartitionedAdj) and adj.graph is self:
            return list(self.adjs).index(adj.edge_type)
        if adj.num_edges:
            rule = "must hold relations of one partitioned graph"
            _check.fail("adj", rule, "others, too")
        return NOBODY

    def numbers(self, plan: Plan) -> list[int]:
        """The number of each node type of a plan in this graph."""
        found = [NOBODY] * len(plan.sizes)
        for relation in plan.relations:
            if self.number(relation.adj) != NOBODY:
                by, _, to = relation.adj.edge_type  # type: ignore[attr-defined]
                found[relation.src_type] = self._kinds[by]
                found[relation.dst_type] = self._kinds[to]
        return found

    def owner(self, kind: int, node: Tensor) -> Tensor:
        """Whom to ask about each node [w]: this process itself if it has the row."""
        if kind == NOBODY or self.exchange.size == 1:
            return torch.full(node.shape, self.exchange.rank, dtype=torch.int32)
        name = list(self.part.books)[kind]
        owner = self.part.books[name].part_of(node)
        if self.part.header["replicate"]:
            owner[self.part.rows[name].locate(node)[0]] = self.exchange.rank
        return owner

    def ask_rows(
        self, requests: Mapping[int, Request], hop: int
    ) -> dict[int, list[Drawn | None]]:
        """What each process has drawn; this one draws while the others do."""
        near = {
            rank: part
            for rank, request in requests.items()
            if (part := self._read(rank, request.needs_tables)) is not None
        }
        messages = {
            rank: request.arrays(self._sizes)
            for rank, request in requests.items()
            if rank not in near
        }
        pending = self.exchange.ask(self._rows, messages, hop + 1)
        found = {rank: answer(part, requests[rank]) for rank, part in near.items()}

        def read(rank: int, arrays: list[Tensor]) -> list[Drawn | None]:
            return drawn_of(arrays, requests[rank], list(self.adjs.values()))

        return {**found, **pending.answers(read)}

    def _read(self, rank: int, tables: bool) -> Part | None:
        """The part of a process, if it is read from here and not asked for.

        Whoever has a part makes its tables of weights and times, once.
        """
        return None if tables and rank != self.exchange.rank else self.near.get(rank)

    def ask_steps(
        self, messages: Mapping[int, list[Tensor]], weighted: bool
    ) -> dict[int, list[Any]]:
        """What walkers have drawn, wherever they are."""
        near = {
            rank: part
            for rank in messages
            if (part := self._read(rank, weighted)) is not None
        }
        others = {rank: arrays for rank, arrays in messages.items() if rank not in near}
        pending = self.exchange.ask(self._walks, others)
        found = {rank: answer_walk(part, messages[rank]) for rank, part in near.items()}
        adjs = list(self.adjs.values())

        def read(rank: int, arrays: list[Tensor]) -> list[Tensor]:
            return steps_of(arrays, messages[rank], adjs)

        return {**found, **pending.answers(read)}

    def ask_between(
        self, adj: PartitionedAdj, node: Tensor, neighbor: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Which pairs (node, neighbor) have edges, and these; see `edges_between`."""
        number, own = torch.tensor([self.number(adj)]), self.exchange.rank
        kind = self._kinds[adj.edge_type[2]]
        route = Route.of(self.owner(kind, node), self.exchange.size)
        parts = [route.split(x) for x in (node, neighbor)]
        messages = {
            rank: [number, parts[0][rank], parts[1][rank]]
            for rank, count in enumerate(route.counts)
            if count
        }
        mine = messages.pop(own, None)
        pending = self.exchange.ask(self._between, messages)
        found = {own: self._answer_between(mine)} if mine is not None else {}

        def read(rank: int, arrays: list[Tensor]) -> list[Tensor]:
            size, edge = need(arrays, 2)
            pairs = messages[rank][1].numel()
            size = need_ids("counts", size, 0, edge.numel() + 1, pairs)
            return [size, need_ids("edges", edge, 0, adj.num_edges, int(size.sum()))]

        found.update(pending.answers(read))
        drawn = []
        for rank in sorted(found):
            size, edge = found[rank]
            drawn.append(Drawn(size, edge, edge))
        if not drawn:
            return node[:0], node[:0]
        size, edge, _ = route.join(drawn)
        return torch.arange(node.numel()).repeat_interleave(size), edge

    def _answer_between(self, arrays: list[Tensor]) -> list[Tensor]:
        """How many edges each pair has, and these, by their positions."""
        number, node, neighbor = need(arrays, 3)
        here = self.part.relation(int(number))
        row = here.rows.find(node)
        need_ids("neighbours", neighbor, 0, here.adj.num_cols, row.numel())
        which, edge = here.adj.edges_between(row, neighbor)
        size = torch.bincount(which, minlength=row.numel())
        return [size, here.whole_positions(row, size, edge)]

    def _answer_rows(self, arrays: list[Tensor]) -> list[Tensor]:
        """Draws for another process."""
        request = Request.of_arrays(arrays)
        check_request(self.part, request)
        drawn = answer(self.part, request)
        there = torch.tensor([each is not None for each in drawn])
        return [there, *(array for each in drawn if each is not None for array in each)]

    def _answer_walk(self, arrays: list[Tensor]) -> list[Tensor]:
        """Draws steps for another process."""
        return answer_walk(self.part, arrays)

    def __repr__(self) -> str:
        """Says what a person wants to know first."""
        nodes = sum(self._sizes)
        edges = sum(adj.num_edges for adj in self.adjs.values())
        part = f"part {self.part.number} of {self.part.header['parts']}"
        return f"PartitionedGraph({nodes:,} nodes, {edges:,} edges, {part})"


def _is_here(note: str, folder: Path, rank: int) -> bool:
    """Whether the part that a process has noted is the one that is seen from here."""
    return note != "" and note == whereabouts(folder, rank)
