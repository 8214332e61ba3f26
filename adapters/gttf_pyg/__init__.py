"""GTTF for PyTorch Geometric: samplers and loaders that need nothing compiled.

`GTTFLoader` stands in for PyG's `NeighborLoader`, `GTTFLinkLoader` for its
`LinkNeighborLoader`, and `GTTFSampler` for the sampler below them; the first two can be
had under the names of the originals as well.
"""

from typing import TYPE_CHECKING, Any

try:
    import torch_geometric  # noqa: F401
except ImportError as err:
    raise ImportError(
        "'gttf_pyg' needs torch-geometric; "
        "install it with: pip install 'torch-geometric>=2.6'"
    ) from err

from gttf_pyg.bidirectional import BidirectionalNeighborSampler
from gttf_pyg.check import check_unbiased
from gttf_pyg.cluster import ClusterData, ClusterLoader
from gttf_pyg.embeddings import DeepWalk, WatchYourStep
from gttf_pyg.feature_store import FileStore
from gttf_pyg.hgt import HGTLoader, HGTSampler
from gttf_pyg.inference import layerwise_inference, sampled_inference
from gttf_pyg.leaks import assert_no_future
from gttf_pyg.loader import (
    GTTFLinkLoader,
    GTTFLoader,
    LinkNeighborLoader,
    NeighborLoader,
)
from gttf_pyg.negatives import NegativeSampling
from gttf_pyg.node2vec import Node2Vec
from gttf_pyg.partition import partition
from gttf_pyg.sampler import GTTFSampler, NeighborSampler
from gttf_pyg.shadow import ShaDowKHopSampler
from gttf_pyg.transforms import GTTFNorm, ToCompact
from gttf_pyg.unbiased import unbiased
from gttf_sampler.estimate import BiasedLayerWarning, SampledDegreeWarning

if TYPE_CHECKING:
    from gttf_pyg.lightning import LightningLinkData, LightningNodeData

__all__ = [
    "BiasedLayerWarning",
    "BidirectionalNeighborSampler",
    "ClusterData",
    "ClusterLoader",
    "DeepWalk",
    "FileStore",
    "GTTFLinkLoader",
    "GTTFLoader",
    "GTTFNorm",
    "GTTFSampler",
    "HGTLoader",
    "HGTSampler",
    "LightningLinkData",
    "LightningNodeData",
    "LinkNeighborLoader",
    "NegativeSampling",
    "NeighborLoader",
    "NeighborSampler",
    "Node2Vec",
    "SampledDegreeWarning",
    "ShaDowKHopSampler",
    "ToCompact",
    "WatchYourStep",
    "assert_no_future",
    "check_unbiased",
    "layerwise_inference",
    "partition",
    "sampled_inference",
    "unbiased",
]


def __getattr__(name: str) -> Any:
    """The data modules, when they are asked for: PyG's import all of Lightning."""
    if name in ("LightningLinkData", "LightningNodeData"):
        from gttf_pyg import lightning

        return getattr(lightning, name)
    raise AttributeError(f"module 'gttf_pyg' has no attribute {name!r}")
