"""Losses of node embeddings, which plug into `traverse` as accumulators.

Every walker of the forest counts, by its weight η = `forest.walk_weight(k)`. A loss is
differentiable, and what has sparse gradients keeps them.
"""

from gttf_sampler.objectives.base import LossAcc
from gttf_sampler.objectives.deepwalk import DeepWalkAcc
from gttf_sampler.objectives.factorization import TransitionFactorizationAcc
from gttf_sampler.objectives.negative import NegativeSampler
from gttf_sampler.objectives.node2vec import Node2VecAcc
from gttf_sampler.objectives.watch_your_step import WYSAcc

__all__ = [
    "DeepWalkAcc",
    "LossAcc",
    "NegativeSampler",
    "Node2VecAcc",
    "TransitionFactorizationAcc",
    "WYSAcc",
]
