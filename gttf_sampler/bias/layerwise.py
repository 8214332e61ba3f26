"""Biases of a whole layer: what all walkers of a depth agree on.

A BiasFn sees the neighbourhoods of all walkers at once. So it may agree on a few nodes
and let nobody walk anywhere else: with a fanout of -1, which takes every neighbour that
weighs anything, that is FastGCN (Chen et al., 2018) and LADIES (Zou et al., 2019).
"""

from __future__ import annotations

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler.bias.base import Bias
from gttf_sampler.draw import Neighborhood, draw_by_mass
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.subgraph import Subgraph


class LADIESBias(Bias):
    """At every depth, `size` draws among the neighbours of the batch, for all walkers.

    >>> from gttf_sampler import CompactAdj, LADIESBias, sample_rooted
    >>> adj = CompactAdj.from_edge_index([[2, 3, 3, 4], [0, 0, 1, 1]])
    >>> bias = LADIESBias(2)
    >>> sub = sample_rooted(adj, [0, 1], [-1], bias=bias)
    >>> sub.num_nodes <= 4, bias.factor(sub).shape == sub.edge.shape
    (True, True)

    Node v is drawn in proportion to Σ 1 / (δᵤ δᵥ) over the edges (u, v) in front of the
    walkers, with replacement; see `factor` for what its messages are to be multiplied
    by. Use it with fanouts of -1, and not in a product. What it draws follows from the
    key of the batch, like everything else.

    Args:
        size: draws per depth; no more than so many different nodes are reached.
    """

    multiplies = False  # `factor` knows of no other weights

    def __init__(self, size: int) -> None:
        self.size = _check.size("size", size)
        if self.size == 0:
            _check.fail("size", "must be positive", size)
        _check.fits("size", 64 * self.size)
        self._layers: list[tuple[Tensor, Tensor]] = []

    def begin(self, adj: CompactAdj, seeds: Tensor) -> None:
        """Starts a batch."""
        _check.one_node_set("adj", adj.num_rows, adj.num_cols)
        self._layers = []

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """The factor of the neighbour: positive if it was drawn."""
        candidate, mass = self._candidates(node, neighborhood)
        factor = _drawn(mass, self.size, random.fold(neighborhood.key, 0))
        self._layers.append((candidate, factor))
        if not candidate.numel():
            return mass
        place = torch.searchsorted(candidate, neighborhood.neighbor)
        return ops.take(factor, place)

    def factor(self, subgraph: Subgraph) -> Tensor:
        """[e]: how many edges each edge of the last batch stands for.

        Node v, drawn c times of `size` with probability q each, gets c / (size · q):
        one in expectation, so a sum over the sample times this is unbiased.
        """
        _check.of_type("subgraph", subgraph, Subgraph)
        hops = subgraph.num_sampled_edges
        if hops is None or len(hops) != len(self._layers):
            rule = f"must be the last batch, of {len(self._layers)} hops"
            _check.fail("subgraph", rule, subgraph)
        sender = ops.take(subgraph.node, subgraph.row)
        found = []
        for part, (candidate, factor) in zip(
            sender.split(hops), self._layers, strict=True
        ):
            place = torch.searchsorted(candidate, part)
            found.append(ops.take(factor, place))
        empty = torch.empty(0, dtype=torch.float64, device=sender.device)
        return torch.cat([empty, *found])

    def _candidates(
        self, node: Tensor, neighborhood: Neighborhood
    ) -> tuple[Tensor, Tensor]:
        """The nodes [c] that may be drawn, ascending, and their mass [c]."""
        adj, neighbor = neighborhood.adj, neighborhood.neighbor
        share = _inverse_degree(adj, ops.take(node, neighborhood.walker))
        candidate, place = neighbor.unique(return_inverse=True)
        mass = torch.zeros(candidate.numel(), dtype=share.dtype, device=share.device)
        mass.scatter_add_(0, place, share)
        return candidate, mass * _inverse_degree(adj, candidate)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size})"


class FastGCNBias(LADIESBias):
    """FastGCN: one set of nodes per depth, drawn among all nodes of the graph.

    Node v is drawn in proportion to Σ 1 / (δᵤ δᵥ) over all edges (u, v) of the graph;
    what is not a neighbour of the batch is drawn in vain.

    Args:
        size: draws per depth.
    """

    def _candidates(
        self, node: Tensor, neighborhood: Neighborhood
    ) -> tuple[Tensor, Tensor]:
        """All nodes, and the mass of their columns, which is worked out once."""
        adj = neighborhood.adj

        def column_mass() -> Tensor:
            every = torch.arange(adj.num_rows, device=adj.device)
            share = _inverse_degree(adj, every)
            sender = adj.col.to(torch.int64)
            row = every.repeat_interleave(adj.degree, output_size=adj.num_edges)
            mass = torch.zeros_like(share).scatter_add_(0, sender, share[row])
            return mass * share

        mass: Tensor = adj.cached("layer_mass", column_mass)
        return torch.arange(adj.num_rows, device=adj.device), mass


def _inverse_degree(adj: CompactAdj, node: Tensor) -> Tensor:
    """1 / δ, float64, of nodes that may have no edge of their own."""
    return 1 / adj.row_range(node)[1].clamp(min=1).to(torch.float64)


def _drawn(mass: Tensor, size: int, key: random.Key) -> Tensor:
    """Counts / (size · q), [c], of `size` draws in proportion to `mass` [c]."""
    total = mass.sum()
    if not mass.numel():
        return mass
    position = draw_by_mass(mass, size, True, key)
    drawn = position.masked_fill(position < 0, 0)  # where nothing has any mass
    count = torch.zeros_like(mass).scatter_add_(0, drawn, (position >= 0).to(mass))
    return count * total / (size * mass).where(mass > 0, 1)
