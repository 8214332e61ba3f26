"""WYSAcc: Watch Your Step, whose context distribution is learned."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.forest import WalkForest
from gttf_sampler.objectives.base import (
    LossAcc,
    complete,
    look_up,
    over_trees,
    standing,
    vectors,
)
from gttf_sampler.objectives.negative import NegativeSampler
from gttf_sampler.objectives.scores import SCORES, fused, level_scores
from gttf_sampler.objectives.second_order import SCHEMES


class WYSAcc(LossAcc):
    """The loss of Watch Your Step: how much each distance counts is learned.

    The target of a walker k steps from its seed u, at v, adds −Q_k · η · log σ(⟨L_u,
    R_v⟩) with Q = softmax(context); the negatives n of the seed, uniform on all nodes,
    −log σ(−⟨L_u, R_n⟩) on average, `negative_weight` times. That is Proposition 4 with
    the paper's table, and linear in 𝒯ᵏ.

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

        def work(group: slice) -> Tensor:
            here, there = seed[group], [level[group] for level in nodes]
            *pairs, negatives = self._scores(here, there)
            return self._group(pairs, negatives, [level[group] for level in weight])

        each = sum(level.shape[1] for level in nodes) * (1 + (self.scheme == "paper"))
        most = SCORES if fused(self.left, self.right) else None
        return over_trees(work, seed.shape[0], each, most)

    def _scores(self, seed: Tensor, nodes: Sequence[Tensor]) -> list[Tensor]:
        """Per level the scores [b, width] of a seed and the nodes there."""
        if fused(self.left, self.right):
            scores = level_scores(self.left, self.right, seed, nodes)
            if self.scheme == "unbiased":
                return scores
            other = level_scores(self.right, self.left, seed, nodes)
            return [score + back for score, back in zip(scores, other, strict=True)]
        here, found = self.left(seed), look_up(self.right, nodes)
        self.right.must_match(self.left, found[-1], here)
        scores = [(here * there).sum(-1) for there in found]
        if self.scheme == "unbiased":
            return scores
        here = self.right(seed)
        other = [(here * there).sum(-1) for there in look_up(self.left, nodes)]
        return [score + back for score, back in zip(scores, other, strict=True)]

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
