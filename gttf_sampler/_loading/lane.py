"""Lane: batches made on streams of their own, while the one before them trains.

    asked     event on the stream of the training loop
    making    the work stream waits for that event; samples, gathers on the device
    upload    gather into pinned memory; the copy stream copies; event
    handed    the training loop's stream waits for both events; memory is recorded

The host waits for the device in two places only: for ids by which it gathers features
that it holds, and for a pinned buffer if all of them are being copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import is_dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from gttf_sampler._backends.streams import Streams, streams_of
from gttf_sampler._loading.pinned import PinnedBuffers, Slices, aligned
from gttf_sampler.gather import gather_columns, row_bytes

_under_way: ContextVar[Lane | None] = ContextVar("gttf_lane", default=None)

Make = Callable[[Any], Any]
MOST = 64  # tensors of the host that a lane has mapped


class Asked(NamedTuple):
    """The index of a batch, and what it must not overtake."""

    index: Any
    event: Any


class Made(NamedTuple):
    """A batch, and the events behind all work on it."""

    batch: Any
    events: list[Any]


class Lane:
    """The streams of one loader, and the pinned memory that its features go through."""

    def __init__(self, device: torch.device, streams: Streams) -> None:
        self.device, self._streams = device, streams
        self._work, self._copy = streams.stream(), streams.stream()
        self._buffers = PinnedBuffers(streams)
        self._mapped: dict[int, tuple[Tensor, Tensor]] = {}  # by id of the first

    def __reduce__(self) -> Any:
        return lane_on, (self.device,)

    def asked(self, indices: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Asked]]:
        """The indices of batches, each with what the caller has started before it.

        Whatever the training loop changes before it asks is changed in the batch.
        """
        streams = self._streams
        for number, index in indices:
            yield number, Asked(index, streams.event(streams.current()))

    def makes(self, make: Make) -> Callable[[Asked], Made]:
        """`make`, index → batch, on the streams of this lane."""

        def on_lane(asked: Asked) -> Made:
            with self._making(asked.event):
                batch = make(asked.index)
                events = [self._streams.event(s) for s in (self._work, self._copy)]
            return Made(batch, events)

        return on_lane

    def hand_over(self, made: Made) -> Any:
        """The batch, for the stream of the caller to use."""
        current = self._streams.current()
        for event in made.events:
            self._streams.wait(current, event)
        for tensor in tensors_of(made.batch):
            if tensor.device.type == self.device.type:
                self._streams.record(tensor, current)
        return made.batch

    def upload(self, columns: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """Rows of (values, index) on the host, on their way to the device.

        They have arrived for whoever calls `settle`, and for whoever is handed the
        batch.
        """
        if not columns:
            return []
        sizes = [row_bytes(values) * index.numel() for values, index in columns]
        total = sum(map(aligned, sizes))
        with self._buffers.lent(total, self._copy) as memory:
            rows = gather_columns(columns, Slices(memory))
            return [self._streams.upload(part, self._copy) for part in rows]

    def mapped(self, values: Tensor) -> Tensor:
        """`values` of the host, for kernels of the device to read where they are."""
        found = self._mapped.get(id(values))
        if found is None:
            if len(self._mapped) >= MOST:  # of loaders whose data keep changing
                self._mapped.clear()
            found = values, self._streams.mapped(values)
            self._mapped[id(values)] = found
        return found[1]

    def settle(self, batch: Any) -> None:
        """Has what is done to `batch` next come after all that is being copied."""
        self._streams.wait(self._work, self._streams.event(self._copy))
        for tensor in tensors_of(batch):
            if tensor.device.type == self.device.type:
                self._streams.record(tensor, self._work)

    def reads(self, tensors: Iterable[Tensor]) -> None:
        """Keeps what the work stream reads, should its owner let go of it."""
        for tensor in tensors:
            self._streams.record(tensor, self._work)

    @contextmanager
    def _making(self, event: Any) -> Iterator[None]:
        """Makes this the lane of the thread, on its work stream."""
        self._streams.wait(self._work, event)
        token = _under_way.set(self)
        try:
            with self._streams.use(self._work):
                yield
        finally:
            _under_way.reset(token)


def lane_on(device: torch.device) -> Lane | None:
    """A new lane, if the device has streams."""
    streams = streams_of(device)
    return None if streams is None else Lane(device, streams)


def lane_under_way() -> Lane | None:
    """The lane on which this thread is making a batch."""
    return _under_way.get()


def tensors_of(batch: Any) -> list[Tensor]:
    """All tensors of a batch: of containers, of dataclasses, and of PyG's data."""
    leaves: list[Any] = []
    for leaf in tree_leaves(batch):
        if is_dataclass(leaf) and not isinstance(leaf, type):
            for part in vars(leaf).values():
                leaves += tensors_of(part)
        elif hasattr(leaf, "apply_") and not isinstance(leaf, Tensor):
            leaf.apply_(leaves.append)  # PyG also shows it what are no tensors
        else:
            leaves.append(leaf)
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]
