"""One random number per node for all who might take it: LABOR in one hop."""

from __future__ import annotations

from math import cos, pi, sin
from typing import NamedTuple

import torch
from torch import Tensor

from gttf_dgl._check import EdgeType, Nodes
from gttf_dgl._source import Source
from gttf_sampler import HeteroSubgraph, LABORBias, random
from gttf_sampler.bias import shared_variate

BELOW_ONE = 1 - 2.0**-53


class Variates(NamedTuple):
    """One number of [0, 1) per node, from one key or in between two.

    Attributes:
        key: of the numbers.
        later: of the numbers that they turn into.
        share: how far they have turned, 0 for `key` alone; in between they are uniform
            again, as the normal quantiles of both are mixed on a circle.
    """

    key: int
    later: int = 0
    share: float = 0.0

    def numbers(self, node: Tensor, key: random.Key) -> Tensor:
        """The numbers [e]; relations and layers are told apart by who makes this."""
        first = shared_variate(node, self.key)
        if self.share == 0:
            return first
        first, second = (
            torch.special.ndtri(x) for x in (first, shared_variate(node, self.later))
        )
        angle = self.share * pi / 2
        mixed = torch.special.ndtr(cos(angle) * first + sin(angle) * second)
        found: Tensor = mixed.clamp(max=BELOW_ONE)
        return found

    def part(self, number: int) -> Variates:
        """Those of one layer or type, independent of the others."""
        key, later = (int(random.fold(x, number)) for x in (self.key, self.later))
        return Variates(key, later, self.share)


def variates_of(key: int) -> Variates:
    """Numbers of one key."""
    return Variates(int(random.new_key(key, torch.device("cpu"), random.BATCH)))


def draw_shared(
    source: Source,
    frontier: Nodes,
    fanouts: list[int],
    importance: int,
    variates: Variates,
) -> tuple[HeteroSubgraph, dict[EdgeType, Tensor]]:
    """One hop of every edge type, and edge weights where they are not all alike.

    Relations share the numbers of a node type, which are independent of other types'.
    """
    inner, g = source.biases(), source.g
    biases = {}
    for kind, fanout in zip(source.adjs, fanouts, strict=True):
        own = variates.part(g.get_ntype_id(kind[0])).numbers
        weights = inner.get(kind)
        biases[kind] = LABORBias(fanout, weights, importance=importance, variate=own)
    drawn = source.draw(frontier, [[-1] * len(fanouts)], variates.key, biases)
    found = {}
    for plain, kind in zip(g.canonical_etypes, source.adjs, strict=True):
        data = g.edges[plain].data
        heavy = source.choice.prob in data
        if not heavy and importance == 0:
            continue
        weight = biases[kind].factors_drawn(source.device)
        if heavy:
            own = data[source.choice.prob].view(-1)
            edge = drawn.edge[kind].to(own.device)
            drawn_by = own.index_select(0, edge)
            weight = weight * drawn_by.to(weight.device, weight.dtype)
        found[kind] = _with_mean_one(weight, drawn.col[kind]).float()
    return drawn, found


def _with_mean_one(weight: Tensor, col: Tensor) -> Tensor:
    """Weights [e] in proportion, whose mean over the edges of a receiver is one."""
    if not col.numel():
        return weight
    none = torch.zeros(int(col.max()) + 1, dtype=weight.dtype, device=weight.device)
    total = none.scatter_add(0, col, weight)
    count = none.scatter_add(0, col, torch.ones_like(weight))
    return weight * (count / total).index_select(0, col)
