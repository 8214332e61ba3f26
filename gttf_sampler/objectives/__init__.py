"""Losses of node embeddings, which plug into `traverse` as accumulators.

Every walker of the forest counts, by its weight η = `forest.walk_weight(k)`. A loss is
differentiable, and what has sparse gradients keeps them.
"""

from gttf_sampler.objectives.base import LossAcc, NegativeSampler
from gttf_sampler.objectives.deepwalk import DeepWalkAcc
from gttf_sampler.objectives.node2vec import Node2VecAcc
from gttf_sampler.objectives.transitions import TransitionFactorizationAcc, WYSAcc

__all__ = [
    "DeepWalkAcc",
    "LossAcc",
    "NegativeSampler",
    "Node2VecAcc",
    "TransitionFactorizationAcc",
    "WYSAcc",
]
