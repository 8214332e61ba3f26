"""DGL still has the private names that `gttf_dgl._compat` has gathered."""

import dgl
import pytest
import torch

from gttf_dgl import _compat


@pytest.fixture
def g():
    made = dgl.graph(([0, 1], [1, 2]))
    made.ndata["x"] = torch.eye(3)
    return made


def test_graphs_and_frames(g):
    for name in _compat.OF_GRAPHS:
        assert hasattr(g, name), name
    for name in _compat.OF_FRAMES:
        assert hasattr(g._node_frames[0], name), name


@pytest.mark.parametrize("typed", [False, True])
def test_datasets(typed):
    ids = (
        {"b": torch.tensor([5, 6]), "a": torch.tensor([7])}
        if typed
        else torch.arange(3)
    )
    sampler = dgl.dataloading.NeighborSampler([1])
    kinds = {("a", "r", "b"): ([0], [1])}
    g = dgl.heterograph(kinds) if typed else dgl.graph(([0], [1]))
    loader = dgl.dataloading.DataLoader(g, ids, sampler, batch_size=2)
    assert isinstance(loader.dataset, _compat.DATASETS)
    for name in _compat.OF_DATASETS:
        assert hasattr(loader.dataset, name), name
    assert isinstance(loader.collate_fn, _compat.CollateWrapper)
    assert loader.collate_fn.sample_func == sampler.sample
    assert isinstance(loader.worker_init_fn, _compat.WorkerInitWrapper)
    assert loader.worker_init_fn.func is None
    seeds, names, shuffles = _compat.seeds_of(loader.dataset)
    assert len(seeds) == 3
    assert not shuffles
    found = _compat.named_seeds(seeds[:2], names)
    found = found["b"] if typed else found
    assert found.tolist() == ([5, 6] if typed else [0, 1])


def test_graphs_are_rebuilt(g):
    block = dgl.to_block(g, torch.tensor([1, 2]))
    for kind, graph in ((_compat.DGLBlock, block), (dgl.DGLGraph, g)):
        again = _compat.rebuilt(kind, graph)
        assert type(again) is kind
        assert again.canonical_etypes == graph.canonical_etypes
        assert again.num_edges() == 2
        again.dstdata["y"] = torch.ones(again.num_dst_nodes())
        assert "y" in graph.dstdata  # they share their data
