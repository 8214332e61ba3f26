"""Subgraph types, weights, biases, directions and frequencies of the PyG adapter."""

from itertools import combinations

import numpy as np
import pytest
import torch
from torch_geometric import seed_everything
from torch_geometric.data import Data, HeteroData
from torch_geometric.datasets import FakeHeteroDataset, KarateClub
from torch_geometric.sampler import NodeSamplerInput

from all_pairs import all_pairs
from gttf_pyg import GTTFLinkLoader, GTTFLoader, GTTFSampler
from gttf_sampler import AttentionBias
from reference import assert_consistent, hetero_toy, neighborhood

KARATE = KarateClub()[0]
DRAWS = 4000


def star(**edge_attributes) -> Data:
    """1, 2, 3 and 4 point to 0."""
    index = torch.tensor([[1, 2, 3, 4], [0, 0, 0, 0]])
    return Data(edge_index=index, num_nodes=5, **edge_attributes)


def frequencies(data, fanout, **options) -> torch.Tensor:
    """Frequencies of the edges drawn for node 0, in `DRAWS` independent draws."""
    nodes = torch.zeros(DRAWS, dtype=torch.int64)
    loader = GTTFLoader(
        data, [fanout], nodes, disjoint=True, seed=1, batch_size=DRAWS, **options
    )
    batch = next(iter(loader))
    return torch.bincount(batch.e_id, minlength=data.num_edges) / DRAWS


def assert_close(found: torch.Tensor, exact: list[float]) -> None:
    """Within five standard errors of a share; shares of 0 and 1 are exact."""
    for share, true in zip(found.tolist(), exact, strict=True):
        error = (true * (1 - true) / DRAWS) ** 0.5
        assert abs(share - true) <= 5 * error + 1e-6


@pytest.mark.parametrize("kind", ["directional", "induced"])
@pytest.mark.parametrize("fanout", [1, 2, 3, 4])
def test_uniform_without_replacement(fanout, kind):
    """D2: every neighbour is drawn as often as any other."""
    found = frequencies(star(), fanout, subgraph_type=kind)
    assert_close(found, [fanout / 4] * 4)


def test_uniform_with_replacement():
    """Exactly k draws although there are fewer neighbours; repeats stay."""
    found = frequencies(star(), 6, replace=True) / 6
    assert found.sum() == pytest.approx(1)
    for share in found.tolist():
        assert abs(share - 0.25) < 5 * (0.25 * 0.75 / (6 * DRAWS)) ** 0.5


def exact_inclusion(weight: list[float], count: int) -> list[float]:
    """Inclusion of each in `count` successive draws by weight without replacement."""
    share = [0.0] * len(weight)

    def draw(left: tuple[int, ...], taken: tuple[int, ...], mass: float) -> None:
        total = sum(weight[i] for i in left)
        if len(taken) == count or total == 0:
            for i in taken:
                share[i] += mass
            return
        for i in left:
            rest = tuple(j for j in left if j != i)
            draw(rest, (*taken, i), mass * weight[i] / total)

    draw(tuple(range(len(weight))), (), 1.0)
    return share


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("fanout", [1, 2, 3])
def test_weights_without_replacement(fanout, dtype):
    weight = [1, 2, 5, 0]
    data = star(w=torch.tensor(weight, dtype=dtype))
    found = frequencies(data, fanout, weight_attr="w")
    assert_close(found, exact_inclusion(weight, fanout))


@pytest.mark.parametrize("fanout", [-1, 2, 4])
@pytest.mark.parametrize("replace", [False, True])
def test_weights_of_zero_are_never_drawn(fanout, replace):
    """D11: not even if there are too few others, nor if there are none."""
    data = star(w=torch.tensor([0.0, 3.0, 0.0, 0.0]))
    options = {"weight_attr": "w", "replace": replace, "batch_size": 5}
    batch = next(iter(GTTFLoader(data, [fanout], **options)))
    assert set(batch.e_id.tolist()) == {1}
    data.w.zero_()
    batch = next(iter(GTTFLoader(data, [fanout], **options)))
    assert batch.num_sampled_edges == [0]


def test_weights_per_type():
    data = hetero_toy()
    kind = ("user", "buys", "item")
    data[kind].w = torch.tensor([0.0, 0, 1, 0, 0, 1, 1])
    batch = next(iter(GTTFLoader(data, [-1], "item", weight_attr="w", batch_size=5)))
    assert batch[kind].e_id.tolist() == [6, 2, 5]
    assert batch["tag", "is", "item"].num_edges == 4  # has no weights: uniform


def test_bias_of_the_user():
    def even(path, node, neighborhood):
        return neighborhood.neighbor % 2 == 0

    assert_close(frequencies(star(), 1, bias=even), [0, 0.5, 0, 0.5])
    heavy = star(w=torch.tensor([1.0, 1.0, 1.0, 3.0]))
    found = frequencies(heavy, 1, bias=AttentionBias(lambda u, v: v * v % 9.0))
    root = [1, 2, 0, 7**0.5]
    assert_close(found, [r / sum(root) for r in root])
    found = frequencies(heavy, 1, bias=even, weight_attr="w")
    assert_close(found, [0, 0.25, 0, 0.75])


def test_bias_per_type():
    data, kind = hetero_toy(), ("user", "buys", "item")

    def none(path, node, neighborhood):
        return torch.zeros(len(neighborhood.edge))

    batch = next(iter(GTTFLoader(data, [-1], "item", bias={kind: none}, batch_size=5)))
    assert batch[kind].num_edges == 0
    assert batch["tag", "is", "item"].num_edges == 4


@pytest.mark.parametrize("disjoint", [False, True])
def test_bidirectional(disjoint):
    """Sorted by (col, row), each pair once, and an id of an edge between the two."""
    seeds = torch.tensor([0, 33, 5])
    options = {"disjoint": disjoint, "batch_size": 3}
    loader = GTTFLoader(KARATE, [-1], seeds, **options)
    plain = next(iter(loader))
    pairs = set(zip(*plain.edge_index.tolist(), strict=True))
    loader = GTTFLoader(KARATE, [-1], seeds, subgraph_type="bidirectional", **options)
    batch = next(iter(loader))
    expected = sorted(pairs | {pair[::-1] for pair in pairs}, key=lambda p: p[::-1])
    assert list(zip(*batch.edge_index.tolist(), strict=True)) == expected
    ends = KARATE.edge_index[:, batch.e_id].sort(dim=0).values
    assert torch.equal(ends, batch.n_id[batch.edge_index].sort(dim=0).values)
    own = {pair: e for *pair, e in triples(plain) for pair in [tuple(pair)]}
    for row, col, edge in triples(batch):
        assert edge == own.get((row, col), own.get((col, row)))
    assert "num_sampled_nodes" not in batch
    assert "num_sampled_edges" not in batch


def triples(batch) -> list[tuple[int, int, int]]:
    return list(zip(*batch.edge_index.tolist(), batch.e_id.tolist(), strict=True))


def test_bidirectional_keeps_the_original_edges_on_request():
    loader = GTTFLoader(KARATE, [3], subgraph_type="bidirectional", batch_size=4)
    loader.node_sampler.keep_orig_edges = True
    batch = next(iter(loader))
    assert batch._orig_edge_index.shape == (2, sum(batch.num_sampled_edges))
    assert int(batch._orig_edge_index[1].max()) < 4


def test_bidirectional_types():
    """Relations are paired with their reverses; ids and edge attributes are gone."""
    data = hetero_toy()
    del data["tag", "is", "item"]
    loader = GTTFLoader(data, [-1], "item", subgraph_type="bidirectional", batch_size=5)
    batch = next(iter(loader))
    there, back = ("user", "buys", "item"), ("item", "rev_buys", "user")
    assert torch.equal(batch[there].edge_index.flip(0), batch[back].edge_index)
    assert "e_id" not in batch[there]
    assert "edge_attr" not in batch[there]
    assert "num_sampled_nodes" not in batch["item"]


def test_bidirectional_type_without_reverse():
    data = hetero_toy()
    loader = GTTFLoader(data, [-1], "item", subgraph_type="bidirectional", batch_size=5)
    with pytest.warns(UserWarning, match="does not seem to have a reverse"):
        next(iter(loader))


@pytest.mark.parametrize("disjoint", [False, True])
def test_induced(disjoint):
    """All edges among the nodes, within a tree, sorted by target; D2 as well."""
    options = {"subgraph_type": "induced", "disjoint": disjoint, "batch_size": 4}
    for batch in GTTFLoader(KARATE, [3, 2], shuffle=True, **options):
        assert_consistent(batch, KARATE)
        tree = batch.batch if disjoint else torch.zeros_like(batch.n_id)
        identity = list(zip(tree.tolist(), batch.n_id.tolist(), strict=True))
        place = {key: i for i, key in reversed(list(enumerate(identity)))}
        edges = list(zip(*KARATE.edge_index.tolist(), strict=True))
        expected = {
            (place[own, src], place[own, dst], number)
            for own in set(tree.tolist())
            for number, (src, dst) in enumerate(edges)
            if (own, src) in place and (own, dst) in place
        }
        assert set(triples(batch)) == expected
        assert len(triples(batch)) == len(expected)
        col = batch.edge_index[1]
        assert bool((col[1:] >= col[:-1]).all())
        assert "num_sampled_nodes" not in batch


@pytest.mark.parametrize("disjoint", [False, True])
def test_induced_types(disjoint):
    seed_everything(2)
    data = FakeHeteroDataset(1, avg_num_nodes=30, avg_degree=4)[0]
    options = {"subgraph_type": "induced", "disjoint": disjoint, "batch_size": 3}
    batch = next(iter(GTTFLoader(data, [2, 2], data.node_types[1], **options)))
    assert_consistent(batch, data)
    for kind in data.edge_types:
        src, dst = batch[kind[0]], batch[kind[2]]
        known = set(zip(trees(src, disjoint), src.n_id.tolist(), strict=True))
        wanted = sum(
            (own, int(source)) in known
            for own, node in zip(trees(dst, disjoint), dst.n_id.tolist(), strict=True)
            for source in data[kind].edge_index[0][data[kind].edge_index[1] == node]
        )
        assert batch[kind].num_edges == wanted
        assert batch[kind].e_id.numel() == wanted


def trees(store, disjoint: bool) -> list[int]:
    return store.batch.tolist() if disjoint else [0] * store.num_nodes


def test_directed_is_deprecated():
    with pytest.warns(UserWarning, match="'directed' is deprecated"):
        sampler = GTTFSampler(KARATE, [2], directed=False)
    assert sampler.subgraph_type.value == "induced"


@pytest.mark.parametrize("is_sorted", [False, True])
def test_backward(is_sorted):
    """Along the edges; `row` is still the source and `col` the target."""
    index = KARATE.edge_index[:, KARATE.edge_index[0] < KARATE.edge_index[1]]
    data = Data(edge_index=index, num_nodes=34)
    options = {"sample_direction": "backward", "is_sorted": is_sorted}
    sampler = GTTFSampler(data, [-1, -1], **options)
    seeds = torch.tensor([3, 0])
    out = sampler.sample_from_nodes(NodeSamplerInput(None, seeds))
    expected = neighborhood(data, {"": [3, 0]}, 2, backward=True)
    assert out.node.tolist() == expected.node[""]
    found = zip(out.row.tolist(), out.col.tolist(), out.edge.tolist(), strict=True)
    assert list(found) == expected.edge["", "", ""]
    assert out.num_sampled_nodes == expected.num_nodes[""]


@pytest.mark.parametrize("per_type", [False, True])
def test_backward_types(per_type):
    """Also with fanouts per edge type, where PyG fails."""
    data = hetero_toy()
    fanouts = {kind: [-1, -1] for kind in data.edge_types} if per_type else [-1, -1]
    sampler = GTTFSampler(data, fanouts, sample_direction="backward")
    seeds = NodeSamplerInput(None, torch.tensor([0, 2]), None, "user")
    out = sampler.sample_from_nodes(seeds)
    expected = neighborhood(data, {"user": [0, 2]}, 2, backward=True)
    assert {k: v.tolist() for k, v in out.node.items()} == expected.node
    for kind, edges in expected.edge.items():
        parts = out.row[kind], out.col[kind], out.edge[kind]
        assert list(zip(*(p.tolist() for p in parts), strict=True)) == edges
    assert out.num_sampled_edges == expected.num_edges


def test_multi_edges_and_loops():
    index = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 1]])
    data = Data(edge_index=index, num_nodes=3)
    batch = next(iter(GTTFLoader(data, [-1, -1], torch.tensor([0]))))
    assert triples(batch) == [(1, 0, 0), (1, 0, 1), (0, 0, 2), (0, 1, 3)]
    loaders = (GTTFLoader(data, [2], torch.tensor([0]), seed=i) for i in range(60))
    found = {frozenset(next(iter(loader)).e_id.tolist()) for loader in loaders}
    assert found == set(map(frozenset, combinations(range(3), 2)))


def test_types_without_any_relation():
    data = HeteroData()
    data["a"].x = torch.ones(3, 1)
    loader = GTTFLoader(data, [2, 2], "a", disjoint=True, batch_size=2)
    batch = next(iter(loader))
    assert batch["a"].n_id.tolist() == batch["a"].batch.tolist() == [0, 1]
    assert batch["a"].num_sampled_nodes == [2, 0, 0]


def test_numpy_masks_and_times_mean_what_they_say():
    mask = np.arange(34) > 30
    for given in (mask, mask.tolist()):
        loader = GTTFLoader(KARATE, [1], given, batch_size=8)
        assert next(iter(loader)).n_id[:3].tolist() == [31, 32, 33]
    data = Data(edge_index=KARATE.edge_index, num_nodes=34, time=np.arange(34))
    for batch in GTTFLoader(data, [-1], time_attr="time", batch_size=34):
        source, target = batch.n_id[batch.edge_index]
        assert (source <= target).all()


@all_pairs
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("fanouts", [[-1, -1], [3, 2]])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_named_edges_are_as_if_they_were_not_there(masked, fanouts, direction):
    """The same batches as of a graph without them, down to the draws."""
    hidden = torch.arange(KARATE.num_edges) % 3 == 1
    kept = (~hidden).nonzero().view(-1)
    less = Data(edge_index=KARATE.edge_index[:, kept], num_nodes=34)
    named = hidden if masked else hidden.nonzero().view(-1).flip(0)
    seeds = NodeSamplerInput(None, torch.tensor([0, 33, 5]))

    def draw(data, **options):
        sampler = GTTFSampler(data, fanouts, sample_direction=direction, **options)
        torch.manual_seed(0)
        return [sampler.sample_from_nodes(seeds) for _ in range(3)]

    for ours, theirs in zip(draw(KARATE, exclude_edges=named), draw(less), strict=True):
        assert torch.equal(ours.node, theirs.node)
        assert torch.equal(ours.row, theirs.row)
        assert torch.equal(ours.edge, kept[theirs.edge])


def test_named_edges_per_type():
    data = hetero_toy()
    kind = data.edge_types[0]
    count = data[kind].edge_index.shape[1]
    hidden = {kind: torch.ones(count, dtype=torch.bool)}
    name = data.node_types[0]
    for batch in GTTFLoader(data, [-1, -1], name, exclude_edges=hidden, batch_size=4):
        assert batch[kind].edge_index.shape[1] == 0
    whole = GTTFLoader(data, [-1, -1], name, batch_size=len(data[name].x))
    assert next(iter(whole))[kind].edge_index.shape[1] > 0


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32])
@pytest.mark.skipif(not hasattr(torch, "uint16"), reason="torch 2.2 has no uint16")
def test_seeds_of_any_integer_type(dtype):
    """PyG casts them, as arrays and as tensors."""
    data = KarateClub()[0]
    nodes, pairs = np.array([3, 0, 9], dtype), np.array([[3, 0], [9, 1]], dtype)
    for given, links in ((nodes, pairs), (torch.tensor(nodes), torch.tensor(pairs))):
        batch = next(iter(GTTFLoader(data, [2], given, batch_size=3)))
        assert batch.n_id[:3].tolist() == [3, 0, 9]
        assert batch.n_id.dtype == torch.int64
        batch = next(iter(GTTFLinkLoader(data, [2], links, batch_size=2)))
        ends = batch.n_id[batch.edge_label_index]
        assert ends.tolist() == [[3, 0], [9, 1]]
        sampler = GTTFSampler(data, [2])
        found = sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor(nodes)))
        assert found.node[:3].tolist() == [3, 0, 9]
    empty = NodeSamplerInput(None, torch.empty(0))  # a float, of PyG's own code
    assert sampler.sample_from_nodes(empty).node.tolist() == []


def test_sampler_has_the_arrays_of_pyg():
    sampler = GTTFSampler(KarateClub()[0], [2])
    edges = KarateClub()[0].edge_index[:, sampler.perm.long()]
    assert sampler.colptr.tolist()[-1] == 156
    assert sampler.row.tolist() == edges[0].tolist()
    assert sampler.edge_weight is None
