"""Losses of seeds and their walkers, by powers of 𝒯: Watch Your Step, factors."""

from collections.abc import Sequence
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.pairs import LIKE, UNLIKE, of_levels, scored
from gttf_sampler._backends.pairs import terms as terms_of
from gttf_sampler.forest import WalkForest, transitions
from gttf_sampler.objectives.base import (
    SCHEMES,
    LossAcc,
    NegativeSampler,
    Vectors,
    complete,
    look_up,
    over_trees,
    standing,
    vectors,
)
from gttf_sampler.objectives.scores import SCORES, fused, level_scores, loss_of


def products(
    left: Vectors, right: Vectors, seed: Tensor, nodes: Sequence[Tensor]
) -> list[Tensor]:
    """⟨L_u, R_v⟩ of seeds u [b, 1] and the nodes v of each level, per level [b, width].

    By kernels where these can read the vectors.
    """
    if fused(left, right):
        return level_scores(left, right, seed, nodes)
    here, found = left(seed), look_up(right, nodes)
    right.must_match(left, found[-1], here)
    return [(here * there).sum(-1) for there in found]


class WYSAcc(LossAcc):
    """The loss of Watch Your Step: how much each distance counts is learned.

    The target of a walker k steps from its seed u, at v, adds −Q_k · η · log σ(⟨L_u,
    R_v⟩) with Q = softmax(context); the negatives n of the seed, uniform on all nodes,
    −log σ(−⟨L_u, R_n⟩) on average, `negative_weight` times. That is Proposition 4 with
    the paper's table, and linear in 𝒯ᵏ.

    With `symmetric=True` a score is ½ (⟨L_u, R_v⟩ + ⟨R_u, L_v⟩), for graphs without
    directions: every pair then teaches both halves of both nodes.

    Differs from the paper: its WysAcc puts the mean over the context, and that over the
    negatives, inside the logarithm, where they are not linear in 𝒯ᵏ; `scheme="paper"`
    does that, with the paper's symmetric score ⟨L_u, R_v⟩ + ⟨R_u, L_v⟩.

    Args:
        left: L, a module or function of nodes, or a matrix [n, d].
        right: R, alike.
        context: [h], logits of Q, one per depth of the forest.
        num_negatives: per seed.
        negative_weight: of all negatives of a seed, where its walkers weigh 1.
        scheme: "unbiased", or "paper".
        symmetric: see above; of the "unbiased" scheme.
        generator: draws the negatives; None is torch's default generator.
    """

    def __init__(
        self,
        left: object,
        right: object,
        context: Tensor,
        num_negatives: int = 5,
        *,
        negative_weight: float = 1.0,
        scheme: str = "unbiased",
        symmetric: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        self.left, self.right = vectors("left", left), vectors("right", right)
        _check.floats("context", context)
        if context.dim() != 1 or not context.numel():
            got = f"shape {list(context.shape)}"
            _check.fail("context", "must have one entry per depth, shape [h]", got)
        self.context = context
        self._per_depth = "context", context.numel()
        self.num_negatives = _check.count("num_negatives", num_negatives)
        self.negative_weight = _check.positive("negative_weight", negative_weight)
        self.scheme = _check.one_of("scheme", scheme, SCHEMES)
        self.symmetric = _check.yes_or_no("symmetric", symmetric)
        if self.symmetric and self.scheme == "paper":
            _check.fail("symmetric", 'must be False in the "paper" scheme', symmetric)
        self.generator = _check.cpu_generator("generator", generator)

    def loss(self, forest: WalkForest) -> Tensor:
        """The sum over the trees of a forest, [], differentiable in the logits, too."""
        self._check_depth(complete(forest).depth)
        _check.one_node_set("adj", forest.adj.num_rows, forest.adj.num_cols)
        seed, *nodes = standing(forest)
        sampler = NegativeSampler(forest.adj, power=0)
        _check.fits("num_negatives", 16 * max(1, seed.shape[0]) * self.num_negatives)
        size = torch.Size([seed.shape[0], self.num_negatives])
        nodes.append(sampler.at(self._new_key(forest), size))
        weight = forest.walk_weights()[1:]

        def work(levels: list[Tensor], counts: list[Tensor]) -> Tensor:
            here, *there = levels
            if fused(self.left, self.right) and self.scheme == "unbiased":
                return self._fused(here, there, counts)
            *pairs, negatives = self._scores(here, there)
            return self._group(pairs, negatives, counts)

        twice = self.scheme == "paper" or self.symmetric
        each = sum(level.shape[1] for level in nodes) * (1 + twice)
        most = SCORES if fused(self.left, self.right) else None
        return over_trees(work, [[seed, *nodes], weight], each, most)

    def _fused(
        self, seed: Tensor, nodes: Sequence[Tensor], weight: Sequence[Tensor]
    ) -> Tensor:
        """The loss of some trees by kernels, in one pass over the pairs."""
        *walkers, negatives = nodes
        levels = [seed, torch.cat(list(walkers), dim=1), negatives]
        pairs = of_levels(levels, [(0, 1), (0, 2)])
        sorts = ["pair", "block"]
        terms = terms_of(pairs, [LIKE, UNLIKE], sorts, symmetric=self.symmetric)
        shares = zip(self.context.softmax(0), walkers, strict=True)
        share = torch.cat([part.expand(level.shape[1]) for part, level in shares])
        counts = (torch.cat(list(weight), dim=1) * share).view(-1)
        other = counts.new_full((1,), self.negative_weight / self.num_negatives)
        counts = torch.cat([counts, other])
        return loss_of(self.left, self.right, pairs, terms, counts)

    def _scores(self, seed: Tensor, nodes: Sequence[Tensor]) -> list[Tensor]:
        """Per level the scores [b, width] of a seed and the nodes there."""
        scores = products(self.left, self.right, seed, nodes)
        if self.scheme == "unbiased" and not self.symmetric:
            return scores
        other = products(self.right, self.left, seed, nodes)
        both = zip(scores, other, strict=True)
        part = 0.5 if self.symmetric else 1.0
        return [part * (score + back) for score, back in both]

    def _group(
        self, pairs: Sequence[Tensor], negatives: Tensor, weight: Sequence[Tensor]
    ) -> Tensor:
        """The loss of some trees, from the scores of their walkers and negatives."""
        share = self.context.softmax(0).to(negatives.dtype)
        if self.scheme == "paper":
            total = negatives.new_zeros(negatives.shape[0], 1)
            for score, part in zip(pairs, share, strict=True):
                spread = score.shape[1] // total.shape[1]
                total = total.repeat_interleave(spread, dim=1) + part * score
            loss = F.softplus(negatives.mean(-1)).sum() * self.negative_weight
            return loss - (weight[-1] * F.logsigmoid(total)).sum()
        loss = F.softplus(negatives).mean(-1).sum() * self.negative_weight
        for score, level, part in zip(pairs, weight, share, strict=True):
            loss = loss - part * (level * F.logsigmoid(score)).sum()
        return loss


class TransitionFactorizationAcc(LossAcc):
    """The loss of factorizing powers of the transition matrix 𝒯; Proposition 3.

    It is ½ ‖L Rᵀ − Σ_k c_k 𝒯ᵏ‖² over the rows of the seeds.

    The matrices are never formed: ‖L Rᵀ‖² is the trace of (Lᵀ L)(Rᵀ R), the product
    with 𝒯̂ᵏ a sum over walkers. The gradient is unbiased. The value is too large by half
    the variance of Σ c_k 𝒯̂ᵏ, which does not depend on L or R.

    Args:
        left: L, a module or function of nodes, or a matrix [n, d].
        right: R, alike; all its n rows get a gradient.
        coefficients: c_1 … c_h, numbers, one per depth of the forest.
    """

    def __init__(
        self, left: object, right: object, coefficients: Sequence[float]
    ) -> None:
        self.left, self.right = vectors("left", left), vectors("right", right)
        if not isinstance(coefficients, Sequence) or isinstance(coefficients, str):
            got = _check.shown(coefficients)
            _check.mistyped("coefficients", "must be a list of numbers", got)
        self.coefficients = [_check.finite("coefficients", c) for c in coefficients]
        if not self.coefficients:
            _check.fail("coefficients", "must have one entry per depth", "none")
        self._per_depth = "coefficients", len(self.coefficients)

    def loss(self, forest: WalkForest) -> Tensor:
        """The loss of a forest, []."""
        self._check_depth(complete(forest).depth)
        seed, *nodes = standing(forest)
        weight = forest.walk_weights()[1:]

        def work(levels: list[Tensor], counts: list[Tensor]) -> Tensor:
            parts = zip(self.coefficients, counts, strict=True)
            return self._product(levels[0], levels[1:], [c * x for c, x in parts])

        each = sum(level.shape[1] for level in nodes)
        left = self.left(seed.view(-1))
        right = self.right(torch.arange(forest.adj.num_cols, device=seed.device))
        self.right.must_match(self.left, right, left)
        square = ((left.T @ left) * (right.T @ right)).sum()
        most = SCORES if fused(self.left, self.right) else None
        product = over_trees(work, [[seed, *nodes], weight], each, most)
        return square / 2 - product + self._constant(forest).to(square.dtype)

    def _product(
        self, seed: Tensor, nodes: list[Tensor], count: list[Tensor]
    ) -> Tensor:
        """The sum [] of the scores of seeds and walkers, by what walkers count."""
        if fused(self.left, self.right):
            pairs = of_levels([seed, torch.cat(nodes, dim=1)], [(0, 1)])
            weights = torch.cat(count, dim=1).view(-1)
            return loss_of(self.left, self.right, pairs, scored(pairs), weights)
        parts = zip(count, products(self.left, self.right, seed, nodes), strict=True)
        return torch.stack([(level * score).sum() for level, score in parts]).sum()

    @torch.no_grad()
    def _constant(self, forest: WalkForest) -> Tensor:
        """½ ‖Σ_k c_k 𝒯̂ᵏ‖² of the forest."""
        every = enumerate(self.coefficients, 1)
        total = reduce(torch.add, [c * transitions(forest, k) for k, c in every])
        return total.coalesce().values().square().sum() / 2
