"""DGL still has the private names that `gttf_dgl._compat` has gathered."""

import dgl
import pytest
import torch
from dgl import nn

from gttf_dgl import _compat


@pytest.fixture
def g():
    made = dgl.graph(([0, 1], [1, 2]))
    made.ndata["x"] = torch.eye(3)
    return made


def test_graphs_and_frames(g):
    for name in _compat.OF_GRAPHS:
        assert hasattr(g, name), name
    nodes, edges = _compat.frames_of(g)
    assert (len(nodes), len(edges)) == (1, 1)
    for name in _compat.OF_FRAMES:
        assert hasattr(nodes[0], name), name
    assert list(_compat.columns_of(nodes[0])) == ["x"]


@pytest.mark.parametrize("typed", [False, True])
def test_datasets(typed):
    ids = (
        {"b": torch.tensor([5, 6]), "a": torch.tensor([7])}
        if typed
        else torch.arange(3)
    )
    sampler = dgl.dataloading.NeighborSampler([1])
    kinds = {("a", "r", "b"): ([0], [1])}
    g = dgl.heterograph(kinds) if typed else dgl.graph(([0], [1]))
    loader = dgl.dataloading.DataLoader(g, ids, sampler, batch_size=2)
    assert isinstance(loader.dataset, _compat.DATASETS)
    for name in _compat.OF_DATASETS:
        assert hasattr(loader.dataset, name), name
    assert isinstance(loader.collate_fn, _compat.CollateWrapper)
    assert loader.collate_fn.sample_func == sampler.sample
    assert isinstance(loader.worker_init_fn, _compat.WorkerInitWrapper)
    assert loader.worker_init_fn.func is None
    seeds, names, shuffles = _compat.seeds_of(loader.dataset)
    assert len(seeds) == 3
    assert not shuffles
    found = _compat.named_seeds(seeds[:2], names)
    found = found["b"] if typed else found
    assert found.tolist() == ([5, 6] if typed else [0, 1])


def test_graphs_are_rebuilt(g):
    block = dgl.to_block(g, torch.tensor([1, 2]))
    for kind, graph in ((_compat.DGLBlock, block), (dgl.DGLGraph, g)):
        again = _compat.rebuilt(kind, graph)
        assert type(again) is kind
        assert again.canonical_etypes == graph.canonical_etypes
        assert again.num_edges() == 2
        again.dstdata["y"] = torch.ones(again.num_dst_nodes())
        assert "y" in graph.dstdata  # they share their data


MADE = {
    "EdgeWeightNorm": lambda: nn.EdgeWeightNorm("both"),
    "GATConv": lambda: nn.GATConv(2, 3, 4),
    "GATv2Conv": lambda: nn.GATv2Conv(2, 3, 4),
    "GINConv": lambda: nn.GINConv(None, "mean"),
    "GMMConv": lambda: nn.GMMConv(2, 3, 4, 5, "mean"),
    "GraphConv": lambda: nn.GraphConv(2, 3, activation=torch.tanh),
    "NNConv": lambda: nn.NNConv(2, 3, torch.nn.Linear(1, 6), "mean"),
    "SAGEConv": lambda: nn.SAGEConv((2, 5), 3, "mean", activation=torch.tanh),
    "SGConv": lambda: nn.SGConv(2, 3, cached=True),
}
READS = {
    _compat.activation_of: {"GraphConv": torch.tanh, "SAGEConv": torch.tanh},
    _compat.aggregator_of: dict.fromkeys(
        ("GINConv", "GMMConv", "NNConv", "SAGEConv"), "mean"
    ),
    _compat.heads_of: {"GATConv": (4, 3), "GATv2Conv": (4, 3)},
    _compat.is_cached: {"SGConv": True, "GraphConv": False},
    _compat.norm_of: {"EdgeWeightNorm": "both", "GraphConv": "both"},
    _compat.sizes_of: {"GraphConv": (2, 3), "SAGEConv": (2, 3)},
    _compat.takes_zero_in_degree: {"GraphConv": False},
}


@pytest.mark.parametrize("read", READS, ids=lambda read: read.__name__)
def test_layers(read):
    for name, value in READS[read].items():
        assert read(MADE[name]()) == value, name
    for name, attributes in _compat.OF_LAYERS.items():
        for attribute in attributes:
            assert hasattr(MADE[name](), attribute), (name, attribute)


def test_typed_layers():
    layers = {"r": nn.SAGEConv(2, 3, "mean"), ("a", "s", "b"): nn.GraphConv(2, 3)}
    for reduce in ("sum", "mean", "max", "stack", lambda parts, kind: parts[0]):
        model = nn.HeteroGraphConv(layers, reduce)
        expected = reduce if reduce in ("sum", "mean") else ""
        assert _compat.reduction_of(model) == expected
    for kind in (("a", "r", "b"), ("a", "s", "b")):
        name = kind if kind in layers else kind[1]
        assert _compat.layer_of(model, kind) is layers[name]
    assert model(_compat.no_edges(), {}) == {}  # as `FusedHetero` has it do nothing


def test_softmax_asks_for_the_index_of_a_graph():
    class Lone:
        _graph = _compat.structure_of(_compat.no_edges())

    found = dgl.ops.edge_softmax(Lone(), torch.empty(0, 2, 1))
    assert found.shape == (0, 2, 1)
