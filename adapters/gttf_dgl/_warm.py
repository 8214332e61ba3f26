"""Compiled code loaded before a DataLoader forks, so that its workers find it there."""

from functools import cache
from typing import Any

import torch

from gttf_sampler import CompactAdj, EdgeWeightBias, ExcludeBias, sample_rooted

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
