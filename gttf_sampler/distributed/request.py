"""Request: what one process asks of another in one hop of rooted sampling."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from gttf_sampler._backends.record import Law
from gttf_sampler.distributed.wire import narrow
from gttf_sampler.random import WORD, Key

NOBODY = -1  # stands for a relation, or an array, that there is none of
WEIGHTED, TIMED, LAST = 1, 2, 4


class Wanted(NamedTuple):
    """What is wanted of one relation.

    Attributes:
        relation: its number in the partitioned graph, NOBODY if it has no edges there.
        nodes: which of the request's arrays of nodes have walkers on them.
        fanout: how many edges a walker takes; -1 for all, 0 for none.
        law: which ones. Masses and times are those of whoever has the rows: here they
            only say whether they matter.
    """

    relation: int
    nodes: int
    fanout: int
    law: Law


class Request(NamedTuple):
    """Nodes whose rows another process has, and what is to be drawn from these.

    Attributes:
        key: of the hop.
        replace: whether a neighbour can be drawn twice.
        apart: whether trees are disjoint.
        original: whether edges are to be named as the caller of the graph has.
        kinds: the numbers of the node types of `nodes`.
        nodes: [w] per node type.
        roots: [w] per node type, the tree of every walker; empty if nobody asks.
        wanted: per relation, in the order in which the sampler has them.
    """

    key: Key
    replace: bool
    apart: bool
    original: bool
    kinds: list[int]
    nodes: list[Tensor]
    roots: list[Tensor]
    wanted: list[Wanted]

    @property
    def needs_tables(self) -> bool:
        """Whether it is drawn by tables that are made of the rows."""
        laws = [want.law for want in self.wanted]
        return any(
            law.cumulative_weight is not None or law.time is not None for law in laws
        )

    def arrays(self, sizes: list[int]) -> list[Tensor]:
        """The request as a message; `sizes` are the numbers of nodes of all types."""
        arrays: list[Tensor] = []
        places: dict[int, int] = {}

        def place(array: Tensor | None) -> int:
            if array is None:
                return NOBODY
            if id(array) not in places:  # relations share times
                places[id(array)] = len(arrays) + 1
                arrays.append(array)
            return places[id(array)]

        key = int(self.key) & WORD
        facts = [key - (1 << 64) if key >> 63 else key, self.replace, self.apart]
        facts += [self.original, len(self.kinds), len(self.wanted)]
        for kind, nodes, roots in zip(self.kinds, self.nodes, self.roots, strict=True):
            ids = narrow(nodes, sizes[kind])
            facts += [kind, place(ids), place(narrow(roots, 1))]
        for relation, where, fanout, law in self.wanted:
            flags = (
                WEIGHTED * (law.cumulative_weight is not None) + LAST * law.most_recent
            )
            flags += TIMED * (law.time is not None)
            bounds = [
                place(x) for x in (law.time_max, law.time_min, law.excluded_edges)
            ]
            facts += [relation, where, fanout, flags, *bounds]
        return [torch.tensor(facts), *arrays]

    @classmethod
    def of_arrays(cls, arrays: list[Tensor]) -> Request:
        """The request that a message holds."""
        try:
            return cls._of_arrays(arrays)
        except (StopIteration, IndexError, AttributeError, RuntimeError) as error:
            raise ValueError(f"a request that breaks off: {error!r}") from None

    @classmethod
    def _of_arrays(cls, arrays: list[Tensor]) -> Request:
        """The request, if all arrays are there that its numbers name."""
        facts = iter(arrays[0].tolist())
        key, replace, apart, original, kinds, relations = (
            next(facts) for _ in range(6)
        )

        def array(place: int) -> Any:
            if not NOBODY <= place < len(arrays):
                raise IndexError(place)
            return None if place == NOBODY else arrays[place]

        numbers, nodes, roots, wanted = [], [], [], []
        for _ in range(kinds):
            numbers.append(next(facts))
            nodes.append(array(next(facts)).to(torch.int64))
            roots.append(array(next(facts)).to(torch.int64))
        there = torch.empty(0)
        for _ in range(relations):
            relation, where, fanout, flags = (next(facts) for _ in range(4))
            latest, before, hidden = (array(next(facts)) for _ in range(3))
            law = Law(
                cumulative_weight=there if flags & WEIGHTED else None,
                time=there if flags & TIMED else None,
                time_max=latest,
                time_min=before,
                most_recent=bool(flags & LAST),
                excluded_edges=hidden,
            )
            wanted.append(Wanted(relation, where, fanout, law))
        how = bool(replace), bool(apart), bool(original)
        return cls(key & WORD, *how, numbers, nodes, roots, wanted)
