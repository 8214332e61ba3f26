"""Layers that normalise by degree are right on sampled blocks and graphs."""

import copy
import pickle

import dgl
import pytest
import torch
from dgl import nn

from gttf_dgl import (
    GTTFSampler,
    GTTFSubgraphSampler,
    check_unbiased,
    unbiased,
)

NODES = 60

ON_BLOCKS = {  # beside those of `dgl_layers`
    "both": lambda: nn.GraphConv(8, 4),
    "both-wide": lambda: nn.GraphConv(8, 16, activation=torch.relu),
    "right": lambda: nn.GraphConv(8, 4, norm="right"),
    "sum": lambda: nn.GraphConv(8, 4, norm="none"),
}
# DGL itself computes these on graphs only, not on blocks.
ON_GRAPHS = {
    "sg": lambda: nn.SGConv(8, 4, k=2),
    "tag": lambda: nn.TAGConv(8, 4, k=2),
    "appnp": lambda: nn.APPNPConv(2, 0.1),
    "gcn2": lambda: nn.GCN2Conv(8, 1),
    "cheb": lambda: nn.ChebConv(8, 4, 3),
}
SAMPLERS = {
    "layered": lambda *fanouts: GTTFSampler([*fanouts], seed=0),
    "rooted": lambda *fanouts: GTTFSampler([*fanouts], rooted=True, seed=0),
    "graph": lambda *fanouts: GTTFSubgraphSampler([*fanouts], seed=0),
}
WAYS = [
    *((name, sampler) for name in ("both", "sum") for sampler in SAMPLERS),
    *(("both-wide", "layered"), ("right", "rooted")),
    *((name, "graph") for name in ON_GRAPHS),
]


@pytest.fixture(scope="module")
def g():
    """A directed graph with a hub, multi-edges and, at every node, a loop."""
    generator = torch.Generator().manual_seed(0)
    some = torch.randint(0, NODES - 3, (2, 300), generator=generator)
    hub = torch.stack([torch.arange(1, 50), torch.zeros(49, dtype=torch.long)])
    loops = torch.arange(NODES).expand(2, -1)
    row, col = torch.cat([some, hub, hub[:, :9], loops], dim=1)
    g = dgl.graph((row, col), num_nodes=NODES)
    g.ndata["x"] = torch.randn(NODES, 8, generator=generator)
    g.edata["w"] = torch.rand(g.num_edges(), generator=generator) + 0.1
    return g


def call(layer, graph, x):
    """A layer on one block, on a sampled graph or on the whole graph."""
    graph = graph[0] if isinstance(graph, list) else graph
    if isinstance(layer, nn.GCN2Conv):
        return layer(graph, x, x)
    if isinstance(layer, nn.ChebConv):
        return layer(graph, x, [2.0])
    return layer(graph, x)


@pytest.mark.parametrize(("name", "sampler"), WAYS)
def test_unbiased_all_neighbours_give_the_whole_graph(name, sampler, g):
    torch.manual_seed(0)
    layer = unbiased({**ON_BLOCKS, **ON_GRAPHS}[name](), scale="sum")
    whole = call(layer, g, g.ndata["x"])
    hops = (-1, -1) if sampler == "graph" else (-1,)
    seeds = torch.tensor([0, 3, 5, 59, 7, 3])
    inputs, _, batch = SAMPLERS[sampler](*hops).sample(g, seeds)
    out = call(layer, batch, g.ndata["x"][inputs])[:6]
    assert torch.allclose(out, whole[seeds], atol=1e-5)


@pytest.mark.parametrize(("name", "sampler"), WAYS)
def test_unbiased_mean_over_batches_is_the_whole_graph(name, sampler, g):
    torch.manual_seed(0)
    if name in ON_GRAPHS:  # a loop would use the row of its node twice
        lone = dgl.remove_self_loop(g)
        lone.ndata["x"] = g.ndata["x"]
        g = lone
    layer = {**ON_BLOCKS, **ON_GRAPHS}[name]()
    if hasattr(layer, "set_allow_zero_in_degree"):
        layer.set_allow_zero_in_degree(True)
    hops = (3, 3) if sampler == "graph" else (3,)
    how = {"forward": call, "seeds": 20, "rounds": 60, "linear": True}
    # "right" is a mean of the neighbours, and that of a sample is unbiased as it is
    if name not in ("right", "gcn2", "sg", "tag", "cheb", "appnp"):
        plain = copy.deepcopy(layer)
        found = check_unbiased(plain, SAMPLERS[sampler](*hops), g, g.ndata["x"], **how)
        assert not found, found
        assert "gttf_dgl.unbiased(model" in repr(found)
    unbiased(layer, scale="sum")
    found = check_unbiased(layer, SAMPLERS[sampler](*hops), g, g.ndata["x"], **how)
    assert found, found


def test_unbiased_edge_weights_of_graph_conv(g):
    layer = unbiased(nn.GraphConv(8, 4))

    def weighted(layer, blocks, x):
        return layer(blocks[0], x, edge_weight=blocks[0].edata["w"])

    sampler = GTTFSampler([3], seed=0)
    how = {"forward": weighted, "seeds": NODES}
    assert check_unbiased(layer, sampler, g, g.ndata["x"], **how)


class TwoLayers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.GraphConv(8, 16), nn.GraphConv(16, 4)

    def forward(self, blocks, x):
        return self.last(blocks[1], self.first(blocks[0], x).relu())


@pytest.mark.parametrize("workers", [0, 2])
def test_unbiased_model_in_a_data_loader(workers, g):
    torch.manual_seed(0)
    model = unbiased(TwoLayers())
    whole = model([g, g], g.ndata["x"])
    sampler = GTTFSampler([-1, -1], prefetch_node_feats=["x"])
    how = {"batch_size": 20, "num_workers": workers}
    for _, seeds, blocks in dgl.dataloading.DataLoader(
        g, torch.arange(NODES), sampler, **how
    ):
        out = model(blocks, blocks[0].srcdata["x"])
        assert torch.allclose(out, whole[seeds], atol=1e-5)
        moved = [pickle.loads(pickle.dumps(block.to("cpu"))) for block in blocks]
        assert torch.allclose(model(moved, moved[0].srcdata["x"]), out)


def test_unbiased_relations(g):
    torch.manual_seed(0)
    row, col = g.edges()
    hetero = dgl.heterograph(
        {("a", "near", "a"): (row, col), ("b", "of", "a"): (row % 10, col)},
        {"a": NODES, "b": 10},
    )
    layers = {"near": nn.GraphConv(8, 4), "of": nn.GraphConv(8, 4)}
    model = unbiased(nn.HeteroGraphConv(layers))
    x = {"a": g.ndata["x"], "b": torch.randn(10, 8)}
    whole = model(hetero, x)["a"]
    seeds = torch.arange(9)
    inputs, _, (block,) = GTTFSampler([-1]).sample(hetero, {"a": seeds})
    out = model(block, {name: x[name][ids] for name, ids in inputs.items()})["a"]
    assert torch.allclose(out, whole[:9], atol=1e-5)


def test_unbiased_copies_and_full_graphs(g):
    torch.manual_seed(0)
    plain = nn.GraphConv(8, 4)
    cured = unbiased(copy.deepcopy(plain))
    assert torch.equal(plain(g, g.ndata["x"]), cured(g, g.ndata["x"]))
    assert list(cured.state_dict()) == list(plain.state_dict())
    assert len(unbiased(cured)._forward_pre_hooks) == 1
    inputs, seeds, (block,) = GTTFSampler([-1]).sample(g, torch.arange(9))
    for other in (copy.deepcopy(cured), pickle.loads(pickle.dumps(cured))):
        out = other(block, g.ndata["x"][inputs])
        assert torch.allclose(out, plain(g, g.ndata["x"])[seeds], atol=1e-5)


def test_unbiased_excluded_edges_are_not_estimated(g):
    layer = unbiased(nn.GraphConv(8, 4, norm="none"), scale="sum")
    hidden = g.in_edges(0, form="eid")[:20]
    inputs, _, (block,) = GTTFSampler([-1]).sample(g, torch.tensor([0]), hidden)
    out = layer(block, g.ndata["x"][inputs])
    left = dgl.remove_edges(g, hidden)
    assert torch.allclose(out, layer(left, g.ndata["x"])[:1], atol=1e-4)


def test_blocks_have_no_data_beside_those_of_the_graph(g):
    """Degrees are asked for, also in a copy and behind a pickle."""
    layer, x = unbiased(nn.GraphConv(8, 4)), g.ndata["x"]
    inputs, _, (block,) = GTTFSampler([3]).sample(g, torch.arange(9))
    out = layer(block, x[inputs])
    for other in (copy.copy(block), copy.deepcopy(block), block.int().long()):
        assert torch.equal(layer(other, x[inputs]), out)
    assert torch.equal(layer(pickle.loads(pickle.dumps(block)), x[inputs]), out)
    assert set(block.dstdata) == {"x", dgl.NID}


def test_validate(g):
    x = g.ndata["x"]
    with pytest.raises(TypeError, match=r"'model' must be a torch.nn.Module \(got"):
        unbiased(g)
    with pytest.raises(ValueError, match=r"'scale' must be .* \(got 'mean'\)"):
        unbiased(nn.GraphConv(8, 4), scale="mean")
    with pytest.raises(ValueError, match=r"got SGConv\(cached=True\)"):
        unbiased(nn.SGConv(8, 4, cached=True))
    layer = unbiased(nn.GraphConv(8, 4))
    inputs, _, (block,) = GTTFSampler([3], prob="w").sample(g, torch.arange(9))
    with pytest.raises(ValueError, match=r"uniform draws .*'prob', 'mask' or 'bias'"):
        layer(block, x[inputs])
    theirs = dgl.dataloading.NeighborSampler([3])
    inputs, _, (block,) = theirs.sample(g, torch.arange(9))
    with pytest.raises(ValueError, match=r"blocks with degrees .* the whole graph"):
        layer(block, x[inputs])
    inputs, _, batch = GTTFSubgraphSampler([3]).sample(g, torch.arange(9))
    with pytest.raises(ValueError, match=r"'edge_weight' must be None in SGConv"):
        unbiased(nn.SGConv(8, 4))(batch, x[inputs], batch.edata["w"])
    with pytest.raises(ValueError, match=r"layers that aggregate \(got none\)"):
        check_unbiased(torch.nn.Linear(8, 4), GTTFSampler([3]), g, x)
