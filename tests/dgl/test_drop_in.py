"""The names that scripts import from DGL."""

import dgl
import numpy as np
import pytest
import torch

import gttf_dgl
from all_pairs import all_pairs
from gttf_dgl import GTTFSampler, MultiLayerFullNeighborSampler, sample_neighbors


def graph(idtype=torch.int64):
    g = dgl.graph(([1, 2, 3, 4, 0, 0], [0, 0, 0, 2, 2, 3]), idtype=idtype)
    g.ndata["x"], g.edata["w"] = torch.rand(5, 2), torch.arange(6.0)
    g.edata["m"] = torch.arange(6) % 2 == 0
    return g


def typed():
    kinds = {
        ("a", "r", "a"): ([0, 1, 2], [1, 1, 1]),
        ("b", "to", "a"): ([0, 1], [1, 0]),
    }
    return dgl.heterograph(kinds)


@pytest.mark.parametrize("name", ["NeighborSampler", "MultiLayerNeighborSampler"])
def test_samplers_are_what_the_loader_takes(name):
    sampler = getattr(gttf_dgl, name)([2, 2], edge_dir="in", prob="w")
    assert isinstance(sampler, dgl.dataloading.BlockSampler)
    loader = dgl.dataloading.DataLoader(graph(), torch.arange(5), sampler, batch_size=2)
    assert all(len(blocks) == 2 for _, _, blocks in loader)


def test_full_neighbor_sampler_takes_all():
    blocks = MultiLayerFullNeighborSampler(2, edge_dir="in").sample(
        graph(), torch.tensor([0, 2])
    )[2]
    expected = GTTFSampler([-1, -1]).sample(graph(), torch.tensor([0, 2]))[2]
    assert [b.num_edges() for b in blocks] == [b.num_edges() for b in expected]


@all_pairs
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("edge_dir", ["in", "out"])
@pytest.mark.parametrize("nodes", [[0, 2], torch.tensor([0, 2]), 2, torch.tensor(2)])
def test_sample_neighbors_has_the_edges_of_dgl(edge_dir, nodes, idtype):
    g = graph(idtype)
    if isinstance(nodes, torch.Tensor):
        nodes = nodes.to(idtype)
    ours = sample_neighbors(g, nodes, -1, edge_dir)
    theirs = dgl.sampling.sample_neighbors(g, nodes, -1, edge_dir)
    assert ours.num_nodes() == theirs.num_nodes()
    assert ours.idtype == theirs.idtype
    assert sorted(ours.edata[dgl.EID].tolist()) == sorted(
        theirs.edata[dgl.EID].tolist()
    )
    assert ours.edata.keys() == theirs.edata.keys()
    assert ours.ndata.keys() == theirs.ndata.keys()
    for one, other in zip(ours.edges(), g.find_edges(ours.edata[dgl.EID]), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(ours.edata["w"], g.edata["w"][ours.edata[dgl.EID].long()])
    assert torch.equal(ours.ndata["x"], g.ndata["x"])


def test_sample_neighbors_draws_as_many_as_asked():
    g = graph()
    assert sample_neighbors(g, [0, 3], 2).in_degrees().tolist() == [2, 0, 0, 1, 0]
    assert sample_neighbors(g, [0, 3], 4, replace=True).num_edges() == 8
    assert sample_neighbors(g, [0], 3, prob="m").edata[dgl.EID].tolist() == [0, 2]
    hidden = sample_neighbors(g, [0], -1, exclude_edges=torch.tensor([1]))
    assert hidden.edata[dgl.EID].tolist() == [0, 2]
    bare = sample_neighbors(g, [0], -1, copy_ndata=False, copy_edata=False)
    assert list(bare.ndata) == []
    assert list(bare.edata) == [dgl.EID]
    one, other = (sample_neighbors(g, [0, 2], 1, generator=5) for _ in range(2))
    assert torch.equal(one.edata[dgl.EID], other.edata[dgl.EID])


def test_sample_neighbors_of_several_types():
    g = typed()
    found = sample_neighbors(g, {"a": [1]}, {"r": 2, "to": -1})
    assert found.num_edges("r") == 2
    assert found.edges["to"].data[dgl.EID].tolist() == [0]
    assert found.ntypes == g.ntypes
    with pytest.raises(dgl.DGLError, match="'nodes' must map node types to ids"):
        sample_neighbors(g, [1], 2)
    with pytest.raises(dgl.DGLError, match="'fanout' must name every edge type"):
        sample_neighbors(g, {"a": [1]}, {"r": 2})


def test_sample_neighbors_is_uniform():
    count = 20_000  # stars side by side
    centre = torch.arange(0, 9 * count, 9)
    leaves = (centre[:, None] + torch.arange(1, 9)).view(-1)
    g = dgl.graph((leaves, centre.repeat_interleave(8)))
    eid = sample_neighbors(g, centre, 3, generator=1).edata[dgl.EID]
    hits = torch.bincount(eid % 8, minlength=8)
    expected = 3 / 8
    error = (expected * (1 - expected) / count) ** 0.5
    assert ((hits / count - expected).abs() < 5 * error).all()


@pytest.mark.parametrize(("formats", "edge_dir"), [("csc", "in"), ("csr", "out")])
def test_sample_neighbors_of_a_graph_in_one_format(formats, edge_dir):
    g = graph().formats([formats])
    found = sample_neighbors(g, np.array([0, 2]), -1, edge_dir)
    whole = sample_neighbors(graph(), [0, 2], -1, edge_dir)
    assert torch.equal(found.edata[dgl.EID], whole.edata[dgl.EID])
    assert all(map(torch.equal, found.edges(), whole.edges()))


def test_sample_neighbors_names_its_own_arguments():
    with pytest.raises(dgl.DGLError, match="'exclude_edges' must map edge types"):
        sample_neighbors(typed(), {"a": [1]}, 1, exclude_edges=[0])
    with pytest.raises(ValueError, match="'fanout' must hold integers"):
        sample_neighbors(graph(), [0], 1.5)
