"""`examples/bench_kernels.py` with the peers that few have installed."""

import importlib.util
import pathlib
import sys
import types
from importlib.util import find_spec

import pytest
import torch

from gttf_sampler import CompactAdj, sample_rooted, use_backend

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "bench_kernels.py"
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


@pytest.fixture
def example():
    """The script as a module."""
    pytest.importorskip("tqdm")
    spec = importlib.util.spec_from_file_location("bench_kernels", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


def test_kernels_of_pyg_lib(example, pyg_lib):
    """Its arguments are where they belong, and its edges are counted."""
    index = example.make_edges(3000, 60_000)
    into = CompactAdj.from_edge_index(index, 3000)
    seeds = torch.randperm(3000, generator=torch.Generator().manual_seed(0))[:64]
    for replace, how in ((False, "without"), (True, "with")):
        tasks = {"rooted, with replacement": {}, "rooted, without replacement": {}}
        example.add_pyg_peers(tasks, into, [5, 3])
        peers = tasks[f"rooted, {how} replacement"].items()
        (call,) = (call for name, call in peers if name.startswith("pyg_lib "))
        made = call(seeds)
        if pyg_lib is not None:
            assert pyg_lib[-1].get("replace", False) == replace
            assert pyg_lib[-1]["csc"] is True
        ours = sample_rooted(into, seeds, [5, 3], replace=replace)
        assert example.edges_in(made) == made[0].numel()
        assert example.edges_in(made) == pytest.approx(ours.num_edges, rel=0.1)


def test_kernels_run_with_pyg_lib(example, pyg_lib, capsys, monkeypatch):
    words = ["--graphs", "tiny", "--rounds", "1", "--batches", "1"]
    monkeypatch.setattr(sys, "argv", ["bench_kernels.py", *words])
    example.main()
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if "pyg_lib" in line]
    assert len(lines) == 2
    assert all(line.endswith(" edges") for line in lines)


def test_kernels_of_torch_sparse(example, monkeypatch):
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
    monkeypatch.setitem(sys.modules, "pyg_lib", None)
    tasks = {"rooted, with replacement": {}, "rooted, without replacement": {}}
    toy = CompactAdj.from_edge_index([[0, 1], [1, 0]])
    example.add_pyg_peers(tasks, toy, [2])
    made = [task["torch_sparse 0"](torch.tensor([0])) for task in tasks.values()]
    library._destroy()
    assert flags == [(True, True), (False, True)]
    assert [example.edges_in(entry) for entry in made] == [7, 7]


@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_kernels_have_no_row_twice(example, backend, capsys, monkeypatch):
    """Where the engine runs on torch anyway, "gttf (torch)" would be "gttf" again."""
    if backend == "auto":
        pytest.importorskip("numba")
    words = ["--graphs", "tiny", "--rounds", "1", "--batches", "1"]
    monkeypatch.setattr(sys, "argv", ["bench_kernels.py", *words])
    with use_backend(backend):
        example.main()
    printed = capsys.readouterr().out
    assert printed.count("\n    gttf (torch) ") == (2 if backend == "auto" else 0)
    assert ("No row 'gttf (torch)'" in printed) == (backend == "torch")


def test_kernels_count_edges_of_dgl(example):
    dgl = pytest.importorskip("dgl")
    graph = dgl.graph(([0, 1, 2, 2], [1, 2, 0, 1]))
    made = dgl.dataloading.NeighborSampler([-1]).sample(graph, torch.tensor([1]))
    assert example.edges_in(made) == 2
    walks = dgl.sampling.random_walk(graph, torch.tensor([1]), length=3)
    assert example.edges_in(walks) is None


def test_kernels_do_without_a_broken_peer(example, monkeypatch):
    """A library made for another torch fails with an OSError, not an ImportError."""

    class Broken:
        def find_spec(self, name, path=None, target=None):
            if name in ("torch_sparse", "torch_cluster", "pyg_lib"):
                raise OSError("undefined symbol")

    for name in ("torch_sparse", "torch_cluster", "pyg_lib"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    tasks = example.make_tasks(example.make_edges(2000, 20_000), 2000, [2, 2])
    names = {name for task in tasks.values() for name in task}
    assert not [name for name in names if name.startswith(("pyg_lib", "torch_"))]
