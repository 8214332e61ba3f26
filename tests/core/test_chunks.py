"""CompactAdj.from_chunks: the rows of from_edge_index, in however little memory."""

import os

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gttf_sampler import CompactAdj
from gttf_sampler.graph import build
from test_compact import same


def cut(edge_index, sizes, **columns):
    """Edges in chunks, with their columns if there are any."""
    start = 0
    for size in [*sizes, edge_index.shape[1]]:
        part = slice(start, start + size)
        own = {n: v[part] for n, v in columns.items() if v is not None}
        yield (edge_index[:, part], own) if own else edge_index[:, part]
        start += size


@pytest.fixture(autouse=True)
def _buckets(monkeypatch):
    """Puts back what a test has changed."""
    monkeypatch.setattr(build, "BUCKETS", build.BUCKETS)


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_from_chunks_is_from_edge_index(tmp_path_factory, data):
    nodes = data.draw(st.integers(1, 300))
    count = data.draw(st.integers(0, 400))
    seed = data.draw(st.integers(0, 99))
    generator = torch.Generator().manual_seed(seed)
    spread = data.draw(st.sampled_from([nodes, max(1, nodes // 50)]))
    edge_index = torch.randint(0, spread, (2, count), generator=generator)
    if data.draw(st.booleans()):
        edge_index = edge_index[:, edge_index[1].argsort(stable=True)]
    direction = data.draw(st.sampled_from(["in", "out"]))
    weight = torch.rand(count) if data.draw(st.booleans()) else None
    time = torch.randint(0, 5, (count,)) if data.draw(st.booleans()) else None
    how = {"direction": direction, "sort_by_time": data.draw(st.booleans())}
    sizes = data.draw(st.lists(st.integers(0, 100), max_size=6))
    chunks = list(cut(edge_index, sizes, edge_weight=weight, edge_time=time))
    folder = tmp_path_factory.mktemp("chunks")
    build.BUCKETS = data.draw(st.sampled_from([2, 7, 128]))
    memory = data.draw(st.sampled_from([1, 10 * build.COST, 10_000_000]))
    got = CompactAdj.from_chunks(chunks, folder / "g", nodes, memory=memory, **how)
    want = CompactAdj.from_edge_index(
        edge_index, nodes, edge_weight=weight, edge_time=time, **how
    )
    assert same(got, want)
    got.validate()
    assert same(CompactAdj.open(folder / "g"), want)
    assert os.listdir(folder) == ["g"]


def test_from_chunks_counts_nodes(tmp_path):
    edges = torch.tensor([[5, 0], [1, 7]])
    got = CompactAdj.from_chunks([edges], tmp_path / "g")
    assert same(got, CompactAdj.from_edge_index(edges))
    two = CompactAdj.from_chunks([edges], tmp_path / "h", (6, 9))
    assert same(two, CompactAdj.from_edge_index(edges, (6, 9)))


def test_from_chunks_without_ids(tmp_path):
    edges = torch.randint(0, 50, (2, 500))
    got = CompactAdj.from_chunks([edges], tmp_path / "g", 50, edge_ids=False)
    want = CompactAdj.from_edge_index(edges, 50)
    assert got.edge_id is None
    assert torch.equal(got.col, want.col)
    assert torch.equal(got.rowptr, want.rowptr)


def test_from_chunks_tells_how_far_it_is(tmp_path):
    edges, told = np.random.default_rng(0).integers(0, 50, (2, 500)), {}

    def report(what, more):
        told[what] = told.get(what, 0) + more

    CompactAdj.from_chunks([edges, edges], tmp_path / "g", report=report)
    assert told == dict.fromkeys(
        ("counting nodes", "reading edges", "sorting rows"), 1000
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_from_chunks_leaves_nothing_half_written(tmp_path, error):
    edges = torch.randint(0, 50, (2, 500))
    CompactAdj.from_edge_index(edges, 50).save(tmp_path / "g")
    before = sorted(file.name for file in (tmp_path / "g").iterdir())

    def broken():
        yield edges
        raise error

    with pytest.raises(error):
        CompactAdj.from_chunks(broken(), tmp_path / "g", 50)

    def full(what, more):
        if what == "sorting rows":
            raise error

    with pytest.raises(error):
        CompactAdj.from_chunks([edges], tmp_path / "g", 50, report=full)
    assert sorted(file.name for file in (tmp_path / "g").iterdir()) == before
    assert os.listdir(tmp_path) == ["g"]
    assert same(CompactAdj.open(tmp_path / "g"), CompactAdj.from_edge_index(edges, 50))


E2 = torch.tensor([[0, 1], [1, 2]])


@pytest.mark.parametrize(
    ("chunks", "how", "error", "match"),
    [
        (E2, {}, TypeError, "'chunks' must be an iterable of edges"),
        (iter([E2]), {}, ValueError, "'num_nodes' must be given"),
        ([E2], {"num_nodes": 2}, ValueError, "'chunks' must hold ids below .* 2"),
        ([E2.t()[:, :1]], {}, ValueError, None),
        ([(E2, 3)], {}, ValueError, "'chunks' must be edges"),
        ([(E2, {"x": [1, 2]})], {}, ValueError, "must have no values but"),
        ([(E2, {"edge_weight": [1.0, -1]})], {}, ValueError, "edge_weight"),
        ([E2, (E2, {"edge_weight": [1.0, 1]})], {}, ValueError, "the same values"),
        ([E2], {"direction": "up"}, ValueError, "'direction' must be one of"),
        ([E2], {"memory": 0}, ValueError, "'memory' must be at least 1"),
    ],
)
def test_from_chunks_validate(tmp_path, chunks, how, error, match):
    if match is None:
        chunks, match = [torch.zeros(3, 2, dtype=torch.int64)], "must have shape"
    with pytest.raises(error, match=match):
        CompactAdj.from_chunks(chunks, tmp_path / "g", **how)
    assert not (tmp_path / "g" / "header.json").exists()


@pytest.mark.parametrize("last", [2**63 - 2, 2**63 - 1, 2**60, 2**45])
def test_id_that_no_row_can_hold_is_refused(tmp_path, last):
    """With the bytes that it would take, and at once."""
    chunks = [torch.tensor([[0, 1], [1, 0]]), torch.tensor([[0], [last]])]
    with pytest.raises(ValueError, match=rf"'chunks' must .*id {last}, .* bytes"):
        CompactAdj.from_chunks(chunks, tmp_path / "graph")
    assert not (tmp_path / "graph").exists()
    with pytest.raises(ValueError, match="'num_nodes' must"):
        CompactAdj.from_chunks(chunks[:1], tmp_path / "graph", 2**50)
    with pytest.raises(ValueError, match="'chunks' must hold ids below"):
        CompactAdj.from_chunks(chunks, tmp_path / "graph", 2)


def test_negative_id_of_a_stream_is_refused(tmp_path):
    with pytest.raises(ValueError, match="'chunks' must not hold negative ids"):
        CompactAdj.from_chunks([torch.tensor([[0], [-1]])], tmp_path / "graph")
