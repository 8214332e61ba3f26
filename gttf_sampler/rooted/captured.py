"""CapturedSampler: padded batches of one size, each by replaying a CUDA graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends.streams import streams_of
from gttf_sampler.rooted.sampler import ONLY, RootedSampler
from gttf_sampler.subgraph import PaddedHeteroSubgraph, PaddedSubgraph


class CapturedSampler:
    """Padded rooted adjacencies on a GPU, all of so many seeds, by one launch each.

    The kernels of a batch are captured in a CUDA graph once. A call copies seeds and
    key to where the graph reads them and replays it: three launches instead of a dozen
    and more, if seeds are not checked. Bits are those of `sample_rooted(...,
    padded=True)`.

    Every call gives the same tensors: what the last one has left in them is written
    over. Clone what has to last. What a bias holds may be changed in place between
    calls. Replays must not overlap: use one sampler per stream.

    Args:
        adj: on a GPU; see `sample_rooted`, also for the others.
        fanouts: neighbours per hop.
        num_seeds: of every batch; with types, of every type that has seeds.
        replace: whether a neighbour can be drawn twice.
        disjoint: whether every seed has a tree of its own.
        bias: how neighbours are chosen.
        validate: whether seeds are checked.
    """

    def __init__(
        self,
        adj: Any,
        fanouts: Any,
        num_seeds: int | Mapping[str, int],
        *,
        replace: bool = False,
        disjoint: bool = False,
        bias: Any = None,
        validate: bool = True,
    ) -> None:
        how = {"replace": replace, "disjoint": disjoint, "validate": validate}
        self._sampler = sampler = RootedSampler(adj, fanouts, padded=True, **how)
        device = sampler.plan.device
        streams = streams_of(device)
        if streams is None:
            rule, cure = "must be on a GPU, to be captured", "use RootedSampler"
            _check.fail("adj", rule, f"one on {device}", f"{cure}(padded=True)")
        if not isinstance(num_seeds, Mapping):
            num_seeds = {"": num_seeds}
        _check.known_types("num_seeds", num_seeds, sampler.node_types, "node types")
        counts = {
            name: _check.at_least(1, "num_seeds", count)
            for name, count in num_seeds.items()
        }
        seeds = {
            name: torch.zeros(count, dtype=torch.int64, device=device)
            for name, count in counts.items()
        }
        self._key = torch.zeros((), dtype=torch.int64, device=device)
        if not sampler.typed:
            bias = None if bias is None else {ONLY: bias}
        self._batch = sampler.batch_of(seeds, bias, self._key)
        own = self._batch.seeds
        self._seeds = {name: own[sampler.number[name]] for name in counts}
        aside = streams.stream()
        streams.wait(aside, streams.event(streams.current()))
        with streams.use(aside):  # compiles kernels, and makes tables of the graph
            sampler.drawn(self._batch)
        streams.wait(streams.current(), streams.event(aside))
        self._graph = streams.graph()
        with streams.capture(self._graph):
            self._found = sampler.drawn(self._batch)

    def __call__(
        self, seeds: Any, *, generator: random.Randomness = None
    ) -> PaddedSubgraph | PaddedHeteroSubgraph:
        """The batch of some seeds; the next call writes over it."""
        sampler = self._sampler
        given = seeds if sampler.typed else {"": seeds}
        starts, _ = sampler.starts(given, checked=True)
        for name, own in self._seeds.items():
            start = starts[sampler.number[name]]
            if start.numel() != own.numel():
                rule = f"must hold the number of ids that was captured, {own.numel()}"
                _check.fail("seeds", rule, f"{start.numel()} ids")
            own.copy_(start)
        device = sampler.plan.device
        key = random.new_key(
            _check.randomness_on(generator, device), device, random.ROOTED
        )
        if isinstance(key, Tensor):
            self._key.copy_(key)
        else:
            self._key.fill_(random.signed(key))
        self._graph.replay()
        return self._found  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        counts = [
            f"{own.numel():,} {name}".strip() for name, own in self._seeds.items()
        ]
        return f"CapturedSampler({' + '.join(counts)} seeds, {self._found})"
