"""GTTFLinkLoader: PyG's LinkNeighborLoader on the engine of this package."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.loader import LinkNeighborLoader
from torch_geometric.sampler import NegativeSampling
from torch_geometric.sampler.base import SubgraphType

from gttf_pyg._arguments import (
    checked_prefetch,
    edge_label_index_of,
    prepare_workers,
    sampler_for,
    seeded,
)
from gttf_pyg._attached import detached
from gttf_pyg._batches import Batches
from gttf_pyg._finish import finish
from gttf_sampler import BiasFn
from gttf_sampler._check import finite, shown


class GTTFLinkLoader(Batches, LinkNeighborLoader):
    """PyG's `LinkNeighborLoader`: the same arguments and batches, nothing to compile.

    >>> from torch_geometric.datasets import KarateClub
    >>> loader = GTTFLinkLoader(
    ...     KarateClub()[0], [5, 5], neg_sampling="binary", batch_size=8,
    ...     exclude_edges=True,
    ... )
    >>> next(iter(loader)).edge_label.tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]

    Under `torch.manual_seed`, batches and their negatives are the same bit by bit for
    any number of workers and threads.

    Args:
        data: and everything up to `directed`: see PyG's `LinkNeighborLoader`;
            `**kwargs` go to `LinkLoader` and to torch's `DataLoader`, whose `generator`
            also governs the sampling.
        exclude_edges: True hides the seed edges of a batch and their reverses, all
            parallel copies, before anything is drawn: no label leaks, and every node
            still gets its full fanout. Edges that are named: see `GTTFLoader`.
        bias: and all others: see `GTTFLoader`.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        edge_label_index: Any = None,
        edge_label: Tensor | None = None,
        edge_label_time: Tensor | None = None,
        replace: bool = False,
        subgraph_type: SubgraphType | str = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        neg_sampling: NegativeSampling | str | None = None,
        neg_sampling_ratio: float | None = None,
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Any = None,
        transform_sampler_output: Any = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: Any = None,
        directed: bool = True,
        *,
        exclude_edges: Any = False,
        bias: BiasFn | dict[Any, BiasFn] | None = None,
        seed: int | None = None,
        time_window: float | None = None,
        device: torch.device | str | None = None,
        prefetch: int = 0,
        normalize: str | None = None,
        **kwargs: Any,
    ) -> None:
        neighbor_sampler = sampler_for(
            data,
            neighbor_sampler,
            {
                "exclude_edges": exclude_edges,
                "bias": bias,
                "time_window": time_window,
                "device": device,
            },
            num_neighbors=num_neighbors,
            replace=replace,
            subgraph_type=subgraph_type,
            disjoint=disjoint,
            temporal_strategy=temporal_strategy,
            time_attr=time_attr,
            weight_attr=weight_attr,
            is_sorted=is_sorted,
            directed=directed,
        )
        if not isinstance(neg_sampling, str | NegativeSampling | dict | tuple | None):
            got = shown(neg_sampling)
            raise TypeError(f"'neg_sampling' must be a NegativeSampling (got {got})")
        if neg_sampling_ratio is not None:
            finite("neg_sampling_ratio", neg_sampling_ratio)
        labelled = edge_label_index_of(
            edge_label_index, edge_label, edge_label_time, neighbor_sampler
        )
        workers = kwargs.get("num_workers", 0)
        self.prefetch = checked_prefetch(prefetch, workers)
        prepare_workers(neighbor_sampler, workers)
        super().__init__(
            detached(data),
            num_neighbors,
            *labelled,
            neg_sampling=neg_sampling,
            neg_sampling_ratio=neg_sampling_ratio,
            time_attr=time_attr,
            transform=finish(data, neighbor_sampler, normalize, device, transform),
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            neighbor_sampler=neighbor_sampler,
            **seeded(kwargs, seed),
        )
        self.use_keys()
