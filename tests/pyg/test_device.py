"""Sampling on the device of the graph; batches arrive where they are wanted."""

import pytest
import torch
from torch_geometric.datasets import KarateClub

from gttf_pyg import GTTFLinkLoader, GTTFLoader, ShaDowKHopSampler
from reference import hetero_toy

KARATE = KarateClub()[0]


def tensors(batch):
    return [
        (name, value)
        for store in batch.stores
        for name, value in store.items()
        if isinstance(value, torch.Tensor)
    ]


@pytest.mark.parametrize("where", ["cpu", "cuda"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"disjoint": True},
        {"subgraph_type": "induced"},
        {"subgraph_type": "bidirectional"},
        {"normalize": "unbiased"},
        {"max_nodes": 9},
        {"max_edges": 7},
    ],
)
def test_device_of_a_batch(device, where, options):
    """All of it, whether the features are there or on the CPU; the same batch."""
    expected = next(iter(GTTFLoader(KARATE, [3, 2], batch_size=5, seed=1, **options)))
    with device():
        data = KARATE.clone()
        data.x = data.x.to(where)
        loader = GTTFLoader(
            data, [3, 2], batch_size=5, seed=1, device="cuda", **options
        )
        (adj,) = loader.node_sampler.adjs.values()
        assert adj.device.type == "cuda"
        batch = next(iter(loader))
        assert all(value.is_cuda for _, value in tensors(batch))
        found = batch.to("cpu")
    for name, value in tensors(expected):
        assert torch.equal(found[name], value), name


def test_device_of_a_graph_that_is_there(device):
    """Without `device`, the graph is sampled where it is."""
    with device():
        data = KARATE.clone().to("cuda")
        loader = GTTFLoader(data, [3, 2], batch_size=5)
        assert loader.filter_per_worker is False
        batch = next(iter(loader))
        for name in ("x", "y", "edge_index", "n_id", "e_id"):
            assert batch[name].is_cuda


@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
def test_device_of_links(device, mode):
    with device():
        loader = GTTFLinkLoader(
            KARATE,
            [2],
            neg_sampling=mode,
            batch_size=9,
            device="cuda",
            exclude_edges=True,
        )
        batch = next(iter(loader))
        assert all(value.is_cuda for _, value in tensors(batch))


def test_device_of_edges_is_no_matter_to_loaders_on_the_cpu(device):
    """Seeds of these are on the CPU, and so are the rows that they draw from."""
    graphs = next(iter(ShaDowKHopSampler(KARATE, 2, 3, batch_size=4, seed=1)))
    how = {"input_nodes": torch.arange(9), "batch_size": 9, "seed": 1}
    pairs = next(iter(GTTFLinkLoader(KARATE, [2], **how)))
    with device():
        data = KARATE.clone().to("cuda")
        found = next(iter(ShaDowKHopSampler(data, 2, 3, batch_size=4, seed=1)))
        assert torch.equal(found.edge_index.cpu(), graphs.edge_index)
        assert torch.equal(found.x.cpu(), graphs.x)
        found = next(iter(GTTFLinkLoader(data, [2], **how)))
        assert torch.equal(found.n_id.cpu(), pairs.n_id)


def test_device_of_types(device):
    with device():
        loader = GTTFLoader(hetero_toy(), [2, 2], "item", batch_size=3, device="cuda")
        batch = next(iter(loader))
        assert all(value.is_cuda for _, value in tensors(batch))
        assert batch["alone"].x.shape == (0, 1)


def test_device_of_times_and_weights(device):
    data = KARATE.clone()
    data.time = torch.arange(34)
    data.w = torch.ones(156)
    with device():
        loader = GTTFLoader(
            data,
            [2, 2],
            time_attr="time",
            weight_attr="w",
            batch_size=9,
            device="cuda",
        )
        assert next(iter(loader)).n_id.is_cuda
