"""Rooted sampling as data: what a hop is made of, what a batch asks, what comes out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from gttf_sampler._backends.memory import Idle
from gttf_sampler.random import Key, grid

if TYPE_CHECKING:  # graphs are made with the help of backends
    from gttf_sampler._backends.memory import NodeTable, ScratchPool
    from gttf_sampler.bias.base import Bias
    from gttf_sampler.graph.compact import CompactAdj


class _Fields(NamedTuple):
    """The fields of `Law`: a NamedTuple cannot have a constructor of its own."""

    cumulative_weight: Tensor | None = None
    has_zero_weight: bool = False
    time: Tensor | None = None
    time_max: Tensor | None = None
    time_min: Tensor | None = None
    most_recent: bool = False
    excluded_edges: Tensor | None = None


FORMER = {
    "mass": "cumulative_weight",
    "gaps": "has_zero_weight",
    "latest": "time_max",
    "before": "time_min",
    "last": "most_recent",
    "hidden": "excluded_edges",
}
"""Former names of fields of `Law`, which still work and warn."""


class Law(_Fields):
    """The sampling spec of a relation: which entries of a row, and how likely each is.

    By default all of them, with equal chances. What a function decides has no law.

    Attributes:
        cumulative_weight: int64 [m], summed up within every row; None if all entries
            weigh the same.
        has_zero_weight: whether some entries have no weight.
        time: [m], ascending within every row; None if times do not matter.
        time_max: [b], per tree: later entries are not admitted; None with `time`.
        time_min: [b], per tree: entries up to this time are too old; None if none is.
        most_recent: whether the latest of the admitted entries are taken, no others.
        excluded_edges: int64 [k], ascending positions in `col` that are as if they were
            not there; None if there are none.
    """

    __slots__ = ()

    def __new__(cls, *args: Any, **fields: Any) -> Law:
        """Takes the former names of fields, too."""
        try:
            return super().__new__(cls, *args, **fields)
        except TypeError:
            if not fields.keys() & FORMER.keys():
                raise
        renamed = {_renamed(name): value for name, value in fields.items()}
        return super().__new__(cls, *args, **renamed)

    def both(self, other: Law) -> Law | None:
        """The law of what both admit; None if that takes more than one."""
        by_weight = other if self.cumulative_weight is None else self
        by_time = other if self.time is None else self
        clash = self is by_weight and other.cumulative_weight is not None
        clash = clash or (self is by_time and other.time is not None)
        both = self.excluded_edges, other.excluded_edges
        excluded = [edges for edges in both if edges is not None]
        weighs = by_weight.cumulative_weight is not None
        if clash or self.most_recent or other.most_recent or (weighs and excluded):
            return None
        return by_time._replace(
            cumulative_weight=by_weight.cumulative_weight,
            has_zero_weight=by_weight.has_zero_weight,
            excluded_edges=torch.cat(excluded).unique() if excluded else None,
        )


def _renamed(name: str) -> str:
    """Maps a former name of a field of `Law` to its name, with a warning."""
    if name in FORMER:
        told = f"'{name}' of Law is called '{FORMER[name]}'"
        warnings.warn(told, DeprecationWarning, stacklevel=3)
    return FORMER.get(name, name)


def _former(name: str) -> property:
    """A property that reads a field of `Law` by its former name."""
    return property(lambda law: getattr(law, _renamed(name)))


for _name in FORMER:
    setattr(Law, _name, _former(_name))

UNIFORM = Law()
"""All neighbours are equally likely."""


class Relation(NamedTuple):
    """One kind of edges and how many of them each hop takes.

    Attributes:
        adj: rows are nodes of type number `dst_type`, columns of `src_type`.
        dst_type: the type of nodes that receive.
        src_type: the type of nodes that send.
        fanouts: per hop; -1 takes all.
    """

    adj: CompactAdj
    dst_type: int
    src_type: int
    fanouts: list[int]


class RelationRow(NamedTuple):
    """A relation and its law as kernels of any backend read them, a word per field.

    An address of 0 stands for an array that is not there, None in `Law`.

    Attributes:
        rowptr: the address of int64 [n + 1].
        col: the address of [m].
        wide_col: whether those are int64, not int32.
        cumulative_weight: the address of int64 [m].
        has_zero_weight: as in `Law`.
        time: the address of [m].
        time_kind: what those are, one of `TIME_KINDS`; 0 if there are none.
        time_max: the address of [b], float64 for times that are floats, else int64.
        time_min: the same.
        most_recent: as in `Law`.
        excluded: the address of int64 [k].
        num_excluded: k.
        dst_type: as in `Relation`.
        src_type: as in `Relation`.
        edge_id: the address of [m], the names of edges; 0 for their positions.
        wide_edge_id: whether those are int64, not int32.
    """

    rowptr: int
    col: int
    wide_col: int
    cumulative_weight: int = 0
    has_zero_weight: int = 0
    time: int = 0
    time_kind: int = 0
    time_max: int = 0
    time_min: int = 0
    most_recent: int = 0
    excluded: int = 0
    num_excluded: int = 0
    dst_type: int = 0
    src_type: int = 0
    edge_id: int = 0
    wide_edge_id: int = 0

    @classmethod
    def of(
        cls, relation: Relation, law: Law, original: bool, held: Held
    ) -> RelationRow | None:
        """The row of a relation; None if there is an array that kernels cannot read.

        Small batches wait for this, so that nothing is asked of what is not there.
        """
        adj = relation.adj
        rowptr, col, ids = adj.rowptr, adj.col, adj.edge_id if original else None
        wide = WIDE.get(col.dtype)
        if wide is None or rowptr.dtype != torch.int64:
            return None
        if not rowptr.is_contiguous() or not col.is_contiguous():
            return None
        row = cls(
            rowptr=rowptr.data_ptr(),
            col=col.data_ptr(),
            wide_col=wide,
            dst_type=relation.dst_type,
            src_type=relation.src_type,
            edge_id=_address(ids),
            wide_edge_id=0 if ids is None else WIDE[ids.dtype],
        )
        if law is UNIFORM:
            return row
        weight, times, excluded = law.cumulative_weight, law.time, law.excluded_edges
        for array in (weight, times, ids):
            if array is not None and not array.is_contiguous():
                return None
        kind = 0 if times is None else TIME_KINDS.get(times.dtype)
        if kind is None:
            return None
        bound = torch.float64 if kind in (FLOAT32, FLOAT64) else torch.int64
        return row._replace(
            cumulative_weight=_address(weight),
            has_zero_weight=int(law.has_zero_weight),
            time=_address(times),
            time_kind=kind,
            time_max=held.address(law.time_max, bound) if kind else 0,
            time_min=held.address(law.time_min, bound) if kind else 0,
            most_recent=int(law.most_recent),
            excluded=held.address(excluded, torch.int64),
            num_excluded=0 if excluded is None else excluded.numel(),
        )


WIDE = {torch.int32: 0, torch.int64: 1}
INT32, INT64, FLOAT32, FLOAT64 = range(1, 5)
TIME_KINDS = {
    torch.int32: INT32,
    torch.int64: INT64,
    torch.float32: FLOAT32,
    torch.float64: FLOAT64,
}


class Held:
    """Tensors that kernels read by their addresses, as numbers they understand.

    Args:
        device: where kernels run.

    Attributes:
        tensors: what must outlive the addresses.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.tensors: list[Tensor] = []
        self._known: dict[tuple[int, torch.dtype], int] = {}

    def address(self, values: Tensor | None, dtype: torch.dtype) -> int:
        """The address of values of that type; 0 if there are none."""
        if values is None:
            return 0
        known = self._known.get((id(values), dtype))
        if known is None:
            own = values.to(self.device, dtype).contiguous()
            self.tensors += [values, own]  # the first, so that no other gets its id
            known = self._known[id(values), dtype] = own.data_ptr()
        return known


def _address(values: Tensor | None) -> int:
    """The address of a tensor that lives as long as its graph; 0 if there is none."""
    return 0 if values is None else values.data_ptr()


@dataclass(frozen=True, eq=False)
class Plan:
    """The part of the record that all batches of a rooted sampler share.

    Attributes:
        relations: all kinds of edges; their order is that of draws and of numbers.
        sizes: how many nodes of each type the graph has.
        pools: per node type, where its scratch tables wait.
        depth: how many hops there are.
        replace: whether a neighbour can be drawn twice.
        device: where everything is.
        size_hints: what the last batch took, by name: room for the next one.
        argument_pool: what kernels are called with, unless a thread is using it.
    """

    relations: tuple[Relation, ...]
    sizes: tuple[int, ...]
    pools: tuple[ScratchPool, ...]
    depth: int
    replace: bool
    device: torch.device
    size_hints: dict[str, Any] = field(default_factory=dict)
    argument_pool: Idle[Any] = field(default_factory=Idle)

    def __getstate__(self) -> dict[str, Any]:
        """Copies start anew: neither is worth carrying along."""
        return {**self.__dict__, "size_hints": {}, "argument_pool": Idle()}

    def ensure_nodes(self, batch: Batch) -> None:
        """Raises an IndexError, which is not for users, if a seed is no node."""
        for seeds, size in zip(batch.seeds, self.sizes, strict=True):
            if not batch.validated and seeds.numel():
                low, high = (int(bound) for bound in seeds.aminmax())
                if low < 0 or high >= size:
                    raise IndexError("a seed is out of range")

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

    def bounds(self, seeds: Sequence[Tensor], disjoint: bool) -> Bounds:
        """Upper bounds of a batch from so many seeds, whatever is drawn."""
        trees = sum(part.numel() for part in seeds)
        every = [size * (trees if disjoint else 1) for size in self.sizes]
        nodes = [[part.numel()] for part in seeds]
        edges: list[list[int]] = [[] for _ in self.relations]
        for hop in range(self.depth):
            reached = [0] * len(nodes)
            for relation, taken in zip(self.relations, edges, strict=True):
                taken.append(nodes[relation.dst_type][hop] * relation.fanouts[hop])
                reached[relation.src_type] += taken[hop]
            for own, new, size in zip(nodes, reached, every, strict=True):
                own.append(min(new, size))
        pairs = zip(nodes, every, strict=True)
        most = [min(sum(own), own[0] + size) for own, size in pairs]
        return Bounds(nodes, edges, most)


class Bounds(NamedTuple):
    """Room for nodes and edges where shapes must be static.

    Attributes:
        nodes: per node type, the most new ones in each hop, seeds first.
        edges: per relation, the most that each hop takes.
        most: per node type, the most in all hops together, N.
    """

    nodes: list[list[int]]
    edges: list[list[int]]
    most: list[int]


class Batch(NamedTuple):
    """The part of the record that belongs to one batch.

    Attributes:
        seeds: [b] per node type.
        first_root: per node type, the number of the tree of its first seed.
        disjoint: whether trees share no nodes: then (tree, node) is what is numbered.
        laws: per relation; None where a bias has none.
        biases: per relation; None where all neighbours are equal.
        key: of the batch.
        original_edge_ids: whether edges are to be named as the caller of the graph has
            named them, and not by their positions in `adj.col`.
        validated: whether the seeds are known to be nodes; else a backend raises an
            IndexError where one is not.
    """

    seeds: list[Tensor]
    first_root: list[int]
    disjoint: bool
    laws: Sequence[Law | None]
    biases: list[Bias | None]
    key: Key
    original_edge_ids: bool = False
    validated: bool = True


class RemoteWalkers(NamedTuple):
    """Walkers of another process on rows that are here; a frontier of `draw_hop`.

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
        """The numbers that their random streams depend on."""
        return self.who


def named_edges(plan: Plan, batch: Batch, edges: list[Tensor]) -> list[Tensor]:
    """The edges of every relation, from positions to the names that are asked for."""
    if not batch.original_edge_ids:
        return edges
    ids = [relation.adj.edge_id for relation in plan.relations]
    return [
        edge if own is None else own.index_select(0, edge).to(edge.dtype)
        for own, edge in zip(ids, edges, strict=True)
    ]


def relation_rows(plan: Plan, batch: Batch) -> tuple[list[RelationRow], Held] | None:
    """The rows of all relations for kernels, and what has to be held meanwhile.

    None if there is a relation without a law, or with arrays that they cannot read.
    """
    rows, held = [], Held(plan.device)
    for relation, law in zip(plan.relations, batch.laws, strict=True):
        if law is None:
            return None
        row = RelationRow.of(relation, law, batch.original_edge_ids, held)
        if row is None:
            return None
        rows.append(row)
    return rows, held


class Rooted(NamedTuple):
    """The arrays of a rooted adjacency, per node type or per relation.

    Attributes:
        node: per node type [n], global ids, in the order of discovery.
        root: per node type [n], the number of the tree; None unless trees are disjoint.
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
        root: per node type [N + 1], or None unless trees are disjoint.
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
