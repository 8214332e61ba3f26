"""GTTF: one stochastic traversal, specialised by where to walk and what to record."""

from gttf_sampler.accumulate import RootedAdjAcc, TransitionAcc
from gttf_sampler.backend import backend_info, set_backend, use_backend
from gttf_sampler.bias import AttentionBias, EdgeWeightBias, NoRevisitBias
from gttf_sampler.compact import CompactAdj
from gttf_sampler.draw import BiasFn, Neighborhood
from gttf_sampler.forest import WalkForest
from gttf_sampler.hetero import HeteroSubgraph
from gttf_sampler.node2vec import Node2VecBias
from gttf_sampler.rooted import sample_rooted
from gttf_sampler.subgraph import GCNWeight, Subgraph
from gttf_sampler.temporal import TemporalBias
from gttf_sampler.traverse import AccumulateFn, traverse

__version__ = "0.1.0"

__all__ = [
    "AccumulateFn",
    "AttentionBias",
    "BiasFn",
    "CompactAdj",
    "EdgeWeightBias",
    "GCNWeight",
    "HeteroSubgraph",
    "Neighborhood",
    "NoRevisitBias",
    "Node2VecBias",
    "RootedAdjAcc",
    "Subgraph",
    "TemporalBias",
    "TransitionAcc",
    "WalkForest",
    "backend_info",
    "sample_rooted",
    "set_backend",
    "traverse",
    "use_backend",
]
