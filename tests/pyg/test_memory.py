"""Features of a batch are gathered into memory that earlier batches gave back."""

import gc

import pytest
import torch
from torch_geometric.data import Data

from gttf_pyg import GTTFLoader
from gttf_sampler._backends.memory import FEATURES

NODES = 6000


@pytest.fixture
def loader() -> GTTFLoader:
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(NODES, (2, 60_000), generator=generator)
    x = torch.rand(NODES, 64, generator=generator)
    data = Data(x=x, edge_index=edge_index)
    return GTTFLoader(data, [5, 5], batch_size=2000)


def test_memory_of_a_batch_gone_serves_again(loader):
    FEATURES.idle.items.clear()
    places = set()
    for _ in range(4):
        for batch in loader:
            assert batch.x.equal(loader.data.x[batch.n_id])
            places.add(batch.x.data_ptr())
            del batch
            gc.collect()
    assert len(places) <= 2


def test_memory_of_a_batch_held_is_left_alone(loader):
    batches = list(loader) + list(loader)
    assert len({batch.x.data_ptr() for batch in batches}) == len(batches)
    assert all(batch.x.equal(loader.data.x[batch.n_id]) for batch in batches)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.uint8])
def test_memory_of_any_dtype(loader, dtype):
    loader.data.x = (loader.data.x * 9).to(dtype)
    for batch in loader:
        assert torch.equal(batch.x, loader.data.x[batch.n_id])
        assert batch.x.dtype == dtype
        assert batch.x.is_contiguous()


def test_memory_under_a_view_or_a_gradient_is_left_alone(loader):
    first, second = list(loader)[:2]
    view, weight = first.x[5:].t(), torch.ones(64, requires_grad=True)
    known, expected = view.clone(), second.x.sum(0)
    loss = (second.x * weight).sum()
    del first, second
    for _ in range(2):
        for _ in loader:
            pass
    assert torch.equal(view, known)
    loss.backward()
    assert torch.allclose(weight.grad, expected)


def test_memory_of_features_with_gradients_is_torchs(loader):
    loader.data.x.requires_grad_()
    batch = next(iter(loader))
    batch.x.sum().backward()
    reached = torch.isin(torch.arange(NODES), batch.n_id)
    assert torch.equal(loader.data.x.grad.sum(1) > 0, reached)
