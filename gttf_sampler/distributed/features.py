"""PartitionedFeatures: rows of values by node, read here or asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._backends.memory import empty_rows
from gttf_sampler._backends.torch.gather import Move, Moves
from gttf_sampler.distributed.book import PartitionBook, RowIndex
from gttf_sampler.distributed.messages import blank, narrow, need
from gttf_sampler.distributed.query import Route
from gttf_sampler.features import FeatureFile

if TYPE_CHECKING:
    from gttf_sampler.distributed.graph import PartitionedGraph

CPU = torch.device("cpu")


class Located(NamedTuple):
    """Rows in one place."""

    source: FeatureFile | Tensor | None  # a file or the cache; None if others have them
    row: Tensor  # int64 [k], which rows of it; nodes if others have them
    to: Tensor | None  # int64 [k], rows of the answer they become; None for all


class RowLocator:
    """Locates rows of values: in files that are read here, in a cache, or elsewhere.

    `local` are the files of parts that are read here; `rows_of` gives the index of a
    part's rows, where parts are no ranges.
    """

    def __init__(
        self,
        book: PartitionBook,
        local: Mapping[int, FeatureFile],
        rows_of: Callable[[int], RowIndex],
    ) -> None:
        self.book, self.local = book, dict(local)
        self._rows = {part: rows_of(part) for part in local if book.bounds is None}
        self._cached: tuple[RowIndex, Tensor] | None = None  # set at once

    @property
    def cached(self) -> int:
        """The number of rows in the cache."""
        return 0 if self._cached is None else self._cached[0].size

    def keep(self, nodes: Tensor, rows: Tensor | None) -> None:
        """Caches rows of some nodes, which are ascending; None ends the cache."""
        own = None if rows is None else (RowIndex(nodes, self.book.num_nodes), rows)
        self._cached = own

    def find(self, node: Tensor) -> dict[int, Located]:
        """The places of the rows of nodes [k], by part; those in the cache under -1."""
        found: dict[int, Located] = {}
        cached = self._cached
        to: Tensor | None = None
        if cached is not None:
            here, place = cached[0].locate(node)
            found[-1] = Located(cached[1], place[here], here.nonzero().view(-1))
            to = here.logical_not().nonzero().view(-1)
            node = node.index_select(0, to)
        route = Route.of(self.book.part_of(node), self.book.parts)
        if route.order is not None:
            to = route.order if to is None else to.index_select(0, route.order)
        places = [None] * self.book.parts if to is None else to.split(route.counts)
        for part, some in enumerate(route.split(node)):
            if some.numel():
                own = self.local.get(part)
                row = some
                if own is not None and self.book.bounds is not None:
                    row = some - int(self.book.bounds[part])
                elif own is not None:
                    row = self._rows[part].locate(some)[1]
                found[part] = Located(own, row, places[part])
        return found


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
        """[n, ...], of all nodes."""
        return torch.Size([self._book.num_nodes, *self.own.shape[1:]])

    @property
    def dtype(self) -> torch.dtype:
        """Of the values."""
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
        messages = {part: [narrow(some.row, len(self))] for part, some in away.items()}
        pending = self.graph.exchange.ask(self._service, messages)
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

        for part, rows in pending.answers(read).items():
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
