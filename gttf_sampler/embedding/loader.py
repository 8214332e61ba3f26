"""A DataLoader of walk forests: the same ones with any number of workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader

from gttf_sampler import _check
from gttf_sampler.draw import BiasFn
from gttf_sampler.forest import WalkForest
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.random import BATCH, draw, fold, new_key
from gttf_sampler.traverse import traverse

OWN = ("dataset", "collate_fn", "batch_sampler")
Levels = tuple[list[Tensor], list[Tensor]]


class ForestLoader(DataLoader[Any]):
    """Yields one `WalkForest` per batch of nodes.

    An epoch draws one key, in the process that iterates; a batch has the key of its
    number. Workers send the levels of a forest and never the graph.

    Args:
        adj: where to walk.
        fanouts: how many walkers each walker becomes, per depth.
        bias: weights of the neighbours; None draws uniformly.
        kwargs: of `torch.utils.data.DataLoader`, except those that are used here.
    """

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
        self.adj, self.fanouts = adj, fanouts
        nodes = range(adj.num_rows)
        order = ("batch_size", "shuffle", "sampler", "drop_last", "generator")
        asked = {name: kwargs[name] for name in order if name in kwargs}
        batches = DataLoader(nodes, **asked).batch_sampler  # type: ignore[arg-type]
        if batches is None:
            _check.fail("batch_size", "must be a number of nodes", None)
        rest = {n: v for n, v in kwargs.items() if n not in order or n == "generator"}
        grow = _Grow(adj, fanouts, bias)
        if kwargs.get("num_workers", 0):
            grow([0])  # no walk: loads what workers would load each by itself
        keyed: Any = _Keyed(batches, kwargs.get("generator"))
        ids: Any = _Ids()
        super().__init__(ids, batch_sampler=keyed, collate_fn=grow, **rest)

    def __iter__(self) -> Iterator[WalkForest]:  # type: ignore[override]
        """One epoch of forests."""
        if self.persistent_workers and self._iterator is not None:
            # torch draws a number for every iterator, and none for one that is used
            # again: an epoch must not depend on that
            draw(self.generator)
        for nodes, edges in super().__iter__():
            yield WalkForest(self.adj, self.fanouts, nodes, edges)


class _Ids:
    """A dataset whose item number i is i."""

    def __getitem__(self, index: int) -> int:
        return index


class _Keyed:
    """Batches of node ids with a random key in front."""

    def __init__(self, batches: Any, generator: torch.Generator | None) -> None:
        self.batches: BatchSampler = batches
        self.generator = generator

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[Any]]:
        key = new_key(self.generator, torch.device("cpu"), BATCH)
        for number, batch in enumerate(self.batches):
            yield [fold(key, number), *batch]


class _Grow:
    """Makes the levels of a forest from a key and the ids behind it."""

    def __init__(
        self, adj: CompactAdj, fanouts: tuple[int, ...], bias: BiasFn | None
    ) -> None:
        self.adj, self.fanouts, self.bias = adj, fanouts, bias

    def __call__(self, batch: list[Any]) -> Levels:
        key, *seeds = batch
        forest = traverse(self.adj, seeds, self.fanouts, self.bias, generator=key)
        return forest.nodes, forest.edges
