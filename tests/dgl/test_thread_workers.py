"""A thread in the place of DGL's worker processes: when, and in which order."""

import copy
import gc
import multiprocessing
import pickle

import dgl
import pytest
import torch
from dgl.dataloading import as_edge_prediction_sampler, negative_sampler

from cases import as_table
from gttf_dgl import DataLoader, GTTFSampler, GTTFSubgraphSampler, NeighborSampler
from gttf_sampler import LADIESBias, Node2VecBias, NoRevisitBias
from resumed import gone, threads

THEIRS = dgl.dataloading.DataLoader
NODES = 60


@pytest.fixture(scope="module")
def g():
    torch.manual_seed(0)
    made = dgl.graph(tuple(torch.randint(NODES, (2, 600))), num_nodes=NODES)
    made.ndata["feat"] = torch.rand(NODES, 70)
    made.edata["age"] = torch.rand(600)
    return made


@pytest.fixture(autouse=True)
def no_workers_of_earlier_tests():
    """Torch waits for processes wherever the collector finds them: not in a thread."""
    gc.collect()


def uniform(path, node, neighborhood):
    return torch.ones(neighborhood.edge.numel())


def nothing(worker):
    pass


class OwnSampler(GTTFSampler):
    def sample(self, g, seed_nodes, exclude_eids=None):
        return super().sample(g, seed_nodes, exclude_eids)


class OwnBlocks(GTTFSampler):
    def sample_blocks(self, g, seed_nodes, exclude_eids=None):
        return super().sample_blocks(g, seed_nodes, exclude_eids)


class OwnLoader(dgl.dataloading.DataLoader):
    pass


def edges(sampler=None, **options):
    return as_edge_prediction_sampler(sampler or GTTFSampler([2]), **options)


@pytest.mark.parametrize(
    ("sampler", "options", "thread"),
    [
        (GTTFSampler([2], prob="age"), {}, True),
        (NeighborSampler([2]), {"persistent_workers": True}, True),
        (GTTFSubgraphSampler([2]), {"shuffle": True}, True),
        (GTTFSampler([2], thread_workers=False), {}, False),
        (GTTFSampler([2], bias=uniform), {}, False),
        (GTTFSampler([2], bias=uniform, thread_workers=True), {}, True),
        (OwnSampler([2]), {}, False),
        (OwnBlocks([2]), {}, False),
        (GTTFSampler([2]), {"worker_init_fn": nothing}, False),
        (GTTFSampler([2]), {}, True),
        (GTTFSampler([2]), {"thread_workers": False}, False),
        (edges(exclude="self"), {}, True),
        (edges(GTTFSampler([2], thread_workers=False)), {}, False),
        (edges(exclude=lambda ids: ids), {}, False),
        (edges(negative_sampler=negative_sampler.Uniform(1)), {}, False),
        (dgl.dataloading.NeighborSampler([2]), {}, False),
    ],
)
def test_a_thread_unless_workers_run_other_code(g, sampler, options, thread):
    how = {"batch_size": 16, "num_workers": 2, **options}
    loader = DataLoader(g, torch.arange(NODES), sampler, **how)
    assert isinstance(loader, THEIRS)
    assert loader.in_thread() == thread


@pytest.mark.process
@pytest.mark.parametrize(
    ("kind", "asked", "thread"),
    [
        (THEIRS, True, False),
        (OwnLoader, None, False),
        (DataLoader, None, True),
        (DataLoader, False, False),
    ],
)
def test_who_has_no_thread_has_processes(g, kind, asked, thread):
    sampler = GTTFSampler([2], thread_workers=asked)
    before = set(multiprocessing.active_children())  # an earlier test's may linger
    loader = kind(g, torch.arange(NODES), sampler, batch_size=16, num_workers=2)
    batches = iter(loader)
    next(batches)
    assert bool(threads()) == thread
    assert bool(set(multiprocessing.active_children()) - before) != thread
    loader._iterator = None
    del batches
    assert gone()


def test_biases_that_note_something_have_processes(g):
    for bias in (NoRevisitBias(), LADIESBias(3)):
        sampler = GTTFSampler([2], bias=bias, rooted=True)
        assert not DataLoader(g, torch.arange(4), sampler, num_workers=1).in_thread()
    sampler = GTTFSampler([2], bias=Node2VecBias(0.5, 2.0), rooted=True)
    assert DataLoader(g, torch.arange(4), sampler, num_workers=1).in_thread()


def test_validate(g):
    for make in (GTTFSampler, GTTFSubgraphSampler):
        with pytest.raises(TypeError, match="'thread_workers' must be"):
            make([2], thread_workers="no")
    with pytest.raises(TypeError, match="'thread_workers' must be"):
        DataLoader(g, torch.arange(4), GTTFSampler([2]), thread_workers="no")


@pytest.mark.process
def test_batches_of_types_and_their_order_are_those_of_processes():
    ends = {("u", "r", "i"): (torch.arange(9), torch.arange(9) % 4)}
    typed = dgl.heterograph(ends)
    ids = {"u": torch.arange(9), "i": torch.arange(4)}
    found = []
    for thread in (None, False):
        torch.manual_seed(1)
        sampler = GTTFSampler([2, 2], thread_workers=thread)
        loader = DataLoader(typed, ids, sampler, batch_size=3, num_workers=2)
        found.append([(str(seeds), as_table(blocks)) for _, seeds, blocks in loader])
    assert found[0] == found[1]


def test_loaders_that_start_together_count_their_epochs_in_order(g):
    """The thread that happens to be faster must not decide."""

    def run(workers):
        sampler = GTTFSampler([3], seed=5)
        how = {"batch_size": 20, "num_workers": workers}
        loaders = [DataLoader(g, torch.arange(NODES), sampler, **how) for _ in range(4)]
        return [
            [as_table(part[2]) for part in parts]
            for parts in zip(*loaders, strict=True)
        ]

    assert run(1) == run(1) == run(0)


def test_loader_travels(g):
    how = {"batch_size": 20, "num_workers": 1}
    loader = DataLoader(g, torch.arange(NODES), GTTFSampler([3], seed=1), **how)
    expected = [as_table(blocks) for _, _, blocks in copy.deepcopy(loader)]
    again = pickle.loads(pickle.dumps(loader))
    assert again.in_thread()
    assert [as_table(blocks) for _, _, blocks in again] == expected
