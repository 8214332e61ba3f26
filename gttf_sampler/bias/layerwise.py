"""Biases of a whole layer: what all walkers of a depth agree on.

A BiasFn sees the neighbourhoods of all walkers at once. So it may agree on a few nodes
and let nobody walk anywhere else: with a fanout of -1, which takes every neighbour that
weighs anything, that is FastGCN (Chen et al., 2018) and LADIES (Zou et al., 2019). Or
all walkers share one random number per neighbour, and decide on it each for itself: the
batch then reaches fewer nodes for the same variance. That is LABOR (Balin and
Çatalyürek, "Layer-Neighbor Sampling", NeurIPS 2023).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler.bias.base import Bias, as_bias, wrap
from gttf_sampler.draw import BiasFn, Neighborhood, Walkers, draw_by_mass, weights_of
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.random import Key
from gttf_sampler.subgraph import Subgraph

Variate = Callable[[Tensor, Key], Tensor]

FRACTION = 2.0**-53  # of a random word, 53 bits count
CLOSE = 1e-6  # relative error of a variance that is solved for
SETTLED = 1e-4  # share of nodes that one more round has to save
ROUNDS = 64  # at most, of either


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


def shared_variate(node: Tensor, key: Key) -> Tensor:
    """A number of [0, 1) for every node, float64 [e]; equal nodes have equal ones."""
    word = random.bits(random.stream(key, node), 0)
    return ((word >> 11) & ((1 << 53) - 1)).double() * FRACTION


class LABORBias(Bias):
    """Takes neighbour v of node u where r_v < p_uv, with one r_v for the whole batch.

    >>> from gttf_sampler import CompactAdj, LABORBias, sample_rooted
    >>> adj = CompactAdj.from_edge_index([[2, 3, 4, 2, 3, 4], [0, 0, 0, 1, 1, 1]])
    >>> bias = LABORBias(1)
    >>> sub = sample_rooted(adj, [0, 1], [-1], bias=bias)  # both take the same
    >>> sub.num_edges % 2, bias.factor(sub).tolist() == [3.0] * sub.num_edges
    (0, True)

    A node takes `fanout` neighbours in the mean, none twice, and all of them if it has
    no more. p_uv is fanout / δᵤ, or with `weights` cᵤ w_uv, where cᵤ is such that the
    variance of a sum over the sample is that of `fanout` draws: fewer edges will do.
    Chances are clipped at one: a neighbour with cᵤ w_uv > 1 is always taken and stands
    for itself alone (its `factor` is 1); cᵤ is solved for with the clip, so that the
    variance is still met. Use it with fanouts of -1, and not in a product.

    Args:
        fanout: neighbours per node, or one number per depth; -1 takes all.
        weights: a bias whose weights the sample is to stand for; None if all are one.
        importance: rounds that favour neighbours of many walkers (LABOR-i of the
            paper), for still fewer nodes; negative ones go on while they help.
        variate: (node [e], key) → r [e], by default `shared_variate`: who passes one
            that heeds no key shares it among depths, relations or batches.
    """

    multiplies = False  # `factor` knows of no other weights

    def __init__(
        self,
        fanout: int | Sequence[int],
        weights: BiasFn | None = None,
        *,
        importance: int = 0,
        variate: Variate | None = None,
    ) -> None:
        one = isinstance(fanout, int) and not isinstance(fanout, bool)
        given = [fanout] if one else fanout
        self.fanouts: list[int] = _check.fanouts(given, allow_all=True)
        self._one = one
        self.weights = as_bias(weights, "weights")
        wrap(self, self.weights)
        self.importance = _check.integer("importance", importance)
        _check.functions("variate", variate)
        self.variate: Variate = shared_variate if variate is None else variate
        self._layers: list[Tensor] = []

    def begin(self, adj: CompactAdj, seeds: Tensor) -> None:
        """Starts a batch."""
        self._layers = []
        super().begin(adj, seeds)

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """1 / p of the neighbours that are taken, 0 of the others."""
        depth = path.shape[1]
        if not self._one and depth >= len(self.fanouts):
            _check.fail("fanout", f"must have an entry for depth {depth}", self.fanouts)
        fanout = self.fanouts[0 if self._one else depth]
        chance = self._chances(path, node, neighborhood, fanout)
        drawn = self.variate(neighborhood.neighbor, neighborhood.key)
        factor = (1 / chance).where(drawn < chance, 0.0)
        self._layers.append(factor)
        return factor

    def draw(self, walkers: Walkers, fanout: int, replace: bool) -> Tensor:
        """Refuses a number of neighbours: how many there are is for chance to say."""
        rule = "must be -1 with LABORBias, which is given its own"
        _check.fail("fanouts", rule, fanout)

    def factor(self, subgraph: Subgraph) -> Tensor:
        """[e]: how many edges each edge of the last batch stands for, 1 / p.

        A sum over the sample of weight times this is unbiased.
        """
        _check.of_type("subgraph", subgraph, Subgraph)
        sizes = [int((layer > 0).sum()) for layer in self._layers]
        if subgraph.num_sampled_edges != sizes:
            rule = f"must be the last batch, with edges per hop {sizes}"
            _check.fail("subgraph", rule, subgraph)
        return self.factors_drawn(subgraph.row.device)

    def factors_drawn(self, device: torch.device) -> Tensor:
        """`factor` of the last batch, in the order of its edges of this relation."""
        empty = torch.empty(0, dtype=torch.float64, device=device)
        return torch.cat([empty, *(layer[layer > 0] for layer in self._layers)])

    def _chances(
        self, path: Tensor, node: Tensor, hood: Neighborhood, fanout: int
    ) -> Tensor:
        """p, float64 [e]: how likely each entry is taken, zero if it weighs nothing."""
        weight = weights_of(self.weights, path, node, hood).to(torch.float64)
        rows = _Rows.of(weight, hood.walker, node.numel(), fanout)
        chance = rows.chances(weight, solve=self.weights is not None)
        if self.importance == 0 or not weight.numel():
            return chance
        candidate, place = hood.neighbor.unique(return_inverse=True)
        before = float("inf")
        for number in range(ROUNDS if self.importance < 0 else self.importance):
            reached = torch.zeros_like(candidate, dtype=torch.float64)
            reached.scatter_reduce_(0, place, chance, "amax")
            nodes = float(reached.sum())
            if number and self.importance < 0 and nodes > before * (1 - SETTLED):
                break
            before = nodes
            chance = rows.chances(ops.take(reached, place), solve=True)
        return chance

    def __repr__(self) -> str:
        shown = [str(self.fanouts[0] if self._one else self.fanouts)]
        if self.weights is not None:
            shown.append(repr(self.weights))
        if self.importance:
            shown.append(f"importance={self.importance}")
        return f"LABORBias({', '.join(shown)})"


class _Rows(NamedTuple):
    """The rows in front of the walkers, and what their samples have to achieve.

    Attributes:
        weight: [e], what the entries weigh.
        walker: [e], whose they are.
        total: [w], the sum of a row.
        target: [w], the sum of weight² / p that gives the variance asked for.
        whole: [w], whether the row has no more entries than are asked for.
        fanout: how many are asked for; negative if all.
    """

    weight: Tensor
    walker: Tensor
    total: Tensor
    target: Tensor
    whole: Tensor
    fanout: int

    @classmethod
    def of(cls, weight: Tensor, walker: Tensor, rows: int, fanout: int) -> _Rows:
        """The rows with these weights."""
        none = torch.zeros(rows, dtype=torch.float64, device=weight.device)
        degree = none.scatter_add(0, walker, (weight > 0).to(weight))
        total = none.scatter_add(0, walker, weight)
        square = none.scatter_add(0, walker, weight * weight)
        share = 1 / max(fanout, 1) - 1 / degree.clamp(min=1)
        whole = degree <= fanout if fanout >= 0 else torch.ones_like(degree).bool()
        return cls(weight, walker, total, total**2 * share + square, whole, fanout)

    def chances(self, wish: Tensor, solve: bool) -> Tensor:
        """Chances min(1, c · wish) [e], with the c per row that meets the target.

        For weights all alike, wished for alike, c = fanout / total is known; else each
        step scales c by how far the variance is off, which ends where nothing more is
        cut off at one.
        """
        if self.fanout == 0:
            return torch.zeros_like(wish)
        scale = max(self.fanout, 1) / self.total.clamp(min=torch.finfo(wish.dtype).tiny)
        own = self.weight > 0
        for _ in range(ROUNDS if solve else 0):
            chance = (ops.take(scale, self.walker) * wish).clamp(max=1)
            part = (self.weight**2 / chance).where(own, 0.0)
            found = torch.zeros_like(scale).scatter_add_(0, self.walker, part)
            off = (found / self.target).where((found > 0) & ~self.whole, 1.0)
            scale = scale * off
            if not bool(((off - 1).abs() > CLOSE).any()):
                break
        chance = (ops.take(scale, self.walker) * wish).clamp(max=1)
        return chance.where(~ops.take(self.whole, self.walker), 1.0).where(own, 0.0)
