"""PyG's loaders beside the neighbour loaders, on our engine."""

import copy
import sys

import pytest
import torch
from torch_geometric import loader as theirs
from torch_geometric import sampler as their_samplers
from torch_geometric.data import Data
from torch_geometric.datasets import KarateClub
from torch_geometric.nn import SAGEConv
from torch_geometric.sampler import EdgeSamplerInput, NodeSamplerInput

from gttf_pyg import (
    BidirectionalNeighborSampler,
    ClusterData,
    ClusterLoader,
    HGTLoader,
    HGTSampler,
    ShaDowKHopSampler,
)
from gttf_pyg.loader import NeighborSampler
from makers import Matrix, heterogeneous, homogeneous


def test_names_are_those_of_the_hosts_classes():
    assert issubclass(HGTLoader, theirs.HGTLoader)
    assert issubclass(HGTSampler, their_samplers.HGTSampler)
    assert issubclass(ShaDowKHopSampler, theirs.ShaDowKHopSampler)
    assert issubclass(NeighborSampler, theirs.NeighborSampler)
    assert issubclass(ClusterData, theirs.ClusterData)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda e: NeighborSampler(e, 5), r"'sizes' must be a list of integers.*5"),
        (lambda e: NeighborSampler(e, [5], "a"), "'node_idx' must be"),
        (lambda e: NeighborSampler(e, [5], "a", 99), "'node_idx' must be"),
        (
            lambda e: HGTLoader(heterogeneous(), [2], "v0", num_workers="2"),
            "'num_workers' must be",
        ),
        (lambda e: ShaDowKHopSampler(homogeneous(), 2, "a"), "'num_neighbors' must be"),
        (lambda e: ShaDowKHopSampler(homogeneous(), 2, -2), "'num_neighbors' must"),
        (lambda e: ShaDowKHopSampler(homogeneous(), 2, 2, "a"), "'node_idx' must be"),
    ],
)
def test_loaders_refuse_in_a_sentence(make, match):
    with pytest.raises((ValueError, TypeError), match=f"^{match}"):
        make(homogeneous().edge_index)


def test_hgt_batches_hold_all_edges_between_their_nodes():
    data = heterogeneous()
    for batch in HGTLoader(data, [4, 4], "v0", batch_size=5):
        size = batch["v0"].batch_size
        assert batch["v0"].n_id[:size].tolist() == batch["v0"].input_id.tolist()
        for kind in data.edge_types:
            send, take = data[kind].edge_index
            inside = torch.isin(send, batch[kind[0]].n_id)
            inside &= torch.isin(take, batch[kind[2]].n_id)
            assert sorted(batch[kind].e_id.tolist()) == inside.nonzero()[:, 0].tolist()
            pairs = [
                batch[end].n_id[part]
                for end, part in zip(kind[::2], batch[kind].edge_index, strict=True)
            ]
            whole = data[kind].edge_index[:, batch[kind].e_id]
            assert torch.equal(torch.stack(pairs), whole)
            assert torch.equal(batch[kind].edge_attr, batch[kind].e_id)


def test_hgt_samples_from_edges_with_negatives():
    data = heterogeneous()
    kind = next(kind for kind in data.edge_types if kind[0] != kind[2])
    row, col = data[kind].edge_index[:, :3]
    sampler = HGTSampler(data, [2])
    out = sampler.sample_from_edges(
        EdgeSamplerInput(None, row, col, input_type=kind),
        their_samplers.NegativeSampling("binary"),
    )
    _, index, label, _ = out.metadata
    assert torch.equal(out.node[kind[0]][index[0, :3]], row)
    assert torch.equal(out.node[kind[2]][index[1, :3]], col)
    assert label.tolist() == [1, 1, 1, 0, 0, 0]


def test_hgt_refuses_what_has_no_types():
    with pytest.raises(NotImplementedError, match="'data' must have types of nodes"):
        HGTSampler(homogeneous(), [2])


def test_shadow_graphs_are_induced_around_their_roots():
    data = homogeneous()
    loader = ShaDowKHopSampler(data, 2, -1, torch.tensor([4, 9, 4]), batch_size=3)
    batch = next(iter(loader))
    assert batch.num_graphs == 3
    assert batch.y.tolist() == [4, 9, 4]
    for graph, root in enumerate([4, 9, 4]):
        reached = {root}
        for _ in range(2):
            into = torch.isin(data.edge_index[1], torch.tensor(sorted(reached)))
            reached |= set(data.edge_index[0, into].tolist())
        inside = torch.isin(data.edge_index, torch.tensor(sorted(reached))).all(dim=0)
        assert torch.equal(
            batch.x[batch.batch == graph], data.x[torch.tensor(sorted(reached))]
        )
        own = batch.batch[batch.edge_index[0]] == graph
        assert sorted(batch.edge_attr[own].tolist()) == inside.nonzero()[:, 0].tolist()
    assert (batch.edge_index[0].diff() >= 0).all()


def test_shadow_takes_masks_and_reads_its_sizes():
    data = homogeneous()
    mask = torch.zeros(data.num_nodes, dtype=torch.bool)
    mask[[1, 2]] = True
    assert ShaDowKHopSampler(data, 1, 2, mask).node_idx.tolist() == [1, 2]
    with pytest.raises(ValueError, match="'depth' must not be negative"):
        ShaDowKHopSampler(data, -1, 2)
    with pytest.raises(TypeError, match="'data' must be a Data"):
        ShaDowKHopSampler(heterogeneous(), 1, 2)


def test_adjs_of_all_neighbors_are_the_whole_graph_to_a_model():
    data = homogeneous()
    seeds = torch.tensor([3, 8, 21])
    loader = NeighborSampler(data.edge_index, [-1, -1], seeds, batch_size=3)
    convs = [SAGEConv(data.num_features, 8), SAGEConv(8, 8)]
    size, n_id, adjs = next(iter(loader))
    x = data.x[n_id]
    for conv, (edge_index, e_id, shape) in zip(convs, adjs, strict=True):
        assert edge_index.shape[1] == e_id.numel()
        x = conv((x, x[: shape[1]]), edge_index)
    y = data.x
    for conv in convs:
        y = conv(y, data.edge_index)
    assert size == 3
    assert torch.allclose(x, y[seeds], atol=1e-5)


def test_adjs_draw_anew_in_every_layer_and_name_their_edges():
    data = homogeneous()
    loader = NeighborSampler(data.edge_index, [2, 2], batch_size=8, seed=0)
    assert repr(loader) == "NeighborSampler(sizes=[2, 2])"
    for _, n_id, adjs in loader:
        for edge_index, e_id, _ in adjs:
            assert torch.equal(n_id[edge_index], data.edge_index[:, e_id])
        last, first = adjs
        common = torch.isin(last.edge_index[1], torch.arange(first.size[1]))
        assert sorted(last.e_id[common].tolist()) != sorted(first.e_id.tolist())
    one = NeighborSampler(data.edge_index, [2], return_e_id=False).sample([1, 2])
    assert one[2].e_id is None
    with pytest.raises(ValueError, match="'sizes' must not be negative"):
        NeighborSampler(data.edge_index, [-2])


@pytest.mark.parametrize("disjoint", [False, True])
def test_bidirectional_takes_all_edges_around(disjoint):
    data = homogeneous()
    sampler = BidirectionalNeighborSampler(data, [-1, -1], disjoint=disjoint)
    out = sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([5, 7])))
    for tree, roots in enumerate([[5], [7]] if disjoint else [[5, 7]]):
        near = torch.tensor(roots)
        for _ in range(2):
            touched = torch.isin(data.edge_index, near).any(dim=0)
            edges = touched.nonzero().view(-1)
            near = data.edge_index[:, touched].unique()
        own = out.batch[out.col] == tree if disjoint else slice(None)
        assert sorted(out.edge[own].tolist()) == edges.tolist()
        nodes = out.node[out.batch == tree] if disjoint else out.node
        assert sorted(nodes.tolist()) == near.tolist()
    assert torch.equal(
        torch.stack([out.node[out.row], out.node[out.col]]),
        data.edge_index[:, out.edge],
    )
    assert sum(out.num_sampled_nodes) == out.node.numel()
    assert sum(out.num_sampled_edges) == out.edge.numel()


def test_bidirectional_draws_both_ways_independently():
    """Draws of two like rows of a node agree as often as chance has it."""
    spokes = torch.arange(1, 5)
    hub = torch.zeros(4, dtype=torch.long)
    both = torch.cat([torch.stack([spokes, hub]), torch.stack([hub, spokes])], dim=1)
    sampler = BidirectionalNeighborSampler(Data(edge_index=both, num_nodes=5), [1])
    torch.manual_seed(0)
    rounds = 800
    hits = 0
    for _ in range(rounds):
        out = sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([0])))
        hits += out.node.numel() == 2
    assert abs(hits / rounds - 1 / 4) < 5 * (3 / 16 / rounds) ** 0.5


def test_bidirectional_with_negatives_and_what_it_refuses():
    data = homogeneous()
    sampler = BidirectionalNeighborSampler(data, [2], disjoint=True)
    inputs = EdgeSamplerInput(None, *data.edge_index[:, :4])
    out = sampler.sample_from_edges(inputs, their_samplers.NegativeSampling("triplet"))
    assert torch.equal(out.node[out.metadata[1]], inputs.row)
    with pytest.raises(RuntimeError, match="'num_neighbors' must be one list"):
        BidirectionalNeighborSampler(data, {("v", "e", "v"): [2]})
    with pytest.raises(NotImplementedError, match="'data' must have one type"):
        BidirectionalNeighborSampler(heterogeneous(), [2])
    data = copy.copy(data)
    data.time = torch.arange(data.num_nodes)
    with pytest.raises(NotImplementedError, match="'time_attr' must be None"):
        BidirectionalNeighborSampler(data, [2], time_attr="time")


def test_clusters_have_equal_sizes_and_few_edges_between():
    pytest.importorskip("pymetis", reason="pymetis is not installed")
    blocks = [torch.combinations(torch.arange(8)).t() + 8 * i for i in range(3)]
    bridge = torch.tensor([[0, 8, 16, 0], [8, 16, 0, 0]])  # and a self-loop
    index = torch.cat([*blocks, bridge], dim=1)
    data = Data(edge_index=index, n_id=torch.arange(24), num_nodes=24)
    parts = ClusterData(data, 3, log=False)
    found = sorted(sorted(parts[i].n_id.tolist()) for i in range(3))
    assert found == [list(range(8 * i, 8 * i + 8)) for i in range(3)]
    batch = next(iter(ClusterLoader(parts, batch_size=3)))
    assert batch.num_edges == index.shape[1]


def test_clusters_may_have_no_edges():
    pytest.importorskip("pymetis", reason="pymetis is not installed")
    index = torch.tensor([[0, 1, 0, 2, 1], [1, 0, 2, 0, 2]])
    data = Data(torch.rand(9, 2), index, edge_attr=torch.rand(5))
    parts = ClusterData(data, 4, log=False)
    batches = list(ClusterLoader(parts, batch_size=1))
    assert sum(batch.num_nodes for batch in batches) == 9
    assert any(batch.num_edges == 0 for batch in batches)
    for batch in batches:
        assert batch.x.shape == (batch.num_nodes, 2)
        assert batch.edge_attr.shape == (batch.num_edges,)


def test_clusters_are_never_empty(capfd, tmp_path):
    """An empty batch has a loss of NaN, and METIS prints a line for every turn."""
    pytest.importorskip("pymetis", reason="pymetis is not installed")
    data = homogeneous()
    size = data.num_nodes
    for recursive in (False, True):
        with pytest.raises(ValueError, match=f"'num_parts' must be at most .* {size}"):
            ClusterData(data, 5 * size, recursive, log=False)
        every = ClusterData(data, size, recursive, log=False)
        assert all(batch.num_nodes == 1 for batch in ClusterLoader(every))
    karate = KarateClub()[0]
    halves = ClusterData(karate, 20, log=False)  # METIS fills six at once
    assert min(batch.num_nodes for batch in ClusterLoader(halves)) > 0
    with pytest.raises(ValueError, match=r"'num_parts' must be as many .* fill 23\);"):
        ClusterData(karate, 24, True, save_dir=str(tmp_path), log=False)
    assert not list(tmp_path.rglob("*.pt"))
    halves.partition.partptr[3] = halves.partition.partptr[2]  # as PyG may have saved
    with pytest.raises(ValueError, match=r"'cluster_data' must have a node .*1 empty"):
        ClusterLoader(halves)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("keep", [False, True])
def test_clusters_cut_edge_features_of_any_name(keep):
    """PyG leaves those whole that have no "edge" in their name."""
    pytest.importorskip("pymetis", reason="pymetis is not installed")
    data = KarateClub()[0]
    code = data.edge_index[0] * 100 + data.edge_index[1]
    data = Data(edge_index=data.edge_index, code=code, n_id=torch.arange(34))
    parts = ClusterData(data, 4, log=False, keep_inter_cluster_edges=keep)
    assert sum(part.code.numel() == part.num_edges for part in parts) == 4
    for batch in ClusterLoader(parts, batch_size=2):
        ends = batch.n_id[batch.edge_index]
        assert torch.equal(batch.code, ends[0] * 100 + ends[1])
    assert "num_edges" not in batch
    assert "num_edges" not in parts.data


def test_clusters_say_what_they_lack(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    words = "^METIS needs pymetis, .*pip install pymetis"
    with pytest.raises(ImportError, match=words):
        ClusterData(homogeneous(), 2, log=False)
    with pytest.raises(ValueError, match="'num_parts' must be"):
        ClusterData(homogeneous(), 0, log=False)
    with pytest.raises(TypeError, match="'cluster_data' must be a ClusterData"):
        ClusterLoader(homogeneous())


@pytest.fixture
def matrices(monkeypatch):
    """(edges in order, the same as a transposed matrix whose values are edge ids)."""
    from gttf_pyg import loaders

    monkeypatch.setattr(loaders, "SparseTensor", Matrix)
    count = homogeneous().num_nodes
    row, col = homogeneous().edge_index.unique(dim=1)
    order = (col * count + row).argsort()
    row, col = row[order], col[order]
    matrix = Matrix(col, row, torch.arange(row.numel()), (count, count))
    return torch.stack([row, col]), matrix


def test_shadow_of_a_sparse_tensor_is_that_of_its_edges(matrices):
    index, matrix = matrices
    x = homogeneous().x
    plain = Data(x, index, edge_attr=torch.arange(index.shape[1]))
    sparse = Data(x, adj_t=matrix, num_nodes=len(x))
    how = {"depth": 2, "num_neighbors": 3, "seed": 1, "batch_size": 8}
    pairs = zip(
        ShaDowKHopSampler(plain, **how), ShaDowKHopSampler(sparse, **how), strict=True
    )
    for one, other in pairs:
        assert "edge_index" not in other
        made = other.adj_t
        assert made.sizes == (one.num_nodes, one.num_nodes)
        expected = Matrix(*one.edge_index.flip(0), one.edge_attr, made.sizes)
        for name in ("row", "col", "given"):
            assert getattr(made, name).equal(getattr(expected, name))
        assert other.x.equal(one.x)
        assert other.root_n_id.equal(one.root_n_id)


def test_adjs_of_a_sparse_tensor_are_those_of_its_edges(matrices):
    index, matrix = matrices
    count, how = matrix.sizes[0], {"seed": 1, "batch_size": 8}
    plain = NeighborSampler(index, [3, 2], num_nodes=count, **how)
    sparse = NeighborSampler(matrix, [3, 2], **how)
    for (size, n_id, layers), (size2, n_id2, matrices2) in zip(
        plain, sparse, strict=True
    ):
        assert (size, n_id.tolist()) == (size2, n_id2.tolist())
        for (ends, e_id, shape), (made, e_id2, shape2) in zip(
            layers, matrices2, strict=True
        ):
            assert (shape, made.sizes) == (shape2, shape[::-1])
            assert e_id.equal(e_id2)
            expected = Matrix(*ends.flip(0), e_id, made.sizes)
            for name in ("row", "col", "given"):
                assert getattr(made, name).equal(getattr(expected, name))
