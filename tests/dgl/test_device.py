"""Graphs on a device, and pinned ones that a device reads in place."""

import dgl
import pytest
import torch
from dgl.heterograph import DGLBlock

from gttf_dgl import (
    GTTFSampler,
    GTTFSubgraphSampler,
    LaborSampler,
    ShaDowKHopSampler,
)
from gttf_dgl._source import Choice, Source
from gttf_dgl.labor import draw_shared
from gttf_sampler.bias import Variates

SEEDS = torch.tensor([3, 1, 7, 0])


def make_graph(idtype=torch.int64):
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, 59, (2, 600), generator=generator)
    g = dgl.graph(tuple(ends), num_nodes=60, idtype=idtype)
    g.ndata["x"] = torch.arange(120.0).view(60, 2).to(torch.bfloat16)
    g.edata["w"] = torch.rand(600, generator=generator)
    return g


def ids_of(result):
    """Every id of a batch, as lists."""
    input_nodes, _, made = result
    blocks = made if isinstance(made, list) else [made]
    edges = [block.edata[dgl.EID].tolist() for block in blocks]
    return input_nodes.tolist(), edges


def pinned(device, monkeypatch):
    """A graph as `use_uva=True` leaves it; DGL pins memory for a real device alone."""
    g = make_graph()
    if device.real:
        g.create_formats_()
        g.pin_memory_()
    else:
        monkeypatch.setattr(dgl.DGLGraph, "is_pinned", lambda self: True)
    return g


MAKE = {
    "plain": lambda: GTTFSampler([3, 2], seed=5),
    "weighted": lambda: GTTFSampler([3, -1], prob="w", seed=5),
    "replace": lambda: GTTFSampler([3, 2], replace=True, seed=5),
    "rooted": lambda: GTTFSampler([3, 2], rooted=True, seed=5),
    "normalize": lambda: GTTFSampler([3, 2], normalize="both", seed=5),
    "subgraph": lambda: GTTFSubgraphSampler([3, 2], seed=5),
    "labor": lambda: LaborSampler([3, 2], seed=5),
    "labor by weight": lambda: LaborSampler([3, 2], prob="w", seed=5),
    "labor by importance": lambda: LaborSampler([3], importance_sampling=1, seed=5),
    "shadow": lambda: ShaDowKHopSampler([3, 2], seed=5),
}


DATA_OF_BLOCKS = ("normalize", "labor by weight", "labor by importance")


@pytest.mark.parametrize("excluded", [None, torch.tensor([5, 6, 7, 70])])
@pytest.mark.parametrize("name", MAKE)
def test_device_reads_a_pinned_graph(device, monkeypatch, name, excluded):
    """DGL's `use_uva=True`: the graph is here, the seeds and the batch are there."""
    expected = ids_of(MAKE[name]().sample(make_graph(), SEEDS, excluded))
    if name in DATA_OF_BLOCKS and not device.real:
        pytest.skip("DGL's own arrays cannot be simulated; needs --device cuda")
    with device() as gpu:
        g = pinned(device, monkeypatch)
        result = MAKE[name]().sample(g, SEEDS.to("cuda"), excluded)
        assert result[0].is_cuda
        if not device.real:
            assert "map" in gpu.streams.notes
        assert ids_of(result) == expected


@pytest.mark.parametrize(("prob", "rounds"), [("w", 0), (None, 1), ("w", 1)])
def test_device_weighs_what_nodes_share(device, monkeypatch, prob, rounds):
    """LaborSampler's weights on a device, without DGL's blocks."""
    choice = Choice("in", prob).checked()

    def drawn(g, seeds):
        source = Source.of(g, choice, seeds=seeds)
        return draw_shared(source, {"_N": seeds}, [3], rounds, Variates.of(5))

    expected, weights = drawn(make_graph(), SEEDS)
    with device():
        found, own = drawn(pinned(device, monkeypatch), SEEDS.to("cuda"))
        (kind,) = own
        assert own[kind].is_cuda
        assert found.edge[kind].tolist() == expected.edge[kind].tolist()
        assert own[kind].tolist() == weights[kind].tolist()


def test_device_reads_a_pinned_graph_once(device, monkeypatch):
    """Rows are mapped once per graph; seeds that are there are not waited for."""
    with device.exact() as gpu:
        g, seeds = pinned(device, monkeypatch), SEEDS.to("cuda")
        sampler = GTTFSampler([3, 2], seed=5)
        sampler.sample(g, seeds)
        notes = list(gpu.streams.notes)
        gpu.syncs.clear()
        sampler.sample(g, seeds)
        later = gpu.streams.notes[len(notes) :]
        assert set(later) <= {"event on main"}  # behind the use of scratch tables
        assert len(gpu.syncs) == 2  # one per layer


def test_device_of_seeds_without_a_pinned_graph(monkeypatch, device):
    """As with any graph of the CPU: it is drawn there, and then moved."""
    moved = []
    monkeypatch.setattr(DGLBlock, "to", lambda self, at: moved.append(at) or self)
    with device():
        GTTFSampler([3, 2], seed=5).sample(make_graph(), SEEDS.to("cuda"))
    assert [at.type for at in moved] == ["cuda", "cuda"]


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("name", MAKE)
def test_device_of_a_graph(device, name, idtype):
    expected = ids_of(MAKE[name]().sample(make_graph(idtype), SEEDS.to(idtype)))
    if not device.real:
        pytest.skip("DGL's own arrays cannot be simulated; needs --device cuda")
    with device():
        try:
            g = make_graph(idtype).to("cuda")
        except dgl.DGLError as error:
            pytest.skip(f"this DGL has no CUDA: {str(error).splitlines()[0]}")
        result = MAKE[name]().sample(g, SEEDS.to("cuda", idtype))
        assert result[0].is_cuda
        assert result[0].dtype == idtype
        assert ids_of(result) == expected


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_blocks_have_the_ids_of_their_graph(idtype):
    """int32 graphs give int32 blocks, whose features may have half precision."""
    g = make_graph(idtype)
    sampler = GTTFSampler([3, 2], prefetch_node_feats=["x"], seed=5)
    loader = dgl.dataloading.DataLoader(g, SEEDS.to(idtype), sampler, batch_size=4)
    ((input_nodes, _, blocks),) = loader
    assert {block.idtype for block in blocks} == {input_nodes.dtype} == {idtype}
    assert blocks[0].edges()[0].dtype == idtype
    x = blocks[0].srcdata["x"]
    assert x.dtype == torch.bfloat16
    assert torch.equal(x, g.ndata["x"][input_nodes.long()])
