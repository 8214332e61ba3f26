"""GTTF: one stochastic traversal, specialised by where to walk and what to record."""

from gttf_sampler import _check
from gttf_sampler.accumulate import RootedAdjAcc, TransitionAcc
from gttf_sampler.backend import backend_info, set_backend, use_backend
from gttf_sampler.bias import AttentionBias, EdgeWeightBias, NoRevisitBias
from gttf_sampler.compact import CompactAdj
from gttf_sampler.draw import BiasFn, Neighborhood
from gttf_sampler.edgelist import EdgeList, read_edge_list, write_embeddings
from gttf_sampler.exclude import ExcludeBias
from gttf_sampler.forest import WalkForest
from gttf_sampler.gather import gather_rows
from gttf_sampler.hetero import HeteroSubgraph
from gttf_sampler.layerwise import FastGCNBias, LADIESBias
from gttf_sampler.linkpred import (
    LinkSplit,
    largest_component,
    link_auc,
    mean_rank,
    roc_auc,
    split_links,
)
from gttf_sampler.node2vec import Node2VecBias
from gttf_sampler.objectives import (
    DeepWalk,
    DeepWalkAcc,
    LossAcc,
    NegativeSampler,
    Node2Vec,
    Node2VecAcc,
    TransitionFactorizationAcc,
    WatchYourStep,
    WYSAcc,
)
from gttf_sampler.plot import communities, draw_embeddings
from gttf_sampler.rooted import sample_rooted
from gttf_sampler.saint import walk_subgraph
from gttf_sampler.subgraph import GCNWeight, Subgraph
from gttf_sampler.temporal import TemporalBias
from gttf_sampler.traverse import AccumulateFn, traverse

_check.versions()

__version__ = "0.1.0"

__all__ = [
    "AccumulateFn",
    "AttentionBias",
    "BiasFn",
    "CompactAdj",
    "DeepWalk",
    "DeepWalkAcc",
    "EdgeList",
    "EdgeWeightBias",
    "ExcludeBias",
    "FastGCNBias",
    "GCNWeight",
    "HeteroSubgraph",
    "LADIESBias",
    "LinkSplit",
    "LossAcc",
    "NegativeSampler",
    "Neighborhood",
    "NoRevisitBias",
    "Node2Vec",
    "Node2VecAcc",
    "Node2VecBias",
    "RootedAdjAcc",
    "Subgraph",
    "TemporalBias",
    "TransitionAcc",
    "TransitionFactorizationAcc",
    "WYSAcc",
    "WalkForest",
    "WatchYourStep",
    "backend_info",
    "communities",
    "draw_embeddings",
    "gather_rows",
    "largest_component",
    "link_auc",
    "mean_rank",
    "read_edge_list",
    "roc_auc",
    "sample_rooted",
    "set_backend",
    "split_links",
    "traverse",
    "use_backend",
    "walk_subgraph",
    "write_embeddings",
]
