"""Streams and events of a device, and memory of the host that it reads in its place.

Unified virtual addressing gives locked memory of the host an address that the device
can use as well. Torch locks memory (`cudaHostRegister`), and takes tensors from whoever
has a `__cuda_array_interface__`; together they make a tensor of the device that nobody
has copied. Every row that a kernel reads then comes over the bus, and no other.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check

PORTABLE = 1  # cudaHostRegisterPortable: locked for all devices


class Streams:
    """Queues of work on a CUDA device; streams and events are torch's own objects.

    Tests have others, of a device on paper, with the same methods.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def stream(self) -> Any:
        """A new queue from torch's pool, beside the one that the caller works on."""
        return torch.cuda.Stream(self.device)

    def current(self) -> Any:
        """The queue that kernels of this thread go to now."""
        return torch.cuda.current_stream(self.device)

    def captured(self) -> bool:
        """True while a CUDA graph is made of work on that queue."""
        with torch.cuda.device(self.device):  # else of that which is current
            return torch.cuda.is_current_stream_capturing()

    def graph(self) -> Any:
        """A CUDA graph without work, to be captured and replayed."""
        return torch.cuda.CUDAGraph()

    @contextmanager
    def capture(self, graph: Any) -> Iterator[None]:
        """Makes a graph of what this thread has the device do, instead of doing it."""
        how = {"stream": self.stream(), "capture_error_mode": "thread_local"}
        with torch.cuda.device(self.device), torch.cuda.graph(graph, **how):
            yield

    def use(self, stream: Any) -> AbstractContextManager[Any]:
        """Has this thread work on `stream`, and its device, inside a `with` block."""
        return torch.cuda.stream(stream)

    def event(self, stream: Any) -> Any:
        """A mark behind all that `stream` was given so far; without a clock."""
        event = torch.cuda.Event()
        event.record(stream)
        return event

    def wait(self, stream: Any, event: Any) -> None:
        """Has `stream`, not the host, wait until the event is reached."""
        stream.wait_event(event)

    def record(self, tensor: Tensor, stream: Any) -> None:
        """Keeps the memory of `tensor` from others until `stream` is done with it."""
        for part in _parts(tensor):
            part.record_stream(stream)

    def done(self, event: Any) -> bool:
        """True once an event was reached; does not wait."""
        return bool(event.query())

    def finish(self, event: Any) -> None:
        """Has the host wait for this event, not for the device."""
        event.synchronize()

    def pinned(self, size: int) -> Tensor:
        """uint8 [size] in memory of the host that the device copies from by itself."""
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def upload(self, source: Tensor, stream: Any) -> Tensor:
        """`source`, which is pinned, on the device, made and copied on `stream`."""
        with self.use(stream):
            made = torch.empty(source.shape, dtype=source.dtype, device=self.device)
            return made.copy_(source, non_blocking=True)

    def mapped(self, values: Tensor) -> Tensor:
        """`values` of the host as a tensor of the device, in the same memory."""
        return mapped(values, self.device)


def _parts(tensor: Tensor) -> list[Tensor]:
    """The dense tensors of which a tensor consists; torch records no others."""
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return [tensor]


def mapped(values: Tensor, device: torch.device) -> Tensor:
    """`values` of the host as a tensor on `device`, in the same memory.

    Args:
        values: contiguous; its memory is locked as long as it lives.
        device: a CUDA device.
    """
    if not values.is_contiguous():
        _check.fail("uva", "needs features that are contiguous", "others")
    if values.numel() == 0:
        return values.to(device)
    with torch.cuda.device(device):  # whose address torch is to find
        if not values.is_pinned():
            _lock(values)
        elif not values.view(-1)[-1:].is_pinned():  # somebody has locked a part of it
            got, cure = "memory of which a part is locked", "make a copy: x.clone()"
            _check.fail("uva", "needs features whose memory can be locked", got, cure)
        found: Tensor = torch.as_tensor(_Bytes(values), device=device)
    if found.data_ptr() != values.data_ptr():  # torch has made a copy for the device
        rule = "needs a device that has the addresses of the host"
        cure = "make it the only one: CUDA_VISIBLE_DEVICES"
        _check.fail("uva", rule, f"a copy on {device}", cure)
    return found.view(values.dtype).view(values.shape)


class _Bytes:
    """Bytes of a tensor, as CUDA libraries describe theirs; it keeps them alive."""

    def __init__(self, values: Tensor) -> None:
        self.values = values

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": (self.values.nbytes,),
            "typestr": "|u1",
            "data": (self.values.data_ptr(), False),
            "strides": None,
        }


def _lock(values: Tensor) -> None:
    """Locks the memory of a tensor in its place until its storage goes.

    All of the storage: views of it may overlap, and memory is not locked twice.
    """
    runtime: Any = torch.cuda.cudart()
    storage = values.untyped_storage()
    place = storage.data_ptr()
    code = runtime.cudaHostRegister(place, storage.nbytes(), PORTABLE)
    if int(code):
        got = f"CUDA error {int(code)}, {runtime.cudaGetErrorString(code)}"
        cure = "a memory map, or memory that is locked already, cannot be"
        _check.fail("uva", "needs features whose memory can be locked", got, cure)
    weakref.finalize(storage, runtime.cudaHostUnregister, place)


def cuda_streams(device: torch.device) -> Streams | None:
    """The streams of `device`; None where there are none to overlap work on."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return None
    if device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    return Streams(device)


def streams_of(device: torch.device) -> Streams | None:
    """The streams of `device`; None if it has none. Tests put others in their place."""
    return cuda_streams(device)


def is_captured(device: torch.device) -> bool:
    """True while a CUDA graph is made of work on the current stream of `device`."""
    streams = None if device.type == "cpu" else streams_of(device)
    return streams is not None and streams.captured()
