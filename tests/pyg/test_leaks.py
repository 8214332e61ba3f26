"""Nothing in a batch is later than its seed: the checker, and what it checks."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData

from gttf_pyg import GTTFLinkLoader, GTTFLoader, assert_no_future

TABLES = ("users", "orders", "items")


@st.composite
def databases(draw: st.DrawFn) -> HeteroData:
    """Some tables whose rows refer to each other, both ways, with or without times."""
    data, edge_times = HeteroData(), draw(st.booleans())
    whole = draw(st.booleans())  # numbers, or fractions of a day
    sizes = {name: draw(st.integers(1, 6)) for name in TABLES}
    dated = [name for name in TABLES if draw(st.booleans())] or ["orders"]
    dtype = torch.int64 if whole else torch.float64

    def times(count: int) -> torch.Tensor:
        found = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
        return torch.tensor(found, dtype=torch.int64).to(dtype)

    for name, size in sizes.items():
        data[name].num_nodes = size
        if name in dated and not edge_times:
            data[name].time = times(size)
    for number in range(draw(st.integers(1, 3))):
        by, to = draw(st.sampled_from(TABLES)), draw(st.sampled_from(TABLES))
        pair = st.tuples(st.integers(0, sizes[by] - 1), st.integers(0, sizes[to] - 1))
        pairs = draw(st.lists(pair, max_size=12))
        index = torch.tensor(pairs, dtype=torch.int64).view(-1, 2).t().contiguous()
        when = times(index.shape[1])
        for kind, edges in (
            ((by, f"r{number}", to), index),
            ((to, f"rev_r{number}", by), index.flip(0)),
        ):
            data[kind].edge_index = edges
            if edge_times:
                data[kind].time = when
    return data


HOW = st.fixed_dictionaries(
    {
        "temporal_strategy": st.sampled_from(["uniform", "last"]),
        "time_window": st.sampled_from([None, 0, 2]),
        "subgraph_type": st.sampled_from(["directional", "induced"]),
        "replace": st.booleans(),
    }
)
FANOUTS = st.lists(st.sampled_from([-1, 1, 2]), min_size=1, max_size=3)


def by_hand(batch: HeteroData, seeds: list[float], window: float | None) -> None:
    """The promise again, in plain Python, for what was sampled."""
    trees = {name: store.batch.tolist() for name, store in batch.node_items()}
    found = []
    for name, store in batch.node_items():
        if "time" in store:
            asked = store.get("batch_size") or 0
            rows = zip(store.time.tolist(), trees[name], strict=True)
            found += list(rows)[asked:]
    for kind, store in batch.edge_items():
        if "time" in store:
            owner = [trees[kind[2]][node] for node in store.edge_index[1].tolist()]
            found += zip(store.time.tolist(), owner, strict=True)
    for time, tree in found:
        assert time <= seeds[tree]
        assert window is None or time >= seeds[tree] - window


@settings(max_examples=60)
@given(databases(), st.sampled_from(TABLES), FANOUTS, HOW, st.data())
def test_nothing_is_later_than_its_seed(data, kind, fanouts, how, more):
    size = data[kind].num_nodes
    nodes = more.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=5))
    times = more.draw(
        st.lists(st.integers(0, 9), min_size=len(nodes), max_size=len(nodes))
    )
    dtype = next(store.time.dtype for store in data.stores if "time" in store)
    loader = GTTFLoader(
        data,
        fanouts,
        (kind, torch.tensor(nodes)),
        torch.tensor(times).to(dtype),
        time_attr="time",
        batch_size=len(nodes),
        **how,
    )
    batch = next(iter(loader))
    assert_no_future(batch, time_window=how["time_window"], seeds=False)
    by_hand(batch, times, how["time_window"])


@settings(max_examples=40)
@given(
    databases(), FANOUTS, HOW, st.sampled_from([None, "binary", "triplet"]), st.data()
)
def test_nothing_is_later_than_its_seed_edge(data, fanouts, how, negatives, more):
    kinds = [kind for kind in data.edge_types if data[kind].num_edges]
    if not kinds:
        return
    kind = more.draw(st.sampled_from(kinds))
    count = data[kind].num_edges
    times = more.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    dtype = next(store.time.dtype for store in data.stores if "time" in store)
    loader = GTTFLinkLoader(
        data,
        fanouts,
        (kind, data[kind].edge_index),
        edge_label_time=torch.tensor(times).to(dtype),
        time_attr="time",
        neg_sampling=negatives,
        batch_size=count,
        **how,
    )
    ends = {None: (), "binary": (kind[0], kind[2]), "triplet": (kind[2],)}[negatives]
    stores = [data[end] for end in ends]
    if any("time" in end and int(end.time.min()) > min(times) for end in stores):
        with pytest.raises(ValueError, match="'neg_sampling' must leave a node that"):
            next(iter(loader))
        return
    assert_no_future(next(iter(loader)), time_window=how["time_window"], seeds=False)


def dated(level: str) -> Data:
    index = torch.tensor([[1, 2, 3, 4], [0, 0, 1, 2]])
    time = torch.tensor([5, 1, 2, 3, 9])
    if level == "node":
        return Data(edge_index=index, time=time, num_nodes=5)
    return Data(edge_index=index, edge_time=time[1:], num_nodes=5)


def one_batch(level: str, **how: Any) -> Data:
    name = "time" if level == "node" else "edge_time"
    seed, when = torch.tensor([0]), torch.tensor([5])
    loader = GTTFLoader(dated(level), [-1, -1], seed, when, time_attr=name, **how)
    return next(iter(loader))


def test_checker_finds_a_node_that_is_too_late():
    batch = one_batch("node")
    assert_no_future(batch)
    batch.time[batch.n_id == 3] = 6
    with pytest.raises(AssertionError, match=r"1 of 4 nodes; the first, number 3, has"):
        assert_no_future(batch)
    batch.time[batch.n_id == 3] = -7
    assert_no_future(batch)
    with pytest.raises(AssertionError, match="nothing more than 4 before its seed"):
        assert_no_future(batch, time_window=4)


def test_checker_finds_an_edge_that_is_too_late():
    batch = one_batch("edge")
    assert_no_future(batch, "edge_time")
    batch.edge_time[batch.e_id == 2] = 6
    with pytest.raises(AssertionError, match=r"1 of 3 edges; the first, number 2, has"):
        assert_no_future(batch, "edge_time")


def test_checker_counts_seeds_that_were_not_there_yet():
    batch = one_batch("node")
    batch.seed_time = torch.tensor([4])
    with pytest.raises(AssertionError, match="number 0, has time 5 for a seed at 4"):
        assert_no_future(batch)
    assert_no_future(batch, seeds=False)


def test_checker_does_not_round():
    """Seconds since 1970 do not fit into 24 bits; a time that is none is a leak."""
    batch = one_batch("node")
    base = 1_700_000_001
    batch.time = torch.full((4,), base)
    batch.seed_time = torch.tensor([base - 1], dtype=torch.float32)
    limit = int(batch.seed_time)
    batch.time = torch.full((4,), limit + 1)
    with pytest.raises(AssertionError, match="4 of 4 nodes"):
        assert_no_future(batch)
    batch.time = torch.full((4,), float("nan"))
    with pytest.raises(AssertionError, match="4 of 4 nodes"):
        assert_no_future(batch)


def test_checker_reads_times_of_seeds_where_none_were_given():
    loader = GTTFLoader(dated("node"), [-1], torch.tensor([0, 1]), time_attr="time")
    for batch in loader:
        assert "seed_time" not in batch
        assert_no_future(batch)


def test_checker_refuses_what_it_cannot_know():
    whole = GTTFLoader(dated("node"), [-1], torch.tensor([0]))
    with pytest.raises(ValueError, match="'batch' must have disjoint trees"):
        assert_no_future(next(iter(whole)))
    with pytest.raises(ValueError, match="'time_attr' must name times of nodes or"):
        assert_no_future(one_batch("node"), "when")
    with pytest.raises(TypeError, match="'batch' must be a Data or a HeteroData"):
        assert_no_future([1, 2])
    batch = one_batch("node")
    del batch.seed_time
    del batch.batch_size
    with pytest.raises(ValueError, match="'batch' must know the times of its seeds"):
        assert_no_future(batch)
