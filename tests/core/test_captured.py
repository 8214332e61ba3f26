"""Batches replayed from a CUDA graph are those that are drawn one by one."""

import pytest
import torch

import compiled
from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    TemporalBias,
    sample_rooted,
    use_backend,
)
from gttf_sampler.rooted import CapturedSampler
from paper import PaperStreams

triton_launch = pytest.importorskip("gttf_sampler._backends.triton.launch")

FIELDS = ("node", "row", "col", "edge", "batch")
COUNTS = ("num_sampled_nodes", "num_sampled_edges")


@pytest.fixture(autouse=True)
def _kernels(device):
    """A graph is made of what runs as it would on a GPU."""
    if compiled.why_not() and not device.real:
        pytest.skip(compiled.why_not())
    with device(), use_backend("triton"):
        yield


def make_graph(nodes=40):
    generator = torch.Generator().manual_seed(2)
    ends = torch.randint(0, min(nodes, 40), (2, 200), generator=generator)
    weight, time = torch.rand(200, generator=generator), torch.arange(200) % 9
    return CompactAdj.from_edge_index(ends, nodes, edge_weight=weight, edge_time=time)


def plain(sub):
    """All arrays of a batch, as lists."""
    arrays = [getattr(sub, name) for name in (*FIELDS, *COUNTS)]
    found = []
    for value in arrays:
        parts = value.values() if isinstance(value, dict) else [value]
        found += [None if part is None else part.cpu().tolist() for part in parts]
    return found


SEEDS = [[3, 8, 3], [0, 39, 5], [7, 7, 1]]


@pytest.mark.compile
@pytest.mark.parametrize(
    ("how", "bias", "nodes"),
    [
        ({}, None, 40),
        ({"replace": True}, None, 40),
        ({"disjoint": True}, None, 40),
        ({}, EdgeWeightBias(), 40),
        ({}, None, 100_000),  # a hash table takes less than a cell per node
    ],
)
def test_replays_are_the_batches_of_their_seeds(device, how, bias, nodes):
    with device():
        adj = make_graph(nodes).to("cuda")
        sampler = CapturedSampler(adj, [3, 4], 3, bias=bias, **how)
        for key, seeds in enumerate(SEEDS):
            start = torch.tensor(seeds).to("cuda")
            found = plain(sampler(start, generator=key))
            expected = sample_rooted(
                *(adj, start, [3, 4]), bias=bias, padded=True, generator=key, **how
            )
            assert found == plain(expected)
        assert repr(sampler).startswith("CapturedSampler(3 seeds, PaddedSubgraph(room")


@pytest.mark.compile
def test_times_of_seeds_are_changed_in_place(device):
    with device():
        adj, time = make_graph().to("cuda"), torch.zeros(3, dtype=torch.long).to("cuda")
        bias = TemporalBias(time)
        bias.seed_time = time
        sampler = CapturedSampler(adj, [3, 4], 3, bias=bias)
        for key, seeds in enumerate(SEEDS):
            start = torch.tensor(seeds).to("cuda")
            time.copy_(start % 9)
            now = TemporalBias(time.clone())
            expected = sample_rooted(
                *(adj, start, [3, 4]), bias=now, padded=True, generator=key
            )
            assert plain(sampler(start, generator=key)) == plain(expected)


@pytest.mark.compile
def test_types_have_numbers_of_seeds(device):
    kinds = [("a", "r", "a"), ("a", "to", "b"), ("b", "of", "a")]
    with device():
        adjs = {kind: make_graph().to("cuda") for kind in kinds}
        sampler = CapturedSampler(adjs, [3, 4], {"a": 3, "b": 2})
        seeds = {"a": torch.tensor([1, 2, 1]), "b": torch.tensor([5, 0])}
        seeds = {name: own.to("cuda") for name, own in seeds.items()}
        key = torch.tensor(77).to("cuda")
        expected = sample_rooted(adjs, seeds, [3, 4], padded=True, generator=key)
        assert plain(sampler(seeds, generator=key)) == plain(expected)
        assert repr(sampler).startswith("CapturedSampler(3 a + 2 b seeds, Padded")


@pytest.mark.compile
def test_a_batch_is_one_launch_and_copies(device):
    with device.exact() as gpu:
        sampler = CapturedSampler(make_graph().to("cuda"), [3, 4], 3, validate=False)
        start = torch.tensor(SEEDS[0]).to("cuda")
        replayed, work = [], sampler._graph.work
        sampler._graph.replay = lambda: replayed.append(len(work))
        with gpu.counting(), triton_launch.counting() as kernels:
            sampler(start, generator=1)
        assert kernels == []
        assert replayed == [13]  # twelve kernels, and a table that is filled
        assert len(gpu.launches) <= 3
        assert gpu.syncs == []


def test_captured_sampler_validate(device):
    with pytest.raises(ValueError, match=r"'adj' must be on a GPU.*use RootedSampler"):
        CapturedSampler(make_graph(), [3, 4], 3)
    with device():
        adj = make_graph().to("cuda")
        with pytest.raises(ValueError, match="'num_seeds' must be"):
            CapturedSampler(adj, [3, 4], 0)
        sampler = CapturedSampler(adj, [3, 4], 3)
        few = torch.tensor([1]).to("cuda")
        with pytest.raises(
            ValueError, match=r"'seeds' must hold the number .* 3 \(got"
        ):
            sampler(few)


def test_streams_on_paper_capture_no_more_than_they_are_told():
    streams = PaperStreams()
    graph, out = streams.graph(), torch.zeros(2)
    with streams.capture(graph):
        twice = out * 2
    assert not streams.captures
    out += 3
    graph.replay()
    assert twice.tolist() == [6, 6]
