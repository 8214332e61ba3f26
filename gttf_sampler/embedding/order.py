"""The order of seeds: at random, or so that a batch meets the same rows again."""

from __future__ import annotations

import torch
from torch import Tensor

from gttf_sampler import random
from gttf_sampler._backends import ops
from gttf_sampler.graph.compact import CompactAdj

ORDERS = ("random", "near")
ROUNDS = 2  # steps that a label travels
ENTRIES = 1 << 24  # edges that are looked at together


def near_order(adj: CompactAdj) -> Tensor:
    """The nodes [n], those with neighbours in common beside each other.

    Every node takes the smallest label, a random one at first, of itself and its
    neighbours, and then the smallest of theirs; the nodes are sorted by what they have
    in the end, those with the same one by what they had before.
    """
    slot = torch.arange(adj.num_rows, device=adj.device)
    label = random.stream(0, slot)
    before = label
    for _ in range(ROUNDS):
        before, label = label, _smallest(adj, label)
    _, number = label.unique(return_inverse=True)
    _, earlier = before.unique(return_inverse=True)
    order: Tensor = (number * adj.num_rows + earlier).argsort(stable=True)
    return order


def _smallest(adj: CompactAdj, label: Tensor) -> Tensor:
    """Per node the smallest label [n] of itself and its neighbours."""
    found = label.clone()
    for low in range(0, adj.num_edges, ENTRIES):
        entry = torch.arange(low, min(low + ENTRIES, adj.num_edges), device=adj.device)
        owner = torch.searchsorted(adj.rowptr, entry, right=True) - 1
        there = label.index_select(0, ops.take(adj.col, entry).to(torch.int64))
        found.scatter_reduce_(0, owner, there, "amin")
    return found


def in_blocks(order: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """The nodes [n] of an order, cut into batches at a random place, batches shuffled.

    Every node is a seed once, as in any other order.
    """
    nodes = order.numel()
    first = int(torch.randint(max(1, nodes), (), generator=generator))
    blocks = list(order.roll(-first).split(size))
    if len(blocks) > 1 and blocks[-1].numel() < size:  # the short one stays last
        shuffled = torch.randperm(len(blocks) - 1, generator=generator).tolist()
        shuffled.append(len(blocks) - 1)
    else:
        shuffled = torch.randperm(len(blocks), generator=generator).tolist()
    return torch.cat([blocks[number] for number in shuffled])
