"""PinnedBuffers: memory that a device copies from, used again when it has done so."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import Tensor

from gttf_sampler._backends.streams import Streams

MOST = 4  # buffers; whoever wants another one waits for the one that was lent first
SLACK = 4  # how many times too large a buffer may be
LINE = 256  # bytes that parts of a buffer are aligned to


class Idle(NamedTuple):
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
        self._idle: deque[Idle] = deque()  # those that were lent first stand first

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
            self._idle.append(Idle(memory, self._streams.event(stream)))

    def _take(self, size: int) -> Tensor:
        """A buffer that is free and fits, or a new one in the place of the oldest."""
        passed: list[Idle] = []
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
        while len(self._idle) >= MOST:
            try:
                idle = self._idle.popleft()
            except IndexError:  # other threads were faster
                break
            self._streams.finish(idle.event)
            if _fits(idle.memory, size):
                return idle.memory
        return self._streams.pinned(size + size // 8)


def _fits(memory: Tensor, size: int) -> bool:
    """Whether a buffer is large enough, and not much too large."""
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
