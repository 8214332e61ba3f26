"""DGL's own layers on our batches: they train, and full batches are exact."""

import dgl
import pytest
import torch
from dgl.dataloading import DataLoader
from dgl.nn import GATConv, GCN2Conv, GraphConv, SAGEConv
from torch import nn
from torch.nn import functional as F

from exact import one_thread
from gttf_dgl import GTTFSampler, GTTFSubgraphSampler, unbiased

__all__ = ["one_thread"]

NODES, CLASSES = 120, 3


@pytest.fixture(autouse=True)
def one_thread_of_dgl():
    """DGL has a pool of its own, and small batches gain nothing from it."""
    threads = dgl.utils.get_num_threads()
    dgl.utils.set_num_threads(1)
    yield
    dgl.utils.set_num_threads(threads)


def make_graph():
    """Three communities with a hint of themselves in the features, and self-loops."""
    generator = torch.Generator().manual_seed(0)
    label = torch.arange(NODES) % CLASSES
    u, v = torch.randint(NODES, (2, 3000), generator=generator)
    near = (label[u] == label[v]) | (torch.rand(3000, generator=generator) < 0.15)
    loops = torch.arange(NODES)
    g = dgl.graph((torch.cat([u[near], loops]), torch.cat([v[near], loops])))
    noise = torch.randn(NODES, 8, generator=generator)
    g.ndata["feat"] = noise + 2 * F.one_hot(label, 8)
    g.ndata["label"] = label
    return g


class Stack(nn.Module):
    """Two layers of one kind, on blocks or on a graph."""

    def __init__(self, kind):
        super().__init__()
        make = {
            "gcn": lambda a, b: GraphConv(a, b, norm="right"),
            "sage": lambda a, b: SAGEConv(a, b, "mean"),
            "pool": lambda a, b: SAGEConv(a, b, "pool"),
            "gat": lambda a, b: GATConv(a, b, num_heads=1),
        }[kind]
        self.layers = nn.ModuleList([make(8, 16), make(16, CLASSES)])

    def forward(self, blocks, x):
        for number, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            x = layer(block, x).flatten(1)
            x = x if number else x.relu()
        return x


KINDS = ["gcn", "sage", "pool", "gat"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rooted", [False, True])
def test_full_blocks_give_the_output_of_the_full_graph(kind, rooted):
    torch.manual_seed(0)
    g, model = make_graph(), Stack(kind)
    seeds = torch.tensor([5, 0, 77, 5])
    sampler = GTTFSampler([-1, -1], rooted=rooted)
    nodes, _, blocks = sampler.sample(g, seeds)
    with torch.no_grad():
        whole = model([g, g], g.ndata["feat"])
        found = model(blocks, g.ndata["feat"][nodes])
    torch.testing.assert_close(found, whole[seeds], rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::gttf_dgl.BiasedLayerWarning")
@pytest.mark.parametrize(
    ("kind", "workers"),
    [
        *((kind, 0) for kind in KINDS),
        pytest.param("sage", 2, marks=pytest.mark.process),
    ],
)
def test_layers_train_on_blocks(kind, workers):
    torch.manual_seed(0)
    g, model = make_graph(), unbiased(Stack(kind))
    sampler = GTTFSampler(
        [4, 4], prefetch_node_feats=["feat"], prefetch_labels=["label"], seed=0
    )
    loader = DataLoader(
        g, torch.arange(60), sampler, batch_size=20, num_workers=workers
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(8 if workers else 25):
        for _, _, blocks in loader:
            out = model(blocks, blocks[0].srcdata["feat"])
            loss = F.cross_entropy(out, blocks[-1].dstdata["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert sum(losses[-3:]) < 0.7 * sum(losses[:3])


class Deep(nn.Module):
    """GCNII: every layer also sees the first representation."""

    def __init__(self, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(8, 16), nn.Linear(16, CLASSES)
        self.layers = nn.ModuleList(  # nodes of the last hop receive nothing
            [GCN2Conv(16, i + 1, allow_zero_in_degree=True) for i in range(depth)]
        )

    def forward(self, g, x):
        first = x = self.enter(x).relu()
        for layer in self.layers:
            x = layer(g, x, first).relu()
        return self.leave(x)


def test_full_subgraph_gives_the_output_of_the_full_graph():
    """One hop more than layers: GCN2Conv also asks for the degrees of the senders."""
    torch.manual_seed(0)
    g, model = make_graph(), Deep(2)
    seeds = torch.tensor([5, 0, 77])
    sampler = GTTFSubgraphSampler([-1, -1, -1], prefetch_node_feats=["feat"])
    ((_, _, batch),) = DataLoader(g, seeds, sampler, batch_size=3)
    with torch.no_grad():
        whole = model(g, g.ndata["feat"])
        found = model(batch, batch.ndata["feat"])
    torch.testing.assert_close(found[:3], whole[seeds], rtol=1e-4, atol=1e-5)


def test_full_subgraph_serves_all_layers_of_a_gcn():
    """With the degrees of the whole graph in the edge weights."""
    torch.manual_seed(0)
    g = make_graph()
    layers = [GraphConv(8, 8, norm="both"), GraphConv(8, 3, norm="both")]
    sizes = (8, 3)
    plain = [GraphConv(8, n, norm="none", allow_zero_in_degree=True) for n in sizes]
    for layer, twin in zip(layers, plain, strict=True):
        twin.load_state_dict(layer.state_dict())
    seeds = torch.tensor([5, 0, 77])
    sampler = GTTFSubgraphSampler([-1, -1], normalize="both")
    _, _, batch = sampler.sample(g, seeds)
    whole, found = g.ndata["feat"], batch.ndata["feat"]
    with torch.no_grad():
        for layer, twin in zip(layers, plain, strict=True):
            whole = layer(g, whole).tanh()
            found = twin(batch, found, edge_weight=batch.edata["norm"]).tanh()
    torch.testing.assert_close(found[:3], whole[seeds], rtol=1e-4, atol=1e-5)


def test_deep_model_trains_on_subgraphs():
    torch.manual_seed(0)
    g, model = make_graph(), unbiased(Deep(6))
    sampler = GTTFSubgraphSampler([4, 4], seed=0)
    loader = DataLoader(g, torch.arange(60), sampler, batch_size=20)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(15):
        for _, seeds, batch in loader:
            out = model(batch, batch.ndata["feat"])
            label = batch.ndata["label"][: len(seeds)]
            loss = F.cross_entropy(out[: len(seeds)], label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert sum(losses[-3:]) < 0.7 * sum(losses[:3])
