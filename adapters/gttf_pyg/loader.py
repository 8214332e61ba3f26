"""GTTFLoader: PyG's NeighborLoader on the engine of this package."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.loader import NeighborLoader
from torch_geometric.sampler.base import SubgraphType

from gttf_pyg._arguments import (
    checked_prefetch,
    input_nodes_of,
    not_seed_edges,
    prepare_workers,
    sampler_for,
    seeded,
)
from gttf_pyg._attached import detached
from gttf_pyg._batches import Batches
from gttf_pyg._finish import finish
from gttf_sampler import BiasFn


class GTTFLoader(Batches, NeighborLoader):
    """PyG's `NeighborLoader`: the same arguments, the same batches, nothing to compile.

    >>> import torch
    >>> from torch_geometric.datasets import KarateClub
    >>> loader = GTTFLoader(KarateClub()[0], num_neighbors=[5, 5], batch_size=4)
    >>> batch = next(iter(loader))
    >>> batch.batch_size, batch.n_id[:4].tolist()
    (4, [0, 1, 2, 3])
    >>> torch.equal(batch.n_id[batch.edge_index], loader.data.edge_index[:, batch.e_id])
    True

    Under `torch.manual_seed`, batches are the same bit by bit for any number of workers
    and threads. Weights, times and both together need no pyg-lib; a weight of zero is
    never drawn; times may be floats; "induced" may be disjoint.

    Args:
        data: and everything up to `directed`: see PyG's `NeighborLoader`; `**kwargs`
            go to `NodeLoader` and to torch's `DataLoader`, whose `generator` also
            governs the sampling.
        bias: any BiasFn of `gttf_sampler`, or one per edge type.
        exclude_edges: ids or a mask of edges that are as if they were not there, one
            per edge type if there are types.
        seed: short for `generator=torch.Generator().manual_seed(seed)`.
        time_window: only admit neighbours at most this much older than the seed.
        device: where to sample, and where all of the batch arrives, whether or not the
            features are there.
        prefetch: how many batches a thread in the background makes ahead. A random
            `transform` then shares torch's generator with whatever runs meanwhile.
        normalize: "unbiased" or "paper" adds `edge_weight` and self-loops, so that
            `GCNConv(normalize=False)` computes that estimator of the GCN.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        input_nodes: Any = None,
        input_time: Tensor | None = None,
        replace: bool = False,
        subgraph_type: SubgraphType | str = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
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
                "exclude_edges": not_seed_edges(exclude_edges),
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
        nodes, times = input_nodes_of(input_nodes, input_time, data, neighbor_sampler)
        workers = kwargs.get("num_workers", 0)
        self.prefetch = checked_prefetch(prefetch, workers)
        prepare_workers(neighbor_sampler, workers)
        super().__init__(
            detached(data),
            num_neighbors,
            nodes,
            times,
            transform=finish(data, neighbor_sampler, normalize, device, transform),
            transform_sampler_output=transform_sampler_output,
            time_attr=time_attr,
            filter_per_worker=filter_per_worker,
            neighbor_sampler=neighbor_sampler,
            **seeded(kwargs, seed),
        )
        self.use_keys()
