"""Times of nodes and of edges: what a seed may see, and in which order."""

import pytest
import torch
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.datasets import FakeDataset

from all_pairs import all_pairs
from gttf_pyg import GTTFLinkLoader, GTTFLoader, GTTFSampler
from reference import assert_consistent, assert_same, hetero_toy, neighborhood

DTYPES = [torch.int64, torch.int32, torch.float32, torch.float64]


def dated(level: str, dtype: torch.dtype = torch.int64) -> Data:
    """A graph with times on its nodes or on its edges; many are equal."""
    seed_everything(5)
    data = FakeDataset(1, avg_num_nodes=30, avg_degree=5, edge_dim=0)[0]
    order = torch.randperm(data.num_edges)
    data.edge_index = data.edge_index[:, order]
    size = data.num_nodes if level == "node" else data.num_edges
    name = "time" if level == "node" else "edge_time"
    data[name] = torch.randint(0, 12, (size,)).to(dtype)
    return data


def name_of(level: str) -> str:
    return "time" if level == "node" else "edge_time"


def clock(data: Data, level: str):
    """The time at which a neighbour is seen."""
    times = data[name_of(level)].tolist()
    return lambda kind, src, edge: times[src if level == "node" else edge]


@all_pairs
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("level", ["node", "edge"])
@pytest.mark.parametrize("window", [None, 3, 0])
def test_temporal_full_neighborhood(level, dtype, window):
    """No later than the seed's time at any hop, inclusive; rows sorted by time."""
    data = dated(level, dtype)
    seeds, times = [3, 7, 3, 0], [6, 11, 2, 0]
    loader = GTTFLoader(
        data,
        [-1, -1],
        torch.tensor(seeds),
        torch.tensor(times).to(dtype),
        time_attr=name_of(level),
        time_window=window,
        batch_size=4,
    )
    assert loader.node_sampler.disjoint
    assert loader.node_sampler.is_temporal
    batch = next(iter(loader))
    when = clock(data, level)

    def allowed(kind, tree, src, edge):
        age = times[tree] - when(kind, src, edge)
        return age >= 0 and (window is None or age <= window)

    options = {"disjoint": True, "allowed": allowed, "time": when}
    assert_same(batch, neighborhood(data, {"": seeds}, 2, **options), disjoint=True)
    assert_consistent(batch, data)
    assert batch.seed_time.tolist() == times
    assert batch.batch[:4].tolist() == [0, 1, 2, 3]


def test_temporal_seed_time_defaults_to_the_node():
    data = dated("node")
    batch = next(iter(GTTFLoader(data, [-1, -1], time_attr="time", batch_size=9)))
    own = data.time[batch.n_id[:9]]
    assert bool((data.time[batch.n_id] <= own[batch.batch]).all())
    assert "seed_time" not in batch  # PyG stores only what was given


@pytest.mark.parametrize("level", ["node", "edge"])
@pytest.mark.parametrize("replace", [False, True])
def test_temporal_last(level, replace):
    """The latest k that are admitted; with replacement, draws from those k."""
    data, fanout, limit = dated(level), 3, 7
    nodes = torch.arange(data.num_nodes)
    loader = GTTFLoader(
        data,
        [fanout],
        nodes,
        torch.full_like(nodes, limit),
        replace,
        time_attr=name_of(level),
        temporal_strategy="last",
        batch_size=len(nodes),
    )
    batch, when = next(iter(loader)), clock(data, level)
    pairs = list(zip(*data.edge_index.tolist(), strict=True))
    for node in nodes.tolist():
        seen = [(when(None, s, e), e) for e, (s, d) in enumerate(pairs) if d == node]
        latest = [e for t, e in sorted(seen, key=lambda x: x[0]) if t <= limit]
        found = batch.e_id[batch.edge_index[1] == node].tolist()
        if replace:
            assert len(found) == (fanout if latest else 0)
            assert set(found) <= set(latest[-fanout:])
        else:
            assert found == latest[-fanout:] or set(found) == set(latest[-fanout:])


@pytest.mark.parametrize("level", ["node", "edge"])
def test_temporal_uniform_samples_what_is_admitted(level):
    data, limit = dated(level), 5
    nodes = torch.arange(data.num_nodes)
    when = clock(data, level)
    pairs = list(zip(*data.edge_index.tolist(), strict=True))
    admitted = {e for e, (s, _) in enumerate(pairs) if when(None, s, e) <= limit}
    seen: set[int] = set()
    for seed in range(40):
        loader = GTTFLoader(
            data,
            [2],
            nodes,
            torch.full_like(nodes, limit),
            time_attr=name_of(level),
            batch_size=len(nodes),
            seed=seed,
        )
        seen |= set(next(iter(loader)).e_id.tolist())
    assert seen == admitted


def test_temporal_weights_together():
    """PyG refuses this."""
    draws = 4000
    index = torch.tensor([[1, 2, 3, 4], [0, 0, 0, 0]])
    data = Data(edge_index=index, num_nodes=5)
    data.w, data.edge_time = torch.tensor([1.0, 3, 0, 9]), torch.tensor([1, 2, 2, 3])
    loader = GTTFLoader(
        data,
        [1],
        torch.zeros(draws, dtype=torch.int64),
        torch.full((draws,), 2),
        time_attr="edge_time",
        weight_attr="w",
        batch_size=draws,
        seed=0,
    )
    share = torch.bincount(next(iter(loader)).e_id, minlength=4) / draws
    error = (0.25 * 0.75 / draws) ** 0.5
    assert abs(share[0] - 0.25) < 5 * error
    assert share[2:].tolist() == [0, 0]


@pytest.mark.parametrize("hops", [1, 2])
def test_temporal_types_by_node(hops):
    """Types without times are not constrained."""
    data = hetero_toy()
    times = {"user": [4, 1, 3, 2], "item": [2, 2, 9, 0, 5]}
    for name, values in times.items():
        data[name].time = torch.tensor(values)
    seeds, limits = [0, 4], [2, 3]

    def when(kind, src, edge):
        return times[kind[0]][src] if kind[0] in times else -1

    loader = GTTFLoader(
        data,
        [-1] * hops,
        ("item", torch.tensor(seeds)),
        torch.tensor(limits),
        time_attr="time",
        batch_size=2,
    )
    options = {
        "disjoint": True,
        "time": when,
        "allowed": lambda kind, tree, *edge: when(kind, *edge) <= limits[tree],
    }
    expected = neighborhood(data, {"item": seeds}, hops, **options)
    batch = next(iter(loader))
    assert_same(batch, expected, disjoint=True)
    assert batch["item"].seed_time.tolist() == limits


def test_temporal_types_by_edge():
    data = hetero_toy()
    kind = ("user", "buys", "item")
    times = [5, 1, 4, 2, 9, 3, 3]
    data[kind].at = torch.tensor(times)

    def when(k, src, edge):
        return times[edge] if k == kind else -1

    loader = GTTFLoader(
        data,
        [-1, -1],
        ("item", torch.tensor([1, 0, 4])),
        torch.tensor([3, 4, 2]),
        time_attr="at",
        batch_size=3,
    )
    limits = [3, 4, 2]
    options = {
        "disjoint": True,
        "time": when,
        "allowed": lambda k, tree, *edge: when(k, *edge) <= limits[tree],
    }
    expected = neighborhood(data, {"item": [1, 0, 4]}, 2, **options)
    assert_same(next(iter(loader)), expected, disjoint=True)


@pytest.mark.parametrize("level", ["node", "edge"])
def test_temporal_sorted_edges(level):
    data = dated(level)
    times = data[name_of(level)]
    seen = times[data.edge_index[0]] if level == "node" else times
    order = seen.sort(stable=True).indices
    order = order[data.edge_index[1][order].sort(stable=True).indices]
    data.edge_index = data.edge_index[:, order]
    if level == "edge":
        data.edge_time = data.edge_time[order]
    options = {"time_attr": name_of(level), "batch_size": 4}
    inputs = torch.tensor([1, 5, 9, 11]), torch.tensor([3, 5, 7, 11])
    taken = next(iter(GTTFLoader(data, [-1], *inputs, is_sorted=True, **options)))
    built = next(iter(GTTFLoader(data, [-1], *inputs, **options)))
    assert torch.equal(taken.edge_index, built.edge_index)
    assert torch.equal(taken.e_id, built.e_id)


@pytest.mark.parametrize("level", ["node", "edge"])
def test_temporal_edges_said_to_be_sorted(level):
    """The error names what the user has said, before there are any batches."""
    data = dated(level)
    order = data.edge_index[1].sort(stable=True).indices
    data.edge_index = data.edge_index[:, order]
    how = {"time_attr": name_of(level), "is_sorted": True}
    with pytest.raises(
        ValueError, match=r"'is_sorted' must .* by column and then time"
    ):
        GTTFLoader(data, [2], **how)


@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
@pytest.mark.parametrize("level", ["node", "edge"])
def test_temporal_links(level, mode):
    data = dated(level)
    labels = data.edge_index[:, :6]
    earliest = int(data[name_of(level)].min())
    times = torch.tensor([3, 5, 7, 11, 2, earliest])
    loader = GTTFLinkLoader(
        data,
        [-1, -1],
        labels,
        edge_label_time=times,
        time_attr=name_of(level),
        neg_sampling=mode,
        batch_size=6,
    )
    batch, when = next(iter(loader)), clock(data, level)
    assert int(batch.batch.max()) == 5
    for row, col, edge in zip(*batch.edge_index, batch.e_id, strict=True):
        tree = int(batch.batch[col])
        assert when(None, int(batch.n_id[row]), int(edge)) <= times[tree]
    if mode == "triplet":
        assert batch.seed_time.tolist() == times.tolist()
        assert batch.src_index.tolist() == list(range(6))
        assert batch.dst_pos_index.tolist() == list(range(6, 12))
        assert "edge_label_time" not in batch
    else:
        copies = 1 if mode is None else 2
        assert batch.edge_label_time.tolist() == times.tolist() * copies
    if level == "node" and mode is not None:  # negatives exist by the time asked for
        index = (
            batch.dst_neg_index if mode == "triplet" else batch.edge_label_index[1, 6:]
        )
        negative = data.time[batch.n_id[index]]
        assert bool((negative <= times).all())


def test_temporal_sampler_for_other_loaders():
    sampler = GTTFSampler(dated("node"), [2], time_attr="time")
    assert (sampler.disjoint, sampler.is_temporal) == (True, True)
    assert sampler.node_time is not None
    assert sampler.edge_time is None
