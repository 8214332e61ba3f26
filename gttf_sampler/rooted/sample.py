"""sample_rooted(): the Subgraph of seeds; what GraphSAINT draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler.bias.simple import EdgeWeightBias
from gttf_sampler.draw import BiasFn
from gttf_sampler.forest import WalkForest
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.rooted.sampler import RootedSampler, Sampled
from gttf_sampler.subgraph import (
    EdgeType,
    HeteroSubgraph,
    PaddedHeteroSubgraph,
    PaddedSubgraph,
    Subgraph,
)

Hops = Sequence[int] | Mapping[EdgeType, Sequence[int]]

if TYPE_CHECKING:
    from typing_extensions import TypedDict, Unpack

    class How(TypedDict, total=False):
        """Arguments that do not matter for the type of the result."""

        replace: bool
        bias: BiasFn | Mapping[EdgeType, BiasFn] | None
        disjoint: bool
        validate: bool
        generator: random.Randomness


@overload
def sample_rooted(
    adj: CompactAdj,
    seeds: Any,
    fanouts: Sequence[int],
    *,
    padded: Literal[False] = ...,
    **how: Unpack[How],
) -> Subgraph: ...


@overload
def sample_rooted(
    adj: CompactAdj,
    seeds: Any,
    fanouts: Sequence[int],
    *,
    padded: Literal[True],
    **how: Unpack[How],
) -> PaddedSubgraph: ...


@overload
def sample_rooted(
    adj: Mapping[EdgeType, CompactAdj],
    seeds: Mapping[str, Any],
    fanouts: Hops,
    *,
    padded: Literal[False] = ...,
    **how: Unpack[How],
) -> HeteroSubgraph: ...


@overload
def sample_rooted(
    adj: Mapping[EdgeType, CompactAdj],
    seeds: Mapping[str, Any],
    fanouts: Hops,
    *,
    padded: Literal[True],
    **how: Unpack[How],
) -> PaddedHeteroSubgraph: ...


def sample_rooted(
    adj: Any,
    seeds: Any,
    fanouts: Any,
    *,
    replace: bool = False,
    bias: Any = None,
    disjoint: bool = False,
    padded: bool = False,
    validate: bool = True,
    generator: random.Randomness = None,
) -> Sampled:
    """Samples the rooted adjacency of a batch: RootedAdjAcc under NoRevisitBias.

    >>> from gttf_sampler import CompactAdj, sample_rooted
    >>> star = CompactAdj.from_edge_index([[1, 2, 3, 4], [0, 0, 0, 2]])
    >>> sample_rooted(star, seeds=[0], fanouts=[-1, -1])
    Subgraph(5 nodes, hops 1 + 3 + 1, 4 edges on cpu)

    A node is expanded once, when it is first reached. What it draws depends on the key,
    the hop and its id alone, so copies of a repeated seed draw the same neighbours; if
    trees are disjoint, it also depends on the tree, and copies draw independently.

    Args:
        adj: the graph, or a mapping from edge types (source, relation, target) to the
            graph of each; rows are then the nodes of the target type.
        seeds: int [b], may repeat; per node type if there are types.
        fanouts: neighbours per hop: -1 takes all, 0 none; `[]` gives the seeds. With
            types, one list for all or one per edge type.
        replace: draw `fanout` neighbours independently instead of min(fanout, degree)
            different ones.
        bias: weights of the neighbours, one for all edge types or per edge type; a
            neighbour of weight zero is never taken.
        disjoint: give every seed a tree of its own, whose nodes no other tree shares.
            Implied by a bias that treats seeds differently, like `TemporalBias`.
        padded: give every batch of so many seeds the same shapes, and leave the counts
            on the device: a `PaddedSubgraph`, or a `PaddedHeteroSubgraph`. Nothing
            waits for the device then. No fanout can be -1, and a bias needs a law.
        validate: check seeds that are on an accelerator, without waiting for it: one
            that is no node is torch's error some time later. False saves the check.
        generator: a torch.Generator, an integer, or None for torch's default generator;
            or an int64 [] on the graph's device, which counts as that integer and is
            not waited for.
    """
    sampler = RootedSampler(
        adj,
        fanouts,
        replace=replace,
        disjoint=disjoint,
        padded=padded,
        validate=validate,
    )
    return sampler(seeds, bias=bias, generator=generator)


def walk_subgraph(forest: WalkForest) -> Subgraph:
    """The subgraph induced by the nodes of a forest; GraphSAINT's random-walk sampler.

    >>> from gttf_sampler import CompactAdj, traverse
    >>> from gttf_sampler.rooted import walk_subgraph
    >>> ring = CompactAdj.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> walk_subgraph(traverse(ring, [0, 2], fanouts=[1]))
    Subgraph(4 nodes, 4 edges on cpu)

    With fanouts of one, `traverse` gives the walks of Zeng et al. (2020) from its
    roots; any other forest will do as well. Nodes come once each, in the order of their
    discovery: the roots, then depth by depth.
    """
    _check.of_type("forest", forest, WalkForest)
    adj = forest.adj
    visited = torch.cat([level.reshape(-1) for level in forest.nodes])
    with adj.borrow_table(adj.num_rows) as table:
        new = ops.relabel(visited.new_empty(0), visited, table)[1]
    node = visited[new]
    none = node.new_empty(0)
    return Subgraph(node, none, none, none).induced(adj)


LOT = ("drawn", "from", "lot")


class WeightedDraw:
    """Draws ids with replacement, in proportion to their weights.

    One row that leads to every id, and rooted sampling from it.

    Args:
        weight: [n], of every id.
        count: how many are drawn.
    """

    def __init__(self, weight: Tensor, count: int) -> None:
        ends = torch.tensor([0, len(weight)], device=weight.device)
        every = torch.arange(len(weight), device=weight.device)
        adj = CompactAdj.from_csr(ends, every, len(every), edge_weight=weight)
        self._draw = RootedSampler({LOT: adj}, [count], replace=True)
        self._seeds = {"lot": torch.zeros_like(ends[:1])}

    def __call__(self, key: int) -> Tensor:
        """The ids that were drawn, each once and ascending."""
        drawn: Any = self._draw(
            self._seeds, bias={LOT: EdgeWeightBias()}, generator=key
        )
        found: Tensor = drawn.node["drawn"].sort().values
        return found


def draw_ids(count: int, upper: int, key: random.Key, device: torch.device) -> Tensor:
    """`count` ids below `upper`, each uniform and independent of the others."""
    place = torch.arange(count, device=device)
    word = random.bits(random.stream(key, place), 0)
    return random.below_wide(word, torch.full_like(place, upper))
