"""Rows that a GPU reads in memory of the host, with copies of some in its own."""

import pickle

import pytest
import torch

import compiled
from gttf_sampler import DeviceCache, use_backend
from gttf_sampler._backends.streams import streams_of
from gttf_sampler.features.device import PROFILED

KINDS = ["torch"] if compiled.why_not() else ["torch", "triton"]


@pytest.fixture(params=KINDS)
def there(request, device):
    """The device, and a backend for it."""
    with device() as gpu, use_backend(request.param):
        yield gpu


@pytest.mark.compile
@pytest.mark.parametrize(
    ("width", "dtype"),
    [
        ((), torch.int64),
        ((3,), torch.float32),
        ((40,), torch.float32),
        ((2, 5), torch.bfloat16),
        ((7,), torch.uint8),
    ],
)
def test_rows_are_those_of_the_values(there, width, dtype):
    """Wherever they are read: near, far, or both; also twice."""
    values = torch.arange(50 * max(1, torch.Size(width).numel()))
    values = values.view(50, *width).to(dtype)
    ids = torch.tensor([3, 49, 3, 0, 17, 8, 21, 33, 9])
    for rows in (None, [3], [3, 8, 49, 0], list(range(50))):
        x = DeviceCache(values)
        if rows is not None:
            x.cache(1 << 20, rows)
        for given in (ids, ids.to("cuda"), ids.int(), ids[:0]):
            found = x.rows(given)
            assert found.is_cuda
            assert found.cpu().equal(values[given.cpu().long()])
        hits = 0 if rows is None else sum(row in rows for row in ids.tolist())
        if rows is not None:
            assert x.hit_rate == hits / len(ids)


def test_cache_holds_what_the_first_reads_ask_for_most(there):
    values = torch.rand(30, 4)
    x = DeviceCache(values).cache(30 * 4 + 2 * 16)
    often, once = torch.tensor([7, 7, 11]), torch.arange(30)
    for number in range(PROFILED):
        x.rows((once if number == 4 else often).to("cuda"))
    assert "2 rows there" in repr(x)
    asked = torch.tensor([7, 11, 11, 4]).to("cuda")
    assert x.rows(asked).cpu().equal(values[[7, 11, 11, 4]])
    assert (
        repr(x)
        == (
            "DeviceCache([30, 4], float32, read by cuda:0, 2 rows there for 75.0% of "
            "those asked for)"
        )
        or not x.device.index
    )
    x.cache(0)
    assert repr(x).endswith(f"read by {x.device})")


def test_reading_never_waits(device):
    with device.exact() as gpu, use_backend(KINDS[-1]):
        x = DeviceCache(torch.rand(30, 4)).cache(1 << 12, [1, 2])
        ids = torch.tensor([1, 5]).to("cuda")
        with gpu.counting():
            x.rows(ids)
        assert gpu.syncs == []


def test_cache_is_a_source_of_rows_for_copies(there):
    x = DeviceCache(torch.rand(5, 2)).cache(1 << 12, [1])
    assert (x.shape, x.dtype, len(x)) == ((5, 2), torch.float32, 5)
    again = pickle.loads(pickle.dumps(x))
    assert again.values.equal(x.values)
    assert "rows there" not in repr(again)


def test_device_cache_validate(there):
    values = torch.rand(5, 2)
    with pytest.raises(ValueError, match="'device' must be a GPU that reads memory"):
        DeviceCache(values, "cpu")
    for wrong in (values.t(), torch.tensor(1.0), values.to("cuda")):
        with pytest.raises(ValueError, match="'values' must be contiguous rows"):
            DeviceCache(wrong)
    x = DeviceCache(values)
    with pytest.raises(ValueError, match="'nbytes' must be at least 28"):
        x.cache(27)
    with pytest.raises(ValueError, match="'rows' must hold ids below"):
        x.cache(100, [5])
    with pytest.raises(ValueError, match="'ids' must hold ids below"):
        x.rows(torch.tensor([5]))
    assert streams_of(x.device) is not None
