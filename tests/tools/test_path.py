"""Files of this package that a batch passes, and switches from one to another.

`pytest -s` prints them. What is always changed together lives together: a number that
grows says that somebody who reads the code has to open another file.
"""

import json
import os
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import gttf_sampler
from apart import run_script
from gttf_sampler import CompactAdj
from gttf_sampler._backends import ops
from gttf_sampler.embedding import DeepWalk

ROOT = Path(gttf_sampler.__file__).parents[1]
PACKAGES = tuple(f"{ROOT}/{name}/" for name in ("gttf_sampler", "adapters"))
NODES, EDGES = 200, 2000


def edges(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(NODES, (2, EDGES), generator=generator)


def plain_pyg():
    data = pytest.importorskip("torch_geometric.data")
    from gttf_pyg import NeighborLoader

    graph = data.Data(edge_index=edges(), x=torch.ones(NODES, 8))
    loader = NeighborLoader(graph, [10, 5], batch_size=32, shuffle=True)
    batches = iter(loader)
    return lambda: next(batches)


def typed_temporal_pyg():
    data = pytest.importorskip("torch_geometric.data")
    from gttf_pyg import NeighborLoader

    graph = data.HeteroData()
    for name in "ab":
        graph[name].x, graph[name].time = torch.ones(NODES, 8), torch.arange(NODES)
    graph["a", "to", "b"].edge_index, graph["b", "to", "a"].edge_index = (
        edges(),
        edges(1),
    )
    times = {"time_attr": "time", "input_time": torch.arange(NODES)}
    batches = iter(NeighborLoader(graph, [10, 5], "a", batch_size=32, **times))
    return lambda: next(batches)


def node2vec_pyg():
    pytest.importorskip("torch_geometric")
    from gttf_pyg import Node2Vec

    model = Node2Vec(edges(), 8, 10, 5, p=0.5, q=2.0, num_nodes=NODES)
    batches = iter(model.loader(batch_size=32, shuffle=True))
    return lambda: next(batches)


def plain_dgl():
    dgl = pytest.importorskip("dgl")
    from gttf_dgl import DataLoader, GTTFSampler

    graph = dgl.graph(tuple(edges()))
    graph.ndata["x"] = torch.ones(graph.num_nodes(), 8)
    sampler = GTTFSampler([5, 10], prefetch_node_feats=["x"])
    seeds = torch.arange(graph.num_nodes())
    batches = iter(DataLoader(graph, seeds, sampler, batch_size=32))
    return lambda: next(batches)


def embedding_step():
    model = DeepWalk(CompactAdj.from_edge_index(edges(), NODES), 8, 2, [1] * 4)
    batches = iter(model.loader(batch_size=32, shuffle=True))
    return lambda: model.loss(next(batches)).backward()


def path(step):
    """The files, one per call of a function of ours in this thread, in their order.

    Of three batches the one that passes fewest: a kernel that is compiled, or read from
    the disk, by one of them is no part of what a batch does.
    """
    found = []

    def note(frame, event, _):
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(PACKAGES):
            found[-1].append(file)

    for _ in range(2):
        step()
    for _ in range(3):
        found.append([])
        sys.setprofile(note)
        try:
            step()
        finally:
            sys.setprofile(None)
    return min(found, key=switches)


def switches(files):
    return sum(a != b for a, b in pairwise(files))


# (files, switches between files) at most, with compiled kernels
MOST = {
    plain_pyg: (18, 54),
    typed_temporal_pyg: (24, 97),
    node2vec_pyg: (21, 69),
    plain_dgl: (21, 99),
    embedding_step: (27, 129),
}


@pytest.mark.skipif(
    not ops.fast_backend(torch.device("cpu")), reason="needs compiled kernels"
)
@pytest.mark.parametrize("case", MOST, ids=lambda case: case.__name__)
def test_batch_passes_few_files(case):
    # Models and loaders that other tests left behind change what a batch passes.
    found = json.loads(run_script(Path(__file__), case.__name__)[-1])
    if found is None:
        pytest.skip(f"{case.__name__}: its host is not installed")
    files, changes = len({*found}), switches(found)
    print(f"\n{case.__name__}: {files} files, {changes} switches, {len(found)} calls")
    most_files, most_switches = MOST[case]
    assert files <= most_files, sorted({*found})
    assert changes <= most_switches


if __name__ == "__main__":
    os.environ["GTTF_COMPILE"] = "here"  # not beside the batches that are counted
    (chosen,) = (case for case in MOST if case.__name__ == sys.argv[1])
    try:
        print(json.dumps(path(chosen())))
    except pytest.skip.Exception:
        print("null")
