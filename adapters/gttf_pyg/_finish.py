"""What happens to a batch between PyG's part and the user's transform."""

from collections.abc import Callable
from typing import Any

import torch
from torch_geometric.data import Data

from gttf_pyg._check import NOT_UNIFORM, SCHEMES, first_used
from gttf_pyg.sampler import GTTFSampler
from gttf_pyg.transforms import GCNWeights, edge_columns
from gttf_sampler._check import fail, one_of
from gttf_sampler._loading.lane import lane_under_way


class Finish:
    """The device, then GCN weights, the dtype of edges, the user's own transform."""

    def __init__(
        self,
        weights: GCNWeights | None,
        device: torch.device | str | None,
        transform: Callable[[Any], Any] | None,
        index_dtype: torch.dtype | None = None,
    ) -> None:
        self.index_dtype = index_dtype
        self.weights, self.transform = weights, transform
        self.device = None if device is None else torch.device(device)

    def __call__(self, data: Any) -> Any:
        """The finished batch."""
        if self.device is not None:
            data = data.to(self.device, non_blocking=True)
        lane = lane_under_way()
        if lane is not None and (self.weights or self.transform) is not None:
            lane.settle(data)
        if self.weights is not None:
            data = self.weights(data)
        if self.index_dtype is not None:
            for store in data.edge_stores:
                if "edge_index" in store:
                    store.edge_index = store.edge_index.to(self.index_dtype)
        return data if self.transform is None else self.transform(data)


def finish(
    data: Any,
    sampler: Any,
    normalize: str | None,
    device: Any,
    transform: Any,
    index_dtype: torch.dtype | None,
) -> Any:
    """The transform of a loader; the user's own if there is nothing else to do."""
    if normalize is None and device is None and index_dtype is None:
        return transform
    weights = None
    if normalize is not None:
        weights = _weights(data, sampler, normalize)
    return Finish(weights, device, transform, index_dtype)


def _weights(data: Any, sampler: Any, scheme: str) -> GCNWeights:
    """The weights of scheme `normalize`, if they mean something for this sampler."""
    one_of("normalize", scheme, SCHEMES)
    if not isinstance(data, Data) or "edge_index" not in data:
        rule = "must be None unless the data is a 'Data' with an edge_index"
        fail("normalize", rule, type(data).__name__, "normalise in the model")
    if not isinstance(sampler, GTTFSampler):
        rule = "must be None unless the 'neighbor_sampler' is a GTTFSampler"
        fail("normalize", rule, type(sampler).__name__)
    (adj,) = sampler.adjs.values()
    taken = [name for name in ("edge_weight", "n_id", "e_id") if name in data]
    if taken:
        rule = f"must be None where the data has a {taken[0]!r} of its own"
        fail("normalize", rule, repr(scheme))
    names = ("subgraph_type", "sample_direction", *NOT_UNIFORM, "layerwise")
    if used := first_used(sampler, *names):
        rule = "must be None unless neighbours are drawn uniformly"
        fail("normalize", rule, f"{scheme!r} with {used!r}")
    return GCNWeights(adj, scheme, edge_columns(data))
