"""StreamPipeline: batches made on streams of their own, while the last one trains.

    asked     event on the stream of the training loop
    making    the work stream waits for that event; samples, gathers on the device
    upload    gather into pinned memory; the copy stream copies; event
    handed    the training loop's stream waits for both events; memory is recorded

The host waits for the device in two places only: for ids by which it gathers features
that it holds, and for a pinned buffer if all of them are being copied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gttf_sampler._backends.streams import Streams, streams_of
from gttf_sampler._compat import tree_leaves
from gttf_sampler.gather import gather_columns, row_bytes

Make = Callable[[Any], Any]
MAPPED = 64  # tensors of the host that a pipeline has mapped
BUFFERS = 4  # whoever wants another one waits for the one that was lent first
SLACK = 4  # how many times too large a buffer may be
LINE = 256  # bytes that parts of a buffer are aligned to


class Asked(NamedTuple):
    """The index of a batch, and what it must not overtake."""

    index: Any
    event: Any


class Made(NamedTuple):
    """A batch, and the events behind all work on it."""

    batch: Any
    events: list[Any]


class StreamPipeline:
    """The streams of one loader, and the pinned memory that its features go through."""

    def __init__(self, device: torch.device, streams: Streams) -> None:
        self.device, self._streams = device, streams
        self._work, self._copy = streams.stream(), streams.stream()
        self._buffers = PinnedBuffers(streams)
        self._mapped: dict[int, tuple[Tensor, Tensor]] = {}  # by id of the first

    def __reduce__(self) -> Any:
        return pipeline_on, (self.device,)

    def asked(self, indices: Iterable[Any]) -> Iterator[Asked]:
        """The indices of batches, each with what the caller has started before it.

        Whatever the training loop changes before it asks is changed in the batch.
        """
        streams = self._streams
        for index in indices:
            yield Asked(index, streams.event(streams.current()))

    def makes(self, make: Make) -> Callable[[Asked], Made]:
        """`make`, index → batch, on the streams of this pipeline."""

        def on_work_stream(asked: Asked) -> Made:
            self._streams.wait(self._work, asked.event)
            with self._streams.use(self._work):
                batch = make(asked.index)
                events = [self._streams.event(s) for s in (self._work, self._copy)]
            return Made(batch, events)

        return on_work_stream

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
            if len(self._mapped) >= MAPPED:  # of loaders whose data keep changing
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


def pipeline_on(device: torch.device) -> StreamPipeline | None:
    """A new pipeline, if the device has streams."""
    streams = streams_of(device)
    return None if streams is None else StreamPipeline(device, streams)


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


class Lent(NamedTuple):
    """A buffer that was lent, and the event behind the last copy from it."""

    memory: Tensor
    event: Any


class PinnedBuffers:
    """Pinned memory for one batch at a time.

    To pin memory costs as much as to fill it, so it is used again. A buffer whose copy
    may still be under way is passed over, and where all are, the host waits for the
    oldest. Steps on the list are atomic, so that threads can share it.
    """

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._idle: deque[Lent] = deque()  # those that were lent first stand first

    @contextmanager
    def lent(self, size: int, stream: Any) -> Iterator[Tensor]:
        """At least `size` bytes, from which `stream` copies what it is told to inside.

        Also where that fails half-way, nobody else has the buffer before `stream` has
        come to the end of what it was told.
        """
        memory = self._take(size)
        try:
            yield memory
        finally:
            self._idle.append(Lent(memory, self._streams.event(stream)))

    def _take(self, size: int) -> Tensor:
        """A buffer that is free and fits, or a new one in the place of the oldest."""
        passed: list[Lent] = []
        try:
            for _ in range(len(self._idle)):
                idle = self._idle.popleft()
                if _fits(idle.memory, size) and self._streams.done(idle.event):
                    return idle.memory
                passed.append(idle)
        except IndexError:  # another thread was faster
            pass
        finally:
            self._idle.extendleft(reversed(passed))
        while len(self._idle) >= BUFFERS:
            try:
                idle = self._idle.popleft()
            except IndexError:  # other threads were faster
                break
            self._streams.finish(idle.event)
            if _fits(idle.memory, size):
                return idle.memory
        return self._streams.pinned(size + size // 8)


def _fits(memory: Tensor, size: int) -> bool:
    """True if a buffer is large enough, and not much too large."""
    return size <= memory.numel() <= SLACK * max(size, LINE)


class Slices:
    """A buffer handed out piece by piece, each at the beginning of a line."""

    def __init__(self, memory: Tensor) -> None:
        self._memory, self._used = memory, 0

    def __call__(self, size: int) -> Tensor:
        """uint8 [size] that nobody else was given."""
        first = self._used
        self._used += aligned(size)
        return self._memory[first : first + size]


def aligned(size: int) -> int:
    """`size` in whole lines."""
    return -(-size // LINE) * LINE
