"""Models on full batches compute what they compute on the full graph."""

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.datasets import FakeDataset, FakeHeteroDataset, KarateClub
from torch_geometric.nn import (
    GAT,
    GCN,
    GCN2Conv,
    GCNConv,
    GraphSAGE,
    HeteroConv,
    SAGEConv,
)
from torch_geometric.utils import is_undirected, trim_to_layer

from all_pairs import all_pairs
from gttf_pyg import GTTFLoader

SEEDS = torch.tensor([5, 0, 33, 5])
HOPS = 2


def graphs() -> list[Data]:
    """An undirected and a directed one, without loops."""
    seed_everything(4)
    fake = FakeDataset(1, avg_num_nodes=60, avg_degree=3, is_undirected=False)[0]
    fake.edge_index = fake.edge_index[:, fake.edge_index[0] < fake.edge_index[1]]
    return [KarateClub()[0], Data(x=fake.x, edge_index=fake.edge_index)]


GRAPHS = graphs()


def test_graphs_differ_in_direction():
    assert [is_undirected(g.edge_index, num_nodes=g.num_nodes) for g in GRAPHS] == [
        True,
        False,
    ]


def counts(batch: Data, trimmed: bool) -> dict:
    if not trimmed:
        return {}
    return {
        "num_sampled_nodes_per_hop": batch.num_sampled_nodes,
        "num_sampled_edges_per_hop": batch.num_sampled_edges,
    }


@all_pairs
@pytest.mark.parametrize("trimmed", [False, True])
@pytest.mark.parametrize("kind", [GraphSAGE, GAT])
@pytest.mark.parametrize("data", GRAPHS, ids=["undirected", "directed"])
def test_model_on_full_batches(data, kind, trimmed):
    torch.manual_seed(0)
    model = kind(data.num_features, 16, HOPS, 7).eval()
    full = model(data.x, data.edge_index)
    loader = GTTFLoader(data, [-1] * HOPS, SEEDS, batch_size=3)
    for batch in loader:
        out = model(batch.x, batch.edge_index, **counts(batch, trimmed))
        wanted = full[batch.n_id[: batch.batch_size]]
        assert torch.allclose(out[: batch.batch_size], wanted, atol=1e-5)


@all_pairs
@pytest.mark.parametrize("trimmed", [False, True])
@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("data", GRAPHS, ids=["undirected", "directed"])
def test_gcn_on_full_batches(data, trimmed, disjoint):
    """With the loader's weights: those of the last hop's nodes are right as well."""
    torch.manual_seed(0)
    model = GCN(data.num_features, 16, HOPS, 7).eval()
    full = model(data.x, data.edge_index)
    plain = GCN(data.num_features, 16, HOPS, 7, normalize=False).eval()
    plain.load_state_dict(model.state_dict())
    loader = GTTFLoader(
        data, [-1] * HOPS, SEEDS, batch_size=4, normalize="unbiased", disjoint=disjoint
    )
    for batch in loader:
        edges = batch.edge_index, batch.edge_weight
        out = plain(batch.x, *edges, **counts(batch, trimmed))
        wanted = full[batch.n_id[: batch.batch_size]]
        assert torch.allclose(out[: batch.batch_size], wanted, atol=1e-5)


def test_gcn_needs_one_more_hop_to_count_degrees_itself():
    data = GRAPHS[0]
    torch.manual_seed(0)
    model = GCN(data.num_features, 16, HOPS, 7).eval()
    full = model(data.x, data.edge_index)
    batch = next(iter(GTTFLoader(data, [-1] * (HOPS + 1), SEEDS, batch_size=4)))
    out = model(batch.x, batch.edge_index)[:4]
    assert torch.allclose(out, full[SEEDS], atol=1e-5)


class GCNII(nn.Module):
    """Two GCN2Conv layers, which look back at the first features."""

    def __init__(self, channels: int, normalize: bool) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            GCN2Conv(channels, 0.1, 0.5, layer, normalize=normalize)
            for layer in range(1, HOPS + 1)
        )

    def forward(self, x: Tensor, edge_index: Tensor, weight=None, trim=None) -> Tensor:
        first = x
        for layer, conv in enumerate(self.convs):
            if trim is not None:
                x, edge_index, weight = trim_to_layer(
                    layer, *trim, x, edge_index, weight
                )
                first = first[: len(x)]
            x = conv(x, first, edge_index, weight).relu()
        return x


@pytest.mark.parametrize("trimmed", [False, True])
@pytest.mark.parametrize("data", GRAPHS, ids=["undirected", "directed"])
def test_gcnii_on_full_batches(data, trimmed):
    torch.manual_seed(0)
    model = GCNII(data.num_features, True)
    full = model(data.x, data.edge_index)
    plain = GCNII(data.num_features, False)
    plain.load_state_dict(model.state_dict())
    loader = GTTFLoader(data, [-1] * HOPS, SEEDS, batch_size=4, normalize="unbiased")
    batch = next(iter(loader))
    trim = (batch.num_sampled_nodes, batch.num_sampled_edges) if trimmed else None
    out = plain(batch.x, batch.edge_index, batch.edge_weight, trim)
    assert torch.allclose(out[:4], full[SEEDS], atol=1e-5)


@pytest.mark.parametrize("trimmed", [False, True])
def test_hetero_model_on_full_batches(trimmed):
    seed_everything(4)
    data = FakeHeteroDataset(1, avg_num_nodes=40, avg_degree=3)[0]
    torch.manual_seed(0)
    convs = [
        HeteroConv({kind: SAGEConv((-1, -1), 8) for kind in data.edge_types})
        for _ in range(HOPS)
    ]

    def run(x: dict, edges: dict, trim=None) -> dict:
        for layer, conv in enumerate(convs):
            if trim is not None:
                x, edges, _ = trim_to_layer(layer, *trim, x, edges)
            x = conv(x, edges)
        return x

    full = run(data.x_dict, data.edge_index_dict)
    for name in {kind[2] for kind in data.edge_types}:
        batch = next(iter(GTTFLoader(data, [-1] * HOPS, name, batch_size=6)))
        trim = batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict
        out = run(batch.x_dict, batch.edge_index_dict, trim if trimmed else None)
        if name in full and name in out:
            assert torch.allclose(out[name][:6], full[name][:6], atol=1e-4)


@pytest.mark.parametrize("scheme", ["unbiased", "paper"])
@torch.no_grad()
def test_gcn_weights_in_expectation(scheme):
    """Of two layers in a row: the default is unbiased, the printed weights are not."""
    data, node, draws = GRAPHS[0], 0, 4000
    layers = [GCNConv(34, 34, bias=False) for _ in range(2)]
    for layer in layers:
        layer.lin.weight.copy_(torch.eye(34))
    full = layers[1](layers[0](data.x, data.edge_index), data.edge_index)[node]
    loader = GTTFLoader(
        data,
        [3, 3],
        torch.full((draws,), node),
        disjoint=True,
        normalize=scheme,
        batch_size=draws,
        seed=0,
    )
    batch = next(iter(loader))
    out = batch.x
    for layer in layers:
        layer.normalize = False
        out = layer(out, batch.edge_index, batch.edge_weight)
    out = out[:draws]
    error = out.std(0) / draws**0.5
    close = (out.mean(0) - full).abs() <= 5 * error + 1e-6
    assert bool(close.all()) == (scheme == "unbiased")


def test_normalize_layout():
    """A loop behind the edges of each node, counted in its hop, with zeros and -1."""
    data = GRAPHS[0].clone()
    data.edge_attr = torch.rand(data.num_edges, 2) + 1
    options = {"batch_size": 3, "seed": 0}
    plain = next(iter(GTTFLoader(data, [3, 2], SEEDS, **options)))
    batch = next(iter(GTTFLoader(data, [3, 2], SEEDS, normalize="paper", **options)))
    row, col = batch.edge_index
    loop = batch.e_id < 0
    assert torch.equal(row[loop], torch.arange(batch.num_nodes))
    assert torch.equal(col[loop], row[loop])
    assert bool((col[1:] >= col[:-1]).all())
    assert bool(loop[torch.cat([col[1:] != col[:-1], torch.tensor([True])])].all())
    assert torch.equal(batch.edge_index[:, ~loop], plain.edge_index)
    assert torch.equal(batch.e_id[~loop], plain.e_id)
    assert torch.equal(batch.edge_attr[~loop], plain.edge_attr)
    assert not batch.edge_attr[loop].any()
    nodes, edges = plain.num_sampled_nodes, plain.num_sampled_edges
    expected = [edges[0] + nodes[0], edges[1] + nodes[1] + nodes[2]]
    assert batch.num_sampled_edges == expected
    drawn = torch.bincount(plain.edge_index[1], minlength=batch.num_nodes)
    assert torch.allclose(batch.edge_weight[loop], 1 / (drawn + 1))


def test_normalize_without_hops():
    batch = next(iter(GTTFLoader(GRAPHS[0], [], SEEDS, normalize="unbiased")))
    assert batch.num_sampled_edges == []
    assert batch.edge_index.tolist() == [[0], [0]]
