"""`gttf bench kernels`, also with the peers that few have installed."""

import importlib
import sys
import types
from importlib.util import find_spec

import pytest
import torch

from gttf_sampler import CompactAdj, sample_rooted, use_backend
from gttf_sampler.bench import graphs, peers, task_kernels
from gttf_sampler.bench.measure import WITHOUT_NUMBA

FLAGS = (
    "bool csc = False, bool replace = False, bool directed = True, bool disjoint = "
    "False, str temporal_strategy = 'uniform', bool return_edge_id = True"
)
RETURNS = "(Tensor, Tensor, Tensor, Tensor?, int[], int[])"
# What stands between the fanouts and the flags, by the versions of pyg-lib.
OPTIONAL = {
    "0.2": "Tensor? time = None, Tensor? seed_time = None",
    "0.3": "Tensor? time = None, Tensor? seed_time = None, Tensor? edge_weight = None",
    "0.4 to 0.9": "Tensor? node_time = None, Tensor? edge_time = None, "
    "Tensor? seed_time = None, Tensor? edge_weight = None",
}


@pytest.fixture(params=[*OPTIONAL, "installed"])
def pyg_lib(request, monkeypatch):
    """The calls to pyg-lib's sampler: of a stand-in per schema, or of the real one."""
    there = find_spec("pyg_lib") is not None
    if there != (request.param == "installed"):
        pytest.skip("pyg-lib is there" if there else "pyg-lib is not there")
    if there:
        yield None
        return
    if find_spec("torch_geometric") is not None:
        importlib.import_module("torch_geometric")  # it looks for pyg-lib, once
    calls = []

    def sample(rowptr, col, seed, num_neighbors, *args, **options):
        names = [entry.split()[1] for entry in arguments.split(", ")]
        given = {**dict(zip(names, args, strict=False)), **options}
        if not given.get("directed", True):
            raise RuntimeError("Undirected subgraphs not yet supported")
        calls.append(given)
        adj = CompactAdj.from_csr(rowptr, col)
        sub = sample_rooted(
            adj, seed.unique(), num_neighbors, replace=given.get("replace", False)
        )
        nodes, edges = sub.num_sampled_nodes, sub.num_sampled_edges
        return sub.row, sub.col, sub.node, sub.edge, nodes, edges

    arguments = f"{OPTIONAL[request.param]}, {FLAGS}"
    library = torch.library.Library("pyg", "FRAGMENT")
    library.define(
        "neighbor_sample(Tensor rowptr, Tensor col, Tensor seed, int[] num_neighbors, "
        f"{arguments}) -> {RETURNS}"
    )
    library.impl("neighbor_sample", sample, "CPU")
    stand_in = types.ModuleType("pyg_lib")
    stand_in.__version__ = "0"
    monkeypatch.setitem(sys.modules, "pyg_lib", stand_in)
    yield calls
    library._destroy()


@pytest.fixture
def peer_of(monkeypatch):
    """The sampler of a package, as the kernels are compared with it."""
    peers.attempt.cache_clear()

    def find(name, adj, fanouts, replace):
        found = task_kernels.compiled(adj, fanouts, replace, peers.Missing())
        (peer,) = (peer for label, peer in found.items() if label.startswith(name))
        return peer

    yield find
    peers.attempt.cache_clear()


@pytest.mark.parametrize("replace", [False, True])
def test_kernels_of_pyg_lib(pyg_lib, peer_of, replace):
    """Its arguments are where they belong, and its edges and nodes are counted."""
    generator = torch.Generator().manual_seed(0)
    adj = CompactAdj.from_edge_index(
        torch.randint(3000, (2, 60_000), generator=generator), 3000
    )
    seeds = torch.randperm(3000, generator=generator)[:64]
    peer = peer_of("pyg-lib", adj, [5, 3], replace)
    (made,) = peer.run(seeds[None])
    if pyg_lib is not None:
        assert pyg_lib[-1].get("replace", False) == replace
        assert pyg_lib[-1]["csc"] is True
    ours = sample_rooted(adj, seeds, [5, 3], replace=replace)
    assert peer.work(made).edges == made[0].numel()
    assert peer.work(made).edges == pytest.approx(ours.num_edges, rel=0.1)
    assert peer.work(made).nodes == pytest.approx(ours.num_nodes, rel=0.1)


@pytest.mark.parametrize("replace", [False, True])
def test_kernels_of_torch_sparse(peer_of, monkeypatch, replace):
    """Its arguments have no names; it returns node, row, col and edge."""
    if find_spec("torch_sparse") is not None:
        pytest.skip("torch-sparse is there")
    flags = []

    def sample(colptr, row, node, fanouts, replace, directed):
        flags.append((replace, directed))
        edge = torch.arange(7)
        return torch.arange(5), edge, edge, edge

    library = torch.library.Library("torch_sparse", "FRAGMENT")
    library.define(
        "neighbor_sample(Tensor _0, Tensor _1, Tensor _2, int[] _3, bool _4, bool _5) "
        "-> (Tensor _0, Tensor _1, Tensor _2, Tensor _3)"
    )
    library.impl("neighbor_sample", sample, "CPU")
    stand_in = types.ModuleType("torch_sparse")
    stand_in.__version__ = "0"
    monkeypatch.setitem(sys.modules, "torch_sparse", stand_in)
    toy = CompactAdj.from_edge_index([[0, 1], [1, 0]])
    peer = peer_of("torch-sparse", toy, [2], replace)
    (made,) = peer.run(torch.tensor([[0]]))
    library._destroy()
    assert flags == [(replace, True)]
    assert peer.work(made) == (7, 5)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels") / "graph"
    graphs.make(folder, 2000, 40_000)
    return str(folder)


SMALL = {"fanouts": [5, 3], "batch": 64, "batches": 6, "rounds": 1, "seed": 0}


def run(graph, **options):
    options = {**SMALL, "length": 5, **options}
    return task_kernels.run(graph, **options, report=lambda what, share: None)


@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_kernels(graph, backend):
    """All of them do the same work as their peers, and no row is there twice."""
    if backend == "auto":
        pytest.importorskip("numba")
    with use_backend(backend):
        found = run(graph)
    assert len(found["groups"]) == 9
    named = {}
    for group in found["groups"]:
        first, *rest = group["rows"]
        assert first["peer"].startswith("gttf")
        assert all(row["differs"] is None and row["ratio"] > 0 for row in rest)
        named[group["title"]] = [row["peer"] for row in group["rows"]]
    twice = [title for title, names in named.items() if WITHOUT_NUMBA in names]
    assert len(twice) == (6 if backend == "auto" else 0)
    left_out = [entry["peer"] for entry in found["left_out"]]
    assert (WITHOUT_NUMBA in left_out) == (backend == "torch")
    if find_spec("dgl") is not None:
        for title, names in named.items():
            has_dgl = any(name.startswith("DGL ") for name in names)
            assert has_dgl == (not title.startswith("one rooted"))
    (forest,) = (g for g in found["groups"] if g["title"].startswith("a walk forest"))
    assert forest["rows"][0]["edges"] == 64 * (5 + 15)


def test_kernels_of_all_neighbours_have_no_forest(graph):
    found = run(graph, fanouts=[-1])
    assert not [g for g in found["groups"] if "forest" in g["title"]]


def test_kernels_do_without_a_broken_peer(graph, monkeypatch):
    """A library made for another torch fails with an OSError, not an ImportError."""
    names = ("torch_sparse", "torch_cluster", "pyg_lib")

    class Broken:
        def find_spec(self, name, path=None, target=None):
            if name in names:
                raise OSError("undefined symbol")

    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    peers.attempt.cache_clear()
    found = run(graph)
    peers.attempt.cache_clear()
    rows = [row["peer"] for group in found["groups"] for row in group["rows"]]
    assert not [name for name in rows if name.startswith(("pyg-lib", "torch-"))]
    assert len(found["left_out"]) >= 3
