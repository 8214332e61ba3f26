"""Order: what decides which seeds a batch has, and how it is put back."""

from __future__ import annotations

import zlib
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DistributedSampler, SequentialSampler

# Samplers that never ask torch's default generator.
QUIET = (BatchSampler, SequentialSampler, DistributedSampler, list, tuple, range)


class Order:
    """The samplers of a loader, and the generators that they and the keys come from.

    Args:
        batches: what torch iterates over: a batch sampler, or a sampler.
        generator: the loader's own, or None.

    Attributes:
        stateful: the outermost sampler with a `state_dict` and a `load_state_dict`;
            it answers for those that it asks. None if there is none.
    """

    def __init__(self, batches: Any, generator: torch.Generator | None) -> None:
        self.samplers = _chain(batches)
        self.stateful = next(filter(_is_stateful, self.samplers), None)
        found = [torch.default_generator if generator is None else generator]
        for sampler in self.samplers:
            own = [
                value
                for value in getattr(sampler, "__dict__", {}).values()
                if isinstance(value, torch.Generator)
            ]
            found += own
            if not own and type(sampler) not in QUIET:
                found.append(torch.default_generator)
        self._generators = list({id(one): one for one in found}.values())

    def names(self) -> list[str]:
        """The classes of the samplers."""
        return [type(sampler).__name__ for sampler in self.samplers]

    def states(self) -> list[Tensor]:
        """Where the generators stand."""
        return [generator.get_state() for generator in self._generators]

    def put(self, states: list[Tensor]) -> None:
        """Has the generators stand there again."""
        for generator, state in zip(self._generators, states, strict=True):
            generator.set_state(state)

    def epochs(self) -> list[int]:
        """The epoch of every sampler that is told it, like a DistributedSampler."""
        return [int(sampler.epoch) for sampler in self._told()]

    def put_epochs(self, epochs: list[int]) -> None:
        """Tells them."""
        for sampler, epoch in zip(self._told(), epochs, strict=True):
            sampler.set_epoch(epoch)

    def _told(self) -> list[Any]:
        return [s for s in self.samplers if hasattr(s, "set_epoch") and _epoch_of(s)]

    def note(self) -> Any:
        """A copy of the sampler's own state; None if it has none."""
        return None if self.stateful is None else deepcopy(self.stateful.state_dict())


def fingerprint(before: int, index: Any) -> int:
    """A number by which an order is known again, from that of the batches before.

    It looks at the ends of a batch, which takes no time.
    """
    many = isinstance(index, list | tuple) and len(index) > 0
    ends = (index[0], index[-1], len(index)) if many else index
    return zlib.crc32(repr(ends).encode(), before)


def _chain(sampler: Any) -> list[Any]:
    """A sampler, the one that it asks, and so on."""
    found: list[Any] = []
    while sampler is not None and all(sampler is not other for other in found):
        found.append(sampler)
        asked = getattr(sampler, "sampler", None)
        sampler = getattr(sampler, "batch_sampler", None) if asked is None else asked
    return found


def _is_stateful(sampler: Any) -> bool:
    """Whether a sampler can say where it is, as torchdata asks it."""
    names = ("state_dict", "load_state_dict")
    return all(callable(getattr(sampler, name, None)) for name in names)


def _epoch_of(sampler: Any) -> bool:
    """Whether a sampler knows its epoch."""
    return isinstance(getattr(sampler, "epoch", None), int)
