"""GTTF for PyTorch Geometric: samplers and loaders that need nothing compiled.

`GTTFLoader` stands in for PyG's `NeighborLoader`, `GTTFLinkLoader` for its
`LinkNeighborLoader`, and `GTTFSampler` for the sampler below them; the first two can be
had under the names of the originals as well.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    import torch_geometric.loader
    import torch_geometric.sampler
except ImportError as err:
    raise ImportError(
        "'gttf_pyg' needs torch-geometric; "
        "install it with: pip install 'torch-geometric>=2.6'"
    ) from err

from gttf_pyg.fused import FusedReport, fused, fused_layers
from gttf_pyg.inference import inference, layerwise_inference, sampled_inference
from gttf_pyg.install import install, installed, uninstall
from gttf_pyg.labor import Labor
from gttf_pyg.leaks import assert_no_future
from gttf_pyg.loader import (
    GTTFLinkLoader,
    GTTFLoader,
    LinkNeighborLoader,
    NeighborLoader,
)
from gttf_pyg.loaders import ClusterData, ClusterLoader, ShaDowKHopSampler
from gttf_pyg.negatives import NegativeSampling
from gttf_pyg.nn import DeepWalk, Node2Vec, WatchYourStep
from gttf_pyg.partition import partition
from gttf_pyg.saint import (
    GraphSAINTEdgeSampler,
    GraphSAINTNodeSampler,
    GraphSAINTRandomWalkSampler,
    GraphSAINTSampler,
)
from gttf_pyg.sampler import GTTFSampler, NeighborSampler
from gttf_pyg.samplers import BidirectionalNeighborSampler, HGTLoader, HGTSampler
from gttf_pyg.stores import FileStore
from gttf_pyg.transforms import GTTFNorm, PPRNeighbors, ToCompact
from gttf_pyg.unbiased import check_unbiased, unbiased
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
    "FusedReport",
    "GTTFLinkLoader",
    "GTTFLoader",
    "GTTFNorm",
    "GTTFSampler",
    "GraphSAINTEdgeSampler",
    "GraphSAINTNodeSampler",
    "GraphSAINTRandomWalkSampler",
    "GraphSAINTSampler",
    "HGTLoader",
    "HGTSampler",
    "Labor",
    "LightningLinkData",
    "LightningNodeData",
    "LinkNeighborLoader",
    "NegativeSampling",
    "NeighborLoader",
    "NeighborSampler",
    "Node2Vec",
    "PPRNeighbors",
    "SampledDegreeWarning",
    "ShaDowKHopSampler",
    "ToCompact",
    "WatchYourStep",
    "assert_no_future",
    "check_unbiased",
    "fused",
    "fused_layers",
    "inference",
    "install",
    "installed",
    "layerwise_inference",
    "partition",
    "sampled_inference",
    "unbiased",
    "uninstall",
]


def __getattr__(name: str) -> Any:
    """The data modules, which import all of Lightning; and PyG's own loaders."""
    if name in ("LightningLinkData", "LightningNodeData"):
        return getattr(import_module("gttf_pyg.lightning"), name)
    for host in (torch_geometric.loader, torch_geometric.sampler):
        if name in host.__all__:
            return getattr(host, name)
    raise AttributeError(f"module 'gttf_pyg' has no attribute {name!r}")
