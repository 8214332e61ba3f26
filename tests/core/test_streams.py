"""What is asked of torch's CUDA, by stand-ins where there is none."""

import ctypes
import gc
from contextlib import nullcontext
from types import SimpleNamespace
from unittest import mock

import pytest
import torch

from gttf_sampler._loading.mapped import mapped
from gttf_sampler._loading.streams import CudaStreams, _parts, cuda_streams, streams_of

GPU = torch.device("cuda", 1)


@pytest.fixture
def cuda(monkeypatch):
    """Stand-ins that refuse calls which torch's own classes do not have."""
    real = torch.cuda.Stream, torch.cuda.Event
    made = SimpleNamespace(
        Stream=mock.create_autospec(real[0]), Event=mock.create_autospec(real[1])
    )
    monkeypatch.setattr(torch.cuda, "Stream", made.Stream)
    monkeypatch.setattr(torch.cuda, "Event", made.Event)
    return made


def test_cuda_streams_call_torch(cuda):
    streams = CudaStreams(GPU)
    stream = streams.stream()
    cuda.Stream.assert_called_once_with(GPU)
    event = streams.event(stream)
    event.record.assert_called_once_with(stream)
    streams.wait(stream, event)
    stream.wait_event.assert_called_once_with(event)
    event.query.return_value = True
    assert streams.done(event)
    streams.finish(event)
    event.synchronize.assert_called_once_with()
    tensor = mock.create_autospec(torch.Tensor, instance=True)
    streams.record(tensor, stream)
    tensor.record_stream.assert_called_once_with(stream)


def test_cuda_streams_of_devices(monkeypatch):
    assert cuda_streams(torch.device("cpu")) is None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert streams_of(torch.device("cuda")) is None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert streams_of(torch.device("cuda")).device == GPU
    assert streams_of(torch.device("cuda", 0)).device == torch.device("cuda", 0)


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta")
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "strided"])
def test_parts_of_sparse_tensors(layout):
    """Torch records dense memory alone."""
    dense = torch.eye(3)
    kind = getattr(torch, "strided" if layout == "strided" else f"sparse_{layout}")
    made = dense if layout == "strided" else dense.to_sparse(layout=kind)
    parts = _parts(made)
    assert all(part.layout is torch.strided for part in parts)
    assert len(parts) == {"coo": 2, "strided": 1}.get(layout, 3)


@pytest.fixture
def runtime(monkeypatch):
    """A CUDA runtime that notes what it locks, and reads addresses as they are."""
    notes = SimpleNamespace(locked=[], freed=[], code=0)

    def register(place, size, flags):
        notes.locked.append((place, size, flags))
        return notes.code

    def at_address(value, device):
        assert device == GPU
        told = value.__cuda_array_interface__
        (size,), (place, read_only) = told["shape"], told["data"]
        assert (told["typestr"], read_only) == ("|u1", False)
        bytes_there = (ctypes.c_uint8 * size).from_address(place)
        found = torch.frombuffer(bytes_there, dtype=torch.uint8)
        found.owner = value
        return found

    made = SimpleNamespace(
        cudaHostRegister=register,
        cudaHostUnregister=notes.freed.append,
        cudaGetErrorString=lambda code: "out of memory",
    )
    monkeypatch.setattr(torch.cuda, "cudart", lambda: made)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch, "as_tensor", at_address)
    return notes


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool]
)
def test_mapped_is_the_same_memory(runtime, dtype):
    values = torch.arange(12).view(4, 3).to(dtype)
    found = mapped(values, GPU)
    assert (found.dtype, found.shape) == (values.dtype, values.shape)
    assert torch.equal(found, values)
    assert found.data_ptr() == values.data_ptr()
    assert runtime.locked == [(values.data_ptr(), values.nbytes, 1)]


def test_mapped_is_unlocked_with_its_owner(runtime):
    values = torch.rand(100)
    place = values.data_ptr()
    found = mapped(values, GPU)
    assert runtime.freed == []
    del values, found
    gc.collect()
    assert runtime.freed == [place]


def test_mapped_that_is_pinned_already(runtime, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda self: True)
    mapped(torch.rand(3), GPU)
    assert runtime.locked == []


def test_mapped_validate(runtime):
    with pytest.raises(ValueError, match="'uva' needs features that are contiguous"):
        mapped(torch.rand(3, 3).t(), GPU)
    runtime.code = 2
    with pytest.raises(ValueError, match=r"can be locked \(got CUDA error 2, out of"):
        mapped(torch.rand(3), GPU)
    assert runtime.freed == []
