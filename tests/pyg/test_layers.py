"""Every layer of PyG is in the table of `unbiased`, and is what the table says."""

import pickle

import pytest
import torch
from torch_geometric import nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.utils import degree

from gttf_pyg import BiasedLayerWarning, GTTFLoader, check_unbiased, unbiased
from gttf_pyg._table import EXACT, PARTS, RATIO, REFUSED, TABLE, WARNED
from pyg_layers import CASES, NODES, NOT_RUN, forward, graph, measured

NAMES = [case.name for case in CASES]


def cured(case):
    """A layer of a case, unbiased; what it warns of is tested elsewhere."""
    torch.manual_seed(0)
    layer = case.make()
    if case.status == WARNED:
        with pytest.warns(BiasedLayerWarning):
            return unbiased(layer, scale="sum").eval()
    return unbiased(layer, scale="sum").eval()


def test_table_has_every_layer_of_the_host():
    assert not set(nn.conv.__all__) - set(TABLE) - {"MessagePassing"}
    tried = {case.layer for case in CASES} | set(NOT_RUN)
    assert set(TABLE) <= tried
    assert tried <= set(TABLE) | {"MessagePassing", "PMLP"}


def test_table_agrees_with_the_cases():
    for case in CASES:
        usual = TABLE[case.layer].status if case.layer in TABLE else PARTS
        if not case.options and usual != PARTS and case.status != WARNED:
            assert case.status == usual, case.name


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_layer_is_what_the_table_says(case):
    if case.status == REFUSED:
        with pytest.raises(ValueError, match=rf"got a {case.layer}, which has none"):
            unbiased(case.make(), scale="sum")
        return
    if case.status == WARNED:
        with pytest.warns(BiasedLayerWarning, match=rf"cannot vouch for {case.layer}"):
            unbiased(case.make(), scale="sum")
        return
    found = measured(case, True, 40)
    if case.status == EXACT:
        assert found.ok, found
        return
    assert case.status == RATIO
    plain = measured(case, False, 40)
    worst = [max(one.bias for one in report.layers) for report in (found, plain)]
    assert worst[0] <= worst[1] + 1e-6
    assert "off by its nature" in repr(found) or found.ok


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.status != REFUSED],
    ids=lambda case: case.name,
)
def test_all_neighbours_give_the_whole_graph(case):
    if case.layer == "GPSConv":
        pytest.skip("it looks at all nodes")
    layer, data, call = cured(case), graph(), case.call or forward
    hops = 2 if case.layer == "PMLP" else 1
    (batch,) = GTTFLoader(data, [-1] * hops, torch.arange(20), batch_size=20)
    with torch.no_grad():
        out, whole = call(layer, batch)[:20], call(layer, data)[:20]
    assert torch.allclose(out, whole, atol=1e-4)


BY_WEIGHT = ("SAGEConv", "SimpleConv", "GINConv", "FeaStConv", "PNAConv", "MFConv")


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.layer in (*BY_WEIGHT, "EGConv") and c.status == EXACT],
    ids=lambda case: case.name,
)
def test_layer_is_exact_where_edges_are_drawn_by_weight(case):
    how = {"replace": True, "weight_attr": "edge_weight"}
    found = measured(case, True, 60, **how)
    assert found.ok, found


def test_mean_under_weights_would_be_a_weighted_mean():
    case = next(case for case in CASES if case.name == "SAGEConv")
    found = measured(case, False, 200, replace=True, weight_attr="edge_weight")
    assert not found.ok
    assert "gttf_pyg.unbiased(model)" in repr(found)


def test_layers_that_take_edges_by_type_refuse_weights():
    layer = unbiased(nn.RGCNConv(8, 4, 3, aggr="add"), scale="sum")
    how = {"replace": True, "weight_attr": "edge_weight"}
    batch = next(iter(GTTFLoader(graph(), [3], **how)))
    with pytest.raises(ValueError, match=r"'weight_attr' must be None for RGCNConv"):
        layer(batch.x, batch.edge_index, batch.edge_type)
    with pytest.raises(ValueError, match=r"'weight_attr' must be None for SignedConv"):
        unbiased(nn.SignedConv(8, 4, True))(batch.x, batch.edge_index, batch.edge_index)


def test_types_must_be_those_of_the_data():
    layer = unbiased(nn.RGCNConv(8, 4, 3))
    batch = next(iter(GTTFLoader(graph(), [3], batch_size=8)))
    with pytest.raises(ValueError, match=r"'edge_type' must be an attribute"):
        layer(batch.x, batch.edge_index, 2 - batch.edge_type)


def test_types_of_a_batch_survive_a_pickle():
    layer, data = unbiased(nn.RGCNConv(8, 4, 5)).eval(), graph()
    (batch,) = GTTFLoader(data, [-1], torch.arange(9), batch_size=9)
    other = pickle.loads(pickle.dumps(batch))
    out = layer(other.x, other.edge_index, other.edge_type)[:9]
    whole = layer(data.x, data.edge_index, data.edge_type)[:9]
    assert torch.allclose(out, whole, atol=1e-5)


@pytest.mark.compile
@torch.no_grad()
@pytest.mark.parametrize("kind", [nn.GAT, nn.GIN])
def test_weighted_messages_compile(kind):
    torch.manual_seed(0)
    model, data = unbiased(kind(8, 16, 2, 4), scale="sum").eval(), graph()
    fast = torch.compile(model, backend="eager")
    batch = next(iter(GTTFLoader(data, [3, 3], batch_size=9, seed=0)))
    out, same = (m(batch.x, batch.edge_index)[:9] for m in (fast, model))
    torch.compiler.reset()
    assert torch.allclose(out, same, atol=1e-4, rtol=1e-4)


def test_gat_is_the_ratio_with_the_loop_counted_once():
    """log(δ / |S|) on the scores of drawn edges, none on the loop's."""
    torch.manual_seed(0)
    keep = graph().edge_index[0] != graph().edge_index[1]
    data = graph().edge_subgraph(keep)
    layer = unbiased(nn.GATConv(8, 4)).eval()
    batch = next(iter(GTTFLoader(data, [3], batch_size=9, seed=0)))
    out = layer(batch.x, batch.edge_index)[:9]
    row, col = batch.edge_index.plain
    h = layer.lin(batch.x)
    src, dst = (h * layer.att_src[0]).sum(-1), (h * layer.att_dst[0]).sum(-1)
    for node in range(9):
        there = row[col == node]
        total = (data.edge_index[1] == batch.n_id[node]).sum()
        each = torch.tensor([total / max(len(there), 1)] * len(there) + [1.0])
        senders = torch.cat([there, torch.tensor([node])])
        score = torch.nn.functional.leaky_relu(src[senders] + dst[node], 0.2)
        weight = each * score.exp()
        exact = (weight / weight.sum()) @ h[senders] + layer.bias
        assert torch.allclose(out[node], exact, atol=1e-5)


class Divides(nn.MessagePassing):
    """A mean by hand, of a person who knows nothing of samples."""

    def forward(self, x, edge_index):
        number = degree(edge_index[1], x.size(0)).clamp(min=1)
        return self.propagate(edge_index, x=x) / number.sqrt().view(-1, 1)


class OwnMessage(nn.GCNConv):
    def message(self, x_j, edge_weight):
        return x_j


def test_own_layers_are_named_once():
    model = torch.nn.ModuleList([Divides(), Divides(), OwnMessage(8, 4)])
    with pytest.warns(BiasedLayerWarning) as found:
        unbiased(model, scale="sum")
    (one,) = found
    assert str(one.message).count("Divides (") == 1
    assert "OwnMessage (its 'message' is not that of PyG)" in str(one.message)
    assert one.filename == __file__


def test_sums_without_scale_are_named():
    with pytest.warns(
        BiasedLayerWarning, match=r"GINConv \(it adds up .*scale=\"sum\""
    ):
        unbiased(nn.GIN(8, 8, 2))


def test_check_sees_an_own_layer_that_divides_after_it_propagates():
    class Mean(Divides):
        def __init__(self):
            super().__init__(aggr="mean")

    found = check_unbiased(Mean(), GTTFLoader(graph(), [3], seed=0), rounds=40)
    assert [one.cure is None for one in found.layers] == [True, False]
    assert "model (output)" in repr(found)
    assert "does not know how it uses its edges" in found.layers[1].cure


class Infinite(torch.nn.Module):
    def __init__(self, where):
        super().__init__()
        self.conv, self.where = nn.SAGEConv(8, 4), where

    def forward(self, x, edge_index):
        batch = x.shape[0] != NODES
        return self.conv(x / 0 if batch == self.where else x, edge_index)


@pytest.mark.parametrize("where", [False, True])
def test_check_does_not_call_nan_unbiased(where):
    loader = GTTFLoader(graph(), [2], torch.arange(4), batch_size=4)
    found = check_unbiased(
        unbiased(Infinite(where)), loader, seeds=4, rounds=8, linear=True
    )
    assert not found.ok
    assert "NaN" in found.layers[0].cure


def test_check_names_no_wrong_cure_of_one_direction():
    loader = GTTFLoader(graph(), [3], seed=0)
    found = check_unbiased(nn.DirGNNConv(nn.SAGEConv(8, 4)), loader, rounds=40)
    assert not found.ok
    assert all("unbiased(model" not in (one.cure or "") for one in found.layers)
    assert "one direction only" in repr(found)


def test_hgt_weighs_relations_by_their_shares():
    torch.manual_seed(0)
    data = HeteroData()
    data["a"].x, data["b"].x = torch.randn(2, 8), torch.randn(40, 8)
    row = torch.arange(40)
    data["b", "many", "a"].edge_index = torch.stack([row, row * 0])
    data["a", "one", "a"].edge_index = torch.tensor([[1], [0]])
    layer = unbiased(nn.HGTConv(8, 8, data.metadata())).eval()
    with torch.no_grad():
        whole = layer(data.x_dict, data.edge_index_dict)["a"][0]
        plain = nn.HGTConv(8, 8, data.metadata()).eval()
        plain.load_state_dict(layer.state_dict())
        means = {}
        for model in (layer, plain):
            out = []
            loader = GTTFLoader(data, [4], ("a", torch.tensor([0])), seed=0)
            for _ in range(100):
                batch = loader([0])
                found = model(batch.x_dict, batch.edge_index_dict)["a"][0]
                out.append(found)
            means[model] = torch.stack(out).mean(0)
    off = [float((means[model] - whole).norm() / whole.norm()) for model in means]
    assert off[0] < off[1] / 2


@pytest.mark.parametrize("layerwise", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.GCN(8, 16, 2, 4),
        lambda: nn.GAT(8, 16, 2, 4),
        lambda: nn.GIN(8, 16, 2, 4),
        lambda: nn.GraphSAGE(8, 16, 2, 4),
    ],
)
def test_unbiased_models_can_be_explained(make, layerwise):
    torch.manual_seed(1)  # with 0, the ReLUs of this GIN are all at zero
    model = unbiased(make(), scale="sum").eval()
    data = graph()
    batch = next(
        iter(GTTFLoader(data, [3, 3], batch_size=4, seed=0, layerwise=layerwise))
    )
    before = model(batch.x, batch.edge_index)
    explainer = Explainer(
        model,
        algorithm=GNNExplainer(epochs=15),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config={
            "mode": "multiclass_classification",
            "task_level": "node",
            "return_type": "raw",
        },
    )
    # small numbers: a softmax of large ones has no gradient
    found = explainer(batch.x / 5, batch.edge_index, index=1)
    assert found.edge_mask.shape == (batch.edge_index.shape[1],)
    assert found.edge_mask.max() > 0
    assert found.validate(raise_on_error=True)
    # a layer is itself again, for batches and for the whole graph
    assert torch.equal(model(batch.x, batch.edge_index), before)
    explainer(data.x, data.edge_index, index=0)


def test_a_mask_of_zeros_leaves_only_the_loops():
    torch.manual_seed(0)
    layer = unbiased(nn.GCNConv(8, 4, bias=False)).eval()
    batch = next(iter(GTTFLoader(graph(), [3], batch_size=9, seed=0)))
    layer.explain = True
    layer._edge_mask = torch.zeros(batch.edge_index.shape[1])
    layer._loop_mask = batch.edge_index[0] != batch.edge_index[1]
    layer._apply_sigmoid = False
    masked = layer(batch.x, batch.edge_index)
    received = torch.bincount(graph().edge_index[1], minlength=NODES)
    own = (graph().edge_index[0] == graph().edge_index[1]).nonzero().view(-1)
    received -= torch.bincount(graph().edge_index[1][own], minlength=NODES)
    loop = 1 / (received[batch.n_id] + 1.0)
    exact = layer.lin(batch.x) * loop.view(-1, 1)
    assert torch.allclose(masked, exact, atol=1e-5)


def test_data_without_loops_or_edges():
    empty = Data(x=torch.randn(5, 8), edge_index=torch.zeros(2, 0, dtype=torch.long))
    for make in (lambda: nn.GATConv(8, 4), lambda: nn.SimpleConv("mean", "self_loop")):
        layer = unbiased(make())
        (batch,) = GTTFLoader(empty, [3], batch_size=5)
        out = layer(batch.x, batch.edge_index)
        assert torch.allclose(out, layer(empty.x, empty.edge_index), atol=1e-6)
