"""TemporalBias: no walker sees what happened after its seed's time."""

import math
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._backends.record import Law
from gttf_sampler.bias.base import Bias
from gttf_sampler.draw import Neighborhood
from gttf_sampler.graph import tables
from gttf_sampler.graph.compact import CompactAdj

INT64_MAX = (1 << 63) - 1
STRATEGIES = ("uniform", "last")


class TemporalBias(Bias):
    """Neighbours no later than the time of the seed the walker started from.

    >>> from gttf_sampler import CompactAdj, sample_rooted
    >>> edges, time = [[0, 1, 2], [3, 3, 3]], [10, 20, 30]
    >>> adj = CompactAdj.from_edge_index(edges, edge_time=time)
    >>> seen = sample_rooted(adj, [3, 3], [-1], bias=TemporalBias([10, 25]))
    >>> seen.node.tolist(), seen.batch.tolist()
    ([3, 3, 0, 0, 1], [0, 1, 0, 1, 1])

    Rows sorted by time make the admissible neighbours one range, found by bisection.

    Args:
        seed_time: [b], the time of every seed, integer if the edges' times are; it is
            rounded to the edges' type of float.
        strategy: "uniform" draws among the admissible neighbours, "last" takes the
            latest (with replacement: draws from the `fanout` latest).
        window: admit only times >= seed_time - window.
        weighted: draw by `adj.edge_weight` instead of uniformly.
    """

    needs_times = True
    separates_trees = True

    def __init__(
        self,
        seed_time: Any,
        *,
        strategy: str = "uniform",
        window: float | None = None,
        weighted: bool = False,
    ) -> None:
        self.strategy = _check.one_of("strategy", strategy, STRATEGIES)
        self.seed_time = _check.times("seed_time", seed_time)
        if window is not None and not 0 <= _check.number("window", window) < math.inf:
            _check.fail("window", "must be finite and not negative", window)
        weighted = _check.yes_or_no("weighted", weighted)
        if weighted and strategy == "last":
            _check.fail("weighted", "needs strategy='uniform'", "strategy='last'")
        self.window, self.needs_weights = window, weighted
        self.multiplies = self.strategy == "uniform"
        self._known: dict[Any, tuple[Tensor, Tensor | None]] = {}

    def begin(self, adj: CompactAdj, seeds: Tensor) -> None:
        """Checks that every seed has a time."""
        _check.length("seed_time", self.seed_time, seeds.numel(), "seed")

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """One, or the edge weight, for admissible neighbours, zero for the others."""
        adj = neighborhood.adj
        time = ops.take(tables.sorted_time(adj), neighborhood.edge)
        root = ops.take(neighborhood.root, neighborhood.walker)
        latest = ops.take(self._own(time), root)
        admitted = time <= latest
        if self.window is not None:
            admitted &= time >= self._earliest(latest)
        if not self.needs_weights:
            return admitted.to(torch.float64)
        return admitted * ops.take(tables.edge_weight(adj), neighborhood.edge)

    def law(self, adj: CompactAdj) -> Law:
        """The range of times of every seed, found in O(log δ)."""
        time = tables.sorted_time(adj)
        latest, before = self._bounds(time)
        law = Law(
            time=time,
            time_max=latest,
            time_min=before,
            most_recent=self.strategy == "last",
        )
        if not self.needs_weights:
            return law
        return law._replace(
            cumulative_weight=tables.weight_table(adj),
            has_zero_weight=tables.has_gaps(adj),
        )

    def _bounds(self, time: Tensor) -> tuple[Tensor, Tensor | None]:
        """Per seed the latest admitted time, and the latest that is too old, if any.

        They are comparable with `time`, the times of edges.
        """
        place = time.dtype, time.device
        if place not in self._known:  # relations with such times have the same bounds
            latest, before = self._own(time), None
            if self.window is not None:
                before = _just_before(self._earliest(latest))
            self._known[place] = latest, before
        return self._known[place]

    def _own(self, time: Tensor) -> Tensor:
        """The times [b] of the seeds, comparable with the edges' times."""
        own = self.seed_time
        if time.is_floating_point():
            own = own.to(time.dtype)  # equal times must stay equal
        elif own.is_floating_point():
            _check.mistyped("seed_time", "must be integer like the edges'", own.dtype)
        else:
            own = own.to(torch.int64)
        return own.to(time.device)

    def _earliest(self, latest: Tensor) -> Tensor:
        """The first time [w] inside the window."""
        window = self.window or 0
        if latest.is_floating_point():
            return latest - float(window)
        span = min(math.floor(window), INT64_MAX)
        return latest.clamp(min=span - INT64_MAX) - span  # without wrapping around

    def __repr__(self) -> str:
        """Shows its number of seeds and its options."""
        window = "" if self.window is None else f", window={self.window}"
        weighted = ", weighted=True" if self.needs_weights else ""
        return (
            f"TemporalBias({self.seed_time.numel()} seeds, "
            f"strategy={self.strategy!r}{window}{weighted})"
        )


def _just_before(time: Tensor) -> Tensor:
    """The largest value below each time."""
    if time.is_floating_point():
        return time.nextafter(torch.full_like(time, -float("inf")))
    return time - 1
