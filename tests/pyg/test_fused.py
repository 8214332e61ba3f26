"""Fused models: the same outputs and gradients of seeds, on rows that are read."""

import copy
import pickle
import sys
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
import torch_geometric
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric import nn
from torch_geometric.data import Data, HeteroData

from gttf_pyg import (
    LinkNeighborLoader,
    NeighborLoader,
    _fuse,
    _relations,
    fused,
    fused_layers,
    inference,
)
from gttf_pyg._sampled import SampledEdgeIndex
from gttf_sampler._backends import memory

NODES, WIDTH = 80, 8


def mlp():
    inner = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()
    return torch.nn.Sequential(*inner, torch.nn.Linear(WIDTH, WIDTH))


LAYERS = {
    "sage": lambda: nn.SAGEConv(WIDTH, WIDTH),
    "sage-sum": lambda: nn.SAGEConv(WIDTH, WIDTH, aggr="sum", project=True),
    "sage-max": lambda: nn.SAGEConv(WIDTH, WIDTH, aggr="max", normalize=True),
    "sage-no-root": lambda: nn.SAGEConv(WIDTH, WIDTH, aggr="min", root_weight=False),
    "gcn": lambda: nn.GCNConv(WIDTH, WIDTH),
    "gcn-improved": lambda: nn.GCNConv(WIDTH, WIDTH, improved=True),
    "gcn-no-loops": lambda: nn.GCNConv(WIDTH, WIDTH, add_self_loops=False),
    "gcn-plain": lambda: nn.GCNConv(WIDTH, WIDTH, normalize=False),
    "graph": lambda: nn.GraphConv(WIDTH, WIDTH),
    "gin": lambda: nn.GINConv(mlp(), train_eps=True),
    "gine": lambda: nn.GINEConv(mlp(), edge_dim=3),
    "gat": lambda: nn.GATConv(WIDTH, WIDTH // 4, heads=4),
    "gat-mean": lambda: nn.GATConv(WIDTH, WIDTH, heads=2, concat=False, residual=True),
    "gat-no-loops": lambda: nn.GATConv(WIDTH, WIDTH, add_self_loops=False),
    "gatv2": lambda: nn.GATv2Conv(WIDTH, WIDTH // 4, heads=4),
    "gatv2-shared": lambda: nn.GATv2Conv(WIDTH, WIDTH, share_weights=True),
    "lg": lambda: nn.LGConv(),
    "sg": lambda: nn.SGConv(WIDTH, WIDTH, K=2),
    "ssg": lambda: nn.SSGConv(WIDTH, WIDTH, alpha=0.2, K=2),
    "tag": lambda: nn.TAGConv(WIDTH, WIDTH, K=2),
    "gcn2": lambda: nn.GCN2Conv(WIDTH, 0.3, 0.5, layer=1),
    "appnp": lambda: nn.APPNP(2, 0.1),
    "mixhop": lambda: nn.MixHopConv(WIDTH, WIDTH // 2, powers=[0, 2]),
    "rgcn": lambda: nn.RGCNConv(WIDTH, WIDTH, 3),
    "rgcn-sum": lambda: nn.RGCNConv(WIDTH, WIDTH, 3, num_bases=2, aggr="sum"),
}
WEIGHTED = ("gcn", "graph", "lg", "sg", "ssg", "tag", "appnp", "mixhop")


class Two(torch.nn.Module):
    """Two layers of a kind between linear maps."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.first = torch.nn.Linear(WIDTH, WIDTH)
        self.a, self.b = LAYERS[kind](), LAYERS[kind]()

    def forward(self, x, edge_index, weight=None, attr=None, kinds=None):
        x = start = self.first(x)
        for layer in (self.a, self.b):
            if self.kind == "gcn2":
                x = layer(x, start, edge_index, weight)
            elif self.kind.startswith(WEIGHTED):
                x = layer(x, edge_index, weight)
            elif self.kind == "gine":
                x = layer(x, edge_index, attr)
            elif self.kind.startswith("rgcn"):
                x = layer(x, edge_index, kinds)
            else:
                x = layer(x, edge_index)
            x = torch.tanh(x)
        return x


@pytest.fixture(scope="module")
def data():
    """A directed graph with multi-edges, loops, one twice, and lone nodes."""
    generator = torch.Generator().manual_seed(0)
    some = torch.randint(0, NODES - 5, (2, 400), generator=generator)
    loops = torch.tensor([[3, 5, 5, 0], [3, 5, 5, 0]])
    edges = torch.cat([some, some[:, :30], loops], dim=1)
    number = edges.shape[1]
    return Data(
        x=torch.randn(NODES, WIDTH, generator=generator, dtype=torch.float64),
        edge_index=edges,
        edge_weight=torch.rand(number, generator=generator, dtype=torch.float64) + 0.1,
        edge_attr=torch.randn(number, 3, generator=generator, dtype=torch.float64),
        edge_type=torch.randint(0, 3, (number,), generator=generator),
    )


def plain(edges):
    return edges.plain if isinstance(edges, SampledEdgeIndex) else edges


def arguments(batch, weighted):
    weight = batch.edge_weight if weighted else None
    return weight, batch.edge_attr, batch.edge_type


def gradients(model, out):
    model.zero_grad()
    out.sin().sum().backward()
    return [p.grad for p in model.parameters() if p.grad is not None]


def assert_same(model, twin, batch, *more):
    """The seeds' outputs and gradients are those of the host's layers."""
    size = batch.batch_size
    wanted = model(batch.x, plain(batch.edge_index), *more)[:size]
    found = twin(batch.x, batch.edge_index, *more)
    torch.testing.assert_close(found[:size], wanted, rtol=1e-9, atol=1e-12)
    if wanted.requires_grad:
        ours, theirs = gradients(twin, found[:size]), gradients(model, wanted)
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    return found


def twins(make):
    torch.manual_seed(3)
    model = make().double()
    return model, fused(copy.deepcopy(model))


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("fanouts", [[3, 2], [-1], [2, 2, 2, 2, 2]], ids=str)
def test_fused_layer(data, kind, fanouts):
    model, twin = twins(lambda: Two(kind))
    loader = NeighborLoader(data, fanouts, batch_size=27)  # with lone nodes
    for number, batch in enumerate(loader):
        weighted = number % 2 == 1
        found = assert_same(model, twin, batch, *arguments(batch, weighted))
        assert len(found) == batch.batch_size or len(fanouts) > 4
    states = {layer.status for layer in fused_layers(twin).layers}
    assert states == {"fused, trimmed"}


@given(
    seed=st.integers(0, 1000),
    kind=st.sampled_from(sorted(LAYERS)),
    edges=st.integers(0, 60),
    fanouts=st.lists(st.sampled_from([-1, 0, 1, 3]), min_size=1, max_size=3),
    options=st.fixed_dictionaries(
        {"disjoint": st.booleans(), "replace": st.booleans()}
    ),
    until=st.sampled_from([None, 0, 5, 20]),
)
@settings(deadline=None, max_examples=60)
def test_fused_property(seed, kind, edges, fanouts, options, until):
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(0, 12, (2, edges), generator=generator)
    data = Data(
        x=torch.randn(14, WIDTH, generator=generator, dtype=torch.float64),
        edge_index=index,
        edge_weight=torch.rand(edges, generator=generator, dtype=torch.float64) + 0.1,
        edge_attr=torch.randn(edges, 3, generator=generator, dtype=torch.float64),
        edge_type=torch.randint(0, 3, (edges,), generator=generator),
    )
    seeds = torch.randint(0, 14, (9,), generator=generator)  # some twice
    options["replace"] = options["replace"] and -1 not in fanouts
    if until is not None:
        data.time = torch.randint(0, 20, (14,), generator=generator)
        options["disjoint"] = True
        options |= {"time_attr": "time", "input_time": torch.full((9,), until)}
    model, twin = twins(lambda: Two(kind))
    loader = NeighborLoader(data, fanouts, input_nodes=seeds, batch_size=4, **options)
    for batch in loader:
        assert_same(model, twin, batch, *arguments(batch, seed % 2 == 0))


@pytest.mark.parametrize("kind", LAYERS)
def test_fused_bits_do_not_depend_on_threads(kind, monkeypatch):
    """Products of matrices, which are torch's, are left to one thread throughout."""
    generator = torch.Generator().manual_seed(0)
    nodes, edges = 600, 20_000
    data = Data(
        x=torch.randn(nodes, WIDTH, generator=generator),
        edge_index=torch.randint(0, nodes, (2, edges), generator=generator),
        edge_weight=torch.rand(edges, generator=generator) + 0.1,
        edge_attr=torch.randn(edges, 3, generator=generator),
        edge_type=torch.randint(0, 3, (edges,), generator=generator),
    )
    torch.manual_seed(0)
    model = fused(Two(kind))
    batch = next(iter(NeighborLoader(data, [20, 20], batch_size=400)))
    more = arguments(batch, weighted=True)
    before, found = torch.get_num_threads(), []
    torch.set_num_threads(1)
    try:
        model(batch.x, batch.edge_index, *more)  # from now on it is trimmed
        for threads in (1, 2, 5):
            monkeypatch.setattr(torch, "get_num_threads", lambda n=threads: n)
            out = model(batch.x, batch.edge_index, *more)
            found.append([out.detach(), *gradients(model, out)])
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(map(torch.equal, other, found[0]))


@pytest.mark.parametrize("kind", ["sage", "gcn", "gat", "gatv2", "gine"])
def test_fused_gradcheck(data, kind):
    _, twin = twins(lambda: Two(kind))
    batch = next(iter(NeighborLoader(data, [2, 2], batch_size=3)))
    more = arguments(batch, weighted=True)
    twin(batch.x, batch.edge_index, *more)  # from now on it is trimmed
    x = batch.x.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: twin(x, batch.edge_index, *more), x)


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.GCNConv(WIDTH, WIDTH), nn.SAGEConv(WIDTH, WIDTH)

    def forward(self, x, edge_index):
        x = x + self.a(x, edge_index).relu()
        return x + self.b(x, edge_index)


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.GCNConv(WIDTH, WIDTH), nn.SAGEConv(WIDTH, WIDTH)
        self.last = nn.GATConv(WIDTH, WIDTH)

    def forward(self, x, edge_index):
        x = self.a(x, edge_index) + self.b(x, edge_index)
        return self.last(x.relu(), edge_index).log_softmax(-1)


class Centred(Residual):
    def forward(self, x, edge_index):
        x = self.a(x, edge_index)
        return self.b(x - x.mean(0), edge_index)


class Unknown(Residual):
    def forward(self, x, edge_index):
        return self.b(nn.SimpleConv()(self.a(x, edge_index), edge_index), edge_index)


class Again(Residual):
    def forward(self, x, edge_index):
        return self.b(self.b(x, edge_index).tanh(), edge_index)


MODELS = {  # and how many of its layers are trimmed
    "sage": (lambda: nn.GraphSAGE(WIDTH, 16, 2, 4, dropout=0.0), 2),
    "layer_norm": (lambda: nn.GCN(WIDTH, 16, 2, 4, norm=torch.nn.LayerNorm(16)), 2),
    "jk-cat": (lambda: nn.GraphSAGE(WIDTH, 16, 3, 4, jk="cat"), 3),
    "jk-max": (lambda: nn.GCN(WIDTH, 16, 2, 4, jk="max"), 2),
    "jk-lstm": (lambda: nn.GAT(WIDTH, 16, 2, 4, jk="lstm"), 2),
    "batch_norm": (lambda: nn.GraphSAGE(WIDTH, 16, 2, 4, norm="batch_norm"), 1),
    "norm-inside": (lambda: nn.GIN(WIDTH, 16, 2, 4, norm="batch_norm"), 0),
    "graph_norm": (lambda: nn.GAT(WIDTH, 16, 2, 4, norm="GraphNorm", v2=True), 1),
    "residual": (Residual, 2),
    "branches": (Branches, 3),
    "centred": (Centred, 1),
    "unknown": (Unknown, 1),
    "again": (Again, 1),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("training", [True, False])
def test_fused_model(data, name, training):
    make, trimmed = MODELS[name]
    model, twin = twins(make)
    model.train(training), twin.train(training)
    for batch in NeighborLoader(data, [3, 2], batch_size=27):
        with torch.set_grad_enabled(training):
            found = assert_same(model, twin, batch)
        assert len(found) == batch.batch_size or name == "norm-inside"
        assert found.requires_grad == training
    states = [layer.status for layer in fused_layers(twin).layers]
    if training:
        assert states.count("fused, trimmed") == trimmed
    torch.testing.assert_close(model.state_dict(), twin.state_dict())


@pytest.mark.parametrize("aggr", ["mean", "sum"])
def test_fused_batch_of_all_nodes_sums_what_is_narrower(data, aggr, monkeypatch):
    """No row is left out by the sum, so that rows are multiplied first.

    Sums that are large enough are views of memory that is used again.
    """
    monkeypatch.setattr(memory.FEATURES, "small", 0)
    model, twin = twins(lambda: nn.SAGEConv(WIDTH, WIDTH - 2, aggr=aggr))
    size = data.num_nodes
    (batch,) = NeighborLoader(data, [3], batch_size=size)
    found = assert_same(model, twin, batch)
    assert found.requires_grad


def test_fused_dropout(data, monkeypatch):
    """Trimmed rows have the masks of all, from modules that stay what they are."""
    model = fused(nn.GAT(WIDTH, 512, 2, 4, dropout=0.5).double())
    monkeypatch.setattr(torch.nn.functional, "dropout", None)
    for batch in NeighborLoader(data, [3, 2], batch_size=27):
        found = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            found.append(model(batch.x, batch.edge_index))
            found[-1].sum().backward()
        torch.testing.assert_close(found[1], found[0])  # trimmed, and before
        assert not found[1].equal(found[2])
    assert type(model.dropout) is torch.nn.Dropout
    assert str(fused_layers(model)).count("fused, trimmed") == 2


def test_fused_trim(data):
    _, twin = twins(lambda: nn.GraphSAGE(WIDTH, 16, 2, 4, norm="batch_norm"))
    fused(twin, trim=True)
    loader = NeighborLoader(data, [3, 2], batch_size=27)
    for batch in loader:
        twin(batch.x, batch.edge_index)
    assert "read up to hop 1" in str(fused_layers(twin))
    fused(twin, trim=False)
    for batch in loader:
        assert len(twin(batch.x, batch.edge_index)) == batch.num_nodes
    assert "trim=False" in str(fused_layers(twin))


RELATIONS = [
    ("item", "of", "user"),
    ("user", "rev", "item"),
    ("user", "knows", "user"),
    ("shop", "sells", "item"),
    ("item", "in", "shop"),
]


class Typed(torch.nn.Module):
    """Layers of several types, with an activation behind each."""

    def __init__(self, layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, x, edge_index):
        for layer in self.layers:
            x = {kind: rows.tanh() for kind, rows in layer(x, edge_index).items()}
        return x


def typed():
    data = HeteroData()
    sizes = {"user": 40, "item": 30, "shop": 5}
    generator = torch.Generator().manual_seed(0)
    for kind, size in sizes.items():
        shape = size, WIDTH
        data[kind].x = torch.randn(shape, generator=generator, dtype=torch.float64)
    for kind in RELATIONS:
        ends = [
            torch.randint(0, sizes[end], (90,), generator=generator)
            for end in (kind[0], kind[2])
        ]
        data[kind].edge_index = torch.stack(ends)
    return data


class OneType(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.SAGEConv((WIDTH, WIDTH), WIDTH)
        self.b = nn.GATConv((WIDTH, WIDTH), WIDTH, add_self_loops=False)

    def forward(self, x, edge_index):
        return self.b(self.a(x, edge_index).relu(), edge_index)


class PerRelation(torch.nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            nn.HeteroConv({kind: nn.SAGEConv((WIDTH, WIDTH), WIDTH) for kind in kinds})
            for _ in range(2)
        )

    def forward(self, x, edge_index):
        for layer in self.layers:
            x = {kind: rows.relu() for kind, rows in layer(x, edge_index).items()}
        return x


@pytest.mark.parametrize("hetero_conv", [False, True])
def test_fused_typed(hetero_conv):
    data = typed()
    model, twin = twins(
        lambda: (
            PerRelation(data.edge_types)
            if hetero_conv
            else nn.to_hetero(OneType(), data.metadata())
        )
    )
    loader = NeighborLoader(data, [3, 2], input_nodes="user", batch_size=9)
    for batch in loader:
        size = batch["user"].batch_size
        edges = {kind: plain(e) for kind, e in batch.edge_index_dict.items()}
        wanted = model(batch.x_dict, edges)["user"][:size]
        found = twin(batch.x_dict, batch.edge_index_dict)["user"]
        assert len(found) == size
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)
    assert {layer.status for layer in fused_layers(twin).layers} == {"fused, trimmed"}


def test_fused_typed_adds_up_relations_by_one_product(monkeypatch):
    """Of a HeteroConv: outputs and gradients, and a product per type of receivers."""
    data, rows = typed(), []
    added = _relations._added

    def seen(group, target):
        rows.append(len(group))
        return added(group, target)

    monkeypatch.setattr(_relations, "_added", seen)
    model, twin = twins(lambda: PerRelation(data.edge_types))
    for batch in NeighborLoader(data, [3, 2], input_nodes="user", batch_size=9):
        edges = {kind: plain(e) for kind, e in batch.edge_index_dict.items()}
        size = batch["user"].batch_size
        model(batch.x_dict, edges)["user"][:size].square().sum().backward()
        twin(batch.x_dict, batch.edge_index_dict)["user"].square().sum().backward()
        for wanted, found in zip(model.parameters(), twin.parameters(), strict=True):
            there = wanted.grad is not None and bool(wanted.grad.any())
            if there or found.grad is not None:
                torch.testing.assert_close(found.grad, wanted.grad)
    assert max(rows) > 1
    watched = []
    twin.layers[0].convs[RELATIONS[0]].register_forward_hook(
        lambda *about: watched.append(about)
    )
    twin(batch.x_dict, batch.edge_index_dict)
    assert len(watched) == 1  # whoever watches a layer sees it called


@pytest.mark.parametrize("how", ["mean", "max"])
@pytest.mark.parametrize("name", ["GCNConv", "LGConv", "SGConv", "MixHopConv"])
def test_fused_leaves_other_aggregations_of_the_matrix(data, name, how):
    """A mean or maximum over edges and a loop is not that over edges, and a loop."""
    sizes = () if name == "LGConv" else (WIDTH, WIDTH)
    model, twin = twins(lambda: getattr(nn, name)(*sizes, aggr=how))
    for batch in NeighborLoader(data, [3, 2], batch_size=27):
        wanted = model(batch.x, plain(batch.edge_index))
        torch.testing.assert_close(twin(batch.x, batch.edge_index), wanted)
    assert "aggregation" in fused_layers(twin).layers[0].why


class Between(torch.nn.Module):
    """Layers with something in between that reads rows in a way of its own."""

    def __init__(self, between):
        super().__init__()
        self.a, self.b = nn.GCNConv(WIDTH, WIDTH), nn.GCNConv(WIDTH, WIDTH)
        self.c, self.norm = nn.GCNConv(WIDTH, WIDTH), torch.nn.BatchNorm1d(WIDTH)
        self.between = between

    def forward(self, x, edge_index, **more):
        return self.between(self, self.a(x, edge_index), edge_index)


def weighed(model, h, edge_index):
    ends = edge_index.as_subclass(torch.Tensor)
    weight = (h[ends[0]] * h[ends[1]]).sum(-1).sigmoid()
    return model.b(h, edge_index, weight)


def detached(model, h, edge_index):
    second = model.b(h.detach(), edge_index)
    return torch.cat([h, second, model.c(second, edge_index)], 1)


def pooled(model, h, edge_index):
    return model.b(h - h.unsqueeze(0).mean(1), edge_index)


def all_but_the_last(model, h, edge_index):
    return model.b(h, edge_index)[:-1]


class Output(NamedTuple):
    rows: torch.Tensor
    count: int


def named(model, h, edge_index):
    return Output(model.b(h, edge_index) + h.mean(0), 2)


def grouped(model, h, edge_index):
    return Data(rows=model.b(h, edge_index) + h.mean(0))


BETWEEN = [weighed, detached, pooled, all_but_the_last, named, grouped]


@pytest.mark.parametrize("between", BETWEEN)
def test_fused_keeps_rows_that_are_read_in_other_ways(data, between):
    model, twin = twins(lambda: Between(between))
    for batch in NeighborLoader(data, [3, 2], batch_size=27):
        wanted = model(batch.x, plain(batch.edge_index))
        found = twin(batch.x, batch.edge_index)
        if not isinstance(found, torch.Tensor):
            wanted, found = wanted.rows, found.rows
        size = batch.batch_size
        torch.testing.assert_close(found[:size], wanted[:size])


def test_fused_follows_the_modes_of_parts_and_arguments_by_name(data):
    """A norm that is frozen for a while, and lists that differ from batch to batch."""

    def normed(model, h, edge_index):
        return model.b(model.norm(h), edge_index)

    model, twin = twins(lambda: Between(normed))
    for frozen in (True, False):
        for one in (model, twin):
            one.norm.train(not frozen)
        for batch in NeighborLoader(data, [3, 2], batch_size=27):
            hops = {"num_sampled_nodes_per_hop": batch.num_sampled_nodes}
            wanted = model(batch.x, plain(batch.edge_index), **hops)
            found = twin(batch.x, batch.edge_index, **hops)
            size = batch.batch_size
            torch.testing.assert_close(found[:size], wanted[:size])
    torch.testing.assert_close(twin.norm.running_mean, model.norm.running_mean)


def test_fused_hetero_conv_is_seen_by_hooks():
    data, seen = typed(), []
    _, twin = twins(lambda: PerRelation(data.edge_types))
    twin.layers[0].register_forward_pre_hook(lambda layer, args: seen.append(args))
    for batch in NeighborLoader(data, [3, 2], input_nodes="user", batch_size=20):
        twin(batch.x_dict, batch.edge_index_dict)
    assert all(len(args[0]) == len(batch.x_dict) for args in seen)
    assert seen


def test_fused_links(data):
    model, twin = twins(lambda: nn.GraphSAGE(WIDTH, 16, 2, 4))
    for batch in LinkNeighborLoader(
        data, [3, 2], batch_size=50, neg_sampling_ratio=1.0
    ):
        wanted = model(batch.x, plain(batch.edge_index))[batch.edge_label_index]
        found = twin(batch.x, batch.edge_index)[batch.edge_label_index]
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "copies", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
@pytest.mark.parametrize("first", [False, True])
def test_fused_copies(data, copies, first):
    model, twin = twins(lambda: nn.GCN(WIDTH, 16, 2, 4))
    loader = NeighborLoader(data, [3, 2], batch_size=27)
    if first:
        batch = next(iter(loader))
        twin(batch.x, batch.edge_index)
    twin = copies(twin)
    for batch in loader:
        assert len(assert_same(model, twin, batch)) == batch.batch_size
    assert type(twin) is type(model)


@given(
    seed=st.integers(0, 1000),
    edges=st.lists(st.integers(0, 25), min_size=5, max_size=5),
    fanouts=st.lists(st.sampled_from([-1, 0, 2]), min_size=2, max_size=2),
    how=st.sampled_from(["mean", "max"]),
    until=st.sampled_from([None, 0, 10]),
)
@settings(deadline=None, max_examples=25)
def test_fused_typed_property(seed, edges, fanouts, how, until):
    generator = torch.Generator().manual_seed(seed)
    data, sizes, options = HeteroData(), {"user": 9, "item": 6, "shop": 2}, {}
    for kind, size in sizes.items():
        shape = size, WIDTH
        data[kind].x = torch.randn(shape, generator=generator, dtype=torch.float64)
        data[kind].time = torch.randint(0, 20, (size,), generator=generator)
    for kind, number in zip(RELATIONS, edges, strict=True):
        ends = kind[0], kind[2]
        data[kind].edge_index = torch.stack(
            [
                torch.randint(0, sizes[end], (number,), generator=generator)
                for end in ends
            ]
        )
    if until is not None:
        options = {"time_attr": "time", "input_time": torch.full((9,), until)}
    torch.manual_seed(seed)
    layers = [
        nn.HeteroConv(
            {kind: nn.SAGEConv(WIDTH, WIDTH, aggr=how) for kind in RELATIONS}
        ).double()
        for _ in range(2)
    ]
    model = Typed(layers)
    twin = fused(copy.deepcopy(model))
    for batch in NeighborLoader(
        data, fanouts, input_nodes="user", batch_size=4, **options
    ):
        edges = {k: plain(e) for k, e in batch.edge_index_dict.items()}
        size = batch["user"].batch_size
        wanted = model(batch.x_dict, edges)["user"][:size]
        found = twin(batch.x_dict, batch.edge_index_dict)["user"][:size]
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)
        if wanted.requires_grad:
            ours, theirs = gradients(twin, found), gradients(model, wanted)
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["sage", "gcn", "gat", "gatv2", "gine", "rgcn"])
@pytest.mark.parametrize("block", [1 << 20, 7])
def test_inference(data, kind, block, monkeypatch):
    monkeypatch.setattr(_fuse, "BLOCK", block)
    torch.manual_seed(3)
    model = Two(kind).double()
    named = {
        "gine": ("attr", "edge_attr"),
        "rgcn": ("kinds", "edge_type"),
        "gcn": ("weight", "edge_weight"),
    }
    names = []
    given = copy.copy(data)
    if kind in named:
        argument, name = named[kind]
        given[argument] = data[name]
        names = [argument]
    more = {name: given[name] for name in names}
    found = inference(model, given, edge_attrs=names, progress=True)
    wanted = model.eval()(data.x, data.edge_index, **more)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


def test_inference_typed():
    data = typed()
    model = nn.to_hetero(OneType(), data.metadata()).double().eval()
    found = inference(model, data)
    torch.testing.assert_close(found, model(data.x_dict, data.edge_index_dict))
    assert not found["user"].requires_grad


def test_inference_validate(data):
    with pytest.raises(TypeError, match="'model' must be a torch"):
        inference(3, data)
    with pytest.raises(TypeError, match="'data' must be a Data"):
        inference(torch.nn.Linear(1, 1), 3)


@pytest.mark.parametrize("kind", ["sage", "graph"])
def test_fused_pairs(data, kind):
    """Rows that are the same numbers but not the same gradients; maps looked at."""
    batch = next(iter(NeighborLoader(data, [3, 2], batch_size=6)))
    layer, seen = LAYERS[kind](), []
    twin = fused(copy.deepcopy(layer), trim=False)
    maps = dict(twin.named_children())
    inner = maps["lin_l" if kind == "sage" else "lin_rel"]
    x = batch.x.detach().float()

    def grads(layer, pair):
        start = x.clone().requires_grad_()
        out = layer(pair(start), batch.edge_index)
        out.square().sum().backward()
        return out.detach(), start.grad

    pairs = (
        lambda x: x,
        lambda x: (x, x.detach()),
        lambda x: (x.detach(), x),
        lambda x: (x, 2 * x),
        lambda x: (x * 2, x),
        lambda x: (x.sigmoid(), x),
    )
    for pair in pairs:
        for one, two in zip(grads(layer, pair), grads(twin, pair), strict=True):
            torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
    inner.register_forward_hook(lambda part, args, out: seen.append((out, *args)))
    grads(twin, pairs[-1])
    product = torch.nn.functional.linear(seen[0][1], inner.weight, inner.bias)
    torch.testing.assert_close(seen[0][0], product)  # nothing was added to it


def test_fused_other_edges(data):
    model, twin = twins(lambda: nn.GCN(WIDTH, 16, 2, 4))
    whole = twin(data.x, data.edge_index)
    torch.testing.assert_close(whole, model(data.x, data.edge_index))
    batch = next(iter(NeighborLoader(data, [3, 2], batch_size=9)))
    layer = twin.convs[0](batch.x, batch.edge_index)  # without the model
    wanted = model.convs[0](batch.x, plain(batch.edge_index))
    torch.testing.assert_close(layer, wanted, rtol=1e-9, atol=1e-12)
    more = batch.edge_index.flip(1)  # no longer as they were sampled
    torch.testing.assert_close(twin(batch.x, more), model(batch.x, more))


def test_fused_errors(data):
    _, twin = twins(Residual)
    loader = NeighborLoader(data, [3, 2], batch_size=9)
    for number, batch in enumerate(loader):
        if number == 1:
            break
        twin(batch.x, batch.edge_index)
    with pytest.raises(RuntimeError, match="rows that GCNConv reads"):
        twin(batch.x[: batch.batch_size], batch.edge_index)
    assert not [part for part in twin.modules() if "propagate" in part.__dict__]
    assert len(twin(batch.x, batch.edge_index)) == batch.batch_size
    with pytest.raises(TypeError, match="'model' must be a torch"):
        fused(3)
    with pytest.raises(TypeError, match="'trim' must be None, True or False"):
        fused(twin, trim="yes")


def test_fused_relations_of_pyg_lib(data, monkeypatch):
    """pyg-lib multiplies a row per edge: the sums are no longer ours."""

    def segment_matmul(x, ptr, weight):
        cuts = ptr.diff().tolist()
        parts = zip(x.split(cuts), weight, strict=True)
        return torch.cat([rows @ by for rows, by in parts])

    made_up = SimpleNamespace(ops=SimpleNamespace(segment_matmul=segment_matmul))
    module = sys.modules["torch_geometric.nn.conv.rgcn_conv"]
    monkeypatch.setattr(module, "pyg_lib", made_up)
    monkeypatch.setattr(torch_geometric.typing, "WITH_SEGMM", True)
    monkeypatch.setattr(torch_geometric.backend, "use_segment_matmul", True)
    model, twin = twins(lambda: Two("rgcn"))
    for batch in NeighborLoader(data, [3, 2], batch_size=27):
        assert_same(model, twin, batch, *arguments(batch, weighted=False))
    assert str(fused_layers(twin)).count("pyg-lib multiplies its messages") == 2


def test_fused_layers_text():
    model = torch.nn.ModuleList(
        [nn.GCNConv(8, 8, cached=True), nn.EdgeConv(mlp()), nn.SAGEConv(8, 8, "lstm")]
    )
    text = str(fused_layers(fused(model)))
    assert "0      GCNConv   as it was  it caches its edges" in text
    assert "no fused form is known" in text
    assert "its aggregation is LSTMAggregation" in text
