"""Features on disk in PyG's loaders: the batches are those of tensors, bit for bit."""

import threading
import time

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import SamplerOutput

from gttf_pyg import FileStore, GTTFLinkLoader, GTTFLoader
from gttf_pyg._batch import Gather, RowGather, is_source, join, sized
from gttf_pyg.stores import as_stores
from gttf_sampler import CompactAdj, FeatureFile
from gttf_sampler.distributed import PartitionedGraph, partition
from gttf_sampler.features import RowSource, most_sampled

NODES, EDGES = 300, 2000


@pytest.fixture
def pair(tmp_path):
    """The same data, in memory and with files."""
    torch.manual_seed(0)
    edge_index = torch.randint(0, NODES - 20, (2, EDGES))
    x, y, attr = torch.rand(NODES, 5), torch.arange(NODES), torch.rand(EDGES, 2)
    plain = Data(x=x, edge_index=edge_index, y=y, edge_attr=attr)
    files = Data(
        x=FeatureFile.from_array(tmp_path / "x.npy", x),
        edge_index=edge_index,
        y=y,
        edge_attr=FeatureFile.from_array(tmp_path / "e.npy", attr),
    )
    return plain, files


def assert_same(left, right):
    assert set(left.keys()) - {"num_nodes"} == set(right.keys()) - {"num_nodes"}
    for key in left.keys():  # noqa: SIM118 - of the data, which iterates otherwise
        if isinstance(left[key], torch.Tensor):
            assert torch.equal(left[key], right[key]), key
        elif key != "num_nodes":
            assert left[key] == right[key], key


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"prefetch": 3},
        {"num_workers": 2},
        {"num_workers": 2, "thread_workers": False},
        {"prefetch": 2, "filter_per_worker": False},
        {"prefetch": 2, "transform": lambda data: data.clone()},
    ],
    ids=lambda how: "-".join(how) or "plain",
)
@pytest.mark.parametrize("cached", [False, True])
def test_loader_takes_files(pair, how, cached):
    plain, files = pair
    if cached:
        files.x.cache(1 << 14)
    common = {"num_neighbors": [5, 3], "batch_size": 32, "shuffle": True, "seed": 3}
    both = [GTTFLoader(data, **common, **how) for data in (plain, files)]
    for _ in range(2):
        for left, right in zip(*both, strict=True):
            assert_same(left, right)
            assert right.num_nodes == left.num_nodes


def test_link_loader_takes_files(pair):
    common = {"num_neighbors": [4], "neg_sampling": "binary", "batch_size": 64}
    both = [GTTFLinkLoader(d, **common, seed=0, prefetch=2) for d in pair]
    for left, right in zip(*both, strict=True):
        assert_same(left, right)


def test_typed_data_takes_files(tmp_path):
    torch.manual_seed(0)
    plain, files = HeteroData(), HeteroData()
    x, attr = torch.rand(50, 4), torch.rand(200, 3)
    edge_index = torch.stack(
        [torch.randint(0, 50, (200,)), torch.randint(0, 9, (200,))]
    )
    for data in (plain, files):
        data["b"].x = torch.rand(9, 2, generator=torch.Generator().manual_seed(1))
        data["a", "to", "b"].edge_index = edge_index
    plain["a"].x, plain["a", "to", "b"].edge_attr = x, attr
    files["a"].x = FeatureFile.from_array(tmp_path / "x.npy", x)
    files["a", "to", "b"].edge_attr = FeatureFile.from_array(tmp_path / "e.npy", attr)
    how = {"num_neighbors": [4, 4], "input_nodes": "b", "batch_size": 3, "seed": 0}
    both = [GTTFLoader(data, **how, prefetch=1) for data in (plain, files)]
    for left, right in zip(*both, strict=True):
        assert torch.equal(left["a"].x, right["a"].x)
        assert torch.equal(left["b"].x, right["b"].x)
        kind = ("a", "to", "b")
        assert torch.equal(left[kind].edge_attr, right[kind].edge_attr)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_file_store(pair, prefetch):
    plain, files = pair
    store = FileStore()
    store.put_tensor(files.x, group_name=None, attr_name="x", index=None)
    store.put_tensor(plain.y, group_name=None, attr_name="y", index=None)
    graph = Data()
    graph.put_edge_index(plain.edge_index, layout="coo", size=(NODES, NODES))
    adj = CompactAdj.from_edge_index(plain.edge_index, NODES)
    mine = FileStore(adj)
    mine.put_tensor(files.x, group_name=None, attr_name="x", index=None)
    how = {"num_neighbors": [4, 2], "batch_size": 50, "seed": 1, "prefetch": prefetch}
    seeds = torch.arange(NODES)
    for batch in GTTFLoader((store, graph), input_nodes=seeds, **how):
        assert torch.equal(batch.x, plain.x[batch.n_id])
        assert torch.equal(batch.y, plain.y[batch.n_id])
    same = GTTFLoader(plain, input_nodes=seeds, **how)
    for one, other in zip(
        same, GTTFLoader(mine, input_nodes=seeds, **how), strict=True
    ):
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.e_id, other.e_id)
        assert torch.equal(one.edge_index, other.edge_index)
    assert store.get_tensor_size(group_name=None, attr_name="x") == (NODES, 5)
    got = store.get_tensor(group_name=None, attr_name="x", index=slice(2, 4))
    assert torch.equal(got, plain.x[2:4])
    assert store.remove_tensor(group_name=None, attr_name="x", index=None)


def test_sampling_reading_and_training_overlap(pair):
    """While batch 0 trains, batch 1 is read and batch 2 sampled; in this order."""
    _, files = pair
    reading, log = threading.Event(), []

    class Slow:
        """Rows that come when batch 2 has been sampled."""

        shape, dtype = files.x.shape, files.x.dtype

        def __len__(self):
            return NODES

        def rows(self, ids):
            log.append(("read", threading.current_thread().ident))
            if len(log) > 1:
                reading.set()
                assert sampled.wait(30)
            return files.x.rows(ids)

    data = Data(x=Slow(), edge_index=files.edge_index)
    assert isinstance(data.x, RowSource)
    loader = GTTFLoader(data, [4], batch_size=20, prefetch=3, seed=0)
    sampled, drawn = threading.Event(), []
    plain = loader.node_sampler.sample_from_nodes

    def sample(*args):
        drawn.append(threading.current_thread().ident)
        if len(drawn) == 3:
            assert reading.wait(30)  # the one before it is being read
            sampled.set()
        return plain(*args)

    loader.node_sampler.sample_from_nodes = sample
    batches = iter(loader)
    first = next(batches)
    assert first.x.shape[1] == 5
    for _ in range(3):
        next(batches)
    assert {who for _, who in log}.isdisjoint(drawn)


def test_threads_end_with_their_reader(pair):
    _, files = pair
    loader = GTTFLoader(files, [4], batch_size=10, prefetch=3)
    batches = iter(loader)
    next(batches)
    del batches
    for _ in range(200):
        own = [t for t in threading.enumerate() if t.name == "gttf-loader"]
        if not own:
            break
        time.sleep(0.02)
    assert not own


def test_read_error_comes_in_its_turn(pair, monkeypatch):
    _, files = pair
    loader = GTTFLoader(files, [4], batch_size=10, prefetch=3)
    plain, calls = files.x.rows, []

    def rows(ids):
        calls.append(len(ids))
        if len(calls) == 3:
            raise OSError(5, "'x.npy' could not be read at row 7")
        return plain(ids)

    monkeypatch.setattr(files.x, "rows", rows)
    batches = iter(loader)
    next(batches)
    next(batches)
    with pytest.raises(OSError, match="could not be read at row 7"):
        next(batches)


def test_partitioned_features_in_plain_data(pair, tmp_path):
    """Whatever has rows: here those of a graph in one part."""
    plain, _ = pair
    adj = CompactAdj.from_edge_index(plain.edge_index, NODES)
    partition(adj, tmp_path / "parts", parts=1, features={"x": plain.x})
    with PartitionedGraph.open(tmp_path / "parts") as graph:
        data = Data(x=graph.features["", "x"], edge_index=plain.edge_index)
        how = {"num_neighbors": [4], "batch_size": 64, "seed": 0}
        left, right = GTTFLoader(data, **how), GTTFLoader(plain, **how)
        for one, other in zip(left, right, strict=True):
            assert torch.equal(one.x, other.x)


def test_partitioned_store_looks_at_ids(pair, tmp_path):
    plain, _ = pair
    adj = CompactAdj.from_edge_index(plain.edge_index, NODES)
    partition(adj, tmp_path / "parts", parts=1, features={"x": plain.x})
    with PartitionedGraph.open(tmp_path / "parts") as graph:
        store, _ = as_stores(graph)

        def rows(index):
            return store.get_tensor(group_name=None, attr_name="x", index=index)

        ids = torch.arange(NODES, dtype=torch.int32)[::3]
        assert torch.equal(rows(ids), plain.x[::3])
        with pytest.raises(ValueError, match="'index' must hold ids below"):
            rows(torch.tensor([NODES]))


def test_edge_files_go_where_edges_have_no_ids(pair):
    """As tensors do: of no edge it is known which row is its."""
    for data in pair:
        row = torch.tensor([1, 2])
        out = SamplerOutput(torch.arange(3), row, row - 1, edge=None)
        made = join(sized(data), out)
        assert "edge_attr" not in made
        assert made.x.shape == (3, 5)


def test_ids_are_copied_once_for_all_columns():
    copied, uploaded = [], []

    class Uploads:
        def upload(self, columns):
            uploaded.extend(ids for _, ids in columns)
            return [values[ids] for values, ids in columns]

    class Ids(torch.Tensor):
        def cpu(self):
            copied.append(1)
            return self

    ids, told = torch.tensor([2, 0]).as_subclass(Ids), {}
    wanted = RowGather(None, Uploads(), None, False, None)
    wanted.there = [Gather(torch.eye(3), ids, told, name) for name in "xyz"]
    wanted.gather()
    assert len(copied) == 1
    assert len(uploaded) == len(told) == 3


def test_rows_that_are_no_function_are_no_source():
    class Grid:
        shape, dtype, rows = torch.Size([3, 2]), torch.float32, 3

        def __len__(self):
            return 3

    assert not is_source(Grid())


def test_profile_of_a_loader(pair):
    plain, files = pair
    loader = GTTFLoader(plain, [5, 5], batch_size=10, shuffle=True)
    files.x.cache(1 << 14, most_sampled(loader, n=5))
    assert files.x._cached > 100


def test_data_with_files_validate(pair, tmp_path):
    _, files = pair
    short = FeatureFile.from_array(tmp_path / "s.npy", torch.rand(7, 2))
    data = Data(x=short, edge_index=files.edge_index, num_nodes=NODES)
    with pytest.raises(ValueError, match="'x' must have one row per node, 300"):
        GTTFLoader(data, [2])

    class Mine(Data):
        pass

    mine = Mine(x=files.x, edge_index=files.edge_index, num_nodes=NODES)
    with pytest.raises(ValueError, match="'data' must be a 'Data' or 'HeteroData'"):
        GTTFLoader(mine, [2])
    out = CompactAdj.from_edge_index(files.edge_index, NODES, direction="out")
    with pytest.raises(ValueError, match="'graph' must have the direction 'in'"):
        FileStore(out)
    with pytest.raises(TypeError, match="'graph' must be a CompactAdj"):
        FileStore(files)
    with pytest.raises(ValueError, match="files are put as a whole"):
        FileStore().put_tensor(
            files.x, group_name=None, attr_name="x", index=torch.tensor([1])
        )
