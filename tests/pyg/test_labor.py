"""GTTFLoader(labor=...): chances, shared numbers, unbiased sums, dependent batches."""

from itertools import pairwise, product
from math import prod

import pytest
import torch
from torch_geometric import nn
from torch_geometric.data import Data, HeteroData

from exact import assert_frequencies, assert_means, copies
from exact import one_thread as one_thread
from gttf_pyg import (
    FileStore,
    GTTFLinkLoader,
    GTTFLoader,
    GTTFNorm,
    Labor,
    check_unbiased,
    fused,
    unbiased,
)
from gttf_sampler import CommunitySampler, CompactAdj

# Rows of senders: 0 and 1 share 3 and 4, which have neighbours themselves.
ROWS = [[2, 3, 4], [3, 4, 5, 6], [0, 6, 3], [0, 2], [1, 3, 5], [6], [5, 2]]
EDGES = [(u, v) for u, row in enumerate(ROWS) for v in row]


def many(count, **edge):
    """`count` copies of the graph as data whose edges lead to their rows."""
    adj = copies(ROWS, count)
    target = torch.arange(adj.num_rows).repeat_interleave(adj.degree)
    edges = torch.stack([adj.col.long(), target])
    return Data(edge_index=edges, num_nodes=adj.num_rows, **edge)


def one_batch(data, fanouts, seeds, **how):
    """The batch of some seeds in every copy."""
    start = len(ROWS) * torch.arange(data.num_nodes // len(ROWS))[:, None]
    ids = (start + torch.tensor(seeds)).view(-1)
    loader = GTTFLoader(data, fanouts, ids, batch_size=ids.numel(), seed=3, **how)
    return next(iter(loader))


def crowd(nodes=300, edges=6000):
    generator = torch.Generator().manual_seed(2)
    edge_index = torch.randint(nodes, (2, edges), generator=generator)
    x = torch.rand(nodes, 8, generator=generator)
    weight = torch.rand(edges, generator=generator) + 0.1
    return Data(x=x, edge_index=edge_index, edge_weight=weight)


def hop_sets(batch, count):
    """Per copy, which of its edges every hop has taken: [count, hops, edges]."""
    size, hops = len(EDGES), len(batch.num_sampled_edges)
    found = torch.zeros(count, hops, size, dtype=torch.int64)
    hop = torch.arange(hops).repeat_interleave(torch.tensor(batch.num_sampled_edges))
    found[batch.e_id // size, hop, batch.e_id % size] = 1
    return found


def exact_sets(fanout, seeds):
    """The exact distribution of the edges of one hop, as senders' numbers may fall."""
    cuts = sorted({min(1.0, fanout / len(row)) for row in ROWS} | {0.0, 1.0})
    cells = [((a + b) / 2, b - a) for a, b in pairwise(cuts)]
    seen, exact = sorted({v for u in seeds for v in ROWS[u]}), {}
    for draw in product(cells, repeat=len(seen)):
        number = {v: r for v, (r, _) in zip(seen, draw, strict=True)}
        taken = tuple(
            int(u in seeds and number[v] < fanout / len(ROWS[u])) for u, v in EDGES
        )
        exact[taken] = exact.get(taken, 0.0) + prod(width for _, width in draw)
    return exact


def test_sets_of_edges_have_their_exact_distribution():
    """Senders of two rows, all values of their numbers enumerated."""
    count = 20_000
    batch = one_batch(many(count), [2], [0, 1], labor=True)
    assert_frequencies(hop_sets(batch, count)[:, 0], exact_sets(2, [0, 1]))


def test_layers_share_their_numbers_if_asked():
    """Node 3 is seen by 0 in hop 1 and by 2 or 4 in hop 2, all of degree three."""
    count, both = 20_000, {}
    for shared in (False, True):
        labor = Labor(layer_dependency=shared)
        batch = one_batch(many(count), [1, 1], [0], labor=labor)
        taken = hop_sets(batch, count)
        first, second = EDGES.index((0, 3)), EDGES.index((2, 3))
        reached = taken[:, 0, EDGES.index((0, 2))] == 1  # node 2 stands in front
        both[shared] = taken[reached][:, [0, 1], [first, second]]
    third = 1 / 3
    assert_frequencies(both[True], {(1, 1): third, (0, 0): 1 - third})
    independent = {
        (a, b): (third if a else 1 - third) * (third if b else 1 - third)
        for a, b in product((0, 1), repeat=2)
    }
    assert_frequencies(both[False], independent)


@pytest.mark.parametrize("importance", [0, 1, -1])
@pytest.mark.parametrize("weighted", [False, True])
def test_factors_are_one_over_the_chance(importance, weighted):
    """Sums over the batch times `edge_factor` are those over all neighbours."""
    count, seeds = 20_000, [0, 1, 2]
    weight = torch.tensor([5, 1, 2, 1, 4, 0, 3, 1, 2, 1, 1, 1, 2, 1, 3, 1, 1, 2.0])
    data = many(count, edge_weight=weight.repeat(count))
    how = {"weight_attr": "edge_weight"} if weighted else {}
    labor = Labor(importance=importance)
    batch = one_batch(data, [2], seeds, labor=labor, **how)
    x = torch.tensor([1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0])
    own = batch.edge_weight if weighted else torch.ones(batch.num_edges)
    row, col = batch.edge_index
    value = own * batch.edge_factor * x[batch.n_id[row] % len(ROWS)]
    sums = torch.zeros(count * 3).index_add_(0, col, value).view(count, 3).double()
    rows, ends = torch.tensor(EDGES).T
    each = (weight if weighted else torch.ones(len(EDGES))) * x[ends]
    exact = torch.zeros(7).index_add_(0, rows, each)[:3].double()
    assert_means(sums, exact)
    if importance == 0 and not weighted:
        degree = torch.tensor([3, 4, 3])[col % 3]
        assert torch.allclose(batch.edge_factor, degree / 2)


def typed():
    ends = torch.stack([torch.arange(40) % 20, torch.arange(40) // 20])
    data = HeteroData()
    data["a"].x, data["b"].x = torch.rand(20, 3), torch.rand(2, 3)
    data["a", "r", "b"].edge_index = data["a", "s", "b"].edge_index = ends
    data["b", "t", "a"].edge_index = ends.flip(0)
    return data


def test_relations_share_the_numbers_of_a_node_type():
    data = typed()
    for seed in range(5):
        loader = GTTFLoader(
            data, [3, 2], "b", batch_size=2, seed=seed, labor=Labor(), num_workers=0
        )
        batch = next(iter(loader))
        first, second = (batch["a", kind, "b"] for kind in "rs")
        assert first.e_id.tolist() == second.e_id.tolist()
        assert torch.allclose(first.edge_factor, torch.tensor(20 / 3))
        back = batch["b", "t", "a"]
        assert back.edge_factor.shape == back.e_id.shape


class Own(Data):
    """Data that PyG joins, as it may have properties of its own."""


def in_a_store(data):
    source, target = data.edge_index
    adj = CompactAdj.from_edge_index(torch.stack([source, target]), data.num_nodes)
    store = FileStore(adj)
    store.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    return store


def as_own(data):
    return Own(x=data.x, edge_index=data.edge_index)


@pytest.mark.parametrize("change", [as_own, in_a_store])
def test_factors_come_with_batches_that_pyg_joins(change):
    seen = []
    how = {"labor": True, "seed": 0, "batch_size": 30}
    for data in (crowd(), change(crowd())):
        transform = lambda batch: seen.append(batch.edge_factor) or batch  # noqa: E731
        ids = torch.arange(30)
        batch = next(iter(GTTFLoader(data, [5], ids, transform=transform, **how)))
        assert batch.edge_factor.shape == batch.e_id.shape
    assert torch.equal(*seen)


def epoch(seed=0, workers=0, labor=None, **how):
    data, ids = crowd(), torch.arange(40).repeat(8)
    loader = GTTFLoader(
        *(data, [5, 5], ids),
        batch_size=40,
        seed=seed,
        labor=labor or Labor(),
        num_workers=workers,
        thread_workers=False,
        **how,
    )
    return [(batch.e_id.tolist(), batch.edge_factor.tolist()) for batch in loader]


@pytest.mark.process
def test_batches_are_the_same_for_any_workers():
    labor = Labor(layer_dependency=True, batch_dependency=3)
    assert epoch(labor=labor) == epoch(workers=2, labor=labor)
    assert epoch(labor=labor) != epoch(seed=1, labor=labor)


def test_dependent_batches_share_edges():
    """The same seeds batch after batch: numbers that turn slowly keep most edges."""
    kept, sizes = {}, {}
    for span in (1, 2, 16, 0):
        batches = [set(e_id) for e_id, _ in epoch(labor=Labor(batch_dependency=span))]
        shares = [len(a & b) / len(a | b) for a, b in pairwise(batches)]
        kept[span] = sum(shares) / len(shares)
        sizes[span] = sum(map(len, batches)) / len(batches)
    assert kept[1] < kept[2] < kept[16] < kept[0] == 1


def test_numbers_of_an_epoch_change_with_the_next():
    loader = GTTFLoader(
        *(crowd(), [5], torch.arange(40)),
        batch_size=40,
        seed=0,
        labor=Labor(batch_dependency=0),
    )
    first, second = ([batch.e_id.tolist() for batch in loader] for _ in "ab")
    assert first != second


def test_numbers_in_between_are_uniform():
    """In every phase of a turn, edges keep their chance."""
    count = 4_000
    data = many(count)
    start = len(ROWS) * torch.arange(count)
    loader = GTTFLoader(
        *(data, [1], start.repeat(3)),
        batch_size=count,
        seed=0,
        labor=Labor(batch_dependency=3),
    )
    for batch in loader:
        taken = hop_sets(batch, count)[:, 0, :3].double()
        assert_means(taken, torch.full((3,), 1 / 3, dtype=torch.float64))


def test_orders_of_communities_can_be_resumed():
    data, part = crowd(), torch.arange(300) % 10

    def loader():
        order = CommunitySampler(part, mix=2, generator=torch.Generator())
        return GTTFLoader(data, [2], batch_size=30, sampler=order, seed=0)

    one, other = loader(), loader()
    every = [batch.n_id[:30].tolist() for batch in one]
    assert all(len({part[i].item() for i in ids}) == 2 for ids in every)
    again = iter(other)
    next(again)
    third = loader()
    third.load_state_dict(other.state_dict())
    assert [batch.n_id[:30].tolist() for batch in third] == every[1:]


def test_nodes_are_fewer_for_as_many_edges():
    nodes = {}
    for name, how in {
        "uniform": {},
        "labor": {"labor": True},
        "labor *": {"labor": Labor(importance=-1)},
        "one layer's": {"labor": Labor(layer_dependency=True)},
    }.items():
        loader = GTTFLoader(crowd(), [5, 5], batch_size=60, seed=0, **how)
        nodes[name] = sum(batch.num_nodes for batch in loader)
    assert nodes["labor"] < 0.95 * nodes["uniform"]
    assert nodes["labor *"] < nodes["labor"]
    assert nodes["one layer's"] < nodes["labor"]


LAYERS = {
    "gcn": lambda: nn.GCNConv(8, 4),
    "mean": lambda: nn.SAGEConv(8, 4),
    "sum": lambda: nn.GraphConv(8, 4),
    "max degree": lambda: nn.MFConv(8, 4),
}


@pytest.mark.parametrize("how", ["shared", "layerwise", "weight_attr", "dependent"])
@pytest.mark.parametrize("name", LAYERS)
def test_unbiased_layers_use_the_chances(name, how):
    """The mean over batches is the layer on the whole graph, in standard errors."""
    torch.manual_seed(0)
    data = crowd(60, 500)
    labor = Labor(layer_dependency=True) if how == "dependent" else True
    options = {
        "layerwise": {"layerwise": True},
        "weight_attr": {"weight_attr": "edge_weight"},
    }.get(how, {})
    layer = unbiased(LAYERS[name](), scale="sum")
    loader = GTTFLoader(data, [3], seed=1, labor=labor, **options)
    found = check_unbiased(layer, loader, seeds=20, rounds=100)
    assert found.ok, found


def test_unbiased_layers_need_the_chances():
    """Without them, a mean over no neighbours at all would count as zero."""
    torch.manual_seed(0)
    loader = GTTFLoader(crowd(60, 500), [1], seed=1, labor=True)
    layer = nn.SAGEConv(8, 4)
    assert not check_unbiased(layer, loader, seeds=20, rounds=200).ok


def test_fused_models_use_the_chances():
    torch.manual_seed(0)
    plain = unbiased(nn.GraphSAGE(8, 16, 2, 4), scale="sum")
    quick = fused(unbiased(nn.GraphSAGE(8, 16, 2, 4), scale="sum"))
    quick.load_state_dict(plain.state_dict())
    batch = next(iter(GTTFLoader(crowd(), [3, 3], batch_size=20, seed=0, labor=True)))
    size = batch.batch_size
    here, there = (m(batch.x, batch.edge_index)[:size] for m in (plain, quick))
    assert torch.allclose(here, there, atol=1e-5)


def test_links_and_their_batches():
    loader = GTTFLinkLoader(
        *(crowd(), [4, 4]),
        neg_sampling="binary",
        exclude_edges=True,
        batch_size=30,
        seed=0,
        labor=True,
    )
    batch = next(iter(loader))
    assert batch.edge_factor.shape == batch.e_id.shape
    hidden = set(batch.input_id.tolist())
    assert not hidden & set(batch.e_id.tolist())


def test_awkward_inputs():
    data = Data(edge_index=torch.tensor([[0, 1, 1, 1], [0, 0, 0, 2]]), num_nodes=4)
    for fanout in (0, 1, 2, -1):
        loader = GTTFLoader(data, [fanout], batch_size=4, seed=0, labor=True)
        batch = loader([3, 0, 0, 2])
        assert batch.edge_factor.shape == batch.e_id.shape
    assert loader([]).num_edges == 0
    assert loader([3]).num_edges == 0
    empty = Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=2)
    batch = next(iter(GTTFLoader(empty, [2, 2], batch_size=2, labor=True)))
    assert batch.edge_factor.numel() == 0


@pytest.mark.parametrize(
    ("how", "error", "match"),
    [
        ({"labor": 3}, TypeError, "'labor' must be a bool or a gttf_pyg.Labor"),
        ({"labor": Labor(importance="x")}, TypeError, "importance"),
        ({"labor": Labor(layer_dependency=2)}, TypeError, "layer_dependency"),
        ({"labor": Labor(batch_dependency=-1)}, ValueError, "must not be negative"),
        ({"labor": True, "replace": True}, ValueError, "'replace'"),
        ({"labor": True, "subgraph_type": "induced"}, ValueError, "'subgraph_type'"),
        ({"labor": True, "max_nodes": 9}, ValueError, "'max_nodes'"),
    ],
)
def test_validate(how, error, match):
    with pytest.raises(error, match=match):
        GTTFLoader(crowd(), [2], **how)
    with pytest.raises(ValueError, match="fractions"):
        GTTFLoader(crowd(), [0.5], labor=True)


@pytest.mark.parametrize("importance", [0, 1, -1])
@pytest.mark.parametrize("transform", [False, True])
def test_normalize_uses_the_factors(importance, transform):
    """The mean of a GCN's sums is that of D^-½ (A + I) D^-½ on the whole graph."""
    count, seeds, data = 20_000, [0, 1, 2], many(20_000)
    how = {"transform": GTTFNorm(data)} if transform else {"normalize": "unbiased"}
    batch = one_batch(data, [1], seeds, labor=Labor(importance), **how)
    x = torch.tensor([1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0])
    row, col = batch.edge_index
    assert batch.edge_factor[row == col].eq(1).all()
    value = batch.edge_weight * x[batch.n_id[row] % len(ROWS)]
    sums = torch.zeros(batch.num_nodes).index_add_(0, col, value)[: count * 3]
    root = torch.tensor([len(row) + 1.0 for row in ROWS]).sqrt()
    rows, ends = torch.tensor(EDGES).T
    exact = (x / root).index_add(0, rows, (x / root)[ends]) / root
    assert_means(sums.view(count, 3).double(), exact[:3].double())
