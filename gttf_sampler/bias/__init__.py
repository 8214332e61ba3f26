"""Biases: rules that weigh neighbours in `traverse` and `sample_rooted`.

Each is a BiasFn, so that any two can be multiplied (`a * b`, also with a plain
function); those with a law are fast on their own, see `Bias.law`.
"""

from gttf_sampler._backends.record import UNIFORM, Law
from gttf_sampler.bias.base import Bias, FractionBias, ProductBias, StratifiedBias
from gttf_sampler.bias.labor import LABORBias, Variates, shared_variate
from gttf_sampler.bias.layerwise import FastGCNBias, LADIESBias
from gttf_sampler.bias.node2vec import Node2VecBias
from gttf_sampler.bias.simple import (
    AttentionBias,
    EdgeWeightBias,
    ExcludeBias,
    NoRevisitBias,
    TemporalBias,
)

__all__ = [
    "UNIFORM",
    "AttentionBias",
    "Bias",
    "EdgeWeightBias",
    "ExcludeBias",
    "FastGCNBias",
    "FractionBias",
    "LABORBias",
    "LADIESBias",
    "Law",
    "NoRevisitBias",
    "Node2VecBias",
    "ProductBias",
    "StratifiedBias",
    "TemporalBias",
    "Variates",
    "shared_variate",
]
