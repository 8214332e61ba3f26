"""States of loaders: of samplers, of an epoch, and of settings as plain numbers."""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from copy import deepcopy
from enum import Enum
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DistributedSampler, SequentialSampler

from gttf_sampler import _check
from gttf_sampler.graph.compact import CompactAdj

# Samplers that never ask torch's default generator.
QUIET = (BatchSampler, SequentialSampler, DistributedSampler, list, tuple, range)

# The state of an epoch that has not begun.
NOT_BEGUN = {
    "position": 0,
    "key": None,
    "start": None,
    "drawn": 0,
    "ended": False,
    "seen": 0,
}

VERSION = 2
SPOT = 1 << 16  # entries of a tensor by which a loader knows it again
PART = 1 << 22  # entries of a tensor that are read together
RESTORED = "must be what 'state_dict()' of such a loader has given"


class SamplerState:
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
        """The states of the generators."""
        return [generator.get_state() for generator in self._generators]

    def restore(self, states: list[Tensor]) -> None:
        """Sets the states of the generators."""
        for generator, state in zip(self._generators, states, strict=True):
            generator.set_state(state)

    def epochs(self) -> list[int]:
        """The epoch of every sampler that is told it, like a DistributedSampler."""
        return [int(sampler.epoch) for sampler in self._told()]

    def set_epochs(self, epochs: list[int]) -> None:
        """Tells these samplers their epochs."""
        for sampler, epoch in zip(self._told(), epochs, strict=True):
            sampler.set_epoch(epoch)

    def _told(self) -> list[Any]:
        return [
            sampler
            for sampler in self.samplers
            if hasattr(sampler, "set_epoch")
            and isinstance(getattr(sampler, "epoch", None), int)
        ]

    def own_state(self) -> Any:
        """A copy of the stateful sampler's own state; None if there is none."""
        return None if self.stateful is None else deepcopy(self.stateful.state_dict())


def _chain(sampler: Any) -> list[Any]:
    """A sampler, the one that it asks, and so on."""
    found: list[Any] = []
    while sampler is not None and all(sampler is not other for other in found):
        found.append(sampler)
        asked = getattr(sampler, "sampler", None)
        sampler = getattr(sampler, "batch_sampler", None) if asked is None else asked
    return found


def _is_stateful(sampler: Any) -> bool:
    """True if a sampler has a state, by the names that torchdata asks for."""
    names = ("state_dict", "load_state_dict")
    return all(callable(getattr(sampler, name, None)) for name in names)


class DrawnIndex(NamedTuple):
    """Indices of a batch, and the state of a stateful sampler when it gave them."""

    index: Any
    sampler: Any


class EpochState:
    """One epoch of a loader: its key, and how many batches were handed out.

    Workers and threads draw indices ahead, so three counts go up one after the other:
    indices drawn, indices given to whoever makes batches, batches handed out.

    Args:
        epoch: how many epochs there were before.
        start: the states of the generators when it began.
        before: the state of a stateful sampler, from then.
        resumed: the state of a loader that it continues; None if it is new.
        back: the states that generators get after what was drawn is drawn again.

    Attributes:
        key: of the epoch; None before it is drawn.
        ended: True when the sampler has no more.
        over: True when the user has seen the end.
        seen: a fingerprint of all indices that were handed out.
        last: the indices that were handed out last.
    """

    def __init__(
        self,
        epoch: int,
        start: list[Tensor],
        before: Any = None,
        resumed: dict[str, Any] | None = None,
        back: list[Tensor] | None = None,
    ) -> None:
        self.epoch, self.start, self.before = epoch, start, before
        self.resumed, self.back = resumed, back or []
        self.key: int | None = None if resumed is None else resumed["key"]
        self.drawn = self.given = self.position = self._taken = 0
        self.ended = self.over = False
        self.seen = self._seen = 0
        self.last: DrawnIndex | None = None
        self._ahead: deque[DrawnIndex | None] = deque()
        if resumed is not None:
            self.position = self.given = self._taken = resumed["position"]
            self.seen = self._seen = resumed["seen"]

    def give(self, drawn: DrawnIndex | None) -> int:
        """Notes what is given to whoever makes batches; its number in the epoch."""
        self._ahead.append(drawn)
        self.given += 1
        return self.given - 1

    def take(self, failed: bool = False) -> None:
        """Notes that the batch whose turn it is was handed out, or could not be made.

        The position stays before one that failed until another one is handed out.
        """
        self._taken += 1
        drawn = self._ahead.popleft() if self._ahead else None
        if drawn is not None:
            self._seen = fingerprint(self._seen, drawn.index)
        if not failed:
            self.position, self.seen, self.last = self._taken, self._seen, drawn

    def state(self) -> dict[str, Any]:
        """Its part of the state of a loader."""
        last = self.last
        return {
            "position": self.position,
            "key": self.key,
            "start": [state.clone() for state in self.start],
            "drawn": self.drawn,
            "ended": self.ended,
            "seen": self.seen,
            "sampler": deepcopy(self.before if last is None else last.sampler),
        }


def fingerprint(before: int, index: Any) -> int:
    """A checksum of an order of batches, from that of the batches before.

    It looks at the ends of a batch, which takes no time.
    """
    many = isinstance(index, list | tuple) and len(index) > 0
    ends = (index[0], index[-1], len(index)) if many else index
    return zlib.crc32(repr(ends).encode(), before)


class CountedBatches(Iterator[Any]):
    """The batches of an iterator, counted as they are handed out.

    It keeps their loader alive, so that what is inside need not do so.
    """

    def __init__(self, batches: Any, epoch: EpochState, loader: Any) -> None:
        self._batches, self._epoch, self._loader = batches, epoch, loader

    def __iter__(self) -> CountedBatches:
        return self

    def __next__(self) -> Any:
        try:
            batch = next(self._batches)
        except StopIteration:
            self._epoch.over = True
            raise
        except Exception:
            self._epoch.take(failed=True)
            raise
        self._epoch.take()
        return batch

    def __len__(self) -> int:
        return len(self._batches)

    def __getattr__(self, name: str) -> Any:  # of torch's iterator, or a host's
        if name == "_batches":  # in a copy that is still empty
            raise AttributeError(name)
        return getattr(self._batches, name)


def checked(state: Any, mine: dict[str, Any], also: tuple[str, ...]) -> dict[str, Any]:
    """A copy of a state, which must be of a loader like this one.

    Args:
        state: as the user gives it.
        mine: what this loader is known by: name → value.
        also: names of everything else that a state holds.
    """
    if not isinstance(state, dict):
        _check.mistyped("state_dict", RESTORED, _check.shown(state))
    if "version" not in state:
        _check.fail("state_dict", RESTORED, f"the keys {sorted(map(str, state))[:4]}")
    if state["version"] != VERSION:
        cure = "load it with the version of gttf-sampler that has written it"
        rule = f"must have version {VERSION}"
        _check.fail("state_dict", rule, f"version {state['version']}", cure)
    for name, value in mine.items():
        if name not in state:
            _check.fail("state_dict", RESTORED, f"none with {name!r}")
        if state[name] != value:
            rule = f"must be of a loader with {name} {value}, like this one"
            _check.fail("state_dict", rule, f"{name} {state[name]}")
    missing = [name for name in also if name not in state]
    if missing:
        _check.fail("state_dict", RESTORED, f"none with {missing[0]!r}")
    return dict(state)


def described(value: Any, most: int | None = None) -> Any:
    """A setting as plain numbers and words, the same in every process.

    Args:
        value: numbers and words stay, containers keep their form, tensors and graphs
            become checksums, functions and biases what they are called.
        most: entries of a tensor that are read for its checksum; None reads all.
    """
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(name): described(part, most) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [described(part, most) for part in value]
    if isinstance(value, Tensor):
        return f"{list(value.shape)}, checksum {checksum([value], most):08x}"
    if isinstance(value, CompactAdj):
        return described_graph(value, most)
    name = getattr(value, "__qualname__", None)
    if name is None:
        name = re.sub(" at 0x[0-9a-f]+", "", repr(value))
    own = getattr(value, "__dict__", {})
    held = [part for part in own.values() if isinstance(part, Tensor)]
    return f"{name}, checksum {checksum(held, most):08x}" if held else name


def described_graph(adj: CompactAdj, most: int | None = None) -> str:
    """The sizes of a graph, and the checksum of its arrays."""
    arrays = adj.arrays().values()
    sizes = f"{adj.num_rows:,} nodes, {adj.num_edges:,} edges"
    return f"{sizes}, checksum {checksum(arrays, most):08x}"


def checksum(tensors: Iterable[Tensor], most: int | None = None) -> int:
    """The CRC-32 of some tensors; with `most`, of so many evenly spaced entries."""
    found = 0
    for tensor in tensors:
        flat = tensor.detach().reshape(-1)
        if most is not None and flat.numel() > most:
            flat = flat[:: -(-flat.numel() // most)]
        for part in flat.split(PART):
            words = part.cpu().contiguous().view(torch.uint8).numpy()
            found = zlib.crc32(words, found)
    return found
