"""CommunitySampler: an order of seeds in which batches hold whole communities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import Sampler

from gttf_sampler import _check


class CommunitySampler(Sampler[int]):
    """Shuffles seeds so that those of a few communities come together.

    >>> import torch
    >>> from gttf_sampler import CommunitySampler
    >>> order = list(CommunitySampler([0, 0, 0, 1, 1, 1], mix=1))
    >>> {*order[:3]} in ({0, 1, 2}, {3, 4, 5}), sorted(order)
    (True, [0, 1, 2, 3, 4, 5])

    Nodes of a community have neighbours in common, so that their batch reaches fewer
    nodes. The price is that batches are less alike: gradients vary more from one to the
    next, and a small `mix` can cost accuracy. Every epoch orders the communities anew,
    shuffles the seeds of `mix` of them together, and goes on with the next.

    For the `sampler` of a loader, as of torch's DataLoader.

    Args:
        part: int [k], the community of every seed, such as METIS finds
            (`gttf_sampler.distributed.metis_parts`).
        mix: how many communities are shuffled together; all of them is plain shuffling.
        generator: torch's default one if None.
    """

    def __init__(
        self, part: Any, mix: int = 8, *, generator: torch.Generator | None = None
    ) -> None:
        given = _check.integers("part", part).to("cpu", torch.int64)
        self.part = given.unique(return_inverse=True)[1]
        self.mix = _check.count("mix", mix)
        self.generator = _check.cpu_generator("generator", generator)

    def __iter__(self) -> Iterator[int]:
        """The positions of all seeds, in the order of a new epoch."""
        count = int(self.part.max()) + 1 if self.part.numel() else 0
        turn = torch.randperm(count, generator=self.generator)
        order = torch.randperm(self.part.numel(), generator=self.generator)
        group = turn[self.part[order]].div(self.mix, rounding_mode="floor")
        return iter(order[group.argsort(stable=True)].tolist())

    def __len__(self) -> int:
        return int(self.part.numel())
