"""Streams of a device on paper: they note who asked what, and are as late as can be.

A copy is done when somebody waits for an event behind it, and not before. Who reads
what was not waited for finds `UNWRITTEN` bytes, and who writes to memory that is still
to be copied changes what arrives: both show in the bits of a batch.
"""

import threading
from collections import deque
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

UNWRITTEN = 0xAA


@dataclass
class Stream:
    """A queue of what is still to be done."""

    name: str
    left: deque = field(default_factory=deque)


@dataclass
class Event:
    stream: Stream
    reached: bool = False

    def reach(self) -> None:
        """Has the stream do everything before the event."""
        while not self.reached:
            self.stream.left.popleft()()


def _tensors(found: Any) -> list[Tensor]:
    parts = found if isinstance(found, tuple | list) else [found]
    return [part for part in parts if isinstance(part, Tensor)]


class PaperGraph(TorchDispatchMode):
    """Work that was recorded, to be done again: operations of torch, and kernels.

    What operations have made lasts as long as the graph, as in memory of its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.work: list[Any] = []
        self.made: list[Tensor] = []

    @contextmanager
    def recording(self):
        from gttf_sampler._backends.triton import launch as triton_launch

        start = triton_launch.start

        def record(*args):
            self.work.append(partial(start, *args))
            start(*args)

        with mock.patch.object(triton_launch, "start", record), self:
            yield

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        self.made += _tensors(found)
        fresh = func.overloadpacket.__name__ in ("empty", "empty_strided")
        if not func.is_view and not fresh:
            self.work.append(partial(self._again, func, args, kwargs or {}, found))
        return found

    @staticmethod
    def _again(func, args, kwargs, before):
        found = func(*args, **kwargs)
        for old, new in zip(_tensors(before), _tensors(found), strict=True):
            if new is not old:
                old.copy_(new)

    def forget(self) -> None:
        """Leaves nothing that was not written by a replay."""
        for tensor in self.made:
            tensor.untyped_storage().fill_(UNWRITTEN)

    def replay(self) -> None:
        with torch._C.DisableTorchFunction():
            for step in self.work:
                step()


class PaperStreams:
    """For `streams.cuda_streams`; `notes` lists the calls.

    Args:
        device: the type of device on which uploads are made.
        mode: what threads that use a stream are to enter, as an `Accelerator`.
        prompt: whether `done` lets time pass.
    """

    def __init__(self, device: str = "cpu", mode: Any = None, prompt=False) -> None:
        self.device, self.mode, self.prompt = device, mode, prompt
        self.notes: list[str] = []
        self.captures = False
        self.made: list[Tensor] = []  # pinned memory
        self.recorded: list[tuple[Tensor, str]] = []
        self._main, self._here = Stream("main"), threading.local()
        self._names = iter(("work", "copy", *map(str, range(1000))))

    def stream(self) -> Stream:
        return Stream(next(self._names))

    def current(self) -> Stream:
        return getattr(self._here, "stream", self._main)

    def captured(self) -> bool:
        return self.captures

    def graph(self) -> "PaperGraph":
        return PaperGraph()

    @contextmanager
    def capture(self, graph):
        self.captures = True
        self.notes.append("capture")
        try:
            with graph.recording():
                yield
        finally:
            self.captures = False
        graph.forget()

    @contextmanager
    def use(self, stream):
        before, self._here.stream = self.current(), stream
        outside = self.mode is not None and not torch._C._len_torch_function_stack()
        self.notes.append(f"use {stream.name}")
        try:
            with self.mode if outside else nullcontext():
                yield
        finally:
            self._here.stream = before
            self.notes.append(f"leave {stream.name}")

    def event(self, stream) -> Event:
        event = Event(stream)
        stream.left.append(lambda: setattr(event, "reached", True))
        self.notes.append(f"event on {stream.name}")
        return event

    def wait(self, stream, event) -> None:
        self.notes.append(f"{stream.name} waits for {event.stream.name}")
        event.reach()  # what comes next on `stream` is done at once

    def record(self, tensor, stream) -> None:
        self.recorded.append((tensor, stream.name))

    def done(self, event) -> bool:
        if self.prompt:
            event.reach()
        return event.reached

    def finish(self, event) -> None:
        self.notes.append(f"host waits for {event.stream.name}")
        event.reach()

    def pinned(self, size) -> Tensor:
        self.notes.append("pin")
        self.made.append(torch.full((size,), UNWRITTEN, dtype=torch.uint8))
        return self.made[-1]

    def upload(self, source, stream) -> Tensor:
        self.notes.append(f"copy on {stream.name}")
        shape = (*source.shape, source.element_size())
        made = torch.full(shape, UNWRITTEN, dtype=torch.uint8, device=self.device)
        made = made.view(source.dtype).view(source.shape)
        late = source.view(torch.uint8) if source.dim() else source
        target = made.view(torch.uint8) if source.dim() else made
        plain = target.as_subclass(Tensor)
        stream.left.append(lambda: Tensor.copy_(plain, late))
        return made

    def mapped(self, values) -> Tensor:
        self.notes.append("map")
        return values.to(self.device)

    def was_recorded(self, tensor, name) -> bool:
        """True if the memory of `tensor` was recorded for a stream of this name."""
        place = tensor.untyped_storage().data_ptr()
        return any(
            t.untyped_storage().data_ptr() == place
            for t, stream in self.recorded
            if stream == name
        )
