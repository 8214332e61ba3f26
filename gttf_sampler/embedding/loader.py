"""A DataLoader of walk forests: the same ones with any number of workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._loading.prefetch import is_thread_safe
from gttf_sampler._loading.seeded import KeyedIndex, SeededLoader
from gttf_sampler._loading.state import SPOT, described
from gttf_sampler.draw import BiasFn
from gttf_sampler.forest import WalkForest
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.traverse import traverse

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
        """Whether workers would run nothing but code that is safe in a thread."""
        return self.worker_init_fn is None and is_thread_safe(self.bias)

    def settings(self) -> dict[str, Any]:
        """What forests depend on beside their seeds and keys, by name."""
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
