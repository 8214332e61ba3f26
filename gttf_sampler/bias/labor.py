"""LABORBias: neighbours that the nodes of a batch share, by one number per node.

All walkers share one random number per neighbour, and decide on it each for itself: the
batch then reaches fewer nodes for the same variance. That is LABOR (Balin and
Çatalyürek, "Layer-Neighbor Sampling", NeurIPS 2023). The numbers can be shared among
layers, and change slowly from batch to batch, so that batches share nodes as well
(Balin et al., "Cooperative Minibatching in Graph Neural Networks", 2023).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import cos, pi, sin
from typing import NamedTuple

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler.bias.base import Bias, as_bias, wrap
from gttf_sampler.draw import BiasFn, Neighborhood, Walkers, weights_of
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.random import Key
from gttf_sampler.subgraph import Subgraph

Variate = Callable[[Tensor, Key], Tensor]

BELOW_ONE = 1 - 2.0**-53
CLOSE = 1e-6  # relative error of a variance that is solved for
SETTLED = 1e-4  # share of nodes that one more round has to save
ROUNDS = 64  # at most, of either


def shared_variate(node: Tensor, key: Key) -> Tensor:
    """A number of [0, 1) for every node, float64 [e]; equal nodes have equal ones."""
    return random.fraction(random.bits(random.stream(key, node), 0))


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

    @classmethod
    def of(cls, key: int, later: int | None = None, share: float = 0.0) -> Variates:
        """The numbers of a batch's key, or of two and how far it is from the first."""
        cpu = torch.device("cpu")
        own, other = (
            0 if each is None else int(random.new_key(each, cpu, random.BATCH))
            for each in (key, later)
        )
        return cls(own, other, share)

    @classmethod
    def of_run(cls, epoch_key: int, number: int, span: int) -> Variates:
        """The numbers of a batch in its epoch, which turn into others in `span`."""
        run, rest = divmod(number, span)
        key = epoch_key & random.WORD
        first, later = (int(random.fold(key, number)) for number in (run, run + 1))
        return cls.of(first, later, rest / span)

    def numbers(self, node: Tensor, key: Key) -> Tensor:
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
        variate: (node [e], key) → r [e], or one per depth, by default `shared_variate`:
            who passes one that heeds no key shares it among depths, relations or
            batches, as `Variates.numbers` does.
    """

    multiplies = False  # `factor` knows of no other weights

    def __init__(
        self,
        fanout: int | Sequence[int],
        weights: BiasFn | None = None,
        *,
        importance: int = 0,
        variate: Variate | Sequence[Variate] | None = None,
    ) -> None:
        one = isinstance(fanout, int) and not isinstance(fanout, bool)
        hops = [fanout] if one else fanout
        self.fanouts: list[int] = _check.fanouts(hops, allow_all=True)
        self._one = one
        self.weights = as_bias(weights, "weights")
        wrap(self, self.weights)
        self.importance = _check.integer("importance", importance)
        given = _check.functions("variate", variate, many=True)
        self.variates: Sequence[Variate] = given or [shared_variate]
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
        variate = self.variates[min(depth, len(self.variates) - 1)]
        drawn = variate(neighborhood.neighbor, neighborhood.key)
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
        rows = _WeighedRows.of(weight, hood.walker, node.numel(), fanout)
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


class _WeighedRows(NamedTuple):
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
    def of(cls, weight: Tensor, walker: Tensor, rows: int, fanout: int) -> _WeighedRows:
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
