"""GTTF for DGL: the DataLoader's sampler argument, and random walks.

>>> import dgl, torch
>>> from gttf_dgl import DataLoader, NeighborSampler  # instead of dgl.dataloading
>>> g = dgl.rand_graph(100, 1000)
>>> sampler = NeighborSampler([10, 15])
>>> loader = DataLoader(g, torch.arange(100), sampler, batch_size=20)
>>> len(loader)
5
"""

try:
    import dgl  # noqa: F401
except (ImportError, OSError) as err:  # dgl 2.1 misses a file for this torch
    cause = next(iter(str(err).splitlines()), "no reason")
    raise ImportError(
        "'gttf_dgl' needs a dgl that can be imported "
        f"(got {type(err).__name__}: {cause}); "
        "install it with: pip install 'dgl<2' packaging, on Python before 3.12 "
        "(dgl 1.1.2 and 1.1.3 run with any torch, dgl 2.1.0 up to torch 2.2.1)"
    ) from err

from gttf_dgl.check import check_unbiased
from gttf_dgl.compact import to_compact
from gttf_dgl.labor import LaborSampler, sample_labors
from gttf_dgl.loader import DataLoader
from gttf_dgl.partitioned import PartitionedLoader, partition
from gttf_dgl.pinsage import PinSAGESampler, RandomWalkNeighborSampler
from gttf_dgl.saint import SAINTSampler
from gttf_dgl.sampler import (
    GTTFSampler,
    MultiLayerFullNeighborSampler,
    MultiLayerNeighborSampler,
    NeighborSampler,
    sample_neighbors,
)
from gttf_dgl.subgraph_sampler import (
    GTTFSubgraphSampler,
    ShaDowKHopSampler,
    from_subgraph,
)
from gttf_dgl.unbiased import unbiased
from gttf_dgl.walks import node2vec_random_walk, random_walk
from gttf_sampler.estimate import BiasedLayerWarning, SampledDegreeWarning

__all__ = [
    "BiasedLayerWarning",
    "DataLoader",
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
    "node2vec_random_walk",
    "partition",
    "random_walk",
    "sample_labors",
    "sample_neighbors",
    "to_compact",
    "unbiased",
]
