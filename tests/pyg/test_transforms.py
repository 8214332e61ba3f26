"""The attachment of `ToCompact` stays with the data; `GTTFNorm` is GCN's matrix."""

import copy
import pickle

import pytest
import torch
import torch_geometric.transforms as T
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.datasets import FakeHeteroDataset, KarateClub
from torch_geometric.loader import NodeLoader
from torch_geometric.nn import GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.sampler import NodeSamplerInput
from torch_geometric.utils import trim_to_layer

from exact import assert_means
from exact import one_thread as one_thread
from gttf_pyg import (
    GTTFLinkLoader,
    GTTFLoader,
    GTTFNorm,
    GTTFSampler,
    PPRNeighbors,
    ToCompact,
    _rows,
)
from gttf_sampler import CompactAdj
from strategies import graphs


def karate(**attributes):
    data = KarateClub()[0]
    for name, value in attributes.items():
        data[name] = value
    return data


def fake_hetero():
    torch.manual_seed(0)
    return FakeHeteroDataset(num_graphs=1, num_node_types=2, num_edge_types=4)[0]


def edge_lists(data):
    return [batch.edge_index.tolist() for batch in data]


def rows_of(loader):
    """The graphs that a loader samples from."""
    return list(loader.node_sampler.adjs.values())


def shares(loader, data):
    """True if the loader samples from the attachment of `data`."""
    kept = [store["compact_adj"] for store in data.edge_stores]
    return [
        a.col.data_ptr() == b.col.data_ptr()
        for a, b in zip(rows_of(loader), kept, strict=True)
    ]


def test_to_compact_leaves_its_input_alone():
    data = karate()
    found = ToCompact()(data)
    assert isinstance(found.compact_adj, CompactAdj)
    assert "compact_adj" not in data
    assert found.edge_index is data.edge_index
    assert GTTFLoader(data, [2]).data is data  # nothing to take out of it


@pytest.mark.parametrize(
    "change",
    [
        copy.copy,
        copy.deepcopy,
        Data.clone,
        lambda data: pickle.loads(pickle.dumps(data)),
        lambda data: data.to("cpu"),
        lambda data: T.Compose([T.NormalizeFeatures()])(data),
        lambda data: data.contiguous(),
        lambda data: data.share_memory_(),
        lambda data: Data.from_dict(data.to_dict()),
    ],
    ids=[
        *("copy", "deepcopy", "clone", "pickle", "to"),
        *("compose", "contiguous", "share", "from_dict"),
    ],
)
def test_to_compact_survives(change):
    data = change(ToCompact()(karate()))
    assert data.validate()
    assert "compact_adj=CompactAdj(34 nodes" in repr(data)
    assert shares(GTTFLoader(data, [2]), data) == [True]


def test_to_compact_survives_in_types():
    data = ToCompact()(fake_hetero())
    assert data.validate()
    again = pickle.loads(pickle.dumps(data.clone()))
    kind = data.node_types[0]
    loader = GTTFLoader(again, [2, 2], input_nodes=kind)
    assert shares(loader, again) == [True] * len(data.edge_types)


def test_to_compact_moves_with_the_data(device):
    with device():
        data = ToCompact()(karate()).to("cuda")
        assert data.compact_adj.col.is_cuda
        assert shares(GTTFLoader(data, [2]), data) == [True]
        assert not data.cpu().compact_adj.col.is_cuda


def test_to_compact_can_be_batched():
    both = Batch.from_data_list([ToCompact()(karate())] * 2)
    assert len(both.compact_adj) == 2
    first = both.get_example(0)
    assert shares(GTTFLoader(first, [2]), first) == [True]
    joint = GTTFLoader(both, [-1])  # of the joint graph neither is the one
    assert rows_of(joint)[0].num_rows == 68


def test_to_compact_is_shared_by_loaders():
    data = ToCompact()(karate())
    first, second = GTTFLoader(data, [2, 2]), GTTFLinkLoader(data, [3])
    assert shares(first, data) == [True]
    (rows,) = second.link_sampler.adjs.values()
    assert rows.col.data_ptr() == data.compact_adj.col.data_ptr()


OPTIONS = [
    {},
    {"weight_attr": "w"},
    {"time_attr": "t"},
    {"time_attr": "since"},
    {"time_attr": "t", "weight_attr": "w"},
]


def attributes():
    generator = torch.Generator().manual_seed(1)
    return {
        "w": torch.rand(156, generator=generator),
        "t": torch.randint(0, 9, (156,), generator=generator),
        "since": torch.randint(0, 9, (34,), generator=generator),
    }


@pytest.mark.parametrize("options", OPTIONS)
def test_to_compact_changes_no_batch(options):
    data = karate(**attributes())
    compact = ToCompact(**options)(data)
    times = {"input_time": torch.full((34,), 6)} if "time_attr" in options else {}
    found = []
    for graph in (data, compact):
        torch.manual_seed(0)
        loader = GTTFLoader(graph, [3, 3], batch_size=8, **options, **times)
        found.append([batch.to_dict() for batch in loader])
    assert shares(loader, compact) == [True]
    for plain, other in zip(*found, strict=True):
        assert plain.keys() == other.keys()  # and no `compact_adj` among them
        assert all(str(plain[name]) == str(other[name]) for name in plain)


def test_to_compact_is_for_its_own_arguments():
    """A loader that wants other weights, times or rows builds its own."""
    data = karate(**attributes())
    for told in OPTIONS:
        compact = ToCompact(**told)(data)
        for wanted in OPTIONS:
            times = (
                {"input_time": torch.full((34,), 6)} if "time_attr" in wanted else {}
            )
            loader = GTTFLoader(compact, [2], **wanted, **times)
            weight = told.get("weight_attr") or not wanted.get("weight_attr")
            fits = told.get("time_attr") == wanted.get("time_attr") and bool(weight)
            assert shares(loader, compact) == [fits], (told, wanted)


@pytest.mark.parametrize("told", ["forward", "backward"])
@pytest.mark.parametrize("wanted", ["forward", "backward"])
def test_to_compact_has_a_direction(told, wanted):
    data = karate(edge_index=torch.tensor([[0, 1, 2, 2], [1, 2, 3, 0]]))
    data = ToCompact(sample_direction=told)(data)
    sampler = GTTFSampler(data, [2], sample_direction=wanted)
    (rows,) = sampler.adjs.values()
    assert (rows.col.data_ptr() == data.compact_adj.col.data_ptr()) == (told == wanted)


def drop(data):
    data.edge_index, data.w = data.edge_index[:, 1:], data.w[1:]


def permute(data):
    data.edge_index = data.edge_index.flip(1)


def redirect(data):
    data.edge_index = data.edge_index.clone()
    data.edge_index[0, 77] = 33 - data.edge_index[0, 77]


def redirect_in_place(data):
    data.edge_index[1, 77] = 33 - data.edge_index[1, 77]


def grow(data):
    data.x = torch.zeros(35, 2)


def reweigh(data):
    data.w = data.w.clone()
    data.w[100] += 1


@pytest.mark.parametrize(
    "change", [drop, permute, redirect, redirect_in_place, grow, reweigh]
)
@pytest.mark.parametrize("chunk", [10, 1 << 22])
def test_to_compact_is_left_aside_when_the_graph_changes(change, chunk, monkeypatch):
    monkeypatch.setattr(_rows, "CHUNK", chunk)
    data = ToCompact(weight_attr="w")(karate(**attributes()))
    assert shares(GTTFLoader(data, [2], weight_attr="w"), data) == [True]
    change(data)
    loader = GTTFLoader(data, [2], weight_attr="w")
    assert shares(loader, data) == [False]
    (rows,) = rows_of(loader)
    assert rows.to_edge_index().tolist() == data.edge_index.tolist()
    again = ToCompact(weight_attr="w")(data)
    assert shares(GTTFLoader(again, [2], weight_attr="w"), again) == [True]


@given(graphs(timed=False, weighted=False), st.integers(1, 30), st.data())
def test_attached_knows_its_edges(graph, chunk, data):
    """Rows are found for exactly the edges that they were made of."""
    size = (graph.num_nodes, graph.num_nodes)
    pyg = Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)
    pyg = ToCompact()(pyg)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_rows, "CHUNK", chunk)
        found = _rows.attached(pyg, size, _rows.Columns(), False)
        assert found is pyg.compact_adj
        if pyg.num_edges:
            end = (
                data.draw(st.integers(0, 1)),
                data.draw(st.integers(0, pyg.num_edges - 1)),
            )
            pyg.edge_index = pyg.edge_index.clone()
            old = int(pyg.edge_index[end])
            pyg.edge_index[end] = data.draw(st.integers(0, graph.num_nodes - 1))
            found = _rows.attached(pyg, size, _rows.Columns(), False)
            assert (found is not None) == (int(pyg.edge_index[end]) == old)


@pytest.mark.process
def test_to_compact_does_not_travel_in_batches():
    data = ToCompact()(karate())
    loader = GTTFLoader(data, [2], batch_size=34, num_workers=1)
    assert all("compact_adj" not in batch for batch in loader)
    assert "compact_adj" in data
    links = GTTFLinkLoader(data, [2], batch_size=156)
    assert "compact_adj" not in next(iter(links))
    types = ToCompact()(fake_hetero())
    loader = GTTFLoader(types, [2], input_nodes=types.node_types[0], batch_size=500)
    batch = next(iter(loader))
    assert all("compact_adj" not in store for store in batch.edge_stores)
    assert all("compact_adj" in store for store in types.edge_stores)


@pytest.mark.process
def test_to_compact_does_not_disturb_loaders_of_pyg():
    data = ToCompact()(karate())
    loader = NodeLoader(data, GTTFSampler(data, [2, 2]), batch_size=9, num_workers=1)
    assert sum(batch.batch_size for batch in loader) == 34


def test_to_compact_repr():
    assert repr(ToCompact()) == "ToCompact()"
    made = ToCompact(time_attr="t", is_sorted=True, sample_direction="backward")
    assert repr(made) == (
        "ToCompact(time_attr='t', is_sorted=True, sample_direction='backward')"
    )


def test_to_compact_validate():
    with pytest.raises(ValueError, match="'sample_direction' must be one of 'forward'"):
        ToCompact(sample_direction="up")
    with pytest.raises(TypeError, match=r"'data' must be a Data or a HeteroData \(got"):
        ToCompact()([1])
    with pytest.raises(KeyError, match="nothing"):
        ToCompact(time_attr="nothing")(karate())


def simple(directed):
    """A graph with parallel edges and an isolated node, but no loop."""
    ends = torch.tensor([[0, 1, 1, 2, 2, 3, 4, 4], [1, 0, 2, 1, 3, 2, 0, 0]])
    if not directed:
        ends = torch.cat([ends, ends.flip(0)], dim=1)
    return Data(
        edge_index=ends, x=torch.randn(6, 3), edge_attr=torch.ones(ends.shape[1], 2)
    )


def dense(edge_index, weight, num_nodes):
    matrix = torch.zeros(num_nodes, num_nodes)
    return matrix.index_put_((edge_index[1], edge_index[0]), weight, accumulate=True)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("scheme", ["unbiased", "paper"])
def test_gttf_norm_of_the_whole_graph_is_that_of_pyg(scheme, directed):
    data = simple(directed)
    found = GTTFNorm(data, scheme)(data)
    assert "edge_weight" not in data
    assert "n_id" not in found
    assert "e_id" not in found
    index, weight = gcn_norm(data.edge_index, None, 6)
    expected = dense(index, weight, 6)
    if directed:  # the estimator has √(δ'ᵤ / δ'ᵥ) / δ'ᵤ, which is the same
        assert not torch.equal(expected, expected.t())
    torch.testing.assert_close(dense(found.edge_index, found.edge_weight, 6), expected)
    assert found.edge_attr.shape == (found.num_edges, 2)


def test_gttf_norm_is_the_loaders_own():
    data = karate()
    torch.manual_seed(0)
    ours = GTTFLoader(data, [3, 2], batch_size=8, transform=GTTFNorm(data, "paper"))
    ours = [batch.to_dict() for batch in ours]
    torch.manual_seed(0)
    theirs = GTTFLoader(data, [3, 2], batch_size=8, normalize="paper")
    for a, b in zip(ours, (batch.to_dict() for batch in theirs), strict=True):
        assert a.keys() == b.keys()
        assert all(str(a[name]) == str(b[name]) for name in a)


class GCN(torch.nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.convs = torch.nn.ModuleList(
            GCNConv(a, b, normalize=False) for a, b in ((inputs, 4), (4, 3))
        )

    def forward(self, data, trim=False):
        x, index, weight = data.x, data.edge_index, data.edge_weight
        for layer, conv in enumerate(self.convs):
            if trim:
                sizes = data.num_sampled_nodes, data.num_sampled_edges
                x, index, weight = trim_to_layer(layer, *sizes, x, index, weight)
            x = conv(x, index, weight).relu()
        return x


@pytest.mark.parametrize("trim", [False, True])
@pytest.mark.parametrize("scheme", ["unbiased", "paper"])
def test_gttf_norm_of_all_neighbours_is_exact(scheme, trim):
    data = karate(edge_attr=torch.rand(156, 2))
    norm, model = GTTFNorm(data, scheme), GCN(34)
    whole = model(norm(data))
    order = torch.randperm(34)
    loader = GTTFLoader(data, [-1, -1], order, batch_size=9, transform=norm)
    for batch in loader:
        assert batch.edge_attr.shape == (batch.num_edges, 2)
        loop = batch.e_id == -1
        assert int(loop.sum()) == batch.num_nodes
        assert not batch.edge_attr[loop].any()
        seeds = batch.n_id[: batch.batch_size]
        found = model(batch, trim)[: batch.batch_size]
        torch.testing.assert_close(found, whole[seeds])


@pytest.mark.parametrize("replace", [False, True])
def test_gttf_norm_is_unbiased(replace):
    """The paper's own weights are not: its self-loop is too heavy in a sample."""
    stars = 4000
    hub = 5 * torch.arange(stars)
    ends = torch.stack(
        [(hub[:, None] + torch.arange(1, 5)).view(-1), hub.repeat_interleave(4)]
    )
    data = Data(edge_index=ends, num_nodes=5 * stars)
    x = torch.tensor([3.0, -1.0, 4.0, 1.0, 5.0]).repeat(stars)
    exact = (dense(*gcn_norm(ends[:, :4], None, 5), 5) @ x[:5])[:1]
    torch.manual_seed(0)
    for scheme in ("unbiased", "paper"):
        norm = GTTFNorm(data, scheme)
        options = {"replace": replace, "transform": norm, "batch_size": stars}
        (batch,) = GTTFLoader(data, [2], hub, **options)
        row, col = batch.edge_index
        sent = batch.edge_weight * x[batch.n_id][row]
        found = torch.zeros(batch.num_nodes).index_add_(0, col, sent)[:stars, None]
        if scheme == "unbiased":
            assert_means(found, exact.double())
        else:
            with pytest.raises(AssertionError, match="standard errors away"):
                assert_means(found, exact.double())


def test_gttf_norm_in_workers_and_pipelines():
    data, found = karate(), []
    norm = T.Compose([GTTFNorm(data), T.NormalizeFeatures()])
    for workers in (0, 2):
        torch.manual_seed(0)
        options = {"batch_size": 8, "num_workers": workers}
        loader = GTTFLoader(data, [3, 3], transform=norm, **options)
        found.append([batch.edge_weight.tolist() for batch in loader])
    assert found[0] == found[1]
    assert pickle.loads(pickle.dumps(norm))(data).num_edges == 156 + 34


def test_gttf_norm_shares_what_is_attached():
    data = ToCompact()(karate())
    norm = GTTFNorm(data)
    assert norm.weights.adj is data.compact_adj
    assert norm(data).num_edges == 156 + 34


def test_gttf_norm_follows_the_batch_to_its_device(device):
    data = karate()
    norm = GTTFNorm(data)
    expected = norm(data).edge_weight.tolist()
    with device():
        moved = norm(data.to("cuda"))
        assert moved.edge_weight.is_cuda
        assert moved.edge_weight.cpu().tolist() == expected


def test_gttf_norm_validate():
    data = karate()
    with pytest.raises(
        ValueError, match=r"'scheme' must be one of 'unbiased', 'paper'"
    ):
        GTTFNorm(data, "sampled")
    with pytest.raises(TypeError, match=r"'data' must be a Data \(got HeteroData\)"):
        GTTFNorm(HeteroData())
    norm = GTTFNorm(data)
    with pytest.raises(TypeError, match=r"'data' must be a Data \(got HeteroData\)"):
        norm(HeteroData())
    with pytest.raises(ValueError, match="'data' must have no 'edge_weight' yet"):
        norm(norm(data))
    assert repr(norm) == "GTTFNorm(scheme='unbiased')"


@pytest.mark.process
def test_to_compact_rows_that_travel_are_copied_in_a_worker(monkeypatch):
    """A batch of PyG's loader carries them, and pickling moves them while in use."""
    data = ToCompact()(karate())
    seeds = NodeSamplerInput(None, torch.tensor([0, 33]))

    def shared(sampler):
        torch.manual_seed(0)
        out = sampler.sample_from_nodes(seeds)
        (adj,) = sampler.adjs.values()
        return adj.col.data_ptr() == data.compact_adj.col.data_ptr(), out.edge.tolist()

    plain = shared(GTTFSampler(data, [2, 2]))
    ours = GTTFLoader(data, [2, 2], num_workers=1).node_sampler
    monkeypatch.setattr("gttf_pyg.sampler.get_worker_info", lambda: "a worker")
    assert plain[0]
    assert shared(GTTFSampler(data, [2, 2])) == (False, plain[1])
    assert shared(ours)[0]


def test_ppr_neighbors_are_edges_for_any_loader():
    data = KarateClub()[0]
    data.edge_weight = torch.rand(data.num_edges) + 0.1
    data.edge_attr = torch.rand(data.num_edges, 2)
    near = PPRNeighbors(k=4, weight_attr="edge_weight", generator=0)(data)
    assert near.num_nodes == data.num_nodes
    assert near.num_edges == near.edge_weight.numel() == 4 * 34
    assert "edge_attr" not in near
    assert "edge_attr" in data
    assert near.validate()
    assert (near.edge_index[0] != near.edge_index[1]).all()
    assert (torch.bincount(near.edge_index[1]) == 4).all()
    share = near.edge_weight.view(34, 4)
    assert (share[:, 1:] <= share[:, :-1]).all()
    loader = GTTFLoader(near, [2], weight_attr="edge_weight", batch_size=34)
    batch = next(iter(loader))
    assert torch.equal(batch.edge_weight, near.edge_weight[batch.e_id])
    assert repr(PPRNeighbors(4)) == "PPRNeighbors(k=4)"
