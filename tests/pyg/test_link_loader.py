"""GTTFLinkLoader keeps the contract of LinkNeighborLoader, and can hide its edges."""

import math

import pytest
import torch
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.datasets import FakeHeteroDataset, KarateClub
from torch_geometric.sampler import NegativeSampling

from all_pairs import all_pairs
from gttf_pyg import GTTFLinkLoader
from reference import assert_consistent, assert_same, hetero_toy, neighborhood

KARATE = KarateClub()[0]
EDGES = KARATE.edge_index
BUYS, BACK = ("user", "buys", "item"), ("item", "rev_buys", "user")


def fake_hetero():
    seed_everything(12)
    return FakeHeteroDataset(1, avg_num_nodes=30, avg_degree=3, edge_dim=2)[0]


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("hops", [0, 1, 2])
def test_link_full_neighborhood(disjoint, hops):
    """Seeds ascend without `disjoint`; with it they stand in the order of the input."""
    labels = EDGES[:, [70, 3, 70, 20]]
    loader = GTTFLinkLoader(
        KARATE, [-1] * hops, labels, disjoint=disjoint, batch_size=4
    )
    batch = next(iter(loader))
    seeds = torch.cat([labels[0], labels[1]])
    seeds = seeds if disjoint else seeds.unique()
    expected = neighborhood(KARATE, {"": seeds.tolist()}, hops, disjoint=disjoint)
    trees = {"": [number % 4 for number in expected.tree[""]]}
    assert_same(batch, expected._replace(tree=trees), disjoint)
    assert_consistent(batch, KARATE)
    assert torch.equal(batch.n_id[batch.edge_label_index], labels)
    assert batch.input_id.tolist() == [0, 1, 2, 3]
    assert "edge_label" not in batch
    assert "batch_size" not in batch


def test_link_inputs_default_to_all_edges():
    loader = GTTFLinkLoader(KARATE, [1], batch_size=50)
    assert loader.dataset == range(156)
    assert loader.edge_label_index is None
    found = torch.cat([b.n_id[b.edge_label_index] for b in loader], dim=1)
    assert torch.equal(found, EDGES)
    assert (repr(loader), len(loader)) == ("GTTFLinkLoader()", 4)


@all_pairs
@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("amount", [1, 2, 0.5])
@pytest.mark.parametrize("labelled", [False, True])
def test_link_binary_negatives(amount, labelled, disjoint):
    labels = torch.arange(6) % 3 if labelled else None
    loader = GTTFLinkLoader(
        KARATE,
        [2],
        EDGES[:, :6],
        labels,
        neg_sampling=NegativeSampling("binary", amount),
        disjoint=disjoint,
        batch_size=6,
    )
    batch, count = next(iter(loader)), math.ceil(6 * amount)
    assert torch.equal(batch.n_id[batch.edge_label_index[:, :6]], EDGES[:, :6])
    assert batch.edge_label_index.shape == (2, 6 + count)
    positive = [1, 2, 3, 1, 2, 3] if labelled else [1] * 6
    assert batch.edge_label.tolist() == positive + [0] * count
    assert batch.edge_label.is_floating_point() == (not labelled)
    assert_consistent(batch, KARATE)


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("amount", [1, 3])
def test_link_triplet_negatives(amount, disjoint):
    loader = GTTFLinkLoader(
        KARATE,
        [2],
        EDGES[:, 10:15],
        neg_sampling=NegativeSampling("triplet", amount),
        disjoint=disjoint,
        batch_size=5,
    )
    batch = next(iter(loader))
    pairs = torch.stack([batch.src_index, batch.dst_pos_index])
    assert torch.equal(batch.n_id[pairs], EDGES[:, 10:15])
    assert batch.dst_neg_index.shape == ((5,) if amount == 1 else (5, amount))
    assert "edge_label_index" not in batch
    assert "edge_label" not in batch
    if disjoint:  # a negative is in the tree of its own triplet
        own = batch.batch[batch.dst_neg_index].view(5, amount)
        assert torch.equal(own, torch.arange(5).view(5, 1).expand_as(own))


def test_link_negatives_by_ratio_and_weight():
    weight = torch.zeros(34)
    weight[[4, 9]] = 1
    loader = GTTFLinkLoader(KARATE, [1], neg_sampling_ratio=2.0, batch_size=10)
    assert next(iter(loader)).edge_label.tolist() == [1] * 10 + [0] * 20
    negatives = NegativeSampling("triplet", dst_weight=weight)
    loader = GTTFLinkLoader(KARATE, [1], neg_sampling=negatives, batch_size=60)
    batch = next(iter(loader))
    assert set(batch.n_id[batch.dst_neg_index].tolist()) == {4, 9}


def test_link_negatives_are_uniform():
    draws = 6800
    labels = torch.zeros(2, draws, dtype=torch.int64)
    loader = GTTFLinkLoader(
        KARATE, [], labels, neg_sampling="binary", batch_size=draws, seed=3
    )
    batch = next(iter(loader))
    for ends in batch.n_id[batch.edge_label_index[:, draws:]]:
        share = torch.bincount(ends, minlength=34) / draws
        error = (1 / 34 * (33 / 34) / draws) ** 0.5
        assert float((share - 1 / 34).abs().max()) < 5 * error


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
def test_link_types(mode, disjoint):
    data = fake_hetero()
    for kind in data.edge_types:
        labels = data[kind].edge_index[:, :4]
        loader = GTTFLinkLoader(
            data,
            [2, 2],
            (kind, labels),
            neg_sampling=mode,
            disjoint=disjoint,
            batch_size=4,
        )
        batch = next(iter(loader))
        assert_consistent(batch, data)
        src, dst = batch[kind[0]], batch[kind[2]]
        if mode == "triplet":
            assert torch.equal(src.n_id[src.src_index], labels[0])
            assert torch.equal(dst.n_id[dst.dst_pos_index], labels[1])
            assert dst.dst_neg_index.shape == (4,)
            assert "edge_label_index" not in batch[kind]
        else:
            index = batch[kind].edge_label_index
            assert torch.equal(src.n_id[index[0, :4]], labels[0])
            assert torch.equal(dst.n_id[index[1, :4]], labels[1])
            assert index.shape == (2, 4 if mode is None else 8)
        assert batch[kind].input_id.tolist() == [0, 1, 2, 3]
        assert ("batch" in src) == disjoint


@pytest.mark.parametrize("labels", [BUYS, (BUYS, None), ("user", "item")])
def test_link_inputs_of_types(labels):
    data = hetero_toy()
    loader = GTTFLinkLoader(data, [1], labels, batch_size=3)
    index = next(iter(loader))[BUYS].edge_label_index
    assert index.shape == (2, 3)


def hidden_in(data, kind, back, batch) -> None:
    """No edge between the ends of a seed edge was drawn, in either direction."""
    index = batch[kind].edge_label_index if kind else batch.edge_label_index
    src, dst = (batch[kind[0]], batch[kind[2]]) if kind else (batch, batch)
    seeds = set(
        zip(src.n_id[index[0]].tolist(), dst.n_id[index[1]].tolist(), strict=True)
    )
    for name, ends in ((kind, 1), (back, -1)):
        store, whole = (batch[name], data[name]) if name else (batch, data)
        drawn = whole.edge_index[:, store.e_id].tolist()
        assert not {pair[::ends] for pair in zip(*drawn, strict=True)} & seeds


@all_pairs
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("fanout", [-1, 2])
def test_link_exclude_edges(replace, disjoint, fanout):
    """The seed edges of the batch are gone before the draw: the fanout is full."""
    index = torch.cat([EDGES, EDGES[:, :20]], dim=1)  # with parallel copies
    data = Data(edge_index=index, num_nodes=34)
    loader = GTTFLinkLoader(
        data,
        [fanout, fanout],
        replace=replace,
        disjoint=disjoint,
        exclude_edges=True,
        batch_size=12,
        shuffle=True,
        seed=0,
    )
    for batch in loader:
        assert_consistent(batch, data)
        hidden_in(data, None, None, batch)
        pairs = batch.n_id[batch.edge_label_index]
        seeds = {tuple(p) for p in torch.cat([pairs, pairs.flip(0)], 1).t().tolist()}
        expanded = sum(batch.num_sampled_nodes[:-1])
        for place in range(expanded):
            sources = index[0][index[1] == batch.n_id[place]].tolist()
            left = [s for s in sources if (s, int(batch.n_id[place])) not in seeds]
            drawn = int((batch.edge_index[1] == place).sum())
            wanted = len(left) if fanout < 0 else min(fanout, len(left))
            if replace and left and fanout > 0:
                wanted = fanout
            assert drawn == wanted


def test_link_exclude_edges_can_leak_without():
    """The check above sees a seed edge that was drawn."""
    batch = next(iter(GTTFLinkLoader(KARATE, [-1], batch_size=12)))
    with pytest.raises(AssertionError):
        hidden_in(KARATE, None, None, batch)


@pytest.mark.parametrize("kind", [BUYS, BACK])
def test_link_exclude_edges_of_types(kind):
    data = hetero_toy()
    back = BACK if kind == BUYS else BUYS
    loader = GTTFLinkLoader(data, [-1, -1], kind, exclude_edges=True, batch_size=2)
    for batch in loader:
        hidden_in(data, kind, back, batch)
        assert_consistent(batch, data)


def test_link_exclude_edges_within_one_type():
    data, kind = hetero_toy(), ("user", "knows", "user")
    data[kind].edge_index = torch.tensor([[0, 1, 2, 1], [1, 0, 0, 2]])
    for batch in GTTFLinkLoader(data, [-1], kind, exclude_edges=True, batch_size=1):
        hidden_in(data, kind, kind, batch)


def test_link_exclude_edges_without_reverse():
    data, kind = hetero_toy(), ("tag", "is", "item")
    loader = GTTFLinkLoader(data, [-1], kind, exclude_edges=True, batch_size=4)
    batch = next(iter(loader))
    assert batch[kind].num_edges == 0
    assert batch[BUYS].num_edges > 0


def test_link_exclude_edges_with_weights_and_time():
    data = KARATE.clone()
    data.w = torch.rand(156, generator=torch.Generator().manual_seed(0))
    data.time = torch.arange(34)
    loader = GTTFLinkLoader(
        data,
        [3, 3],
        edge_label_time=torch.full((156,), 40),
        time_attr="time",
        weight_attr="w",
        exclude_edges=True,
        batch_size=12,
    )
    for batch in loader:
        hidden_in(data, None, None, batch)
        assert_consistent(batch, data)


def test_link_subgraph_types():
    for kind in ("bidirectional", "induced"):
        loader = GTTFLinkLoader(KARATE, [2], subgraph_type=kind, batch_size=5)
        batch = next(iter(loader))
        assert "num_sampled_nodes" not in batch
        pairs = batch.n_id[batch.edge_label_index]
        assert torch.equal(pairs, EDGES[:, :5])


def test_link_call():
    loader = GTTFLinkLoader(KARATE, [2], EDGES[:, :9], neg_sampling="binary")
    batch = loader([7, 1])
    assert torch.equal(batch.n_id[batch.edge_label_index[:, :2]], EDGES[:, [7, 1]])


def test_link_exclude_edges_of_a_type_that_only_has_reverses():
    """The relation itself was taken out of the graph; its reverse tells as much."""
    data = hetero_toy()
    pairs = data[BUYS].edge_index
    del data[BUYS]
    loader = GTTFLinkLoader(
        data, [-1, -1], (BUYS, pairs), exclude_edges=True, batch_size=7
    )
    assert next(iter(loader))[BACK].edge_index.shape[1] == 0
