"""PinSAGESampler, RandomWalkNeighborSampler: neighbours are who walks visit most."""

from __future__ import annotations

from typing import Any

import dgl
import torch
from dgl import DGLGraph
from torch import Tensor

from gttf_dgl import _check
from gttf_dgl.walks import random_walk
from gttf_sampler import random
from gttf_sampler._check import shown


class RandomWalkNeighborSampler:
    """For every given node, a graph of the nodes that walks from it visit most.

    >>> import dgl
    >>> from gttf_dgl import RandomWalkNeighborSampler
    >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
    >>> sampler = RandomWalkNeighborSampler(g, 2, 0.0, 5, 1)
    >>> near = sampler([0])  # each of five walks is at 1, then at 2
    >>> near.edata["weights"].tolist(), near.in_degrees().tolist()
    ([5], [1, 0, 0])

    Takes the arguments of `dgl.sampling.RandomWalkNeighborSampler` and gives what that
    gives. Follows `torch.manual_seed`; of nodes that were visited equally often, chance
    decides.

    Args:
        G: the graph.
        num_traversals: how often a walk follows the metapath at most.
        termination_prob: how likely it ends before each time but the first.
        num_random_walks: walks per node.
        num_neighbors: how many of the nodes visited most are kept.
        metapath: edge types, from one node type back to it; not needed if there is one.
        weight_column: name of the edge data with the numbers of visits.
        generator: a torch.Generator, an integer, or None for torch's default generator.
    """

    def __init__(
        self,
        G: DGLGraph,
        num_traversals: int,
        termination_prob: float,
        num_random_walks: int,
        num_neighbors: int,
        metapath: Any = None,
        weight_column: str = "weights",
        *,
        generator: random.Randomness = None,
    ) -> None:
        self.G = _check.graph(G)
        if metapath is None:
            if len(G.ntypes) > 1 or len(G.canonical_etypes) > 1:
                rule = "must be given for a graph with several types"
                _check.fail_like_dgl("metapath", rule, None)
            metapath = [G.canonical_etypes[0]]
        if not isinstance(metapath, list | tuple) or not metapath:
            rule = "must be a list of edge types"
            _check.mistyped("metapath", rule, shown(metapath))
        kinds = [_check.edge_type("metapath", G, kind) for kind in metapath]
        if kinds[0][0] != kinds[-1][2]:
            rule = "must start and end at the same node type"
            _check.fail_like_dgl("metapath", rule, kinds)
        self.ntype, self.metapath = kinds[0][0], kinds
        self.num_traversals = _check.length("num_traversals", num_traversals)
        self.num_random_walks = _check.length("num_random_walks", num_random_walks)
        self.num_neighbors = _check.length("num_neighbors", num_neighbors)
        if not isinstance(weight_column, str):
            rule, got = "must be a name", type(weight_column).__name__
            _check.mistyped("weight_column", rule, got)
        self.weight_column = weight_column
        self.generator = _check.randomness(generator)
        ends = torch.zeros(self.num_traversals, len(kinds))
        ends[1:, 0] = _probability("termination_prob", termination_prob)
        self.restart_prob = ends.view(-1)

    def __call__(self, seed_nodes: Any) -> DGLGraph:
        """The graph, with all nodes of the type; edges lead to the given nodes."""
        g, size = self.G, self.G.num_nodes(self.ntype)
        seeds = _check.ids("seed_nodes", _check.several(seed_nodes), size, g.device)
        key = random.new_key(self.generator, g.device, random.WALK)
        start = seeds.repeat_interleave(self.num_random_walks)
        path = self.metapath * self.num_traversals
        traces = random_walk(
            g, start, metapath=path, restart_prob=self.restart_prob, generator=int(key)
        )[0]
        visited = traces[:, len(self.metapath) :: len(self.metapath)].long()
        owner = torch.arange(len(seeds), device=g.device)
        owner = owner.repeat_interleave(self.num_random_walks)[:, None]
        there = visited >= 0
        source, target, count = _most_visited(
            owner.expand_as(visited)[there], visited[there], self.num_neighbors, key
        )
        ends = source.to(g.idtype), seeds[target].to(g.idtype)
        kind = (self.ntype, "_E", self.ntype)
        near = dgl.heterograph({kind: ends}, {self.ntype: size}, g.idtype, g.device)
        near.edata[self.weight_column] = count
        return near


class PinSAGESampler(RandomWalkNeighborSampler):
    """PinSAGE's neighbours (Ying et al., 2018), on a graph of two node types.

    >>> import dgl
    >>> from gttf_dgl import PinSAGESampler
    >>> bought = {("item", "by", "user"): ([0, 1], [0, 0])}
    >>> bought["user", "bought", "item"] = ([0, 0], [0, 1])
    >>> sampler = PinSAGESampler(dgl.heterograph(bought), "item", "user", 1, 0.5, 9, 2)
    >>> sampler([0]).edata["weights"].sum().item()
    9

    Args:
        G: the graph, with one edge type from `ntype` to `other_type`, and one back.
        ntype: the node type whose nodes become neighbours.
        other_type: the node type that walks lead through.
        num_traversals: see `RandomWalkNeighborSampler`, like the others.
        termination_prob: how likely a walk ends.
        num_random_walks: walks per node.
        num_neighbors: how many are kept.
        weight_column: name of the edge data with the numbers of visits.
        generator: a torch.Generator, an integer, or None for torch's default generator.
    """

    def __init__(
        self,
        G: DGLGraph,
        ntype: str,
        other_type: str,
        num_traversals: int,
        termination_prob: float,
        num_random_walks: int,
        num_neighbors: int,
        weight_column: str = "weights",
        *,
        generator: random.Randomness = None,
    ) -> None:
        kinds = _check.graph(G).canonical_etypes
        metapath = []
        for ends in ((ntype, other_type), (other_type, ntype)):
            found = [kind for kind in kinds if (kind[0], kind[2]) == ends]
            if not found:
                rule = "must have edges from 'ntype' to 'other_type' and back"
                _check.fail_like_dgl("G", rule, f"none {ends[0]!r} → {ends[1]!r}")
            metapath.append(found[0])
        super().__init__(
            G,
            num_traversals,
            termination_prob,
            num_random_walks,
            num_neighbors,
            metapath,
            weight_column,
            generator=generator,
        )


def _probability(name: str, value: Any) -> float:
    """`value`, which must be a number from 0 to 1."""
    rule = "must be a number from 0 to 1"
    if isinstance(value, bool) or not isinstance(value, int | float):
        _check.mistyped(name, rule, shown(value))
    if not 0 <= value <= 1:
        _check.fail(name, rule, value)
    return float(value)


def _most_visited(
    owner: Tensor, visited: Tensor, most: int, key: random.Key
) -> tuple[Tensor, Tensor, Tensor]:
    """(node, owner, visits) of the `most` nodes with the most visits of each owner."""
    pairs, count = torch.stack([owner, visited]).unique(dim=1, return_counts=True)
    lot = random.bits(random.stream(random.fold(key, 2), pairs[1]), pairs[0])
    place = torch.arange(len(count), device=count.device)
    for order in (lot, -count, pairs[0]):  # the last one counts most
        place = place[order[place].argsort(stable=True)]
    pairs, count = pairs[:, place].contiguous(), count[place]
    first = torch.searchsorted(pairs[0], pairs[0])
    kept = torch.arange(len(count), device=count.device) - first < most
    return pairs[1, kept], pairs[0, kept], count[kept]
