"""Calls of the engine in every mode, on a graph that is awkward on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    Node2VecBias,
    NoRevisitBias,
    RootedAdjAcc,
    TemporalBias,
    TransitionAcc,
    gather_rows,
    sample_rooted,
    traverse,
)
from gttf_sampler.objectives import NegativeSampler

NODES, EDGES, SEEDS = 2_000, 30_000, 64
HUB, OTHERS = slice(1, 3), slice(2, 6)  # of the seeds
MANY = 1_030  # draws, more than a kernel holds in registers
KINDS = [("a", "r", "a"), ("a", "to", "b"), ("b", "of", "a")]


class World(NamedTuple):
    """The graphs and seeds that the calls draw from, all on one device.

    Attributes:
        rows: edges into each node, with weights.
        timed: the same with times.
        out: edges out of each node, with weights.
        typed: three relations between two node types.
        seeds: [64], some of them twice.
        times: of the seeds.
        hidden: positions of edges.
        device: of all of this.
    """

    rows: CompactAdj
    timed: CompactAdj
    out: CompactAdj
    typed: dict[tuple[str, str, str], CompactAdj]
    seeds: Tensor
    times: Tensor
    hidden: Tensor
    device: torch.device

    def to(self, device: torch.device) -> World:
        """The world on another device."""
        names = ("rows", "timed", "out", "seeds", "times", "hidden")
        moved = {name: getattr(self, name).to(device) for name in names}
        typed = {kind: adj.to(device) for kind, adj in self.typed.items()}
        return self._replace(**moved, typed=typed, device=device)


def make_world() -> World:
    """A graph with a hub, loops, multi-edges and nodes without edges, on the CPU."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(NODES - 100, (2, EDGES), generator=generator)
    ends[1, : EDGES // 10] = 7  # a hub
    ends[:, -50:] = ends[:, :50]  # edges that are there twice
    ends[1, -90:-50] = ends[0, -90:-50]  # loops
    weight = torch.randint(0, 17, (EDGES,), generator=generator) / 16
    time = torch.randint(0, 1000, (EDGES,), generator=generator)
    build = CompactAdj.from_edge_index
    typed = {
        kind: build(part, (NODES, NODES))
        for kind, part in zip(KINDS, ends.chunk(3, dim=1), strict=True)
    }
    seeds = torch.randint(NODES, (SEEDS,), generator=generator)
    seeds[:3] = torch.tensor([7, 7, NODES - 1])  # the hub twice, a node without edges
    return World(
        build(ends, NODES, edge_weight=weight),
        build(ends, NODES, edge_weight=weight, edge_time=time),
        build(ends, NODES, direction="out", edge_weight=weight),
        typed,
        seeds,
        torch.randint(0, 1100, (SEEDS,), generator=generator),
        torch.arange(0, EDGES, 3),
        torch.device("cpu"),
    )


Case = Callable[[World], Any]


def _forest(fanouts: list[int], bias: Any = None, **how: Any) -> Case:
    """A call of `traverse`."""

    def call(world: World) -> Any:
        drawn = traverse(world.out, world.seeds, fanouts, bias, generator=11, **how)
        return [*drawn.nodes, *drawn.edges]

    return call


def _rooted(fanouts: list[int], bias: Any = None, **how: Any) -> Case:
    """A call of `sample_rooted`; `bias` is made for the world."""

    def call(world: World) -> Any:
        law = None if bias is None else bias(world)
        adj = world.timed if law is not None and law.needs_times else world.rows
        how_now = {**how, "generator": 12}
        return sample_rooted(adj, world.seeds, fanouts, bias=law, **how_now)

    return call


def _typed(fanouts: Any, **how: Any) -> Case:
    """A call of `sample_rooted` on three relations."""

    def call(world: World) -> Any:
        seeds = {"a": world.seeds, "b": world.seeds[:7]}
        return sample_rooted(world.typed, seeds, fanouts, generator=13, **how)

    return call


def _from(part: slice, draw: Case) -> Case:
    """A call from some of the seeds, along edges into nodes."""
    return lambda world: draw(world._replace(seeds=world.seeds[part], out=world.rows))


def _twice(draw: Case) -> Case:
    """A call after itself, for what the first one has left in scratch tables."""
    return lambda world: (draw(world), draw(world))


def _times(**how: Any) -> Callable[[World], Any]:
    """Admits edges that are not later than their seed."""
    return lambda world: TemporalBias(world.times, **how)


def _accumulated(world: World) -> Any:
    """The records of accumulators of a forest."""
    record, power = RootedAdjAcc(), TransitionAcc(2)
    how: dict[str, Any] = {"generator": 14}
    traverse(world.out, world.seeds, [3, 2], NoRevisitBias(), [record, power], **how)
    return record.result(), power.result().to_dense()


def _around(world: World) -> Any:
    """All edges among the nodes of a sample, and the reverses of its own."""
    found = sample_rooted(world.rows, world.seeds, [4, 3], generator=15)
    return found.induced(world.rows), found.bidirectional()


def _gathered(dtype: torch.dtype) -> Case:
    """Rows of features."""

    def call(world: World) -> Any:
        x = torch.arange(NODES * 5).view(NODES, 5).to(dtype).to(world.device)
        return gather_rows(x, world.seeds)

    return call


def _negatives(world: World) -> Any:
    return NegativeSampler(world.rows, 0.75).draw((40, 5), generator=16)


def _weight(world: World) -> Any:
    return EdgeWeightBias()


def _hidden(world: World) -> Any:
    return ExcludeBias(world.hidden)


def _both(world: World) -> Any:
    return _hidden(world) * _weight(world)


CASES: dict[str, Case] = {
    "forest": _forest([5, 3, 2]),
    "forest, distinct": _forest([5, 3], replace=False),
    "forest, weighted": _forest([4, 3], EdgeWeightBias()),
    "forest, weighted, distinct": _forest([4, 3], EdgeWeightBias(), replace=False),
    "forest, many, distinct": _from(HUB, _forest([MANY], replace=False)),
    "forest, no revisit": _forest([3, 3], NoRevisitBias()),
    "walk": _forest([1] * 20),
    "walk, weighted": _forest([1] * 20, EdgeWeightBias()),
    "node2vec": _forest([1] * 6, Node2VecBias(0.25, 4.0)),
    "node2vec, near": _forest([1] * 6, Node2VecBias(4.0, 0.25)),
    "node2vec, branching": _forest([2, 2, 2], Node2VecBias(0.5, 2.0)),
    "node2vec, weighted": _forest([1] * 6, Node2VecBias(2.0, 0.5, weighted=True)),
    "rooted": _rooted([10, 5]),
    "rooted, three hops": _rooted([5, 4, 3]),
    "rooted, all": _from(HUB, _rooted([-1, 3])),
    "rooted, then all": _rooted([3, -1]),
    "rooted, replace": _rooted([10, 5], replace=True),
    "rooted, many": _from(HUB, _rooted([MANY])),
    "rooted, all, disjoint": _from(HUB, _rooted([-1, 3], disjoint=True)),
    "rooted, disjoint": _rooted([5, 4], disjoint=True),
    "rooted, disjoint, replace": _rooted([5, 4], disjoint=True, replace=True),
    "padded": _rooted([5, 4], padded=True),
    "padded, twice": _twice(_rooted([5, 4], padded=True)),
    "padded, replace": _rooted([5, 4], padded=True, replace=True),
    "padded, disjoint": _rooted([5, 4], padded=True, disjoint=True),
    "weighted": _rooted([10, 5], _weight),
    "weighted, replace": _rooted([10, 5], _weight, replace=True),
    "weighted, disjoint": _rooted([5, 4], _weight, disjoint=True),
    "weighted, all": _from(OTHERS, _rooted([-1, 3], _weight)),
    "temporal": _rooted([5, 4], _times(), disjoint=True),
    "temporal, replace": _rooted([5, 4], _times(), disjoint=True, replace=True),
    "temporal, last": _rooted([5, 4], _times(strategy="last"), disjoint=True),
    "temporal, window": _rooted([5, 4], _times(window=200), disjoint=True),
    "temporal, weighted": _rooted([5, 4], _times(weighted=True), disjoint=True),
    "hidden": _rooted([10, 5], _hidden),
    "hidden, replace": _rooted([10, 5], _hidden, replace=True),
    "hidden, disjoint": _rooted([5, 4], _hidden, disjoint=True),
    "hidden, weighted": _rooted([10, 5], _both),
    "typed": _typed([5, 4]),
    "typed, replace": _typed([5, 4], replace=True),
    "typed, disjoint": _typed([5, 4], disjoint=True),
    "typed, padded": _typed([5, 4], padded=True),
    "typed, own fanouts": _typed(
        {KINDS[0]: [3, 2], KINDS[1]: [0, 4], KINDS[2]: [5, 1]}
    ),
    "accumulators": _accumulated,
    "induced, bidirectional": _around,
    "negatives": _negatives,
    "gather float32": _gathered(torch.float32),
    "gather bfloat16": _gathered(torch.bfloat16),
    "gather float16": _gathered(torch.float16),
}
