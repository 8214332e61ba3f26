"""GTTF for DGL: the DataLoader's sampler argument, and random walks.

>>> import dgl, torch
>>> from gttf_dgl import DataLoader, NeighborSampler  # instead of dgl.dataloading
>>> g = dgl.rand_graph(100, 1000)
>>> sampler = NeighborSampler([10, 15])
>>> loader = DataLoader(g, torch.arange(100), sampler, batch_size=20)
>>> len(loader)
5
"""

from typing import Any

try:
    import dgl
except (ImportError, OSError) as err:  # dgl 2.1 misses a file for this torch
    cause = next(iter(str(err).splitlines()), "no reason")
    raise ImportError(
        "'gttf_dgl' needs a dgl that can be imported "
        f"(got {type(err).__name__}: {cause}); "
        "install it with: pip install 'dgl<2' packaging, on Python before 3.12 "
        "(dgl 1.1.2 and 1.1.3 run with any torch, dgl 2.1.0 up to torch 2.2.1)"
    ) from err

from gttf_dgl._source import to_compact
from gttf_dgl.dataloading import DataLoader, PartitionedLoader, partition
from gttf_dgl.fused import FusedLayers, fused, fused_layers
from gttf_dgl.install import install, installed, uninstall
from gttf_dgl.labor import LaborSampler, sample_labors
from gttf_dgl.sampler import (
    GTTFSampler,
    MultiLayerFullNeighborSampler,
    MultiLayerNeighborSampler,
    NeighborSampler,
    sample_neighbors,
)
from gttf_dgl.sampling import (
    PinSAGESampler,
    RandomWalkNeighborSampler,
    node2vec_random_walk,
    ppr_graph,
    random_walk,
)
from gttf_dgl.subgraphs import (
    GTTFSubgraphSampler,
    SAINTSampler,
    ShaDowKHopSampler,
    from_subgraph,
)
from gttf_dgl.unbiased import check_unbiased, unbiased
from gttf_sampler.estimate import BiasedLayerWarning, SampledDegreeWarning

__all__ = [
    "BiasedLayerWarning",
    "DataLoader",
    "FusedLayers",
    "GTTFSampler",
    "GTTFSubgraphSampler",
    "LaborSampler",
    "MultiLayerFullNeighborSampler",
    "MultiLayerNeighborSampler",
    "NeighborSampler",
    "PartitionedLoader",
    "PinSAGESampler",
    "RandomWalkNeighborSampler",
    "SAINTSampler",
    "SampledDegreeWarning",
    "ShaDowKHopSampler",
    "check_unbiased",
    "from_subgraph",
    "fused",
    "fused_layers",
    "install",
    "installed",
    "node2vec_random_walk",
    "partition",
    "ppr_graph",
    "random_walk",
    "sample_labors",
    "sample_neighbors",
    "to_compact",
    "unbiased",
    "uninstall",
]


def __getattr__(name: str) -> Any:
    """DGL's own objects of `dataloading` and `sampling`, where we have none."""
    for room in ("dataloading", "sampling"):
        host = getattr(dgl, room)
        if not name.startswith("_") and hasattr(host, name):
            return getattr(host, name)
    raise AttributeError(f"module 'gttf_dgl' has no attribute {name!r}")
