"""Every task on a tiny graph: who takes part, and that the work is the same."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch

from gttf_sampler import CompactAdj, sample_rooted
from gttf_sampler.bench import (
    graphs,
    model,
    peers,
    task_build,
    task_gcn,
    task_loader,
    task_memory,
    task_sampling,
    task_scale,
    task_train,
    task_walks,
)

DGL, PYG = find_spec("dgl") is not None, find_spec("torch_geometric") is not None
SMALL = {"batch": 64, "batches": 6, "rounds": 1, "seed": 0}


def silent(what, share):
    pass


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench") / "graph"
    graphs.make(folder, 4000, 80_000)
    return str(folder)


def check(found, groups):
    """All peers did the same work, and those without a ratio are the first ones."""
    assert len(found["groups"]) == groups
    for group in found["groups"]:
        first, *rest = group["rows"]
        assert first["peer"].startswith("gttf")
        assert first["ratio"] is None
        for row in rest:
            assert row["differs"] is None, row
            assert row["ratio"] > 0
    return [[row["peer"] for row in group["rows"]] for group in found["groups"]]


def test_sampling(graph):
    found = task_sampling.run(graph, [5, 3], report=silent, **SMALL)
    names = check(found, 5)
    assert names[0][:3] == ["gttf", "gttf without numba", "reading as many edges"]
    if DGL:
        label = peers.label("dgl", "NeighborSampler")
        assert names[2] == names[3] == ["gttf", "gttf_dgl.GTTFSampler", label]
        assert names[4] == ["gttf", label]
    missing = {entry["peer"].split()[0] for entry in found["left_out"]}
    assert ("DGL" in missing) == (not DGL)


@pytest.fixture
def torch_sparse(monkeypatch):
    """A stand-in for torch-sparse, with the signature that PyG calls."""
    typing = pytest.importorskip("torch_geometric.typing")
    if typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE:
        pytest.skip("there is a real one")
    library = torch.library.Library("torch_sparse", "FRAGMENT")
    library.define(
        "neighbor_sample(Tensor colptr, Tensor row, Tensor input_node, "
        "int[] num_neighbors, bool replace, bool directed) "
        "-> (Tensor, Tensor, Tensor, Tensor)"
    )

    def sample(colptr, row, input_node, num_neighbors, replace, directed):
        adj = CompactAdj.from_csr(colptr, row)
        sub = sample_rooted(adj, input_node, num_neighbors, replace=replace)
        return sub.node, sub.row, sub.col, sub.edge

    library.impl("neighbor_sample", sample, "CPU")
    monkeypatch.setattr(typing, "WITH_TORCH_SPARSE", True)
    yield "torch-sparse"
    library._destroy()


@pytest.mark.filterwarnings("ignore:Using 'NeighborSampler' without a 'pyg-lib'")
def test_pyg_takes_part_where_it_has_a_backend(graph, torch_sparse):
    few = {**SMALL, "batches": 3}
    found = task_sampling.run(graph, [5, 3], report=silent, **few)
    names = check(found, 5)
    assert names[0][3].endswith(f"NeighborSampler ({torch_sparse})")
    assert names[1][3] == names[0][3]
    options = {"features": 4, "workers": 0, "report": silent, **few}
    names = check(task_loader.run(graph, [5, 3], **options), 1 + DGL)
    assert names[0][1].endswith(f"NeighborLoader ({torch_sparse})")


def test_walks(graph):
    names = check(task_walks.run(graph, length=5, report=silent, **SMALL), 2)
    assert [group[0] for group in names] == ["gttf", "gttf"]
    assert len(names[0]) >= 1 + DGL


def test_build(graph):
    found = task_build.run(graph, rounds=1, seed=0, report=silent)
    (names,) = check(found, 1)
    assert len(names) == 1 + DGL + PYG
    edges = CompactAdj.open(graph).num_edges
    assert all(row["edges"] == edges for row in found["groups"][0]["rows"])


def test_loader(graph):
    found = task_loader.run(
        graph, [5, 3], features=8, workers=0, report=silent, **SMALL
    )
    names = check(found, DGL + PYG)
    firsts = [group[0] for group in names]
    assert ("gttf_pyg.GTTFLoader" in firsts) == PYG
    assert ("gttf_dgl.GTTFSampler" in firsts) == DGL


def test_train(graph):
    found = task_train.run(graph, [5, 3], features=8, report=silent, **SMALL)
    assert len(found["groups"]) == DGL + PYG
    for group in found["groups"]:
        for row in group["rows"]:
            assert row["differs"] is None
            parts = row["sampling"] + row["gather"] + row["compute"]
            assert parts == pytest.approx(row["best"])
            assert row["share"] == pytest.approx(row["sampling"] / row["best"])
            assert row["compute"] > 0
            assert row["peer"].startswith("full batch") or row["sampling"] > 0


def test_model_is_the_mean_of_neighbours():
    """Against the dense formula, from a whole neighbourhood."""
    adj = CompactAdj.from_edge_index([[1, 2, 3, 0, 3], [0, 0, 1, 2, 2]])
    x = torch.rand(4, 3, generator=torch.Generator().manual_seed(0))
    net = model.SAGE(3, 5, 2)
    A = torch.zeros(4, 4)
    source, target = adj.to_edge_index()
    A[target, source] = 1.0
    A /= A.sum(1, keepdim=True).clamp(min=1)
    hidden = (net.own[0](x) + net.near[0](A @ x)).relu()
    exact = net.own[1](hidden) + net.near[1](A @ hidden)
    sub = sample_rooted(adj, [0], [-1, -1])
    nodes, edges = sub.num_sampled_nodes, sub.num_sampled_edges
    layers = [
        model.Layer(
            sub.row[: sum(edges[:h])], sub.col[: sum(edges[:h])], sum(nodes[:h])
        )
        for h in (2, 1)
    ]
    torch.testing.assert_close(net(x[sub.node], layers), exact[:1])


@pytest.mark.filterwarnings("ignore:Using 'NeighborSampler' without a 'pyg-lib'")
def test_memory_of_every_subject(graph, tmp_path):
    file = str(tmp_path / "edges.npy")
    facts = task_memory.write_edges(graph, file, 0, silent)
    assert np.load(file).shape == (2, facts["edges"])
    names, missing = task_memory.subjects()
    assert len(names) == 2 + 2 * (DGL + PYG)
    assert len(missing) == 2 - DGL - PYG
    for name in names:
        row = task_memory.measure(
            name, file, facts["nodes"], [5, 3], 64, 2, 0, report=silent
        )
        assert row["input"] == 16 * facts["edges"]
        assert row["held"] < 200 * facts["edges"]


@pytest.mark.parametrize("subject", list(task_gcn.SUBJECTS))
def test_gcn_memory(subject, tmp_path, monkeypatch):
    if subject != "gttf":
        pytest.importorskip({"pyg": "torch_geometric", "dgl": "dgl"}[subject])
    monkeypatch.setattr(task_gcn, "MADE_SIZE", (300, 2000, 12))
    task_gcn.write_dataset(task_gcn.MADE, None, str(tmp_path), silent)
    row = task_gcn.measure(subject, str(tmp_path), silent)
    assert row["nodes"] == 300
    assert row["peak"] >= 0


def test_scale_measures_what_is_mapped(graph):
    row = task_scale.measure(graph, [5, 3], report=silent, **SMALL)
    adj = CompactAdj.open(graph)
    assert (row["edges"], row["nodes"]) == (adj.num_edges, adj.num_rows)
    assert row["per_edge"] == adj.nbytes / adj.num_edges
    assert 0 < row["best"] <= row["median"]
    assert 64 * 5 * 0.5 < row["drawn"] <= 64 * (5 + 15)


@pytest.mark.parametrize(
    ("scale", "count"), [(0.0001, 1), (0.01, 2), (0.1, 3), (1.0, 4)]
)
def test_scale_steps(scale, count):
    steps = task_scale.steps(scale)
    assert len(steps) == count
    assert steps[-1] == scale
    assert steps == sorted(steps)
