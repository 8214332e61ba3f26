"""Node embeddings: losses that plug into `traverse`, and modules that train with them.

Every walker of the forest counts, by its weight η = `forest.walk_weight(k)`. A loss is
differentiable, and what has sparse gradients keeps them.
"""

from gttf_sampler._deepwalk import DeepWalkAcc, Node2VecAcc
from gttf_sampler._factorization import TransitionFactorizationAcc
from gttf_sampler._loss import LossAcc
from gttf_sampler._wys import WYSAcc
from gttf_sampler.embedding import DeepWalk, Node2Vec, WatchYourStep
from gttf_sampler.negative import NegativeSampler

__all__ = [
    "DeepWalk",
    "DeepWalkAcc",
    "LossAcc",
    "NegativeSampler",
    "Node2Vec",
    "Node2VecAcc",
    "TransitionFactorizationAcc",
    "WYSAcc",
    "WatchYourStep",
]
