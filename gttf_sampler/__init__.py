"""GTTF: one stochastic traversal, specialised by where to walk and what to record."""

from typing import Any

from gttf_sampler import _check
from gttf_sampler._backends.ops import backend_info, set_backend, use_backend
from gttf_sampler._loading.communities import CommunitySampler
from gttf_sampler.bias import (
    AttentionBias,
    Bias,
    EdgeWeightBias,
    ExcludeBias,
    FastGCNBias,
    FractionBias,
    LABORBias,
    LADIESBias,
    Node2VecBias,
    NoRevisitBias,
    StratifiedBias,
    TemporalBias,
)
from gttf_sampler.draw import BiasFn, Neighborhood
from gttf_sampler.features import DeviceCache, FeatureFile
from gttf_sampler.forest import RootedAdjAcc, TransitionAcc, WalkForest
from gttf_sampler.gather import gather_rows
from gttf_sampler.graph import CompactAdj
from gttf_sampler.objectives import (
    DeepWalkAcc,
    Node2VecAcc,
    TransitionFactorizationAcc,
    WYSAcc,
)
from gttf_sampler.ppr import PPRAcc, ppr_neighbors
from gttf_sampler.rooted import sample_rooted
from gttf_sampler.subgraph import (
    HeteroSubgraph,
    PaddedHeteroSubgraph,
    PaddedSubgraph,
    Subgraph,
)
from gttf_sampler.traverse import AccumulateFn, traverse

_check.versions()

__version__ = "0.2.0"

__all__ = [
    "AccumulateFn",
    "AttentionBias",
    "Bias",
    "BiasFn",
    "CommunitySampler",
    "CompactAdj",
    "DeepWalkAcc",
    "DeviceCache",
    "EdgeWeightBias",
    "ExcludeBias",
    "FastGCNBias",
    "FeatureFile",
    "FractionBias",
    "HeteroSubgraph",
    "LABORBias",
    "LADIESBias",
    "Neighborhood",
    "NoRevisitBias",
    "Node2VecAcc",
    "Node2VecBias",
    "PPRAcc",
    "PaddedHeteroSubgraph",
    "PaddedSubgraph",
    "RootedAdjAcc",
    "StratifiedBias",
    "Subgraph",
    "TemporalBias",
    "TransitionAcc",
    "TransitionFactorizationAcc",
    "WYSAcc",
    "WalkForest",
    "backend_info",
    "gather_rows",
    "ppr_neighbors",
    "sample_rooted",
    "set_backend",
    "traverse",
    "use_backend",
]

# What 0.1 had here, and where it lives now.
_MOVED = {
    "embedding": "DeepWalk Node2Vec WatchYourStep LinkSplit largest_component link_auc "
    "mean_rank roc_auc split_links",
    "graph": "EdgeList read_edge_list write_embeddings",
    "objectives": "LossAcc NegativeSampler",
    "plot": "communities draw_embeddings",
    "rooted": "walk_subgraph",
    "subgraph": "GCNWeight",
}


def __getattr__(name: str) -> Any:
    """A name that has moved, from its new place, until version 0.3."""
    for room, names in _MOVED.items():
        if name in names.split():
            import warnings
            from importlib import import_module

            place = f"gttf_sampler.{room}"
            warnings.warn(
                f"'{name}' must be imported from {place} (got gttf_sampler); it leaves "
                "the top level with version 0.3",
                DeprecationWarning,
                stacklevel=2,
            )
            return getattr(import_module(place), name)
    raise AttributeError(f"module 'gttf_sampler' has no attribute {name!r}")
