"""A graph whose rows live in several processes, with the batches of one machine."""

from gttf_sampler.distributed.book import metis_parts
from gttf_sampler.distributed.exchange import PeerError
from gttf_sampler.distributed.graph import (
    PartitionedAdj,
    PartitionedFeatures,
    PartitionedGraph,
)
from gttf_sampler.distributed.write import partition

__all__ = [
    "PartitionedAdj",
    "PartitionedFeatures",
    "PartitionedGraph",
    "PeerError",
    "metis_parts",
    "partition",
]
