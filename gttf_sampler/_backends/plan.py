"""Rooted sampling as data: what a hop is made of, what a batch asks, what comes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from gttf_sampler.random import Key, grid

if TYPE_CHECKING:  # graphs are made with the help of backends
    from gttf_sampler._backends.scratch import NodeTable, ScratchPool
    from gttf_sampler.bias.base import Bias
    from gttf_sampler.graph.compact import CompactAdj


class Law(NamedTuple):
    """Which entries of a row can be taken, and how likely each is, as data.

    By default all of them, with equal chances. What a function decides has no law.

    Attributes:
        mass: [m], cumulative integer weights of every row; None if all weigh the same.
        gaps: whether some entries have no mass.
        time: [m], ascending within every row; None if times do not matter.
        latest: [b], per tree: later entries are not admitted.
        before: [b], per tree: entries up to this time are too old; None if none is.
        last: whether the latest of the admitted entries are taken, and no others.
        hidden: [k], positions in `col` that are as if they were not there, ascending.
    """

    mass: Tensor | None = None
    gaps: bool = False
    time: Tensor | None = None
    latest: Tensor | None = None
    before: Tensor | None = None
    last: bool = False
    hidden: Tensor | None = None

    def both(self, other: Law) -> Law | None:
        """The law of what both admit; None if that takes more than one."""
        for name in ("mass", "time"):
            if getattr(self, name) is not None and getattr(other, name) is not None:
                return None
        hidden = [x.hidden for x in (self, other) if x.hidden is not None]
        weighs = self.mass is not None or other.mass is not None
        if self.last or other.last or (weighs and hidden):
            return None
        of_mass, of_time = (
            self if getattr(self, name) is not None else other
            for name in ("mass", "time")
        )
        return of_time._replace(
            mass=of_mass.mass,
            gaps=of_mass.gaps,
            hidden=torch.cat(hidden).unique() if hidden else None,
        )


UNIFORM = Law()
"""All neighbours are equally likely."""


class Relation(NamedTuple):
    """One kind of edges and how many of them each hop takes.

    Attributes:
        adj: rows are nodes of type number `to`, columns of type number `by`.
        fanouts: per hop; -1 takes all.
    """

    adj: CompactAdj
    to: int
    by: int
    fanouts: list[int]


@dataclass(frozen=True, eq=False)
class Plan:
    """What all batches of a rooted sampler have in common: a hop as data.

    Attributes:
        relations: all kinds of edges; their order is that of draws and of numbers.
        sizes: how many nodes of each type the graph has.
        pools: per node type, where its scratch tables wait.
        depth: how many hops there are.
        replace: whether a neighbour can be drawn twice.
        device: where everything is.
        usual: what the last batch took, by name: room for the next one.
        forms: what a backend asks its kernels with, unless a thread is using it.
    """

    relations: tuple[Relation, ...]
    sizes: tuple[int, ...]
    pools: tuple[ScratchPool, ...]
    depth: int
    replace: bool
    device: torch.device
    usual: dict[str, Any] = field(default_factory=dict)
    forms: list[Any] = field(default_factory=list)

    def __getstate__(self) -> dict[str, Any]:
        """Copies start anew: neither is worth carrying along."""
        return {**self.__dict__, "usual": {}, "forms": []}

    def ensure_nodes(self, batch: Batch) -> None:
        """Raises an IndexError, which is not for users, if a seed is no node."""
        for seeds, size in zip(batch.seeds, self.sizes, strict=True):
            if not batch.sound and seeds.numel():
                low, high = (int(bound) for bound in seeds.aminmax())
                if low < 0 or high >= size:
                    raise IndexError("a seed is out of range")

    @contextmanager
    def borrow_tables(self) -> Iterator[list[NodeTable]]:
        """A table per node type that nobody else holds."""
        tables = self.take_tables()
        yield tables
        self.give_back(tables)

    def take_tables(self) -> list[NodeTable]:
        """A table per node type, to be given back."""
        pairs = zip(self.pools, self.sizes, strict=True)
        return [pool.take(size, self.device) for pool, size in pairs]

    def give_back(self, tables: list[NodeTable]) -> None:
        """Lets others have the tables."""
        for pool, size, table in zip(self.pools, self.sizes, tables, strict=True):
            pool.give_back(size, table)

    def most_edges(self, seeds: Sequence[Tensor]) -> int:
        """No batch from these seeds takes more edges; large if a hop takes all."""
        total, width = 0, sum([part.numel() for part in seeds])
        for hop in range(self.depth):
            fanouts = [relation.fanouts[hop] for relation in self.relations]
            width *= sum(fanouts) if min(fanouts) >= 0 else 1 << 31
            total += width
        return total

    def keys(self, batch: Batch) -> Sequence[Sequence[Key]]:
        """Per hop, the key of every relation."""
        return grid(batch.key, self.depth, len(self.relations))

    def bounds(self, seeds: Sequence[Tensor], apart: bool) -> Bounds:
        """How much a batch from so many seeds can have, whatever is drawn."""
        trees = sum(part.numel() for part in seeds)
        every = [size * (trees if apart else 1) for size in self.sizes]
        nodes = [[part.numel()] for part in seeds]
        edges: list[list[int]] = [[] for _ in self.relations]
        for hop in range(self.depth):
            reached = [0] * len(nodes)
            for relation, taken in zip(self.relations, edges, strict=True):
                taken.append(nodes[relation.to][hop] * relation.fanouts[hop])
                reached[relation.by] += taken[hop]
            for own, new, size in zip(nodes, reached, every, strict=True):
                own.append(min(new, size))
        pairs = zip(nodes, every, strict=True)
        most = [min(sum(own), own[0] + size) for own, size in pairs]
        return Bounds(nodes, edges, most)


class Bounds(NamedTuple):
    """How many nodes and edges there is room for where shapes must be static.

    Attributes:
        nodes: per node type, the most new ones in each hop, seeds first.
        edges: per relation, the most that each hop takes.
        most: per node type, the most in all hops together, N.
    """

    nodes: list[list[int]]
    edges: list[list[int]]
    most: list[int]


class Batch(NamedTuple):
    """What one batch is drawn from.

    Attributes:
        seeds: [b] per node type.
        first_root: per node type, the number of the tree of its first seed.
        apart: whether trees are disjoint: then (tree, node) is what is numbered.
        laws: per relation; None where a bias has none.
        biases: per relation; None where all neighbours are equal.
        key: of the batch.
        original: whether edges are to be named as the caller of the graph has named
            them, and not by their positions in `adj.col`.
        sound: whether the seeds are known to be nodes; else a backend raises an
            IndexError where one is not.
    """

    seeds: list[Tensor]
    first_root: list[int]
    apart: bool
    laws: Sequence[Law | None]
    biases: list[Bias | None]
    key: Key
    original: bool = False
    sound: bool = True


def named_edges(plan: Plan, batch: Batch, edges: list[Tensor]) -> list[Tensor]:
    """The edges of every relation, from positions to the names that are asked for."""
    if not batch.original:
        return edges
    pairs = zip(plan.relations, edges, strict=True)
    return [
        edge
        if adj.edge_id is None
        else adj.edge_id.index_select(0, edge).to(edge.dtype)
        for (adj, *_), edge in pairs
    ]


class Rooted(NamedTuple):
    """The arrays of a rooted adjacency, per node type or per relation.

    Attributes:
        node: per node type [n], global ids, in the order of discovery.
        root: per node type [n], the number of the tree; None unless trees are apart.
        row, col: per relation [e], local ids of the senders and the receivers.
        edge: per relation [e], positions in `adj.col`, or the caller's own numbers.
        num_nodes: per node type, how many were new in each hop, seeds first.
        num_edges: per relation, how many were taken in each hop.
    """

    node: list[Tensor]
    root: list[Tensor] | None
    row: list[Tensor]
    col: list[Tensor]
    edge: list[Tensor]
    num_nodes: list[list[int]]
    num_edges: list[list[int]]


class Padded(NamedTuple):
    """`Rooted` with static shapes, padded to its `Bounds`, counted on the device.

    Every array starts with what `Rooted` has there. Node N of a type is a dummy: what
    is left of `row` and `col` leads from dummy to dummy. What is left of other arrays
    is 0, so that features can be read at all places. N is the bound of the nodes of a
    type, E the sum of the bounds of a relation.

    Attributes:
        node: per node type [N + 1], global ids.
        root: per node type [N + 1], or None unless trees are apart.
        row, col: per relation [E], local ids of the senders and the receivers.
        edge: per relation [E], positions in `adj.col`, or the caller's own numbers.
        num_nodes: per node type int64 [depth + 1], new ones in each hop, seeds first.
        num_edges: per relation int64 [depth], how many were taken in each hop.
    """

    node: list[Tensor]
    root: list[Tensor] | None
    row: list[Tensor]
    col: list[Tensor]
    edge: list[Tensor]
    num_nodes: list[Tensor]
    num_edges: list[Tensor]
