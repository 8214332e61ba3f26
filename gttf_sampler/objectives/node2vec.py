"""Node2VecAcc: the loss of DeepWalk, in which node2vec's p and q can be trained."""

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.forest import WalkForest
from gttf_sampler.objectives.base import LossAcc, complete
from gttf_sampler.objectives.deepwalk import DeepWalkAcc
from gttf_sampler.objectives.second_order import SCHEMES, step_ratios


class Node2VecAcc(LossAcc):
    """The loss of node2vec on uniform walks, in which p and q can be trained.

    A step from v to x, after one from t to v, counts by how much likelier node2vec is
    to take it, δ_v · α(t, x) / Σ_y α(t, y) over all neighbours y of v, and a walker by
    the product over its steps. In expectation over uniform walks (`bias=None`) that is
    `DeepWalkAcc` on node2vec's walks, and so is its gradient, also in p and q. For
    fixed p and q the other form has the smaller variance: `DeepWalkAcc` on walks with
    `bias=Node2VecBias(p, q)`.

    Differs from the paper: N2vAcc multiplies by α alone, which is no ratio of
    probabilities (and so in favour of p, q → 0); `scheme="paper"` does that.

    Args:
        embedding: as in `DeepWalkAcc`, like the other arguments that are there.
        window: C, the largest distance of a pair.
        p: return parameter, a number or a tensor [] > 0, perhaps with a gradient.
        q: in-out parameter, alike.
        num_negatives: per seed ("partition"), or per node left ("logistic").
        negative_power: negatives are drawn ∝ degree ^ negative_power.
        contrast: "partition" or "logistic".
        share_negatives: as in `DeepWalkAcc`, like the next three.
        right: R; None is one Z for all.
        symmetric: of two vectors of a node.
        negative_weight: what terms of negatives are multiplied by.
        weighted: node2vec with edge weights, on walks with `bias=EdgeWeightBias()`.
        scheme: "unbiased", or "paper".
        generator: draws the negatives; None is torch's default generator.
    """

    def __init__(
        self,
        embedding: object,
        window: int,
        p: float | Tensor = 1.0,
        q: float | Tensor = 1.0,
        num_negatives: int = 5,
        negative_power: float = 0.75,
        *,
        contrast: str = "partition",
        share_negatives: bool = False,
        right: object = None,
        symmetric: bool = False,
        negative_weight: float = 1.0,
        weighted: bool = False,
        scheme: str = "unbiased",
        generator: torch.Generator | None = None,
    ) -> None:
        self.deepwalk = DeepWalkAcc(
            embedding,
            window,
            num_negatives,
            negative_power,
            contrast=contrast,
            share_negatives=share_negatives,
            right=right,
            symmetric=symmetric,
            negative_weight=negative_weight,
            generator=generator,
        )
        self.p, self.q = _check.scale("p", p), _check.scale("q", q)
        self.weighted = _check.yes_or_no("weighted", weighted)
        self.scheme = _check.one_of("scheme", scheme, SCHEMES)

    def loss(self, forest: WalkForest) -> Tensor:
        """The sum over the trees of a forest, [], differentiable in p and q, too."""
        return self.deepwalk.weighted(complete(forest), self.weights(forest))

    def weights(self, forest: WalkForest) -> list[Tensor]:
        """Per depth what each walker counts [b, width]: η times its steps' ratios."""
        ratios = step_ratios(forest, self.p, self.q, self.weighted, self.scheme)
        weight = forest.walk_weights()
        product = torch.ones_like(weight[0])
        for k, ratio in enumerate(ratios, 1):
            product = product.repeat_interleave(forest.fanouts[k - 1], dim=1) * ratio
            weight[k] = weight[k] * product
        return weight
