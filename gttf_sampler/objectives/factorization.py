"""TransitionFactorizationAcc: low-rank factors of a power series of 𝒯."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.pairs import of_levels
from gttf_sampler._backends.terms import scored
from gttf_sampler.forest import WalkForest
from gttf_sampler.objectives.base import (
    LossAcc,
    complete,
    look_up,
    over_trees,
    standing,
    vectors,
)
from gttf_sampler.objectives.scores import SCORES, fused, loss_of


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

        def work(group: slice) -> Tensor:
            there, count = (
                [level[group] for level in every] for every in (nodes, weight)
            )
            parts = zip(self.coefficients, count, strict=True)
            count = [c * level for c, level in parts]
            return self._product(seed[group], there, count)

        each = sum(level.shape[1] for level in nodes)
        left = self.left(seed.view(-1))
        right = self.right(torch.arange(forest.adj.num_cols, device=seed.device))
        self.right.must_match(self.left, right, left)
        square = ((left.T @ left) * (right.T @ right)).sum()
        most = SCORES if fused(self.left, self.right) else None
        product = over_trees(work, seed.shape[0], each, most)
        return square / 2 - product + self._constant(forest).to(square.dtype)

    def _product(
        self, seed: Tensor, nodes: list[Tensor], count: list[Tensor]
    ) -> Tensor:
        """The sum [] of the scores of seeds and walkers, by what walkers count."""
        if fused(self.left, self.right):
            pairs = of_levels([seed, torch.cat(nodes, dim=1)], [(0, 1)])
            weights = torch.cat(count, dim=1).view(-1)
            return loss_of(self.left, self.right, pairs, scored(pairs), weights)
        here, found = self.left(seed), look_up(self.right, nodes)  # [b, 1, d]
        parts = zip(count, found, strict=True)
        return torch.stack(
            [(level * (here * there).sum(-1)).sum() for level, there in parts]
        ).sum()

    @torch.no_grad()
    def _constant(self, forest: WalkForest) -> Tensor:
        """½ ‖Σ_k c_k 𝒯̂ᵏ‖² of the forest."""
        levels = zip(forest.nodes[1:], self.coefficients, strict=True)
        trees = torch.arange(forest.nodes[0].shape[0], device=forest.adj.device)
        index, value, weight = [], [], forest.walk_weights()
        for k, (node, c) in enumerate(levels, 1):
            alive = node >= 0
            tree = trees[:, None].expand_as(node)
            index.append((tree * forest.adj.num_cols + node)[alive])
            value.append(c * weight[k][alive])
        entry, where = torch.cat(index).unique(return_inverse=True)
        total: Tensor = value[0].new_zeros(entry.shape)
        total.index_add_(0, where, torch.cat(value))
        return total.square().sum() / 2
