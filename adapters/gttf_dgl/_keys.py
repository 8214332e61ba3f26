"""What a sampler knows of the DataLoader that calls it: keys, devices, workers."""

from functools import cache
from typing import Any

import torch
from dgl.dataloading.dataloader import _TensorizedDatasetIter
from torch.utils.data import get_worker_info

from gttf_dgl._resume import Rest, run_of
from gttf_sampler import CompactAdj, EdgeWeightBias, ExcludeBias, sample_rooted
from gttf_sampler._loading.asked import fetch_under_way


def number_of_batch(fetcher: Any, worker: Any) -> int | None:
    """The number of a batch in its epoch; for `BatchKeys`."""
    batches = getattr(fetcher, "dataset_iter", None)
    if worker is None or not isinstance(batches, _TensorizedDatasetIter):
        return None
    data = fetcher.dataset
    run = data.run if isinstance(data, Rest) else worker.id
    first, _ = run_of(len(data), worker.num_workers, run)
    return int(first + batches.index // batches.batch_size - 1)


def gathers_here() -> bool:
    """Whether features of the batch are wanted in this process, on the CPU."""
    if get_worker_info() is not None:
        return False
    fetch = fetch_under_way()
    collate = None if fetch is None else getattr(fetch.fetcher, "collate_fn", None)
    device = getattr(collate, "device", None)
    return device is not None and torch.device(device).type == "cpu"


KIND = ("", "", "")


@cache
def load_kernels(replace: bool) -> None:
    """Samples once from a tiny graph of every kind; a process does so once.

    A sampler does not hear of workers before it is in one, and there each would load
    the machine code by itself, in every epoch.
    """
    how: dict[str, Any] = {"replace": replace, "generator": 0}
    for dtype in (torch.int32, torch.int64):
        col, weight = torch.tensor([1, 0], dtype=dtype), torch.ones(2)
        edge_id = torch.tensor([1, 0], dtype=dtype)
        adj = CompactAdj.from_csr([0, 1, 2], col, edge_id=edge_id, edge_weight=weight)
        for bias in (None, EdgeWeightBias(), ExcludeBias([0])):
            sub = sample_rooted(adj, [0], [1, -1], bias=bias, **how)
            adj.original_edge(sub.edge)
        sample_rooted({KIND: adj}, {"": [0]}, [1, -1], **how)
