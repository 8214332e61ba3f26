import gc

import pytest
import torch

import compiled
from all_pairs import all_pairs
from gttf_sampler import gather_rows, use_backend
from gttf_sampler._backends.memory import FEATURES
from gttf_sampler.gather import gather_columns, gathers_into

ROWS = torch.arange(3000 * 40).view(3000, 40)


@pytest.fixture(autouse=True)
def no_idle_buffers():
    FEATURES.idle.items.clear()


@all_pairs
@pytest.mark.parametrize(
    "values",
    [
        ROWS,
        ROWS.float(),
        ROWS.to(torch.bfloat16),
        ROWS % 2 == 0,
        ROWS.to(torch.complex64),
        ROWS.t().contiguous().t(),
        ROWS.view(3000, 4, 2, 5),
        ROWS[:, 0].repeat(3),
    ],
    ids=["int64", "float", "bfloat16", "bool", "complex", "strided", "4-d", "1-d"],
)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("size", [0, 1, 20_000])
def test_gather_rows_is_indexing(values, dtype, size):
    index = torch.randint(3000, (size,), dtype=dtype)
    assert torch.equal(gather_rows(values, index), values[index.long()])


def test_gather_rows_of_a_matrix_of_ids():
    index = torch.randint(3000, (50, 60))
    assert torch.equal(gather_rows(ROWS, index), ROWS[index])


def test_gather_rows_uses_memory_again_when_it_is_free():
    index = torch.arange(2000)
    first = gather_rows(ROWS, index)
    place = first.data_ptr()
    second = gather_rows(ROWS, index)
    assert second.data_ptr() != place
    part = first[5:7]  # a view holds the whole
    del first, second
    gc.collect()
    third = gather_rows(ROWS, index + 1)
    assert third.data_ptr() != place
    assert torch.equal(part, ROWS[5:7])
    del part
    gc.collect()
    assert gather_rows(ROWS, index).data_ptr() == place


def test_gather_rows_keeps_few_buffers():
    index = torch.arange(2000)
    many = [gather_rows(ROWS, index) for _ in range(3 * FEATURES.idle.kept)]
    many.clear()
    gc.collect()
    assert len(FEATURES.idle.items) == FEATURES.idle.kept


def test_gather_rows_keeps_gradients():
    values = ROWS.float().requires_grad_()
    gather_rows(values, torch.arange(2000)).sum().backward()
    assert values.grad is not None
    assert values.grad.sum() == 2000 * 40
    with torch.no_grad():
        assert not gather_rows(values, torch.arange(2000)).requires_grad


def test_gather_rows_survives_an_index_out_of_range():
    with pytest.raises(ValueError, match="'index' must hold ids below the number"):
        gather_rows(ROWS, torch.full((2000,), 3000))
    gc.collect()
    assert len(FEATURES.idle.items) == 1


@pytest.mark.parametrize(
    ("values", "index", "error"),
    [
        (ROWS, torch.tensor([1]).to("meta"), TypeError),
        (ROWS.to("meta"), torch.tensor([1]), TypeError),
        (torch.rand(5, 0), torch.tensor([7]), ValueError),
        (ROWS, torch.tensor([1]).to_sparse(), TypeError),
        (torch.tensor(1.0), torch.tensor([0]), ValueError),
    ],
    ids=["index on meta", "meta", "no columns", "sparse", "0-d"],
)
def test_gather_rows_refuses_what_has_no_rows_here(values, index, error):
    with pytest.raises(error, match=r"^'(values|index)' must"):
        gather_rows(values, index)


def test_gather_rows_of_a_negated_index():
    index = torch._neg_view(torch.tensor([-1, -2]))
    assert torch.equal(gather_rows(ROWS, index), ROWS[1:3])


def test_columns_on_a_device_are_gathered_by_one_kernel(device):
    how = pytest.importorskip("gttf_sampler._backends.triton.launch")
    if compiled.why_not() and not device.real:
        pytest.skip(compiled.why_not())
    x, y, index = torch.rand(9, 3), torch.arange(9), torch.tensor([4, 0, 8, 4])
    with device(), use_backend("triton"):
        there = [(part.to("cuda"), index.to("cuda")) for part in (x, y)]
        with how.counting() as names:
            found = gather_columns([*there, (x, index)])
        assert names.count("gather_rows") == 2  # one for each device
        assert [part.device.type for part in found] == ["cuda", "cuda", "cpu"]
        for part, values in zip(found, (x, y, x), strict=True):
            assert part.cpu().tolist() == values[index].tolist()
        assert not gathers_into(there[0][0])
