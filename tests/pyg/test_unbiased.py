"""Layers that normalise by degree are right on sampled batches."""

import copy
import pickle

import pytest
import torch
from torch_geometric import nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import DeepGraphInfomax
from torch_geometric.transforms import AddSelfLoops, ToUndirected

from gttf_pyg import (
    GTTFLinkLoader,
    GTTFLoader,
    GTTFSampler,
    check_unbiased,
    fused,
    unbiased,
)
from gttf_pyg._sampled import SampledEdgeIndex
from pyg_layers import NODES, graph

LAYERS = {
    "gcn": lambda: nn.GCNConv(8, 4),
    "gcn-improved": lambda: nn.GCNConv(8, 4, improved=True),
    "gcn-no-loops": lambda: nn.GCNConv(8, 4, add_self_loops=False),
    "gcn2": lambda: nn.GCN2Conv(8, 0.3),
    "sg": lambda: nn.SGConv(8, 4, K=2),
    "ssg": lambda: nn.SSGConv(8, 4, alpha=0.2, K=2),
    "tag": lambda: nn.TAGConv(8, 4, K=2),
    "appnp": lambda: nn.APPNP(2, 0.1),
    "cheb": lambda: nn.ChebConv(8, 4, K=3),
    "cheb-rw": lambda: nn.ChebConv(8, 4, K=3, normalization="rw"),
    "cheb-plain": lambda: nn.ChebConv(8, 4, K=3, normalization=None),
    "arma": lambda: nn.ARMAConv(8, 4, num_stacks=2, num_layers=2),
    "mixhop": lambda: nn.MixHopConv(8, 4),
    "lg": lambda: nn.LGConv(),
    "cluster": lambda: nn.ClusterGCNConv(8, 4, diag_lambda=0.3),
}
# Those that see a loop of the graph as a neighbour like others: a sample that steps
# share uses the row of a node with a loop twice.
COUNT_LOOPS = ("gcn-no-loops", "tag", "lg", "arma")


@pytest.fixture(scope="module")
def data():
    return graph()


def call(layer, batch, weighted=False):
    """A layer on a batch or on the whole graph."""
    first = (batch.x, batch.x) if isinstance(layer, nn.GCN2Conv) else (batch.x,)
    more = (batch.edge_weight,) if weighted else ()
    return layer(*first, batch.edge_index, *more)


def weighted_call(layer, batch):
    return call(layer, batch, weighted=True)


def worst(layer, loader, data, weighted=False):
    """The largest distance of seeds from the whole graph."""
    whole = call(layer, data, weighted)
    return max(
        (call(layer, batch, weighted)[: batch.batch_size] - whole[seeds(batch)])
        .abs()
        .max()
        .item()
        for batch in loader
    )


def seeds(batch):
    return batch.n_id[: batch.batch_size]


@pytest.mark.parametrize("layerwise", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_unbiased_all_neighbours_give_the_whole_graph(name, layerwise, data):
    torch.manual_seed(0)
    layer = unbiased(LAYERS[name]())
    loader = GTTFLoader(data, [-1, -1], batch_size=7, layerwise=layerwise)
    assert worst(layer, loader, data) < 5e-6
    if name != "cluster":  # it takes no weights
        assert worst(layer, loader, data, weighted=True) < 5e-6


@pytest.mark.parametrize("how", ["shared", "replace", "layerwise"])
@pytest.mark.parametrize("name", LAYERS)
def test_unbiased_mean_over_batches_is_the_whole_graph(name, how, data):
    torch.manual_seed(0)
    layer = unbiased(LAYERS[name]())
    if how != "layerwise" and name in COUNT_LOOPS:
        keep = data.edge_index[0] != data.edge_index[1]
        data = data.edge_subgraph(keep)
    options = {} if how == "shared" else {how: True}
    loader = GTTFLoader(data, [3, 3], seed=1, **options)
    forms = [call] if name == "cluster" else [call, weighted_call]
    how = {"seeds": 20, "rounds": 60, "linear": True}
    for form in forms:
        found = check_unbiased(layer, loader, forward=form, **how)
        assert found.ok, found


def test_unbiased_draws_by_weight(data):
    layer = unbiased(nn.GCNConv(8, 4))
    loader = GTTFLoader(data, [3], seed=1, replace=True, weight_attr="edge_weight")
    for form in (call, weighted_call):
        assert check_unbiased(layer, loader, forward=form, seeds=NODES)


def test_unbiased_is_needed(data):
    layer = nn.GCNConv(8, 4)
    loader = GTTFLoader(data, [3, 3], seed=1)
    found = check_unbiased(layer, loader, seeds=NODES)
    assert not found.ok
    assert found.layers[0].errors > 10
    assert "off: model = gttf_pyg.unbiased(model)" in repr(found)
    assert check_unbiased(unbiased(layer), loader, seeds=NODES)


def test_check_unbiased_sees_steps_that_share_a_sample():
    # 0 → v → 0 → w: the third step finds the draw of the first, so that w is v, and 3
    # and 4 always lead back to 0, where 1 and 2 do so every other time
    ends = torch.tensor([[0, 0, 0, 0, 1], [1, 2, 3, 4, 2]])
    data = Data(x=torch.eye(5), edge_index=torch.cat([ends, ends.flip(0)], dim=1))
    layer = unbiased(nn.TAGConv(5, 5, K=3))
    how = {"rounds": 400, "linear": True}
    found = check_unbiased(layer, GTTFLoader(data, [1, 1, 1], seed=0), **how)
    assert [one.cure is None for one in found.layers] == [True, True, False]
    assert "layerwise=True" in found.layers[2].cure
    loader = GTTFLoader(data, [1, 1, 1], seed=0, layerwise=True)
    assert check_unbiased(layer, loader, **how)


@pytest.mark.parametrize("trim", [False, True])
@pytest.mark.parametrize("layerwise", [False, True])
def test_unbiased_model_trimmed_and_layerwise(layerwise, trim, data):
    torch.manual_seed(0)
    model = unbiased(nn.GCN(8, 16, num_layers=3, out_channels=4)).eval()
    whole = model(data.x, data.edge_index)
    for batch in GTTFLoader(data, [-1] * 3, batch_size=9, layerwise=layerwise):
        hops = {}
        if trim:
            hops["num_sampled_nodes_per_hop"] = batch.num_sampled_nodes
            hops["num_sampled_edges_per_hop"] = batch.num_sampled_edges
        for _ in range(2):  # a pass starts where it must, also the second one
            out = model(batch.x, batch.edge_index, **hops)[: batch.batch_size]
            assert torch.allclose(out, whole[seeds(batch)], atol=1e-5)


@pytest.mark.parametrize("layerwise", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        lambda: nn.GAT(8, 16, 2, 4),
        lambda: nn.GraphSAGE(8, 16, 2, 4),
        lambda: nn.GIN(8, 16, 2, 4),
        lambda: nn.GraphSAGE(8, 16, 2, 4, aggr="sum"),
        lambda: nn.PNA(
            8, 16, 2, 4, aggregators=["mean"], scalers=["identity"], deg=torch.ones(3)
        ),
    ],
)
def test_unbiased_leaves_other_layers_right(model, layerwise, data):
    torch.manual_seed(0)
    model = unbiased(model(), scale="sum").eval()
    whole = model(data.x, data.edge_index)
    for batch in GTTFLoader(data, [-1, -1], batch_size=9, layerwise=layerwise):
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        assert torch.allclose(out, whole[seeds(batch)], atol=1e-4)


def test_unbiased_scale_keeps_sums(data):
    loader = GTTFLoader(data, [3, 3], seed=0)
    for model in (nn.GIN(8, 16, 2), nn.GraphSAGE(8, 16, 2, aggr="sum")):
        found = check_unbiased(model, loader)
        assert "scale='sum'" in found.layers[0].cure
        assert check_unbiased(unbiased(model, scale="sum"), loader)
    sage = nn.GraphSAGE(8, 16, 2)  # means are unbiased as they are
    assert check_unbiased(sage, loader)
    assert check_unbiased(unbiased(sage, scale="sum"), loader)


@pytest.mark.parametrize("layerwise", [False, True])
def test_unbiased_infomax(layerwise, data):
    torch.manual_seed(0)

    def corrupt(x, edges):
        return x.flip(1), edges

    model = DeepGraphInfomax(
        8, nn.GCN(8, 8, 2), lambda z, *args: z.mean(0), corrupt
    ).eval()
    unbiased(model)
    whole = model(data.x, data.edge_index)
    for batch in GTTFLoader(data, [-1, -1], batch_size=9, layerwise=layerwise):
        found = model(batch.x, batch.edge_index)
        for z, exact in zip(found[:2], whole[:2], strict=True):
            assert torch.allclose(z[: batch.batch_size], exact[seeds(batch)], atol=1e-5)


@pytest.mark.parametrize("workers", [{}, {"num_workers": 2}, {"prefetch": 2}])
def test_unbiased_workers(workers, data):
    torch.manual_seed(0)
    layer = unbiased(nn.GCNConv(8, 4))
    if "num_workers" in workers:
        workers["persistent_workers"] = True
    loader = GTTFLoader(data, [-1, -1], batch_size=20, **workers)
    for _ in range(2):
        assert worst(layer, loader, data) < 1e-5


def test_unbiased_copies_and_pickles(data):
    torch.manual_seed(0)
    model = unbiased(nn.GCN(8, 16, 2, 4)).eval()
    whole = model(data.x, data.edge_index)
    names = list(model.state_dict())
    batch = next(iter(GTTFLoader(data, [-1, -1], batch_size=9)))
    copies = [batch, copy.copy(batch), copy.deepcopy(batch), batch.clone()]
    copies += [pickle.loads(pickle.dumps(batch)), batch.cpu(), batch.to("cpu")]
    for other in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert list(other.state_dict()) == names
        for one in copies:
            out = other(one.x, one.edge_index)[:9]
            assert torch.allclose(out, whole[:9], atol=1e-5)
    weights = pickle.loads(pickle.dumps(batch)).edge_weight
    layer = unbiased(nn.GCNConv(8, 4))
    kept = layer(copies[4].x, copies[4].edge_index, weights)[:9]
    assert torch.allclose(kept, call(layer, data, weighted=True)[:9], atol=1e-5)


def test_unbiased_twice_is_once(data):
    model = nn.GCN(8, 16, 2, 4)
    assert unbiased(unbiased(model)) is model
    hooks = [len(conv._forward_pre_hooks) for conv in model.convs]
    assert hooks == [1, 1]
    assert len(model._forward_pre_hooks) == 1


def test_unbiased_trains_and_full_graphs_are_untouched(data):
    torch.manual_seed(0)
    plain = nn.GCN(8, 16, 2, 4, dropout=0.5)
    cured = unbiased(copy.deepcopy(plain))
    for mode in (True, False):
        out = []
        for model in (plain.train(mode), cured.train(mode)):
            torch.manual_seed(1)
            out.append(model(data.x, data.edge_index))
        assert torch.equal(*out)
    batch = next(iter(GTTFLoader(data, [3, 3], batch_size=9)))
    cured(batch.x, batch.edge_index).sum().backward()
    assert all(part.grad is not None for part in cured.parameters())
    assert "propagate" not in cured.convs[0].__dict__


def test_unbiased_gives_back_propagate_after_an_error(data):
    layer = unbiased(nn.GCNConv(8, 4))
    batch = next(iter(GTTFLoader(data, [3], batch_size=9)))
    with pytest.raises(RuntimeError):
        layer(batch.x[:, :3], batch.edge_index)
    assert "propagate" not in layer.__dict__


@pytest.mark.compile
@torch.no_grad()
def test_unbiased_compiles(data):
    torch.manual_seed(0)
    model = unbiased(nn.GCN(8, 16, 2, 4)).eval()
    whole = model(data.x, data.edge_index)
    fast = torch.compile(model, backend="eager")
    batch = next(iter(GTTFLoader(data, [3, 3], batch_size=9)))
    fast(batch.x, batch.edge_index)
    batch = next(iter(GTTFLoader(data, [-1, -1], batch_size=9)))
    out = fast(batch.x, batch.edge_index)[:9]
    torch.compiler.reset()
    assert torch.allclose(out, whole[:9], atol=1e-5)


def test_unbiased_backward_sampling(data):
    torch.manual_seed(0)
    sampler = GTTFSampler(data, [-1, -1], sample_direction="backward")
    loader = GTTFLoader(data, [-1, -1], neighbor_sampler=sampler, batch_size=9)
    layer = unbiased(nn.SGConv(8, 4, K=2, flow="target_to_source"))
    assert worst(layer, loader, data) < 1e-5
    assert worst(layer, loader, data, weighted=True) < 1e-5
    with pytest.raises(ValueError, match=r"'flow' must be 'target_to_source'"):
        worst(unbiased(nn.GCNConv(8, 4)), loader, data)


def test_unbiased_repeated_seeds_and_disjoint(data):
    layer = unbiased(nn.GCNConv(8, 4))
    whole = call(layer, data)
    repeated = torch.tensor([5, 5, 0, 3, 5, 59])
    for disjoint in (False, True):
        loader = GTTFLoader(data, [-1, -1], repeated, disjoint=disjoint, batch_size=6)
        (batch,) = loader
        assert torch.allclose(call(layer, batch)[:6], whole[repeated], atol=1e-5)


def test_unbiased_links(data):
    layer = unbiased(nn.SGConv(8, 4, K=2))
    whole = call(layer, data)
    loader = GTTFLinkLoader(data, [-1, -1], neg_sampling="binary", batch_size=9)
    batch = next(iter(loader))
    ends = batch.edge_label_index.flatten().unique()
    found = call(layer, batch)[ends]
    assert torch.allclose(found, whole[batch.n_id[ends]], atol=1e-5)


def test_unbiased_relations_of_one_type(data):
    torch.manual_seed(0)
    hetero = HeteroData()
    hetero["a"].x = data.x
    hetero["b"].x = torch.randn(10, 8)
    hetero["a", "to", "a"].edge_index = data.edge_index
    hetero["b", "of", "a"].edge_index = torch.randint(10, (2, 40))
    hetero["a", "in", "b"].edge_index = hetero["b", "of", "a"].edge_index.flip(0)
    layers = {
        ("a", "in", "b"): nn.SAGEConv(8, 4),
        ("a", "to", "a"): nn.GCNConv(8, 4),
        ("b", "of", "a"): nn.SAGEConv(8, 4, aggr="sum"),
    }
    model = unbiased(nn.HeteroConv(layers), scale="sum")
    whole = model(hetero.x_dict, hetero.edge_index_dict)["a"]
    for batch in GTTFLoader(hetero, [-1, -1], "a", batch_size=9):
        count = batch["a"].batch_size
        out = model(batch.x_dict, batch.edge_index_dict)["a"][:count]
        assert torch.allclose(out, whole[batch["a"].n_id[:count]], atol=1e-4)


def test_sampled_edge_index_keeps_its_sample_only_where_it_may(data):
    model = unbiased(nn.GCNConv(8, 4))  # as long as there is one, edges are annotated
    edges = next(iter(GTTFLoader(data, [3, 3], batch_size=9))).edge_index
    assert model(torch.rand(int(edges.max()) + 1, 8), edges).shape[1] == 4
    count = edges.shape[1]
    for same in (edges.clone(), edges.contiguous(), edges.cpu(), edges.detach()):
        assert isinstance(same, SampledEdgeIndex)
    assert isinstance(edges.narrow(1, 0, count - 1), SampledEdgeIndex)
    assert isinstance(edges.narrow(dim=1, start=0, length=3), SampledEdgeIndex)
    for other in (edges.flip(0), edges[0], edges[:, 1:], edges.narrow(1, 1, 2)):
        assert type(other) is torch.Tensor
    assert type(edges + 0) is torch.Tensor
    assert type(torch.cat([edges, edges], dim=1)) is torch.Tensor


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bias": lambda path, node, hood: torch.ones(len(hood.edge))}, "'bias'"),
        ({"subgraph_type": "induced"}, "'subgraph_type'"),
        ({"subgraph_type": "bidirectional"}, "'subgraph_type'"),
        ({"exclude_edges": torch.tensor([0])}, "'exclude_edges'"),
        ({"weight_attr": "edge_weight"}, "'weight_attr' must come with replace=True"),
    ],
)
def test_unbiased_refuses_draws_it_has_no_estimate_for(options, message, data):
    """Also where a layer computes a mean, which uniform draws leave as it is."""
    layers = unbiased(nn.GCNConv(8, 4)), unbiased(nn.SAGEConv(8, 4))
    batch = next(iter(GTTFLoader(data, [3], batch_size=9, **options)))
    for layer in layers:
        with pytest.raises(ValueError, match=message):
            call(layer, batch)


def without(name):
    def take(batch):
        del batch[name]
        return batch

    return take


@pytest.mark.parametrize(
    "transform",
    [
        AddSelfLoops(),
        ToUndirected(),
        *(without(name) for name in ("e_id", "n_id", "edge_factor")),
    ],
    ids=["loops", "undirected", "e_id", "n_id", "edge_factor"],
)
def test_unbiased_refuses_edges_that_a_transform_has_changed(transform, data):
    """A layer without hooks, and one that only adds up faster, take them as ever."""
    how = {"labor": True, "transform": transform, "batch_size": 9}
    plain, layer = nn.GCNConv(8, 4), unbiased(nn.GCNConv(8, 4))
    quick = fused(copy.deepcopy(plain))
    batch = next(iter(GTTFLoader(data, [3], **how)))
    with pytest.raises(ValueError, match="'transform' must leave edges"):
        layer(batch.x, batch.edge_index)
    out, same = (one(batch.x, batch.edge_index)[:9] for one in (quick, plain))
    assert torch.allclose(out, same, atol=1e-5)


def test_unbiased_refuses_reversed_edges_of_types():
    data, typed = graph(), HeteroData()
    typed["a"].x, typed["a", "to", "a"].edge_index = data.x, data.edge_index
    how = {"subgraph_type": "bidirectional", "batch_size": 9}
    layer = unbiased(nn.SAGEConv(8, 4))
    batch = next(iter(GTTFLoader(typed, [2], "a", **how)))
    with pytest.raises(ValueError, match="'subgraph_type'"):
        layer(batch["a"].x, batch["a", "to", "a"].edge_index)


def test_unbiased_refuses_weights_that_it_does_not_know(data):
    layer = unbiased(nn.GCNConv(8, 4))
    batch = next(iter(GTTFLoader(data, [3], batch_size=9)))
    with pytest.raises(ValueError, match=r"'edge_weight' must be an attribute"):
        layer(batch.x, batch.edge_index, batch.edge_weight * 2)
    zero = data.clone()
    zero.edge_weight[0] = 0
    how = {"replace": True, "weight_attr": "edge_weight"}
    batch = next(iter(GTTFLoader(zero, [3], batch_size=9, **how)))
    with pytest.raises(ValueError, match=r"weights above zero, or the layer's own"):
        call(layer, batch)
    call(layer, batch, weighted=True)


def test_batches_leave_no_hooks_behind(data):
    batch = next(iter(GTTFLoader(data, [3, 3], batch_size=9)))
    call(nn.GCNConv(8, 4), batch)  # warnings are errors here: none comes
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_validate(data):
    with pytest.raises(TypeError, match=r"'model' must be a torch.nn.Module \(got"):
        unbiased(data)
    with pytest.raises(ValueError, match=r"'scale' must be .*'sum'.* \(got 'mean'\)"):
        unbiased(nn.GCNConv(8, 4), scale="mean")
    with pytest.raises(ValueError, match=r"got GCNConv\(cached=True\)"):
        unbiased(nn.GCNConv(8, 4, cached=True))
    with pytest.raises(ValueError, match=r"got a PDNConv, which has none"):
        unbiased(nn.PDNConv(8, 4, 2, 2))
    with pytest.raises(ValueError, match=r"add_self_loops=False"):
        unbiased(nn.ClusterGCNConv(8, 4, add_self_loops=False))
    unbiased(nn.EGConv(8, 8, aggregators=["mean"]))
    loader = GTTFLoader(data, [3])
    with pytest.raises(TypeError, match=r"'loader' must be a loader of nodes \(got"):
        check_unbiased(nn.GCNConv(8, 4), data)
    with pytest.raises(ValueError, match=r"message passing layers \(got none\)"):
        check_unbiased(torch.nn.Linear(8, 4), loader)
    with pytest.raises(ValueError, match=r"'rounds' must be at least 8"):
        check_unbiased(nn.GCNConv(8, 4), loader, rounds=2)


@pytest.mark.parametrize("options", [{"disjoint": True}, {"subgraph_type": "induced"}])
def test_layerwise_validate(options, data):
    with pytest.raises(ValueError, match=r"'layerwise' must be False together with"):
        GTTFLoader(data, [3], layerwise=True, **options)


def test_layerwise_hops_draw_all_nodes_so_far(data):
    (batch,) = GTTFLoader(data, [2, 2, 2], batch_size=NODES, layerwise=True, seed=0)
    first = batch.num_sampled_edges[0]
    assert batch.num_sampled_edges == [first] * 3  # all nodes are seeds
    parts = batch.edge_index.plain.split(first, dim=1)
    assert torch.equal(parts[0][1], parts[1][1])
    assert not torch.equal(parts[0][0], parts[1][0])  # drawn anew
    assert torch.equal(
        batch.n_id[batch.edge_index.plain], data.edge_index[:, batch.e_id]
    )
