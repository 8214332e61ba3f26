import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, SimpleConv

from exact import one_thread as one_thread
from gttf_pyg import (
    GTTFLinkLoader,
    GTTFLoader,
    layerwise_inference,
    sampled_inference,
)
from gttf_sampler import AttentionBias


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(30, (2, 140), generator=generator)
    edge_index = edge_index[:, edge_index[0] != edge_index[1]]
    x = torch.randn(30, 5, generator=generator)
    return Data(x=x, edge_index=edge_index)


def test_layerwise_inference_is_the_full_graph_gcn(data):
    torch.manual_seed(0)
    first, last = (GCNConv(5, 4, normalize=False), GCNConv(4, 3, normalize=False))
    loader = GTTFLoader(data, [-1], batch_size=7, normalize="unbiased")
    layers = [
        lambda x, batch: first(x, batch.edge_index, batch.edge_weight).relu(),
        lambda x, batch: last(x, batch.edge_index, batch.edge_weight),
    ]
    found = layerwise_inference(layers, data.x, loader)
    whole = next(iter(GTTFLoader(data, [-1], batch_size=30, normalize="unbiased")))
    index, weight = whole.n_id[whole.edge_index], whole.edge_weight
    expected = last(first(data.x, index, weight).relu(), index, weight)
    torch.testing.assert_close(found, expected.detach())
    assert not found.requires_grad


@pytest.mark.parametrize("shuffle", [False, True])
def test_layerwise_inference_is_the_full_graph_gat(data, shuffle):
    torch.manual_seed(0)
    convs = [GATConv(5, 4, heads=2), GATConv(8, 3), GATConv(3, 3)]
    layers = [lambda x, batch, conv=conv: conv(x, batch.edge_index) for conv in convs]
    loader = GTTFLoader(data, [-1], batch_size=11, shuffle=shuffle)
    expected = data.x
    for conv in convs:
        expected = conv(expected, data.edge_index)
    found = layerwise_inference(layers, data.x, loader, device="cpu")
    torch.testing.assert_close(found, expected.detach())


def test_sampled_inference_mean_and_deviation(data):
    conv = SimpleConv(aggr="mean")
    loader = GTTFLoader(data, [2], batch_size=30, seed=0)
    rounds = 60
    mean, std = sampled_inference(
        lambda batch: conv(batch.x, batch.edge_index), loader, 30, rounds
    )
    exact = conv(data.x, data.edge_index)
    degree = torch.bincount(data.edge_index[1], minlength=30)
    assert std[degree <= 2].abs().max() < 1e-3  # nothing was left to chance
    assert std[degree > 4].min() > 0.01
    assert ((mean - exact).abs() <= 5 * std / rounds**0.5 + 1e-5).all()
    once = sampled_inference(lambda batch: batch.x, loader, 30)
    torch.testing.assert_close(once[0], data.x)
    assert once[1].abs().max() == 0


def test_sampled_inference_of_some_nodes(data):
    loader = GTTFLoader(data, [2], input_nodes=torch.tensor([4, 9]), batch_size=1)
    mean, _ = sampled_inference(lambda batch: batch.x, loader, 30)
    assert mean.any(dim=1).nonzero().view(-1).tolist() == [4, 9]


def test_inference_validate(data):
    with pytest.raises(ValueError, match=r"num_neighbors=\[-1\].*\[-1, -1\]"):
        layerwise_inference([], data.x, GTTFLoader(data, [-1, -1]))
    some = GTTFLoader(data, [-1], input_nodes=torch.tensor([0, 1]))
    layers = [lambda x, batch: x]
    dropped = GTTFLoader(data, [-1], batch_size=7, drop_last=True)
    for loader, count in ((some, 2), (dropped, 28)):
        with pytest.raises(ValueError, match=f"give all 30 nodes .got {count}"):
            layerwise_inference(layers, data.x, loader)
    data.w = torch.ones(data.num_edges)
    unlike = {"weight_attr": "w", "exclude_edges": [0], "bias": AttentionBias(len)}
    for name, value in unlike.items():
        loader = GTTFLoader(data, [-1], **{name: value})
        with pytest.raises(ValueError, match=f"full neighbourhoods .* '{name}'"):
            layerwise_inference(layers, data.x, loader)
    with pytest.raises(ValueError, match=r"one type .got a GTTFLinkLoader of links"):
        layerwise_inference(layers, data.x, GTTFLinkLoader(data, [-1]))
    with pytest.raises(ValueError, match="'rounds' must be a positive integer"):
        sampled_inference(lambda batch: batch.x, some, 30, rounds=0)
    none = GTTFLoader(data, [-1], input_nodes=torch.tensor([], dtype=torch.long))
    with pytest.raises(ValueError, match="'loader' must give at least one batch"):
        sampled_inference(lambda batch: batch.x, none, 30)
