"""DataLoader of walk forests, the same with any number of workers; seed orders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler._loading.prefetch import is_thread_safe
from gttf_sampler._loading.seeded import KeyedIndex, SeededLoader
from gttf_sampler._loading.state import SPOT, described
from gttf_sampler.draw import BiasFn
from gttf_sampler.forest import WalkForest
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.traverse import traverse

ORDERS = ("random", "near")
ROUNDS = 2  # steps that a label travels
ENTRIES = 1 << 24  # edges that are looked at together
OWN = ("dataset", "collate_fn", "batch_sampler")
Levels = tuple[list[Tensor], list[Tensor]]


class ForestLoader(SeededLoader):
    """Yields one `WalkForest` per batch of nodes.

    With workers a thread walks ahead, unless the bias is a function or there is a
    `worker_init_fn`; worker processes send the levels of a forest, never the graph.

    Args:
        adj: where to walk.
        fanouts: how many walkers each walker becomes, per depth.
        bias: weights of the neighbours; None draws uniformly.
        kwargs: of `torch.utils.data.DataLoader`, except those that are used here; and
            `thread_workers`, of which False asks for processes, True for the thread.
    """

    draws_keys = True

    def __init__(
        self,
        adj: CompactAdj,
        fanouts: tuple[int, ...],
        bias: BiasFn | None = None,
        **kwargs: Any,
    ) -> None:
        for name in OWN:
            if name in kwargs:
                _check.fail(name, "must be left to this loader", repr(kwargs[name]))
        if kwargs.get("batch_size", 1) is None:
            _check.fail("batch_size", "must be a number of nodes", None)
        self.adj, self.fanouts, self.bias = adj, fanouts, bias
        walk = _Walk(adj, fanouts, bias)
        if kwargs.get("num_workers", 0):
            walk(KeyedIndex([], 0))  # loads what workers would load each by itself
        super().__init__(range(adj.num_rows), collate_fn=walk, **kwargs)

    def runs_only_ours(self) -> bool:
        """True if workers would run nothing but code that is safe in a thread."""
        return self.worker_init_fn is None and is_thread_safe(self.bias)

    def settings(self) -> dict[str, Any]:
        """Returns all that forests depend on beside seeds and keys, by name."""
        names = "adj", "fanouts", "bias"
        return {name: described(getattr(self, name), SPOT) for name in names}

    def __iter__(self) -> Iterator[WalkForest]:  # type: ignore[override]
        """One epoch of forests."""
        for nodes, edges in super().__iter__():
            yield WalkForest(self.adj, self.fanouts, nodes, edges)


class _Walk:
    """Makes the levels of a forest from ids and a key."""

    def __init__(
        self, adj: CompactAdj, fanouts: tuple[int, ...], bias: BiasFn | None
    ) -> None:
        self.adj, self.fanouts, self.bias = adj, fanouts, bias

    def __call__(self, batch: Any) -> Levels:
        given = KeyedIndex.of(batch)
        how = self.fanouts, self.bias
        forest = traverse(self.adj, given.index, *how, generator=given.key)
        return forest.nodes, forest.edges


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
