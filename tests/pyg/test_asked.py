"""Requests of PyG's users; the numbers are those of PyG's issues."""

import math
from collections import Counter
from itertools import product
from typing import Any

import pytest
import torch
from torch_geometric import sampler as theirs
from torch_geometric.data import Data, HeteroData
from torch_geometric.datasets import KarateClub
from torch_geometric.nn import GCNConv
from torch_geometric.sampler import EdgeSamplerInput

from gttf_pyg import (
    BidirectionalNeighborSampler,
    GTTFLinkLoader,
    GTTFLoader,
    HGTSampler,
    NegativeSampling,
    assert_no_future,
    unbiased,
)
from reference import assert_consistent, hetero_toy

KARATE = KarateClub()[0]
BUYS = ("user", "buys", "item")


def close(share: float, chance: float, count: int) -> bool:
    """Within five standard errors of a frequency."""
    return abs(share - chance) <= 5 * (chance * (1 - chance) / count) ** 0.5


# 9582: fractions of the degree


def test_fractions_of_the_degree():
    loader = GTTFLoader(KARATE, [0.5, 2, 0.25], batch_size=34)
    batch = next(iter(loader))
    degree = torch.bincount(KARATE.edge_index[1], minlength=34)
    taken = torch.bincount(batch.edge_index[1], minlength=34)
    assert torch.equal(taken, (degree + 1) // 2)
    assert_consistent(batch, KARATE)


def test_fractions_per_edge_type_and_with_times_and_weights():
    data = hetero_toy()
    for store in data.edge_stores:
        store.w = torch.ones(store.num_edges)
        store.time = torch.zeros(store.num_edges, dtype=torch.int64)
    data[BUYS].time[0] = 9
    fanouts = {kind: [-1] for kind in data.edge_types} | {BUYS: [0.5]}
    loader = GTTFLoader(
        data,
        fanouts,
        "item",
        torch.ones(5, dtype=torch.int64),
        time_attr="time",
        weight_attr="w",
        batch_size=5,
    )
    batch = next(iter(loader))
    taken = torch.bincount(batch[BUYS].edge_index[1], minlength=5)
    assert taken.tolist() == [1, 2, 1, 0, 1]  # of 1, 3, 1, 0, 1 that are admitted
    assert batch["tag", "is", "item"].num_edges == 4
    assert_no_future(batch)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"num_neighbors": [1.0]}, r"fractions of the degree in \(0, 1\) .*-1 takes"),
        ({"num_neighbors": [0.5], "replace": True}, "integers together with 'replace'"),
        ({"num_neighbors": [0.5], "layerwise": True}, "fractions of the degree"),
    ],
)
def test_fractions_validate(options, match):
    with pytest.raises((ValueError, TypeError), match=match):
        GTTFLoader(KARATE, **options)


# 5013: seeds of several node types


def mixed(**how: Any) -> GTTFLoader:
    data = hetero_toy()
    mask = torch.tensor([True, False, True, True])
    seeds = {"item": torch.tensor([4, 0]), "user": mask, "alone": None}
    return GTTFLoader(data, [-1, -1], seeds, **{"batch_size": 3, "seed": 0, **how})


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_seeds_of_several_types(workers):
    how = {"num_workers": workers, "thread_workers": workers == 1, "shuffle": True}
    seen, loader = Counter(), mixed(**how)
    assert len(loader) == 3
    for batch in loader:
        total = 0
        for kind in ("item", "user", "alone"):
            size = batch[kind].batch_size
            assert batch[kind].num_sampled_nodes[0] == size
            seen.update((kind, node) for node in batch[kind].n_id[:size].tolist())
            total += size
        assert total in (3, 1)
        assert "batch_size" not in batch["tag"]
        assert_consistent(batch, loader.data)
    expected = {("item", 4), ("item", 0), ("user", 0), ("user", 2), ("user", 3)}
    assert seen == Counter(expected | {("alone", 0), ("alone", 1)})


def test_seeds_of_several_types_know_who_they_are():
    (batch,) = mixed(batch_size=7)
    assert batch["item"].input_id.tolist() == [0, 1]  # positions, as PyG counts ids
    assert batch["user"].input_id.tolist() == [0, 2, 3]  # ids, as PyG counts masks
    (batch,) = mixed(batch_size=7, input_id="node")
    assert batch["item"].input_id.tolist() == [4, 0]
    assert batch["user"].input_id.tolist() == [0, 2, 3]


def test_seeds_of_several_types_and_times():
    data = hetero_toy()
    for kind in data.node_types:
        data[kind].time = torch.arange(data[kind].num_nodes)
    loader = GTTFLoader(
        data,
        [-1, -1],
        {"item": torch.tensor([1, 2]), "user": torch.tensor([3])},
        {"item": torch.tensor([4, 2]), "user": torch.tensor([3])},
        time_attr="time",
        batch_size=3,
    )
    (batch,) = loader
    assert batch["user"].seed_time.tolist() == [3]
    assert batch["user"].batch[0] == 0  # trees are counted in the order of the types
    assert batch["item"].batch[:2].tolist() == [1, 2]
    assert_no_future(batch)
    assert batch["user"].num_nodes > 1


@pytest.mark.parametrize(
    ("data", "nodes", "times", "match"),
    [
        (KARATE, {"v": None}, None, "'input_nodes' must be of one node type"),
        (hetero_toy(), {}, None, "'input_nodes' must name a node type"),
        (hetero_toy(), {"shop": None}, None, "must name some of the node types"),
        (
            hetero_toy(),
            {"user": None},
            torch.ones(4),
            "'input_time' must have the node",
        ),
    ],
)
def test_seeds_of_several_types_validate(data, nodes, times, match):
    with pytest.raises((ValueError, TypeError), match=match):
        GTTFLoader(data, [1], nodes, times)


# 9785: loader(index, time)


def dated() -> Data:
    time = torch.arange(KARATE.num_edges) % 10
    return Data(x=KARATE.x, edge_index=KARATE.edge_index, edge_time=time)


def test_calls_at_other_times():
    data, seeds = dated(), torch.tensor([33, 0, 2])
    when = torch.tensor([9, 9, 9])
    loader = GTTFLoader(data, [-1], seeds, when, time_attr="edge_time")
    batch = loader([0, 2], torch.tensor([3, 5]))
    assert batch.n_id[:2].tolist() == [33, 2]
    assert batch.seed_time.tolist() == [3, 5]
    assert_no_future(batch, "edge_time")
    late = (data.edge_index[1] == 33) & (data.edge_time <= 3)
    assert (batch.edge_index[1] == 0).sum() == late.sum()
    assert loader([0, 2]).seed_time.tolist() == [9, 9]
    links = GTTFLinkLoader(
        data,
        [-1],
        data.edge_index[:, :4],
        edge_label_time=torch.full((4,), 9),
        time_attr="edge_time",
        neg_sampling="triplet",
    )
    batch = links([1, 3], [0, 2])
    assert batch.seed_time.tolist() == [0, 2]
    assert_no_future(batch, "edge_time")


def test_calls_at_other_times_validate():
    with pytest.raises(ValueError, match="'time' must be None where there are no time"):
        GTTFLoader(KARATE, [-1])([0], [3])
    seeds, when = torch.tensor([0, 1]), torch.tensor([1, 1])
    loader = GTTFLoader(dated(), [-1], seeds, when, time_attr="edge_time")
    with pytest.raises(ValueError, match="'time' must have one entry per seed, 2 in"):
        loader([0, 1], [3])


# 8291: weights per edge type


def test_weights_by_a_name_per_edge_type():
    data = hetero_toy()
    data[BUYS].w = torch.tensor([1.0, 0, 1, 1, 1, 0, 1])
    data["tag", "is", "item"].share = torch.tensor([0.0, 1, 1, 1])
    names = {BUYS: "w", ("tag", "is", "item"): "share"}
    (batch,) = GTTFLoader(data, [-1], "item", weight_attr=names, batch_size=5)
    assert sorted(batch[BUYS].e_id.tolist()) == [0, 2, 3, 4, 6]
    assert sorted(batch["tag", "is", "item"].e_id.tolist()) == [1, 2, 3]
    (batch,) = GTTFLoader(data, [-1], "item", weight_attr={BUYS: "w"}, batch_size=5)
    assert batch["tag", "is", "item"].num_edges == 4


@pytest.mark.parametrize(
    ("data", "names", "match"),
    [
        (hetero_toy(), {BUYS: "w"}, r"'weight_attr' must name an attribute .*'w'"),
        (hetero_toy(), {("a", "b", "c"): "w"}, "'weight_attr' must use the edge types"),
        (hetero_toy(), {BUYS: 3}, "'weight_attr' must be the name of an attribute, or"),
        (KARATE, {BUYS: "w"}, "'weight_attr' must be the name of an attribute"),
    ],
)
def test_weights_by_a_name_per_edge_type_validate(data, names, match):
    with pytest.raises((ValueError, TypeError), match=match):
        GTTFLoader(data, [1], "item", weight_attr=names)


# 9152: negatives among given nodes, and never a true edge


def bipartite() -> HeteroData:
    """Three users and four items; user 2 has all items but one."""
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = 3, 4
    pairs = [(0, 0), (0, 1), (1, 2), (2, 0), (2, 1), (2, 2)]
    data[BUYS].edge_index = torch.tensor(pairs).t().contiguous()
    data["item", "rev_buys", "user"].edge_index = data[BUYS].edge_index.flip(0)
    return data


def pairs_of(batch: HeteroData) -> list[tuple[int, int]]:
    src, dst = batch[BUYS].edge_label_index[:, batch[BUYS].edge_label == 0]
    ends = batch["user"].n_id[src], batch["item"].n_id[dst]
    return list(zip(*(part.tolist() for part in ends), strict=True))


def test_negative_pairs_are_uniform_among_those_that_are_no_edges():
    data = bipartite()
    true = set(map(tuple, data[BUYS].edge_index.t().tolist()))
    rule = NegativeSampling("binary", 400, avoid_edges=True)
    (batch,) = GTTFLinkLoader(
        data, [1], BUYS, neg_sampling=rule, batch_size=6, disjoint=False, seed=1
    )
    found = Counter(pairs_of(batch))
    free = set(product(range(3), range(4))) - true
    assert set(found) == free
    total = sum(found.values())
    assert total == 2400
    assert all(close(n / total, 1 / len(free), total) for n in found.values())


@pytest.mark.parametrize("disjoint", [False, True])
def test_negatives_of_triplets_are_uniform_for_every_seed(disjoint):
    data, amount = bipartite(), 500
    rule = NegativeSampling("triplet", amount, avoid_edges=True)
    (batch,) = GTTFLinkLoader(
        data, [1], BUYS, neg_sampling=rule, batch_size=6, disjoint=disjoint, seed=1
    )
    users = batch["user"].n_id[batch["user"].src_index].tolist()
    items = batch["item"].n_id[batch["item"].dst_neg_index]
    free = {0: [2, 3], 1: [0, 1, 3], 2: [3]}
    for user, drawn in zip(users, items, strict=True):
        count = Counter(drawn.tolist())
        assert set(count) == set(free[user])
        chance = 1 / len(free[user])
        assert all(close(n / amount, chance, amount) for n in count.values())


def scarce() -> Data:
    """Forty nodes; of all pairs only (0, 1) and those from node 2 are no edges."""
    every = torch.cartesian_prod(torch.arange(40), torch.arange(40)).t()
    free = (every[0] == 2) | ((every[0] == 0) & (every[1] == 1))
    return Data(edge_index=every[:, ~free], num_nodes=40)


@pytest.mark.parametrize("weighted", [False, True])
def test_negative_pairs_follow_their_law_where_few_are_left(weighted):
    """Pairs that rejection does not find are drawn by the same law."""
    data, seeds = scarce(), torch.tensor([[0], [0]])
    by, to = torch.ones(40), torch.ones(40)
    if weighted:
        by[0], to[1], to[5] = 9.0, 3.0, 0.0
    how = {"src_weight": by, "dst_weight": to} if weighted else {}
    rule = NegativeSampling("binary", 2000, avoid_edges=True, **how)
    (batch,) = GTTFLinkLoader(data, [1], seeds, neg_sampling=rule, seed=0)
    drawn = batch.n_id[batch.edge_label_index[:, batch.edge_label == 0]]
    found = Counter(map(tuple, drawn.t().tolist()))
    mass = {(2, node): float(by[2] * to[node]) for node in range(40)}
    mass[0, 1] = float(by[0] * to[1])
    assert set(found) == {pair for pair, own in mass.items() if own}
    for pair, own in mass.items():
        chance = own / sum(mass.values())
        error = (chance * (1 - chance) / 2000) ** 0.5
        assert abs(found[pair] / 2000 - chance) <= 4 * error, pair


def test_negative_pairs_that_are_no_more_are_told():
    index = torch.cartesian_prod(torch.arange(3), torch.arange(3)).t()
    rule = NegativeSampling("binary", avoid_edges=True)
    with pytest.raises(ValueError, match=r"'neg_sampling' must leave a node .*none\)"):
        list(
            GTTFLinkLoader(Data(edge_index=index, num_nodes=3), [1], neg_sampling=rule)
        )


def test_negatives_of_samplers_avoid_edges_among_given_nodes():
    pair = torch.tensor([0]), torch.tensor([1])
    rule = NegativeSampling("triplet", 40, dst_nodes=[0, 1, 9, 33], avoid_edges=True)
    sampler = BidirectionalNeighborSampler(KARATE, [1])
    out = sampler.sample_from_edges(EdgeSamplerInput(None, *pair), rule)
    assert set(out.node[out.metadata[3]].view(-1).tolist()) == {0, 9, 33}
    data = bipartite()
    rule = NegativeSampling("binary", 60, src_nodes=[0, 2], avoid_edges=True)
    seeds = EdgeSamplerInput(None, *pair, input_type=BUYS)
    out = HGTSampler(data, [2]).sample_from_edges(seeds, rule)
    index, label = out.metadata[1], out.metadata[2]
    src, dst = index[:, label == 0]
    ends = out.node["user"][src].tolist(), out.node["item"][dst].tolist()
    assert set(zip(*ends, strict=True)) == {(0, 2), (0, 3), (2, 3)}


def test_negatives_among_given_nodes_by_weight():
    weight = torch.tensor([5.0, 1.0, 3.0, 9.0])
    rule = NegativeSampling(
        "binary",
        500,
        dst_weight=weight,
        src_nodes=torch.tensor([0, 1]),
        dst_nodes=torch.tensor([True, True, True, False]),
    )
    (batch,) = GTTFLinkLoader(
        bipartite(), [1], BUYS, neg_sampling=rule, batch_size=6, seed=1
    )
    found = Counter(pairs_of(batch))
    total = sum(found.values())
    for user, item in product(range(3), range(4)):
        chance = 0.5 * float(weight[item]) / 9 if user < 2 and item < 3 else 0
        assert close(found[user, item] / total, chance, total)


def test_negatives_avoid_what_they_are_told_and_the_held_out_positives():
    data = bipartite()
    held = torch.tensor([[1], [3]])
    rule = NegativeSampling("triplet", 50, avoid_edges=torch.tensor([[1], [0]]))
    (batch,) = GTTFLinkLoader(data, [1], (BUYS, held), neg_sampling=rule, batch_size=1)
    items = batch["item"].n_id[batch["item"].dst_neg_index]
    assert set(items.view(-1).tolist()) == {1}


@pytest.mark.parametrize("mode", ["binary", "triplet"])
def test_negatives_are_found_where_few_are_left_and_respect_times(mode):
    """A dense graph: rejection alone would give up; later nodes are no negatives."""
    size = 40
    every = torch.cartesian_prod(torch.arange(size), torch.arange(size)).t()
    free = (every[0] + 7) % size == every[1]
    data = Data(edge_index=every[:, ~free], time=torch.arange(size) % 4, num_nodes=size)
    seeds = data.edge_index[:, ::97]
    loader = GTTFLinkLoader(
        data,
        [1],
        seeds,
        edge_label_time=torch.full((seeds.shape[1],), 3),
        time_attr="time",
        neg_sampling=NegativeSampling(mode, avoid_edges=True),
        batch_size=seeds.shape[1],
    )
    (batch,) = loader
    if mode == "triplet":
        src, dst = batch.n_id[batch.src_index], batch.n_id[batch.dst_neg_index]
    else:
        src, dst = batch.n_id[batch.edge_label_index[:, batch.edge_label == 0]]
    assert torch.equal((src + 7) % size, dst)
    rule = NegativeSampling("triplet", dst_nodes=[0, 1], avoid_edges=True)
    with pytest.raises(ValueError, match=r"'neg_sampling' must leave a node .*allow"):
        list(GTTFLinkLoader(data, [1], torch.tensor([[20], [3]]), neg_sampling=rule))


def test_negatives_are_the_same_for_any_workers():
    rule = NegativeSampling("binary", 2, avoid_edges=True)
    found = []
    for workers, thread in ((0, None), (1, True), (2, False)):
        torch.manual_seed(3)
        how = {"num_workers": workers, "thread_workers": thread, "shuffle": True}
        loader = GTTFLinkLoader(KARATE, [2], neg_sampling=rule, batch_size=40, **how)
        found.append([b.n_id[b.edge_label_index].tolist() for b in loader])
    assert found[0] == found[1] == found[2]
    edges = set(map(tuple, KARATE.edge_index.t().tolist()))
    (batch,) = GTTFLinkLoader(KARATE, [2], neg_sampling=rule, batch_size=200)
    drawn = batch.n_id[batch.edge_label_index[:, batch.edge_label == 0]].t().tolist()
    assert not edges & set(map(tuple, drawn))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"dst_nodes": []}, "'dst_nodes' must hold a node"),
        ({"dst_nodes": [0.5]}, "'dst_nodes' must be a tensor of integers"),
        ({"src_nodes": [0]}, "'src_nodes' must be None for triplets"),
        ({"avoid_edges": [1, 2]}, "'avoid_edges' must have shape"),
    ],
)
def test_negatives_validate(options, match):
    with pytest.raises((ValueError, TypeError), match=match):
        NegativeSampling("triplet", **options)
    rule = NegativeSampling("triplet", dst_nodes=[99])
    with pytest.raises(ValueError, match="dst_nodes"):
        next(iter(GTTFLinkLoader(KARATE, [1], neg_sampling=rule)))
    rule = NegativeSampling("triplet", avoid_edges=[[0], [34]])
    with pytest.raises(ValueError, match=r"'avoid_edges' must .*34"):
        next(iter(GTTFLinkLoader(KARATE, [1], neg_sampling=rule)))


# 8132: positives and negatives for node seeds


def test_nodes_as_seeds_of_triplets():
    """A batch per so many users, a purchase of each, and an item that is none."""
    data = bipartite()
    loader = GTTFLinkLoader(
        data,
        [-1],
        BUYS,
        input_nodes=torch.tensor([2, 0] * 600),
        neg_sampling=NegativeSampling("triplet", avoid_edges=True),
        batch_size=1200,
        seed=0,
    )
    assert len(loader) == 1
    (batch,) = loader
    users = batch["user"].n_id[batch["user"].src_index]
    bought = batch["item"].n_id[batch["item"].dst_pos_index]
    other = batch["item"].n_id[batch["item"].dst_neg_index]
    assert users.tolist() == [2, 0] * 600
    assert set(other[users == 2].tolist()) == {3}
    assert set(other[users == 0].tolist()) == {2, 3}
    for item, chance in enumerate([1 / 3, 1 / 3, 1 / 3, 0]):
        share = (bought[users == 2] == item).double().mean()
        assert close(float(share), chance, 600)
    assert set(bought[users == 0].tolist()) == {0, 1}


def test_nodes_as_seeds_without_edges_are_left_out():
    index = torch.tensor([[0, 0, 3], [1, 2, 3]])
    data = Data(edge_index=index, num_nodes=5)
    loader = GTTFLinkLoader(
        data, [1], input_nodes=torch.tensor([4, 0, 1, 3]), neg_sampling="binary"
    )
    found = [batch.input_id.tolist() for batch in loader]
    assert found == [[1], [3]]  # positions among those that were given
    assert [
        batch.input_id.tolist()
        for batch in GTTFLinkLoader(
            data, [1], input_nodes=[4, 0, 1, 3], neg_sampling="triplet"
        )
    ] == found
    with pytest.raises(ValueError, match="'input_nodes' must hold a node with an edge"):
        GTTFLinkLoader(data, [1], input_nodes=[4, 1])
    again = GTTFLinkLoader(data, [1], input_nodes=torch.ones(5).bool(), batch_size=5)
    (batch,) = again
    src, dst = batch.n_id[batch.edge_label_index].tolist()
    assert src == [0, 3]
    assert dst[1] == 3


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"edge_label": torch.ones(2)}, "'edge_label' must be None beside"),
        ({"edge_label_index": torch.ones(2, 2).long()}, "'edge_label_index' must be N"),
        ({"data": bipartite()}, "'edge_label_index' must be the edge type"),
        (
            {"data": dated(), "time_attr": "edge_time"},
            r"'time_attr' must be None beside 'input_nodes'.*'edge_time'",
        ),
        ({"input_nodes": torch.tensor([34])}, "'input_nodes' must"),
    ],
)
def test_nodes_as_seeds_validate(options, match):
    given = {"data": KARATE, "input_nodes": torch.tensor([0, 1]), **options}
    with pytest.raises(ValueError, match=match):
        GTTFLinkLoader(num_neighbors=[1], **given)


# 10144: input_id


def test_input_id_means_the_same_for_masks_and_ids():
    mask = torch.zeros(34, dtype=torch.bool)
    mask[[5, 9]] = True
    for nodes in (mask, torch.tensor([5, 9]), [5, 9]):
        loader = GTTFLoader(KARATE, [1], nodes, input_id="node")
        assert [batch.input_id.tolist() for batch in loader] == [[5], [9]]
    # the default is PyG's
    loader = GTTFLoader(KARATE, [1], torch.tensor([5, 9]))
    assert [batch.input_id.tolist() for batch in loader] == [[0], [1]]
    own = GTTFLoader(KARATE, [1], torch.tensor([5, 9]), input_id=torch.tensor([7, 8]))
    assert [batch.input_id.tolist() for batch in own] == [[7], [8]]
    typed = GTTFLoader(
        hetero_toy(), [1], ("item", torch.tensor([3, 1])), input_id="node"
    )
    assert [batch["item"].input_id.tolist() for batch in typed] == [[3], [1]]
    with pytest.raises(ValueError, match="'input_id' must be"):
        GTTFLoader(KARATE, [1], input_id="nodes")
    with pytest.raises(ValueError, match="'input_id' must be 'node' or None for seeds"):
        mixed(input_id=torch.arange(7))


# a maximum of nodes or edges


@pytest.mark.parametrize("kind", ["directional", "bidirectional", "induced"])
@pytest.mark.parametrize("disjoint", [False, True])
def test_batches_have_at_most_so_many_nodes(kind, disjoint):
    how = {"subgraph_type": kind, "disjoint": disjoint, "batch_size": 4, "seed": 0}
    for size in (4, 9, 1000):
        whole = GTTFLoader(KARATE, [3, 3], **how)
        for full, batch in zip(
            whole, GTTFLoader(KARATE, [3, 3], max_nodes=size, **how), strict=True
        ):
            assert batch.num_nodes == min(size, full.num_nodes)
            assert torch.equal(batch.n_id, full.n_id[:size])
            kept = (full.edge_index < size).all(dim=0)
            assert set(batch.e_id.tolist()) == set(full.e_id[kept].tolist())
            if kind != "bidirectional":  # where an edge also names its reverse
                assert_consistent(batch, KARATE)
            if kind == "directional":
                assert sum(batch.num_sampled_nodes) == batch.num_nodes
                assert sum(batch.num_sampled_edges) == batch.num_edges


def test_batches_have_at_most_so_many_edges():
    how = {"batch_size": 4, "seed": 0}
    for size in (1, 7, 13, 1000):
        whole = GTTFLoader(KARATE, [3, 3], **how)
        for full, batch in zip(
            whole, GTTFLoader(KARATE, [3, 3], max_edges=size, **how), strict=True
        ):
            assert torch.equal(batch.edge_index, full.edge_index[:, :size])
            reached = max(batch.batch_size, int(batch.edge_index.max()) + 1)
            assert batch.n_id.tolist() == full.n_id[:reached].tolist()
            assert sum(batch.num_sampled_edges) == min(size, full.num_edges)
            assert sum(batch.num_sampled_nodes) == batch.num_nodes
    both = {"subgraph_type": "bidirectional", "max_edges": 9}  # reverses count
    assert all(b.num_edges <= 9 for b in GTTFLoader(KARATE, [3, 3], **both, **how))


def test_typed_batches_have_at_most_so_many_nodes_and_edges():
    data = hetero_toy()
    how = {"batch_size": 2, "seed": 0}
    for most in ({"max_nodes": 5}, {"max_edges": 4}, {"max_nodes": 6, "max_edges": 3}):
        for batch in GTTFLoader(data, [-1, -1], "item", **how, **most):
            assert batch.num_nodes <= most.get("max_nodes", 99)
            assert batch.num_edges <= most.get("max_edges", 99)
            assert_consistent(batch, data)
            reached = {
                (kind[0], node)
                for kind, store in batch.edge_items()
                for node in store.edge_index[0].tolist()
            }
            for kind, store in batch.node_items():
                assert sum(store.num_sampled_nodes) == store.num_nodes
                later = range(store.num_sampled_nodes[0], store.num_nodes)
                assert all((kind, node) in reached for node in later)


def test_limits_validate():
    with pytest.raises(ValueError, match="'max_nodes' must leave room for the seeds"):
        next(iter(GTTFLoader(KARATE, [2], max_nodes=3, batch_size=4)))
    with pytest.raises(ValueError, match="'max_edges' must not be neg"):
        GTTFLoader(KARATE, [2], max_edges=-1)
    for batch in GTTFLoader(KARATE, [2, 2], max_edges=0, batch_size=9):
        alone = next(iter(GTTFLoader(KARATE, [0, 0], batch.n_id, batch_size=9)))
        assert batch.num_sampled_nodes == alone.num_sampled_nodes
        assert batch.num_edges == alone.num_edges == 0


@pytest.mark.parametrize("limit", ["max_nodes", "max_edges"])
def test_limits_are_not_unbiased(limit):
    with pytest.raises(ValueError, match=f"'normalize' must be None .*'{limit}'"):
        GTTFLoader(KARATE, [2], normalize="unbiased", **{limit: 9})
    loader = GTTFLoader(KARATE, [-1], **{limit: 99}, batch_size=2)
    model = unbiased(GCNConv(34, 4))
    batch = next(iter(loader))
    with pytest.raises(ValueError, match=f"'model' must .*'{limit}'"):
        model(batch.x, batch.edge_index)


def test_limits_of_a_graph_without_edge_types():
    data = HeteroData()
    data["user"].num_nodes = 3
    (batch,) = GTTFLoader(data, [2], "user", batch_size=3, max_nodes=4, max_edges=4)
    assert batch["user"].num_nodes == 3


# negatives exist at the time of their seed


def old_and_new(typed: bool):
    """30 nodes, of which 0, 5, 9 exist at time 4, and 14 more at time 7."""
    time = torch.full((30,), 9)
    time[[0, 5, 9]] = torch.tensor([1, 4, 4])
    time[14:28] = 7
    index = torch.tensor([[0, 5, 9, 0], [5, 9, 0, 9]])
    if not typed:
        return Data(edge_index=index, time=time, num_nodes=30), index
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = 30, 30
    data["user"].time, data["item"].time = time.flip(0), time
    index = torch.stack([29 - index[0], index[1]])
    data[BUYS].edge_index = index
    return data, (BUYS, index)


def negatives_in(batch, typed):
    """[k] sources, [k] targets and [k] times of the negatives of a batch."""
    own = batch[BUYS] if typed else batch
    source, target = (batch["user"], batch["item"]) if typed else (batch, batch)
    if "dst_neg_index" in target:
        at = target.dst_neg_index.view(own.input_id.numel(), -1)
        every = torch.arange(at.shape[0]).repeat_interleave(at.shape[1])
        src = source.n_id[source.src_index[every]]
        return src, target.n_id[at.reshape(-1)], target.seed_time[every]
    false = own.edge_label == 0
    row, col = own.edge_label_index[:, false]
    return source.n_id[row], target.n_id[col], own.edge_label_time[false]


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize(
    ("law", "mode", "amount"),
    [
        ("theirs", "binary", 1),
        ("theirs", "binary", 2.5),
        ("theirs", "triplet", 1),
        ("theirs", "triplet", 3),
        ("ours", "binary", 1),
        ("ours", "triplet", 3),
        ("weights", "binary", 2.5),
        ("weights", "triplet", 1),
        ("avoid", "binary", 2.5),
        ("avoid", "triplet", 3),
    ],
)
def test_negatives_are_uniform_among_those_that_exist(typed, law, mode, amount):
    """PyG gives up after six rounds and takes the first node of all: 3220 : 651 : 129.

    Frequencies are within five standard errors of exact chances.
    """
    data, seeds = old_and_new(typed)
    alive = {4: {0, 5, 9}, 7: {0, 5, 9, *range(14, 28)}}
    weight = torch.arange(30.0) + 1
    rule = {
        "theirs": lambda: theirs.NegativeSampling(mode, amount),
        "ours": lambda: NegativeSampling(mode, amount, dst_nodes=torch.arange(16)),
        "weights": lambda: theirs.NegativeSampling(mode, amount, None, weight),
        "avoid": lambda: NegativeSampling(mode, amount, avoid_edges=True),
    }[law]()
    times = torch.tensor([4, 7, 4, 7]).repeat(400)
    pairs = (BUYS, seeds[1].repeat(1, 400)) if typed else seeds.repeat(1, 400)
    loader = GTTFLinkLoader(
        data,
        [1],
        pairs,
        edge_label_time=times,
        time_attr="time",
        neg_sampling=rule,
        batch_size=800,
        seed=5,
    )
    found = [negatives_in(batch, typed) for batch in loader]
    src, dst, when = (torch.cat(parts) for parts in zip(*found, strict=True))
    src = 29 - src if typed else src
    true = (
        set(zip(*data.edge_index.tolist(), strict=True))
        if not typed
        else {(29 - u, v) for u, v in zip(*data[BUYS].edge_index.tolist(), strict=True)}
    )
    assert when.numel() == math.ceil(1600 * amount)
    for time, nodes in alive.items():
        own = when == time
        mass = {
            (u, v): float(weight[v]) if law == "weights" else 1.0
            for u, v in product(nodes, nodes)
            if not (law == "ours" and v >= 16)
            and not (law == "avoid" and (u, v) in true)
        }
        drawn = list(zip(src[own].tolist(), dst[own].tolist(), strict=True))
        counts = Counter(drawn)
        given = Counter(u for u, _ in drawn) if mode == "triplet" else None
        for u in nodes:
            row = {v: m for (by, v), m in mass.items() if by == u}
            total = sum(row.values()) if given else sum(mass.values())
            size = given[u] if given else len(drawn)
            for v in range(30):
                chance = row.get(v, 0) / total
                hits = counts[u, v]
                error = (size * chance * (1 - chance)) ** 0.5
                assert abs(hits - size * chance) <= 5 * error
        assert {u for u, _ in drawn} <= nodes


def test_negatives_of_a_time_at_which_nothing_exists():
    data, seeds = old_and_new(False)
    how = {"edge_label_time": torch.tensor([4, 4, 0, 4]), "time_attr": "time"}
    loader = GTTFLinkLoader(data, [1], seeds, neg_sampling="binary", **how)
    with pytest.raises(ValueError, match=r"'neg_sampling' must leave a node .* time 0"):
        list(loader)
