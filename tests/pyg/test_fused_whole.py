"""Fused models as they are run: for all nodes, in threads, by tools of the hosts."""

import copy
import pickle

import pytest
import torch
from torch_geometric import nn
from torch_geometric.data import Data, HeteroData

from gttf_pyg import (
    NeighborLoader,
    _lazy,
    fused,
    fused_layers,
    inference,
    unbiased,
)
from gttf_pyg._sampled import SampledEdgeIndex
from gttf_sampler import FeatureFile
from makers import Matrix

NODES, WIDTH = 90, 8
MODELS = {
    "sage": lambda: nn.GraphSAGE(WIDTH, 16, 2, 4),
    "max": lambda: nn.GraphSAGE(WIDTH, 16, 2, 4, aggr="max"),
    "gcn": lambda: nn.GCN(WIDTH, 16, 2, 4),
    "gin": lambda: nn.GIN(WIDTH, 16, 2, 4),
    "gat": lambda: nn.GAT(WIDTH, 16, 2, 4, heads=2),
    "gatv2": lambda: nn.GAT(WIDTH, 16, 2, 4, heads=2, v2=True),
}


def make_data(edges=400, nodes=NODES, seed=0):
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(0, nodes - 4, (2, edges), generator=generator)
    loops = torch.tensor([[1, 2, 2], [1, 2, 2]])
    return Data(
        x=torch.randn(nodes, WIDTH, generator=generator),
        edge_index=torch.cat([index, index[:, :9], loops], dim=1),
        time=torch.randint(0, 50, (nodes,), generator=generator),
        w=torch.rand(edges + 12, generator=generator) + 0.1,
    )


@pytest.fixture(scope="module")
def data():
    return make_data()


def plain(edges):
    return edges.plain if isinstance(edges, SampledEdgeIndex) else edges


def gradients(model, out):
    model.zero_grad()
    out.double().sin().sum().backward()
    return [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "options",
    [
        {"disjoint": True},
        {"time_attr": "time", "input_time": 30},
        {"time_attr": "time", "input_time": 5, "temporal_strategy": "last"},
        {"weight_attr": "w", "replace": True},
        {"layerwise": True},
        {"num_neighbors": [0, 3]},
        {"num_neighbors": [2, 0]},
        {"num_neighbors": [-1, -1, -1]},
    ],
    ids=str,
)
def test_fused_draws(data, name, options):
    torch.manual_seed(0)
    model = MODELS[name]().double()
    twin = fused(copy.deepcopy(model))
    nodes = torch.cat([torch.arange(NODES), torch.arange(10)])  # some twice
    given = {"num_neighbors": [3, 2], "input_nodes": nodes, "batch_size": 30}
    given = given | options
    if "input_time" in given:
        given["input_time"] = torch.full((len(nodes),), given["input_time"])
    for batch in NeighborLoader(data, **given):
        x = batch.x.double()
        wanted = model(x, plain(batch.edge_index))[: batch.batch_size]
        found = twin(x, batch.edge_index)[: batch.batch_size]
        torch.testing.assert_close(found, wanted)
        ours, theirs = gradients(twin, found), gradients(model, wanted)
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_fused_threads(name):
    data = make_data(edges=60_000, nodes=1_000)
    data.x = torch.randn(1_000, 40, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    kind = type(MODELS[name]())
    model = fused(kind(40, 32, 2, 4, **({"v2": True} if name == "gatv2" else {})))
    batch = next(iter(NeighborLoader(data, [20, 20], batch_size=400)))
    model(batch.x, batch.edge_index)
    sums, before = [], torch.get_num_threads()
    layer = model.convs[0]
    with torch.no_grad():
        for threads in (1, 2, 5):
            try:
                torch.set_num_threads(threads)
                sums.append(layer(batch.x, batch.edge_index))
            finally:
                torch.set_num_threads(before)
    for found in sums[1:]:  # products of matrices are torch's
        torch.testing.assert_close(found, sums[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [nn.LGConv, lambda: nn.SGConv(40, 1, K=2)])
def test_fused_threads_bits(kind):
    data = make_data(edges=60_000, nodes=1_000)
    data.x = torch.randn(1_000, 40, generator=torch.Generator().manual_seed(0))
    layer = fused(kind())
    if isinstance(layer, nn.SGConv):
        layer.lin = torch.nn.Identity()
    batch = next(iter(NeighborLoader(data, [20, 20], batch_size=400)))
    sums, before = [], torch.get_num_threads()
    for threads in (1, 1, 2, 5):  # the first pass is recorded
        x = batch.x.clone().requires_grad_()
        try:
            torch.set_num_threads(threads)
            out = layer(x, batch.edge_index)
            out.square().sum().backward()
        finally:
            torch.set_num_threads(before)
        sums.append((out.detach(), x.grad))
    for found in sums[2:]:
        assert all(torch.equal(a, b) for a, b in zip(found, sums[1], strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_fused_float32(name):
    """As near to float64 as the host is, over many gradients: rounding is chance."""
    square, ratios = [0.0, 0.0], []
    for seed in range(8):
        data = make_data(seed=seed)
        torch.manual_seed(seed)
        exact = MODELS[name]().double()
        for part in exact.modules():  # whose kinks make errors meaningless
            if isinstance(part, torch.nn.ReLU):
                part.forward = torch.tanh
        model = copy.deepcopy(exact).float()
        twin = fused(copy.deepcopy(model))
        worst = [0.0, 0.0]
        for batch in NeighborLoader(data, [5, 5], batch_size=45):
            size, edges = batch.batch_size, batch.edge_index
            wanted = exact(batch.x.double(), plain(edges))[:size]
            truth = gradients(exact, wanted)
            outs = twin(batch.x, edges), model(batch.x, plain(edges))[:size]
            assert (outs[0] - wanted).abs().max() < 1e-5 * wanted.abs().max()
            for i, (one, out) in enumerate(zip((twin, model), outs, strict=True)):
                found = zip(gradients(one, out), truth, strict=True)
                errors = torch.cat([(a.double() - b).flatten() for a, b in found])
                worst[i] = max(worst[i], errors.abs().max().item())
                square[i] += errors.square().sum().item()
        ratios.append(worst[0] / worst[1])
    assert ratios[0] < 2
    assert square[0] ** 0.5 < 1.1 * square[1] ** 0.5


@pytest.mark.parametrize("name", ["sage", "gcn", "gat"])
def test_fused_autocast(data, name):
    torch.manual_seed(0)
    model = MODELS[name]()
    twin = fused(copy.deepcopy(model))
    for batch in NeighborLoader(data, [4, 3], batch_size=40):
        with torch.autocast("cpu", torch.bfloat16):
            wanted = model(batch.x, plain(batch.edge_index))[: batch.batch_size]
            found = twin(batch.x, batch.edge_index)
        scale = wanted.detach().float().abs().max()
        assert (found.float() - wanted.float()).abs().max() < 0.05 * scale
        assert all(torch.isfinite(g).all() for g in gradients(twin, found))


@pytest.mark.process
@pytest.mark.parametrize("name", ["sage", "gcn", "gat"])
def test_fused_ddp(data, name):
    torch.manual_seed(0)
    model = fused(MODELS[name]())
    dist = torch.distributed
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        twin = torch.nn.parallel.DistributedDataParallel(copy.deepcopy(model))
        for batch in NeighborLoader(data, [4, 3], batch_size=40):
            wanted = model(batch.x, batch.edge_index)
            found = twin(batch.x, batch.edge_index)
            torch.testing.assert_close(found, wanted)
            assert len(found) == batch.batch_size
            ours, theirs = gradients(twin.module, found), gradients(model, wanted)
            torch.testing.assert_close(ours, theirs)
    finally:
        dist.destroy_process_group()


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
@pytest.mark.parametrize("name", ["gin", "gat"])
def test_fused_compiled(data, name):
    torch.manual_seed(0)
    model = fused(MODELS[name]())
    compiled = torch.compile(copy.deepcopy(model), backend="eager")
    for batch in NeighborLoader(data, [4, 3], batch_size=40):
        wanted = model(batch.x, batch.edge_index)
        found = compiled(batch.x, batch.edge_index)
        torch.testing.assert_close(found, wanted)
        assert len(found) == batch.batch_size


def test_fused_checkpointed(data):
    torch.manual_seed(0)
    model = fused(MODELS["sage"]())
    run = torch.utils.checkpoint.checkpoint
    for batch in NeighborLoader(data, [4, 3], batch_size=40):
        given = batch.x, batch.edge_index
        wanted = gradients(model, model(*given))
        found = gradients(model, run(model, *given, use_reentrant=False))
        torch.testing.assert_close(found, wanted)


@pytest.mark.filterwarnings("ignore::gttf_sampler.estimate.BiasedLayerWarning")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("scale", [None, "sum"])
def test_fused_unbiased_gradients(data, name, scale):
    torch.manual_seed(0)
    model = MODELS[name]().double()
    wanted = unbiased(copy.deepcopy(model), scale)
    twins = (
        fused(unbiased(copy.deepcopy(model), scale)),
        unbiased(fused(copy.deepcopy(model)), scale),
    )
    for batch in NeighborLoader(data, [3, 2], batch_size=30):
        x, size = batch.x.double(), batch.batch_size
        out = wanted(x, batch.edge_index)[:size]
        theirs = gradients(wanted, out)
        for twin in twins:
            found = twin(x, batch.edge_index)[:size]
            torch.testing.assert_close(found, out)
            torch.testing.assert_close(gradients(twin, found), theirs)
    assert not [part for part in twins[0].modules() if "propagate" in part.__dict__]
    told = str(fused_layers(twins[1]))
    assert ("'unbiased' weighs its messages" in told) == (name == "gatv2")


ESTIMATED = {
    "mean": (lambda: nn.SAGEConv(WIDTH, 4), {}),
    "sum": (lambda: nn.SAGEConv(WIDTH, 4, aggr="sum", project=True), {}),
    "max": (lambda: nn.SAGEConv(WIDTH, 4, aggr="max"), {}),
    "graph": (lambda: nn.GraphConv(WIDTH, 12), {"edge_weight": "w"}),
    "gcn-plain": (lambda: nn.GCNConv(WIDTH, 4, normalize=False), {"edge_weight": "w"}),
    "gine": (lambda: nn.GINEConv(torch.nn.Linear(WIDTH, 4)), {"edge_attr": "e"}),
    "gat": (lambda: nn.GATConv(WIDTH, 4, heads=2), {}),
    "gat-no-loops": (lambda: nn.GATConv(WIDTH, 4, add_self_loops=False), {}),
    "gat-edges": (lambda: nn.GATConv(WIDTH, 4, 2, edge_dim=WIDTH), {"edge_attr": "e"}),
}


@pytest.mark.filterwarnings("ignore::gttf_sampler.estimate.BiasedLayerWarning")
@pytest.mark.parametrize("name", ESTIMATED)
@pytest.mark.parametrize("scale", [None, "sum"])
@pytest.mark.parametrize(
    "options", [{}, {"labor": True}, {"weight_attr": "w", "replace": True}], ids=str
)
def test_fused_estimates(data, name, scale, options):
    """Edges that stand for others are summed as `unbiased` says."""
    torch.manual_seed(0)
    data, (make, named) = copy.copy(data), ESTIMATED[name]
    data.e = torch.randn(data.num_edges, WIDTH, generator=torch.Generator())
    layer = unbiased(make(), scale)
    twin = fused(copy.deepcopy(layer))
    for batch in NeighborLoader(data, [3, 2], batch_size=30, **options):
        size, more = batch.batch_size, {key: batch[at] for key, at in named.items()}
        wanted = layer(batch.x, batch.edge_index, **more)[:size]
        found = twin(batch.x, batch.edge_index, **more)
        assert len(found) == size
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        ours, theirs = gradients(twin, found), gradients(layer, wanted)
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    assert [row.status for row in fused_layers(twin).layers] == ["fused, trimmed"]


def test_fused_refuses_what_unbiased_refuses(data):
    layers = [kind(WIDTH, 4) for kind in (nn.SAGEConv, nn.GATConv, nn.GCNConv)]
    twins = [fused(unbiased(layer)) for layer in layers]
    batch = next(iter(NeighborLoader(data, [3], batch_size=9, weight_attr="w")))
    for twin in twins:
        with pytest.raises(ValueError, match="must come with replace=True"):
            twin(batch.x, batch.edge_index)


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("width", [None, 3])
def test_fused_attention_with_attributes(data, loops, width):
    torch.manual_seed(0)
    dim = width or 1
    layer = nn.GATConv(WIDTH, 4, 2, edge_dim=dim, add_self_loops=loops)
    twin = fused(copy.deepcopy(layer))
    for batch in NeighborLoader(data, [3, 2], batch_size=30):
        shape = (batch.num_edges,) if width is None else (batch.num_edges, width)
        attr = torch.randn(shape)
        wanted = layer(batch.x, plain(batch.edge_index), attr)[: batch.batch_size]
        found = twin(batch.x, batch.edge_index, attr)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        ours, theirs = gradients(twin, found), gradients(layer, wanted)
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    filled = fused(nn.GATConv(WIDTH, 4, 2, edge_dim=dim, fill_value=2.0))
    out = filled(batch.x, batch.edge_index, attr)
    wanted = filled(batch.x, plain(batch.edge_index), attr)[: len(out)]
    torch.testing.assert_close(out, wanted, rtol=1e-4, atol=1e-5)


def test_fused_dropout_of_edges(data):
    """Each edge is dropped with the same chance, whoever adds it up."""
    torch.manual_seed(0)
    layer = nn.APPNP(1, 0.1, dropout=0.5)
    twin, size = fused(copy.deepcopy(layer)), 30
    batch = next(iter(NeighborLoader(data, [3], batch_size=size)))
    outs = torch.stack([twin(batch.x, batch.edge_index)[:size] for _ in range(2_000)])
    hosts = torch.stack(
        [layer(batch.x, plain(batch.edge_index))[:size] for _ in range(2_000)]
    )
    error = ((outs.var(0) + hosts.var(0)) / 2_000).sqrt() + 1e-7
    assert ((outs.mean(0) - hosts.mean(0)).abs() <= 5 * error).all()
    torch.testing.assert_close(outs.var(0), hosts.var(0), rtol=0.35, atol=1e-4)
    assert [row.status for row in fused_layers(twin).layers] == ["fused, trimmed"]


@pytest.mark.parametrize("jk", [None, "last", "cat", "max", "lstm"])
@pytest.mark.parametrize("kind", ["GCN", "GraphSAGE", "GAT", "GIN"])
def test_fused_basic_gnn_inference(data, kind, jk):
    torch.manual_seed(0)
    model = getattr(nn, kind)(WIDTH, 16, 2, 4, jk=jk).eval()
    twin = fused(copy.deepcopy(model))
    wanted = model(data.x, data.edge_index)
    options = {"batch_size": 32, "shuffle": False}
    loader = NeighborLoader(data, [-1], **options)
    found = twin.inference(loader, progress_bar=True)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    if jk not in (None, "last"):  # that PyG refuses
        return
    if kind != "GCN":  # of which PyG takes the degrees in each batch
        torch.testing.assert_close(model.inference(loader), found, rtol=1e-4, atol=1e-5)
    some = NeighborLoader(data, [-1], input_nodes=torch.arange(NODES).flip(0))
    found = twin.inference(some)  # by PyG: the last layer in the loader's order
    assert found.shape == wanted.shape
    for other in (copy.deepcopy(twin), pickle.loads(pickle.dumps(twin))):
        assert other.inference.args[0] is other
        other.convs[0].reset_parameters()
        found = other.inference(NeighborLoader(data, [-1], **options))
        assert not torch.allclose(found, wanted, atol=1e-3)
    assert not [name for name in twin.state_dict() if "inference" in name]


def test_fused_basic_gnn_inference_left_to_pyg(data):
    loader = NeighborLoader(data, [-1], batch_size=32)
    twin = fused(nn.GCN(WIDTH, 16, 2, 4))
    with pytest.raises(AssertionError):  # of PyG: the model is being trained
        twin.inference(loader)

    class Own(nn.GCN):
        def inference_per_layer(self, layer, x, edge_index, batch_size):
            return super().inference_per_layer(layer, x, edge_index, batch_size) + 1

    own = Own(WIDTH, 16, 2, 4).eval()
    wanted = own.inference(loader)
    torch.testing.assert_close(fused(own).inference(loader), wanted)


def test_inference_of_adj_t(data):
    torch.manual_seed(0)
    ends, sizes = data.edge_index.flip(0), (NODES, NODES)
    matrix, bare = Matrix(*ends, data.w, sizes), Matrix(*ends, None, sizes)
    weighed, plain_one = Data(x=data.x, adj_t=matrix), Data(x=data.x, adj_t=bare)
    model = nn.GCN(WIDTH, 16, 2, 4).eval()
    torch.testing.assert_close(
        inference(model, weighed), model(data.x, data.edge_index, data.w)
    )
    torch.testing.assert_close(
        inference(model, plain_one), model(data.x, data.edge_index)
    )
    layer = nn.SAGEConv(WIDTH, 4)
    torch.testing.assert_close(
        inference(layer, plain_one), layer(data.x, data.edge_index)
    )
    with pytest.raises(ValueError, match="only for a model that takes 'edge_weight'"):
        inference(layer, weighed)


def test_fused_basic_gnn_inference_of_adj_t(data, monkeypatch):
    torch.manual_seed(0)
    model = fused(nn.GraphSAGE(WIDTH, 16, 2, 4).eval())
    monkeypatch.setattr(nn.GraphSAGE, "inference", lambda *about: "by PyG")
    for values in (None, data.w):
        adj_t = Matrix(*data.edge_index.flip(0), values, (NODES, NODES))
        loader = NeighborLoader(Data(x=data.x, adj_t=adj_t), [-1], batch_size=32)
        found = model.inference(loader)
        if values is None:
            wanted = model(data.x, data.edge_index)
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        else:
            assert found == "by PyG"


@pytest.mark.parametrize("stored", [None, "bfloat16", "int8"])
def test_inference_from_file(data, tmp_path, stored):
    torch.manual_seed(0)
    model = nn.GraphSAGE(WIDTH, 16, 2, 4).eval()
    file = FeatureFile.from_array(tmp_path / "x.npy", data.x, stored=stored)
    there = Data(x=file, edge_index=data.edge_index)
    wanted = model(file[:], data.edge_index)
    torch.testing.assert_close(inference(model, there), wanted)
    twin = fused(copy.deepcopy(model))
    for batch in NeighborLoader(there, [3, 2], batch_size=40):
        out = model(batch.x, plain(batch.edge_index))[: batch.batch_size]
        torch.testing.assert_close(twin(batch.x, batch.edge_index), out)


def calls_of(monkeypatch, owner, name):
    """The arguments of every call of a function from now on."""
    calls, own = [], getattr(owner, name)

    def call(*args):
        calls.append(args)
        return own(*args)

    monkeypatch.setattr(owner, name, call)
    return calls


NARROWING = {
    "sage": lambda: nn.GraphSAGE(WIDTH, 4, 2, 3),
    "project": lambda: nn.GraphSAGE(WIDTH, 4, 2, 3, project=True),
    "gcn": lambda: nn.GCN(WIDTH, 4, 2, 3),
    "gat": lambda: nn.GAT(WIDTH, 4, 2, 3),
    "gatv2": lambda: nn.GAT(WIDTH, 4, 2, 3, v2=True),
    "gin": lambda: nn.GIN(WIDTH, 4, 2, 3),
}


@pytest.mark.parametrize("name", NARROWING)
def test_inference_reads_files_in_blocks(data, name, tmp_path, monkeypatch):
    monkeypatch.setattr(_lazy, "CHUNK", 11)
    torch.manual_seed(0)
    model = NARROWING[name]().eval()
    file = FeatureFile.from_array(tmp_path / "x.npy", data.x)
    wanted = model(data.x, data.edge_index)
    calls = calls_of(monkeypatch, FeatureFile, "rows")
    found = inference(model, Data(x=file, edge_index=data.edge_index))
    torch.testing.assert_close(found, wanted)
    most = max(len(ids) for _, ids in calls)
    assert most == (NODES if name == "gin" else 11)  # GIN adds up the rows themselves


@pytest.mark.parametrize("how", ["sum", "mean", "max"])
@pytest.mark.parametrize("kind", [nn.SAGEConv, nn.GraphConv, nn.GCNConv])
@pytest.mark.parametrize("size", [3, 20])
def test_inference_sums_what_is_narrower(data, kind, how, size, monkeypatch):
    torch.manual_seed(0)
    layer = kind(WIDTH, size, aggr=how)
    weights = [] if kind is nn.SAGEConv else ["edge_weight"]
    given = Data(x=data.x, edge_index=data.edge_index, edge_weight=data.w)
    wanted = layer(data.x, data.edge_index, *[data.w for _ in weights])
    calls = calls_of(monkeypatch, _lazy, "aggregate")
    torch.testing.assert_close(inference(layer, given, weights), wanted)
    if kind is not nn.GCNConv or how == "sum":
        widths = [x.shape[1] for x, *_ in calls]
        assert widths == [WIDTH if how == "max" else min(WIDTH, size)]


def test_fused_infomax(data):
    """The corruption calls the encoder again, with its rows in another order."""
    torch.manual_seed(0)

    def infomax(encoder):
        return nn.DeepGraphInfomax(
            4,
            encoder=encoder,
            summary=lambda z, *args, **kwargs: z[:30].mean(dim=0).sigmoid(),
            corruption=lambda x, edge_index: (x.flip(0), edge_index),
        )

    encoder = nn.GraphSAGE(WIDTH, 16, 2, 4)
    model = infomax(encoder).double()
    twin = fused(copy.deepcopy(model))
    for batch in NeighborLoader(data, [3, 2], batch_size=30):
        x, size = batch.x.double(), batch.batch_size
        wanted = model(x, plain(batch.edge_index))
        found = twin(x, batch.edge_index)
        for ours, theirs in zip(found[:2], wanted[:2], strict=True):
            torch.testing.assert_close(ours[:size], theirs[:size])
        if size == 30:  # else the summary would be of other rows
            torch.testing.assert_close(found[2], wanted[2])


def test_fused_pairs_are_trimmed(data):
    """conv((x, x[:size])), as examples of PyG call their layers."""

    class Pairs(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.SAGEConv(WIDTH, WIDTH), nn.GATConv((WIDTH,) * 2, 4)

        def forward(self, x, edge_index, size, count):
            x = self.a((x, x), edge_index).relu()
            return self.b((x, x[:size]), edge_index.narrow(1, 0, count))

    torch.manual_seed(0)
    for loops in (True, False):
        model = Pairs()
        model.b.add_self_loops = loops
        twin = fused(copy.deepcopy(model))
        for batch in NeighborLoader(data, [3, 2], batch_size=30):
            more = batch.batch_size, batch.num_sampled_edges[0]
            wanted = model(batch.x, plain(batch.edge_index), *more)
            found = twin(batch.x, batch.edge_index, *more)
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        states = [layer.status for layer in fused_layers(twin).layers]
        assert states == ["fused, trimmed"] * 2


def test_fused_typed_draws():
    data = HeteroData()
    generator = torch.Generator().manual_seed(0)
    for kind, size in (("user", 40), ("item", 30)):
        data[kind].x = torch.randn(size, WIDTH, generator=generator)
        data[kind].time = torch.randint(0, 50, (size,), generator=generator)
    kinds = ("item", "of", "user"), ("user", "rev", "item"), ("user", "k", "user")
    for kind in kinds:
        sizes = [data[end].x.size(0) - 2 for end in kind[::2]]
        ends = [torch.randint(0, n, (120,), generator=generator) for n in sizes]
        data[kind].edge_index = torch.stack(ends)
    torch.manual_seed(0)
    model = nn.to_hetero(nn.GraphSAGE((-1, -1), 16, 2, 4), data.metadata()).double()
    first = next(iter(NeighborLoader(data, [1], input_nodes="user", batch_size=40)))
    x = {kind: rows.double() for kind, rows in first.x_dict.items()}
    model(x, {kind: plain(e) for kind, e in first.edge_index_dict.items()})
    twin = fused(copy.deepcopy(model))
    for options in (
        {"disjoint": True},
        {"time_attr": "time", "input_time": torch.full((40,), 25)},
        {"num_neighbors": [0, 2]},
        {"num_neighbors": dict(zip(kinds, ([2, 2], [1, 0], [0, 3]), strict=True))},
    ):
        given = {"num_neighbors": [3, 2], "input_nodes": "user", "batch_size": 16}
        for batch in NeighborLoader(data, **given | options):
            size = batch["user"].batch_size
            x = {kind: rows.double() for kind, rows in batch.x_dict.items()}
            edges = {k: plain(e) for k, e in batch.edge_index_dict.items()}
            wanted = model(x, edges)["user"][:size]
            found = twin(x, batch.edge_index_dict)["user"][:size]
            torch.testing.assert_close(found, wanted)
            ours, theirs = (
                [p.grad for p in one.parameters() if p.grad is not None]
                for one, out in ((twin, found), (model, wanted))
                if [one.zero_grad(), out.sin().sum().backward()]
            )
            torch.testing.assert_close(ours, theirs)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fused_lightning(data):
    lightning = pytest.importorskip("pytorch_lightning")
    torch.manual_seed(0)

    class Task(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = fused(nn.GraphSAGE(WIDTH, 16, 2, 4))

        def training_step(self, batch, index):
            out = self.model(batch.x, batch.edge_index)
            assert len(out) == batch.batch_size
            return out.square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    task = Task()
    before = copy.deepcopy(task.state_dict())
    names = "checkpointing", "progress_bar", "model_summary"
    quiet = {"logger": False, **{f"enable_{name}": False for name in names}}
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", **quiet)
    trainer.fit(task, NeighborLoader(data, [3, 2], batch_size=40))
    after = task.state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before)
    statuses = {layer.status for layer in fused_layers(task.model).layers}
    assert statuses == {"fused, trimmed"}
