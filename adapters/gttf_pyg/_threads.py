"""When a thread makes the batches, in the place of worker processes."""

from typing import Any

from torch_geometric import loader as theirs
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import NegativeSampling

from gttf_pyg._batch import Finish
from gttf_pyg._keys import KeyedCollate
from gttf_pyg.sampler import GTTFSampler, NeighborSampler
from gttf_sampler._loading.safe import safe_biases

SAMPLERS = (GTTFSampler, NeighborSampler)
COLLATES = (theirs.NodeLoader.collate_fn, theirs.LinkLoader.collate_fn)


def only_ours(loader: Any) -> bool:
    """Whether workers would run nothing but code that is safe in a thread.

    What a user has written may count on a process of its own: on its random state, on
    `get_worker_info`, or on nobody else changing what it reads.
    """
    sampler = getattr(loader, "node_sampler", None)
    if sampler is None:
        sampler = loader.link_sampler
    transform = loader.transform
    if isinstance(transform, Finish):
        transform = transform.transform
    start = loader.worker_init_fn
    start = getattr(start, "func", start)  # PyG leaves a wrapper of nothing behind
    given = (transform, loader.transform_sampler_output, start)
    return (
        all(function is None for function in given)
        and isinstance(loader.collate_fn, KeyedCollate)
        and type(loader).collate_fn in COLLATES
        and isinstance(loader.data, Data | HeteroData)
        and type(sampler) in SAMPLERS
        and safe_biases(sampler.bias)
        and _safe_negatives(getattr(loader, "neg_sampling", None))
    )


def _safe_negatives(given: NegativeSampling | None) -> bool:
    """Whether negatives are drawn by the key of the batch."""
    return given is None or type(given).sample is NegativeSampling.sample
