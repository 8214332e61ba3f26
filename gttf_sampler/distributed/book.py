"""PartitionBook: the part of every node, by ranges, hash, METIS or as given.

RowIndex finds the row of a node among those of a part, RowLocator rows of values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler.distributed.messages import need_ids
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.subgraph import EdgeType

Array = np.ndarray[Any, Any]
FEW = 16  # parts for which one comparison each is faster than bisection
PAIRS, QUADS, NIBBLES, BYTES = (
    np.uint64((1 << 64) // divisor) for divisor in (3, 5, 17, 255)
)


@dataclass(frozen=True, eq=False)
class PartitionBook:
    """The part of every node of one type: ranges of ids, or a number per node.

    Part p has the nodes from bounds[p] to bounds[p + 1], or those with p in `owner`.
    """

    parts: int
    num_nodes: int
    bounds: Tensor | None = None  # int64 [parts + 1], or None
    owner: Array = field(default_factory=partial(np.empty, 0, np.uint8))  # [n]

    @classmethod
    def of_bounds(cls, bounds: Tensor) -> PartitionBook:
        """The book of parts that are ranges of ids."""
        return cls(bounds.numel() - 1, int(bounds[-1]), bounds=bounds)

    @classmethod
    def of_owners(cls, owner: Any, parts: int, name: str = "method") -> PartitionBook:
        """The book of a part number per node, stored in one byte each or two."""
        numbers = np.asarray(owner)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            rule = "must be integers [n], a part per node"
            _check.fail(name, rule, f"{numbers.dtype} {list(numbers.shape)}")
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < parts:
            rule = f"must hold part numbers in [0, {parts})"
            _check.fail(name, rule, f"{numbers.min()} to {numbers.max()}")
        small = np.uint8 if parts <= 1 << 8 else np.uint16
        return cls(parts, numbers.size, owner=numbers.astype(small, copy=False))

    def part_of(self, node: Tensor) -> Tensor:
        """The part [k] of every node [k], in one byte or two: those are sorted soon."""
        small = torch.uint8 if self.parts <= 1 << 8 else torch.int32
        if self.bounds is not None and self.parts > FEW:
            return torch.bucketize(node, self.bounds[1:], right=True).to(small)
        if self.bounds is None:
            found = self.owner[node.numpy()]
            few = found.dtype == np.uint8
            return torch.from_numpy(found if few else found.astype(np.int32))
        part = torch.zeros(node.shape, dtype=small)
        for bound in self.bounds[1:-1].tolist():
            part += node >= bound
        return part

    def lies_elsewhere(self, node: Tensor, part: int) -> Tensor:
        """A mask of the nodes [k], of any integer dtype, that belong to other parts."""
        if self.bounds is not None:
            first, stop = self.bounds[part : part + 2].tolist()
            away: Tensor = (node < first) | (node >= stop)
            return away
        return torch.from_numpy(self.owner[node.numpy()] != part)

    def nodes_of(self, part: int) -> Tensor:
        """The nodes of a part, ascending."""
        if self.bounds is not None:
            first, stop = self.bounds[part : part + 2].tolist()
            return torch.arange(first, stop)
        return torch.from_numpy(np.flatnonzero(self.owner == part))

    def sizes(self) -> list[int]:
        """The number of nodes of every part."""
        if self.bounds is not None:
            return self.bounds.diff().tolist()
        counts: list[int] = np.bincount(self.owner, minlength=self.parts).tolist()
        return counts


class RowIndex:
    """The position of a node's row among an ascending set of rows, in constant time.

    One bit per node of the graph and a count per 64 of them: 0.19 bytes per node, where
    a table of positions takes 4. A range of ids takes nothing. `nodes` are int64 [k],
    ascending, each once.
    """

    def __init__(self, nodes: Tensor, num_nodes: int) -> None:
        self.size = nodes.numel()
        self.first = int(nodes[0]) if self.size else 0
        last = int(nodes[-1]) if self.size else -1
        self.is_range = last - self.first + 1 == self.size
        self._range = (self.first, last + 1)
        self._nodes, self._num_nodes = nodes[:0] if self.is_range else nodes, num_nodes

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        """A bit per node, and how many are set before each word of them."""
        bits = np.zeros((self._num_nodes + 63) // 64 * 64, np.uint8)
        bits[self._nodes.numpy()] = 1
        words: Array = np.packbits(bits, bitorder="little").view("<u8")
        counts = _ones(words)
        wide = np.int32 if self._num_nodes < 1 << 31 else np.int64
        return words, (np.cumsum(counts, dtype=np.int64) - counts).astype(wide)

    @property
    def nodes(self) -> Tensor:
        """int64 [k], the nodes, ascending."""
        return torch.arange(*self._range) if self.is_range else self._nodes

    def locate(self, node: Tensor) -> tuple[Tensor, Tensor]:
        """(is in the set, position in it) of each node [k]; positions else are void."""
        if self.is_range:
            position = node - self.first
            return (position >= 0) & (position < self.size), position
        ids = node.numpy()
        place, bit = ids >> 6, (ids & 63).astype(np.uint64)
        words, before = self._table
        word = words[place]
        here = (word >> bit) & np.uint64(1)
        below = word & ((np.uint64(1) << bit) - np.uint64(1))
        position = before[place] + _ones(below)
        return torch.from_numpy(here.astype(bool)), torch.from_numpy(position)

    def find(self, node: Tensor) -> Tensor:
        """The positions of nodes [k], int32 or int64, which must be in the set."""
        ids = need_ids("nodes", node, 0, self._num_nodes, node.numel())
        here, position = self.locate(ids)
        if not bool(here.all()):
            got = int(ids[~here][0])
            raise ValueError(f"nodes must be of the process that is asked (got {got})")
        return position


def _ones(word: Array) -> Array:
    """The number of bits that are set in every word, int64."""
    word = word - ((word >> np.uint64(1)) & PAIRS)
    word = (word & QUADS) + ((word >> np.uint64(2)) & QUADS)
    word = (word + (word >> np.uint64(4))) & NIBBLES
    return ((word * BYTES) >> np.uint64(56)).astype(np.int64)


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
            arrays[0] if len(arrays) == 1 else torch.cat(arrays)
            for arrays in zip(*parts, strict=True)
        ]
        if self.order is None:
            return columns
        count, *rest = columns
        own = torch.empty_like(count).index_copy_(0, self.order, count)
        start = (own.cumsum(0) - own).index_select(0, self.order)
        _, place = ops.expand(start, count, rest[0].numel())
        return [own, *(torch.empty_like(x).index_copy_(0, place, x) for x in rest)]


class Located(NamedTuple):
    """The rows of a call that lie in one place: a file, the cache, another process."""

    source: Any  # a FeatureFile, or the Tensor of the cache; None if others have them
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
        local: Mapping[int, Any],
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
        """Caches the rows of some nodes, which ascend; with None it drops the cache."""
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


METHODS = ("range", "hash", "metis")
CHUNK = 1 << 22
Adjs = Mapping[EdgeType, CompactAdj]


def books_of(
    method: Any, adjs: Adjs, sizes: Mapping[str, int], parts: int
) -> dict[str, PartitionBook]:
    """The partition book of every node type.

    `method` is a word of METHODS, a part per node, or that for every node type.
    """
    if isinstance(method, str):
        _check.one_of("method", method, METHODS)
        if method == "range":
            return {n: _range_book(n, adjs, size, parts) for n, size in sizes.items()}
        if method == "hash":
            pairs = enumerate(sizes.items())
            return {name: _hash_book(i, size, parts) for i, (name, size) in pairs}
        method = _owners(adjs, sizes, parts, False)
    given = method if isinstance(method, Mapping) else {next(iter(sizes)): method}
    _check.known_types("method", given, list(sizes), "node types")
    books = {}
    for name, size in sizes.items():
        if name not in given:
            _check.fail("method", "must have parts for every node type", f"no {name!r}")
        book = PartitionBook.of_owners(given[name], parts)
        if book.num_nodes != size:
            rule = f"must have one part per node, {size} in all"
            _check.fail("method", rule, book.num_nodes)
        books[name] = book
    return books


def _range_book(name: str, adjs: Adjs, size: int, parts: int) -> PartitionBook:
    """Ranges of ids with as many rows and edges in each, as far as rows allow it."""
    work = torch.arange(size + 1)
    for (_, _, to), adj in adjs.items():
        if to == name:
            work += adj.rowptr
    share = torch.arange(1, parts, dtype=torch.float64) / parts
    bounds = torch.searchsorted(work, (share * int(work[-1])).to(torch.int64))
    ends = torch.tensor([0]), bounds, torch.tensor([size])
    return PartitionBook.of_bounds(torch.cat(ends))


def _hash_book(number: int, size: int, parts: int) -> PartitionBook:
    """Draws each node's part by a hash of its id, so that sizes are about equal."""
    pieces = [np.empty(0, np.uint16)]
    for first in range(0, size, CHUNK):
        ids = torch.arange(first, min(first + CHUNK, size))
        words = random.bits(random.stream(number, ids), 0)
        drawn = random.below(words, torch.tensor(parts)).numpy()
        pieces.append(drawn.astype(np.uint16))
    return PartitionBook.of_owners(np.concatenate(pieces), parts)


def metis_parts(
    adjs: Adjs, parts: int, *, recursive: bool = False
) -> dict[str, Tensor]:
    """The part of every node, [n] per node type: equal sizes, few edges between parts.

    Args:
        adjs: the rows of every relation; edges count both ways, self-loops do not.
        parts: how many parts to make.
        recursive: halve the graph again and again, instead of cutting it k ways.
    """
    sizes, parts = _check.node_types(adjs), _check.count("parts", parts)
    return _owners(adjs, sizes, parts, recursive)


def _owners(
    adjs: Adjs, sizes: Mapping[str, int], parts: int, recursive: bool
) -> dict[str, Tensor]:
    """The part of every node of all types, those without a relation included."""
    pymetis = _check.library("pymetis", "METIS")
    offset = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
    total = sum(sizes.values())
    rowptr, col = _undirected(adjs, offset, total)
    owner = torch.arange(total) % parts  # METIS leaves parts empty, and complains
    if 1 < parts < total:
        rows = pymetis.CSRAdjacency(rowptr.numpy(), col.numpy())
        _, found = pymetis.part_graph(parts, adjacency=rows, recursive=recursive)
        owner = torch.as_tensor(np.asarray(found), dtype=torch.int64)
    return {name: owner[offset[name] :][:size] for name, size in sizes.items()}


def _undirected(
    adjs: Adjs, offset: Mapping[str, int], total: int
) -> tuple[Tensor, Tensor]:
    """All relations as one graph, each edge both ways and once, without self-loops."""
    edges = []
    for (by, _, to), adj in adjs.items():
        row = torch.arange(adj.num_rows).repeat_interleave(adj.degree) + offset[to]
        edges.append(torch.stack([row, adj.col.to(torch.int64) + offset[by]]))
    row, col = torch.cat(edges, dim=1)
    apart = row != col
    col, row, _ = ops.both_ways(row[apart], col[apart], total)
    counts = torch.bincount(row, minlength=total)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)]), col
