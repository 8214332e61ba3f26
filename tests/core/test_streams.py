"""Calls of torch's CUDA, made to stand-ins on machines without one."""

import ctypes
import gc
import weakref
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from unittest import mock

import pytest
import torch

from gttf_sampler._backends.memory import ScratchPool
from gttf_sampler._backends.streams import (
    Streams,
    _parts,
    cuda_streams,
    mapped,
    streams_of,
)
from paper import PaperStreams

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


def test_cuda_streams_call_torch(cuda, monkeypatch):
    streams = Streams(GPU)
    stream = streams.stream()
    cuda.Stream.assert_called_with(GPU)
    current = [torch.device("cuda", 0)]  # which is not that of the streams

    @contextmanager
    def use(device):
        current.append(device)
        yield
        current.pop()

    monkeypatch.setattr(torch.cuda, "device", use)
    capturing = lambda: current[-1] == GPU  # noqa: E731
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", capturing)
    assert streams.captured()
    monkeypatch.setattr(torch.cuda, "CUDAGraph", mock.Mock())
    begun = mock.create_autospec(torch.cuda.graph)
    begun.return_value.__enter__.side_effect = lambda: current[-1]
    monkeypatch.setattr(torch.cuda, "graph", begun)
    graph = streams.graph()
    with streams.capture(graph):
        assert current[-1] == GPU
    own = cuda.Stream.return_value  # torch's own is one of the current device
    begun.assert_called_once_with(graph, stream=own, capture_error_mode="thread_local")
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


def test_mapped_views_lock_their_storage_once(runtime, monkeypatch):
    """The second view is locked already, beyond what the first has shown."""
    values = torch.arange(12)
    whole = values.data_ptr(), values.nbytes
    pinned = lambda view: any(  # noqa: E731
        place <= view.data_ptr() < place + size for place, size, _ in runtime.locked
    )
    monkeypatch.setattr(torch.Tensor, "is_pinned", pinned)
    for view in (values[2:6], values[4:], values):
        assert mapped(view, GPU).tolist() == view.tolist()
    assert [lock[:2] for lock in runtime.locked] == [whole]
    runtime.locked[:] = [(whole[0], 40, 1)]
    with pytest.raises(ValueError, match=r"memory of which a part is locked.*clone"):
        mapped(values, GPU)


def test_mapped_refuses_copies_for_another_device(runtime, monkeypatch):
    monkeypatch.setattr(torch, "as_tensor", lambda told, device: told.values.clone())
    with pytest.raises(
        ValueError, match=r"'uva' needs a device that has the addresses"
    ):
        mapped(torch.rand(3), GPU)


def test_mapped_validate(runtime):
    with pytest.raises(ValueError, match="'uva' needs features that are contiguous"):
        mapped(torch.rand(3, 3).t(), GPU)
    runtime.code = 2
    with pytest.raises(ValueError, match=r"can be locked \(got CUDA error 2, out of"):
        mapped(torch.rand(3), GPU)
    assert runtime.freed == []


@pytest.fixture
def paper(monkeypatch):
    """A device on paper, on which tables are lent and given back."""
    there = PaperStreams()
    monkeypatch.setattr("gttf_sampler._backends.streams.cuda_streams", lambda at: there)
    return there


THERE = torch.device("meta")  # whose tables take no memory


def test_tables_follow_the_stream_that_has_left_them(paper):
    pool = ScratchPool()
    table = pool.take(5, THERE)
    pool.give_back(5, table)
    assert pool.take(5, THERE) is table
    assert paper.notes == ["event on main"]
    assert paper.recorded == []
    pool.give_back(5, table)
    paper.notes.clear()
    with paper.use(paper.stream()):
        assert pool.take(5, THERE) is table
        assert paper.notes == ["use work", "work waits for main"]
        assert [(t is table.cell, at) for t, at in paper.recorded] == [(True, "work")]
        pool.give_back(5, table)
    assert pool.take(5, THERE) is table
    assert paper.notes[2:] == ["event on work", "leave work", "main waits for work"]


def test_tables_of_a_captured_stream_are_made_in_the_graph(paper):
    """A replay fills them again, in memory of its graph; nobody else keeps them."""
    pool = ScratchPool()
    table = pool.take(5, THERE)
    pool.give_back(5, table)
    paper.captures = True
    with pool.borrow(5, THERE) as found:
        assert found is not table
    kept = weakref.ref(found)
    del found
    gc.collect()
    assert kept() is None
    paper.captures = False
    assert pool.take(5, THERE) is table


def test_tables_of_the_cpu_ask_no_streams(paper):
    pool = ScratchPool()
    with pool.borrow(5, torch.device("cpu")) as table:
        pass
    with pool.borrow(5, torch.device("cpu")) as again:
        assert again is table
    assert paper.notes == []
