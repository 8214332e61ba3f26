"""GTTFLoader keeps the contract of PyG's NeighborLoader, line by line."""

import gc
import inspect

import numpy as np
import pytest
import torch
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.datasets import FakeDataset, FakeHeteroDataset, KarateClub
from torch_geometric.loader import LinkNeighborLoader, NeighborLoader
from torch_geometric.sampler import NeighborSampler
from torch_geometric.sampler.base import NumNeighbors

import gttf_pyg
from all_pairs import all_pairs
from gttf_pyg import GTTFLinkLoader, GTTFLoader, GTTFSampler
from makers import Matrix
from reference import assert_consistent, assert_same, hetero_toy, neighborhood

KARATE = KarateClub()[0]


def fake() -> Data:
    """A graph whose edges are in no order, with attributes of every kind."""
    seed_everything(12)
    data = FakeDataset(1, avg_num_nodes=40, avg_degree=4, edge_dim=3)[0]
    order = torch.randperm(data.num_edges)
    data.edge_index, data.edge_attr = data.edge_index[:, order], data.edge_attr[order]
    data.name, data.graph_level = "fake", torch.ones(1, 7)
    return data


def fake_hetero():
    seed_everything(12)
    return FakeHeteroDataset(1, avg_num_nodes=30, avg_degree=3, edge_dim=2)[0]


FAKE, HETERO = fake(), fake_hetero()
FIRST = HETERO.node_types[0]


LOADER_OPTIONS = (
    "exclude_edges bias seed time_window device prefetch uva index_dtype "
    "thread_workers normalize layerwise lazy {} max_nodes max_edges labor"
)
SAMPLER_OPTIONS = (
    "bias time_window exclude_edges device layerwise max_nodes max_edges labor"
)


@pytest.mark.parametrize(
    ("ours", "theirs", "extra"),
    [
        (GTTFLoader, NeighborLoader, LOADER_OPTIONS.format("input_id")),
        (GTTFLinkLoader, LinkNeighborLoader, LOADER_OPTIONS.format("input_nodes")),
        (
            GTTFSampler,
            NeighborSampler,
            SAMPLER_OPTIONS,
        ),
    ],
)
def test_loader_signature_is_that_of_pyg(ours, theirs, extra):
    """The same names, positions and defaults; what is new is keyword-only."""
    mine = inspect.signature(ours.__init__).parameters
    host = inspect.signature(theirs.__init__).parameters
    shared = [p for p in mine.values() if p.kind is not p.KEYWORD_ONLY]
    if "sample_direction" not in host:  # PyG has it from 2.7 on
        shared = [p for p in shared if p.name != "sample_direction"]
    assert [p.name for p in shared] == list(host)
    assert [p.default for p in shared] == [p.default for p in host.values()]
    assert [p.kind for p in shared] == [p.kind for p in host.values()]
    new = [p.name for p in mine.values() if p.kind is p.KEYWORD_ONLY]
    assert new == extra.split()
    assert issubclass(ours, theirs)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (gttf_pyg.NeighborLoader, NeighborLoader),
        (gttf_pyg.LinkNeighborLoader, LinkNeighborLoader),
    ],
)
def test_loader_by_the_name_of_the_host(ours, theirs):
    """One import is changed and nothing else, not even what is printed."""
    assert ours.__name__ == theirs.__name__
    assert repr(ours(KARATE, [2])) == f"{theirs.__name__}()"
    assert issubclass(ours, theirs)


def test_loader_arguments_by_position():
    times = torch.arange(34)
    data = KARATE.clone()
    data.time = times
    loader = GTTFLoader(
        *(data, [2], torch.tensor([5, 3]), torch.tensor([40, 40]), True),
        *("directional", False, "last", "time", None, None, None, False, None, None),
        True,
        batch_size=2,
    )
    batch = next(iter(loader))
    assert batch.n_id[:2].tolist() == [5, 3]
    assert batch.seed_time.tolist() == [40, 40]
    assert batch.num_sampled_edges == [4]


def test_loader_package_names():
    assert sorted(gttf_pyg.__all__) == list(gttf_pyg.__all__)
    names = {"GTTFLinkLoader", "GTTFLoader", "GTTFSampler", "NeighborLoader"}
    assert names <= set(gttf_pyg.__all__)
    for name in gttf_pyg.__all__:
        assert getattr(gttf_pyg, name).__doc__, name


@all_pairs
@pytest.mark.parametrize("data", [KARATE, FAKE], ids=["karate", "fake"])
@pytest.mark.parametrize("fanouts", [[-1], [-1, -1], [-1, -1, -1], []])
@pytest.mark.parametrize("disjoint", [False, True])
def test_loader_full_neighborhood(data, fanouts, disjoint):
    """Nodes, edges, ids and counts are those of the reference, in its order."""
    seeds = [7, 0, 7, 21]
    loader = GTTFLoader(
        data, fanouts, torch.tensor(seeds), disjoint=disjoint, batch_size=4
    )
    batch = next(iter(loader))
    expected = neighborhood(data, {"": seeds}, len(fanouts), disjoint=disjoint)
    assert_same(batch, expected, disjoint)
    assert_consistent(batch, data)
    assert ("batch" in batch) == disjoint


@all_pairs
@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("hops", [0, 1, 2])
@pytest.mark.parametrize("make", [fake_hetero, hetero_toy])
def test_loader_full_neighborhood_of_types(make, hops, disjoint):
    data = make()
    for name in data.node_types:
        seeds = [1, 0, 1]
        loader = GTTFLoader(
            data,
            [-1] * hops,
            (name, torch.tensor(seeds)),
            disjoint=disjoint,
            batch_size=3,
        )
        batch = next(iter(loader))
        expected = neighborhood(data, {name: seeds}, hops, disjoint=disjoint)
        assert_same(batch, expected, disjoint)
        assert_consistent(batch, data)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("fanouts", [[3, 2], [1, 1, 1], [100], [0, 3], [2, -1]])
def test_loader_order_of_a_sample(fanouts, replace):
    """Seeds first, hop by hop, `col` never decreases, a node is expanded once."""
    loader = GTTFLoader(FAKE, fanouts, batch_size=5, replace=replace, shuffle=True)
    degree = torch.bincount(FAKE.edge_index[1], minlength=FAKE.num_nodes)
    for batch in loader:
        assert_consistent(batch, FAKE)
        nodes, edges = batch.num_sampled_nodes, batch.num_sampled_edges
        assert nodes[0] == batch.batch_size == len(batch.input_id)
        assert sum(nodes) == batch.num_nodes == batch.n_id.unique().numel()
        assert sum(edges) == batch.num_edges
        row, col = batch.edge_index
        assert bool((col[1:] >= col[:-1]).all())
        node, edge = 0, 0
        for hop, fanout in enumerate(fanouts):
            targets = range(node, node + nodes[hop])
            here = col[edge : edge + edges[hop]]
            for target in targets:
                deg = int(degree[batch.n_id[target]])
                most = deg if fanout < 0 else min(deg, fanout)
                if replace and deg and fanout >= 0:
                    most = fanout
                assert int((here == target).sum()) == most
            new = row[edge : edge + edges[hop]]
            new = new[new >= node + nodes[hop]]
            first = list(dict.fromkeys(new.tolist()))
            assert first == list(range(node + nodes[hop], sum(nodes[: hop + 2])))
            node, edge = node + nodes[hop], edge + edges[hop]
        if not replace:
            assert batch.e_id.unique().numel() == batch.num_edges


def test_loader_batch_attributes():
    gc.collect()  # of models that have asked for more than plain tensors
    batch = next(iter(GTTFLoader(FAKE, [3, 3], batch_size=4)))
    assert isinstance(batch, Data)
    expected = {"x", "y", "edge_index", "edge_attr", "name", "graph_level", "n_id"}
    expected |= {"e_id", "num_sampled_nodes", "num_sampled_edges", "input_id"}
    assert set(batch.keys()) == expected | {"batch_size"}
    assert batch.name == "fake"
    assert batch.graph_level is FAKE.graph_level
    assert type(batch.edge_index) is torch.Tensor
    for name in ("edge_index", "n_id", "e_id", "input_id"):
        assert batch[name].dtype == torch.int64
    assert isinstance(batch.num_sampled_nodes, list)
    assert isinstance(batch.num_sampled_edges, list)
    assert (len(batch.num_sampled_nodes), len(batch.num_sampled_edges)) == (3, 2)
    assert not hasattr(batch, "seed_time")


def test_loader_batch_attributes_of_types():
    nodes = torch.tensor([4, 2])
    loader = GTTFLoader(HETERO, [2, 2], (FIRST, nodes), batch_size=2)
    batch = next(iter(loader))
    assert batch.node_types == HETERO.node_types
    assert batch.edge_types == HETERO.edge_types
    for name in HETERO.node_types:
        assert len(batch[name].num_sampled_nodes) == 3
        assert sum(batch[name].num_sampled_nodes) == batch[name].num_nodes
        assert ("input_id" in batch[name]) == (name == FIRST)
        assert ("batch_size" in batch[name]) == (name == FIRST)
    for kind in HETERO.edge_types:
        assert len(batch[kind].num_sampled_edges) == 2
        assert sum(batch[kind].num_sampled_edges) == batch[kind].num_edges
    assert batch[FIRST].n_id[:2].tolist() == [4, 2]
    assert batch[FIRST].input_id.tolist() == [0, 1]


def test_loader_types_that_are_not_reached_are_there():
    data = hetero_toy()
    batch = next(iter(GTTFLoader(data, [-1], "alone", batch_size=2)))
    assert batch["alone"].n_id.tolist() == [0, 1]
    for name in ("user", "item", "tag"):
        assert batch[name].x.shape == (0, data[name].x.shape[1])
        assert batch[name].num_sampled_nodes == [0, 0]
    for kind in data.edge_types:
        assert batch[kind].edge_index.shape == (2, 0)


@pytest.mark.parametrize(
    ("nodes", "ids", "positions"),
    [
        (None, [0, 1, 2], [0, 1, 2]),
        (torch.tensor([9, 4, 6]), [9, 4, 6], [0, 1, 2]),
        (torch.tensor([9, 4, 6], dtype=torch.int32), [9, 4, 6], [0, 1, 2]),
        ([9, 4, 6], [9, 4, 6], [0, 1, 2]),
        (torch.arange(34) > 30, [31, 32, 33], [31, 32, 33]),
    ],
)
def test_loader_input_id(nodes, ids, positions):
    """A position in `input_nodes`, and for a mask the node itself."""
    batch = next(iter(GTTFLoader(KARATE, [2], nodes, batch_size=3)))
    assert batch.n_id[:3].tolist() == ids
    assert batch.input_id.tolist() == positions


def test_loader_input_id_of_the_caller():
    own = torch.tensor([70, 71])
    loader = GTTFLoader(KARATE, [1], torch.tensor([3, 5]), input_id=own, batch_size=2)
    assert next(iter(loader)).input_id.tolist() == [70, 71]


@pytest.mark.parametrize(
    "nodes", [FIRST, (FIRST, None), (FIRST, torch.arange(3)), (FIRST, [0, 1, 2])]
)
def test_loader_input_nodes_of_types(nodes):
    batch = next(iter(GTTFLoader(HETERO, [1], nodes, batch_size=3)))
    assert batch[FIRST].n_id[:3].tolist() == [0, 1, 2]


def test_loader_fanouts_per_type():
    plan = {kind: [0, 0] for kind in HETERO.edge_types}
    chosen = next(kind for kind in HETERO.edge_types if kind[2] == FIRST)
    plan[chosen] = [-1, 0]
    for fanouts in (plan, NumNeighbors(plan), NumNeighbors({chosen: [-1, 0]}, [0, 0])):
        batch = next(iter(GTTFLoader(HETERO, fanouts, FIRST, batch_size=8)))
        for kind in HETERO.edge_types:
            wanted = HETERO[kind].edge_index[1] < 8
            count = int(wanted.sum()) if kind == chosen else 0
            assert batch[kind].num_sampled_edges == [count, 0]


def test_loader_any_negative_fanout_takes_all():
    one, other = (next(iter(GTTFLoader(FAKE, [k], batch_size=9))) for k in (-1, -7))
    assert torch.equal(one.edge_index, other.edge_index)


def test_loader_duplicate_seeds_are_kept():
    """D3: local ids and global ids agree although a seed occurs twice."""
    nodes = torch.tensor([3, 3, 0, 3, 8, 0])
    batch = next(iter(GTTFLoader(KARATE, [4, 4], nodes, batch_size=6)))
    assert batch.n_id[:6].tolist() == nodes.tolist()
    assert batch.num_sampled_nodes[0] == batch.batch_size == 6
    assert_consistent(batch, KARATE)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_loader_edge_index_of_any_kind(dtype, layout):
    data = FAKE.clone()
    data.edge_index = data.edge_index.to(dtype)
    if layout == "transposed":
        data.edge_index = data.edge_index.t().contiguous().t()
    batch = next(iter(GTTFLoader(data, [-1, -1], batch_size=3)))
    assert_same(batch, neighborhood(FAKE, {"": [0, 1, 2]}, 2))
    assert_consistent(batch, data)


def test_loader_edge_index_class():
    gc.collect()  # of models that have asked for more than plain tensors
    from torch_geometric import EdgeIndex

    data = KARATE.clone()
    data.edge_index = EdgeIndex(data.edge_index, sparse_size=(34, 34))
    batch = next(iter(GTTFLoader(data, [-1], batch_size=3)))
    assert type(batch.edge_index) is torch.Tensor
    assert_same(batch, neighborhood(KARATE, {"": [0, 1, 2]}, 1))


@pytest.mark.parametrize(
    "data",
    [
        Data(x=torch.ones(4, 2), edge_index=torch.empty(2, 0, dtype=torch.int64)),
        Data(x=torch.ones(4, 2)),
        Data(num_nodes=4),
    ],
    ids=["no edge", "no edge_index", "no feature"],
)
def test_loader_graph_without_edges(data):
    batch = next(iter(GTTFLoader(data, [2, 2], batch_size=4)))
    assert batch.n_id.tolist() == [0, 1, 2, 3]
    assert batch.num_nodes == 4
    assert batch.num_sampled_nodes == [4, 0, 0]
    assert batch.num_sampled_edges == [0, 0]


def test_loader_sorted_edges_are_taken_as_they_are():
    order = KARATE.edge_index[1].sort(stable=True).indices
    data = KARATE.clone()
    data.edge_index = data.edge_index[:, order]
    sampler = GTTFSampler(data, [-1], is_sorted=True)
    (adj,) = sampler.adjs.values()
    assert adj.edge_id is None
    assert adj.col.data_ptr() == data.edge_index.data_ptr()  # not copied
    loader = GTTFLoader(data, [-1, -1], is_sorted=True, batch_size=5)
    batch = next(iter(loader))
    assert_same(batch, neighborhood(data, {"": list(range(5))}, 2))


def test_loader_sorted_edges_of_types():
    data = HETERO.clone()
    for store in data.edge_stores:
        order = store.edge_index[1].sort(stable=True).indices
        store.edge_index, store.edge_attr = (
            store.edge_index[:, order],
            store.edge_attr[order],
        )
    batch = next(iter(GTTFLoader(data, [-1], FIRST, is_sorted=True, batch_size=4)))
    assert_same(batch, neighborhood(data, {FIRST: [0, 1, 2, 3]}, 1))
    assert_consistent(batch, data)


@pytest.mark.parametrize("name", ["adj", "adj_t"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_loader_adjacency(name, direction):
    """Rows are those of an edge_index; edge ids are positions in them."""
    src, dst = index = torch.tensor([[0, 0, 1, 3, 3, 4], [1, 2, 2, 0, 4, 1]])
    data = Data(num_nodes=5)
    ends = (src, dst) if name == "adj" else (dst, src)
    data[name] = Matrix(*ends, sparse_sizes=(5, 5))
    options = {"num_neighbors": [-1], "sample_direction": direction}
    found = GTTFSampler(data, **options).adjs.popitem()[1]
    same = GTTFSampler(Data(edge_index=index, num_nodes=5), **options).adjs.popitem()[1]
    assert torch.equal(found.rowptr, same.rowptr)
    assert torch.equal(found.col, same.col)
    assert found.edge_id is None


@pytest.mark.parametrize("hop", [[-1], [-1, -1]])
def test_loader_features_of_numpy_and_disk(tmp_path, hop):
    data = FAKE.clone()
    data.memory = np.arange(2.0 * data.num_nodes).reshape(-1, 2)
    stored = np.memmap(tmp_path / "x.bin", np.float32, "w+", shape=(data.num_nodes, 5))
    stored[:] = np.random.default_rng(0).random(stored.shape)
    data.disk = stored
    batch = next(iter(GTTFLoader(data, hop, batch_size=4)))
    for name in ("memory", "disk"):
        assert isinstance(batch[name], torch.Tensor)
        assert torch.equal(batch[name], torch.from_numpy(data[name][batch.n_id]))


def test_loader_call_and_collate():
    """`loader([0])` works, outside of any epoch."""
    nodes = torch.tensor([5, 9, 11])
    for per_worker in (True, False):
        loader = GTTFLoader(KARATE, [-1], nodes, filter_per_worker=per_worker)
        batch = loader([2, 0])
        assert batch.n_id[:2].tolist() == [11, 5]
        assert batch.input_id.tolist() == [2, 0]
        out = loader.collate_fn(torch.tensor([1]))
        assert (isinstance(out, Data)) == per_worker
        if not per_worker:
            assert isinstance(loader.filter_fn(out), Data)
            assert out.node[0] == 9


def test_loader_public_attributes():
    nodes = torch.tensor([5, 9])
    loader = GTTFLoader(KARATE, [2, 2], nodes, transform=abs)
    assert loader.data is KARATE
    assert loader.dataset == range(2)
    assert loader.input_nodes is nodes
    assert loader.input_data.node.tolist() == [5, 9]
    assert loader.filter_per_worker is True
    assert loader.transform is abs
    assert len(loader.node_sampler.num_neighbors) == 2
    assert (repr(loader), len(loader)) == ("GTTFLoader()", 2)
    assert isinstance(loader.node_sampler, NeighborSampler)


@pytest.mark.parametrize("batch_size", [1, 5, 34, 100])
@pytest.mark.parametrize("drop_last", [False, True])
def test_loader_length(batch_size, drop_last):
    loader = GTTFLoader(KARATE, [1], batch_size=batch_size, drop_last=drop_last)
    assert len(loader) == len(list(loader))


def test_loader_transforms():
    def cut(out):
        out.num_sampled_nodes = [1]
        return out

    def mark(data):
        assert data.num_sampled_nodes == [1]
        data.marked = True
        return data

    options = {"transform": mark, "transform_sampler_output": cut}
    for batch in GTTFLoader(KARATE, [1], batch_size=20, **options):
        assert batch.marked


@pytest.mark.parametrize("per_worker", [None, True, False])
def test_loader_filter_per_worker(per_worker):
    loader = GTTFLoader(KARATE, [-1], filter_per_worker=per_worker, batch_size=20)
    assert loader.filter_per_worker == (per_worker is not False)
    for number, batch in enumerate(loader):
        assert isinstance(batch, Data)
        assert batch.n_id[0] == 20 * number


def test_loader_sampler_of_the_caller():
    sampler = GTTFSampler(KARATE, [3], replace=True)
    loader = GTTFLoader(KARATE, [9, 9], neighbor_sampler=sampler, batch_size=2)
    assert loader.node_sampler is sampler
    assert next(iter(loader)).num_sampled_edges == [6]


def test_loader_num_neighbors_can_be_set():
    loader = GTTFLoader(KARATE, [1, 1], batch_size=34)
    loader.node_sampler.num_neighbors = [-1]
    assert next(iter(loader)).num_sampled_edges == [KARATE.num_edges]


def test_loader_batch_sampler_and_no_batching():
    loader = GTTFLoader(KARATE, [2], batch_sampler=[[4, 2], [7]])
    assert [batch.n_id[: batch.batch_size].tolist() for batch in loader] == [
        [4, 2],
        [7],
    ]
    loader = GTTFLoader(KARATE, [2], torch.tensor([8, 9]), batch_size=None)
    assert [batch.n_id[0].item() for batch in loader] == [8, 9]
