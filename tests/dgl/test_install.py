"""Every import line of DGL, and our samplers in the place of its own."""

import dgl
import pytest
import torch

import gttf_dgl
import gttf_dgl.dataloading
import gttf_dgl.sampling

ROOMS = [
    (dgl.dataloading, gttf_dgl.dataloading),
    (dgl.sampling, gttf_dgl.sampling),
]


@pytest.mark.parametrize(("host", "ours"), ROOMS, ids=["dataloading", "sampling"])
def test_module_has_every_public_name_of_the_host(host, ours):
    for name, theirs in vars(host).items():
        if not name.startswith("_") and callable(theirs):
            found = getattr(ours, name)
            own = found.__module__.startswith("gttf_dgl")
            assert own or found is theirs, name
            assert getattr(gttf_dgl, name) is found
    assert "NeighborSampler" in gttf_dgl.dataloading.__all__
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        _ = ours.Nonsense


def test_install_and_back():
    g, host = dgl.rand_graph(50, 300), dgl.dataloading
    before, method = host.NeighborSampler, dgl.DGLGraph.sample_neighbors
    with gttf_dgl.installed():
        assert host.NeighborSampler is gttf_dgl.NeighborSampler
        loader = host.DataLoader(g, torch.arange(50), host.NeighborSampler([3, 3]))
        assert isinstance(loader, gttf_dgl.DataLoader)
        assert len(next(iter(loader))[2]) == 2
        assert g.sample_neighbors([1], 2).num_nodes() == 50
        assert dgl.sampling.random_walk is gttf_dgl.random_walk
    assert host.NeighborSampler is before
    assert dgl.DGLGraph.sample_neighbors is method
