"""A thread in the place of worker processes: when, and what it leaves behind."""

import gc
import multiprocessing
import os
import weakref

import pytest
import torch
from torch.utils.data import SequentialSampler
from torch_geometric.data import Data
from torch_geometric.datasets import KarateClub
from torch_geometric.sampler import NegativeSampling

from gttf_pyg import GTTFLinkLoader, GTTFLoader, GTTFSampler
from gttf_sampler import (
    AttentionBias,
    EdgeWeightBias,
    LADIESBias,
    NoRevisitBias,
)
from gttf_sampler.bench.machine import resident
from resumed import gone, threads

KARATE = KarateClub()[0]
TWO = {"num_workers": 2, "batch_size": 5}


def same(batch):
    return batch


def uniform(path, node, neighborhood):
    return torch.ones(neighborhood.edge.numel())


class OwnLoader(GTTFLoader):
    def filter_fn(self, out):
        return super().filter_fn(out)


class OwnSampler(GTTFSampler):
    pass


class OwnNegatives(NegativeSampling):
    def sample(self, num_samples, endpoint, num_nodes=None):
        return torch.zeros(num_samples, dtype=torch.int64)


@pytest.fixture(autouse=True)
def no_workers_of_earlier_tests():
    """Torch waits for processes wherever the collector finds them: not in a thread."""
    gc.collect()


def weighted():
    data = KARATE.clone()
    data.w = torch.rand(156)
    return data


@pytest.mark.parametrize(
    ("options", "thread"),
    [
        ({}, True),
        ({"normalize": "unbiased"}, True),
        ({"device": "cpu", "persistent_workers": True}, True),
        ({"multiprocessing_context": "spawn", "prefetch_factor": 1}, True),
        ({"sampler": SequentialSampler(range(34))}, True),
        ({"neighbor_sampler": GTTFSampler(KARATE, [2])}, True),
        ({"exclude_edges": [0, 1]}, True),
        ({"transform": same}, False),
        ({"transform": same, "normalize": "paper"}, False),
        ({"transform_sampler_output": same}, False),
        ({"worker_init_fn": same}, False),
        ({"bias": uniform}, False),
        ({"bias": AttentionBias(lambda u, v: torch.ones(len(u)))}, False),
        ({"bias": NoRevisitBias()}, False),  # these two note what they have seen
        ({"bias": LADIESBias(3)}, False),
        ({"neighbor_sampler": OwnSampler(KARATE, [2])}, False),
        ({"thread_workers": False}, False),
        ({"transform": same, "thread_workers": True}, True),
        ({"bias": uniform, "thread_workers": True}, True),
    ],
)
def test_a_thread_unless_workers_run_code_of_the_user(options, thread):
    assert GTTFLoader(KARATE, [2], **TWO, **options).in_thread() == thread


@pytest.mark.process
@pytest.mark.parametrize("thread", [True, False])
def test_who_has_no_thread_has_processes(thread):
    before = set(multiprocessing.active_children())  # an earlier test's may linger
    loader = GTTFLoader(KARATE, [2], transform=same, thread_workers=thread, **TWO)
    batches = iter(loader)
    next(batches)
    assert bool(threads()) == thread
    assert bool(set(multiprocessing.active_children()) - before) != thread
    loader._iterator = None
    del batches
    assert gone()


def test_which_loaders_have_a_thread():
    assert GTTFLoader(weighted(), [2], weight_attr="w", **TWO).in_thread()
    bias = EdgeWeightBias() * EdgeWeightBias()
    assert GTTFLoader(weighted(), [2], weight_attr="w", bias=bias, **TWO).in_thread()
    assert not OwnLoader(KARATE, [2], **TWO).in_thread()
    assert not GTTFLoader(KARATE, [2]).in_thread()
    for negatives, thread in (("binary", True), (OwnNegatives("triplet"), False)):
        loader = GTTFLinkLoader(KARATE, [2], neg_sampling=negatives, **TWO)
        assert loader.in_thread() == thread
    loader = GTTFLoader(KARATE, [2], **TWO)
    assert loader.in_thread()
    with loader.enable_memory_log():
        assert not loader.in_thread()
    assert loader.in_thread()
    loader.transform = same
    assert not loader.in_thread()


def test_validate():
    with pytest.raises(TypeError, match=r"'thread_workers' must be .* \(got 'no'\)"):
        GTTFLoader(KARATE, [2], thread_workers="no", **TWO)


def test_loader_goes_with_its_iterator():
    loader = GTTFLoader(KARATE, [2], persistent_workers=True, **TWO)
    batches = iter(loader)
    next(batches)
    alive = weakref.ref(loader)
    del loader, batches
    assert gone()
    gc.collect()  # PyG's loader and its collate_fn hold each other
    assert alive() is None


def test_several_iterators_at_once():
    torch.manual_seed(0)
    one, other = [list(GTTFLoader(KARATE, [2], seed=s, **TWO)) for s in (1, 2)]
    loaders = [GTTFLoader(KARATE, [2], seed=seed, **TWO) for seed in (1, 2)]
    turns = list(zip(*loaders, strict=True))
    for (a, b), c, d in zip(turns, one, other, strict=True):
        assert torch.equal(a.e_id, c.e_id)
        assert torch.equal(b.e_id, d.e_id)
    loader = GTTFLoader(KARATE, [2], persistent_workers=True, **TWO)
    pairs = list(zip(loader, loader, strict=True))  # with processes they are one
    assert len(pairs) == 7
    assert any(not torch.equal(a.e_id, b.e_id) for a, b in pairs)


def test_gradients_as_where_the_loop_is():
    data = KARATE.clone()
    data.x.requires_grad_()
    loader = GTTFLoader(data, [2], **TWO)
    assert next(iter(loader)).x.requires_grad
    with torch.no_grad():
        assert not next(iter(loader)).x.requires_grad


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
def test_epochs_that_are_left_early_do_not_fill_the_memory():
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(0, 3000, (2, 30_000), generator=generator)
    data = Data(x=torch.zeros(3000, 64), edge_index=index)
    loader = GTTFLoader(data, [9], batch_size=200, seed=0, num_workers=2)

    def run(times):
        for _ in range(times):
            for _ in loader:
                break
        assert gone()
        gc.collect()

    run(30)
    before = resident()
    run(150)
    assert resident() - before < 8 << 20
