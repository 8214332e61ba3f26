"""The same batches for any number of workers and threads; nothing is left behind."""

import copy
import gc
import os
import pickle
import time
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import WeightedRandomSampler
from torch_geometric.data import Data
from torch_geometric.datasets import KarateClub

from apart import forks
from gttf_pyg import GTTFLinkLoader, GTTFLoader, ShaDowKHopSampler
from gttf_sampler import EdgeWeightBias, FastGCNBias, LADIESBias
from gttf_sampler.bench.machine import resident
from makers import BESIDE, KARATE, NEIGHBORS, link_loader, node_loader, numbers, typed
from reference import assert_consistent


def epochs(loader: Any, count: int = 2) -> list[Any]:
    return [[numbers(batch) for batch in loader] for _ in range(count)]


AHEAD = [{"prefetch": depth} for depth in (1, 2, 100)]
ONE = {"num_workers": 1, "filter_per_worker": False}
TWO = {"num_workers": 2, "persistent_workers": True, "prefetch_factor": 1}
FOUR = {"num_workers": 4, "timeout": 60, "multiprocessing_context": "spawn"}
PROCESSES = [{**way, "thread_workers": False} for way in (ONE, TWO)]
WAYS = [{}, ONE, TWO, FOUR, *PROCESSES]


@pytest.mark.process
@pytest.mark.parametrize(
    ("make", "ways"),
    [
        (node_loader, [*WAYS, *AHEAD]),
        (link_loader, WAYS),
        (typed, WAYS),
        *(
            (make, [{}, {"num_workers": 1, "thread_workers": True}, PROCESSES[1]])
            for make in BESIDE
        ),
    ],
)
def test_workers_give_the_same_batches(make, ways):
    """In every epoch, and wherever features are gathered."""
    found = []
    for options in ways:
        loader = make(**options)
        torch.manual_seed(7)
        found.append(epochs(loader))
        loader._iterator = None  # ends the workers at once; collecting a cycle waits
    assert all(other == found[0] for other in found[1:])
    assert found[0][0] != found[0][1]  # another epoch, another draw


@pytest.mark.process
def test_workers_that_are_spawned():
    torch.manual_seed(7)
    expected = epochs(node_loader(), 1)
    torch.manual_seed(7)
    how = {"multiprocessing_context": forks(), "thread_workers": False}
    loader = node_loader(num_workers=1, **how)
    assert epochs(loader, 1) == expected


@pytest.mark.parametrize("make", NEIGHBORS)
def test_threads_give_the_same_batches(make):
    """D4: for types as well."""
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            loader = make()
            torch.manual_seed(7)
            found.append(epochs(loader))
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_seed_and_generator_govern_everything():
    def run(**options: Any) -> list[Any]:
        torch.manual_seed(int.from_bytes(os.urandom(4), "big"))
        return epochs(link_loader(**options))

    assert run(seed=4) == run(generator=torch.Generator().manual_seed(4))
    assert run(seed=4) == run(seed=4, num_workers=1)
    assert run(seed=4) != run(seed=5)


def test_unseeded_batches_differ():
    """Two batches with the same seeds are different draws, also within an epoch."""
    loader = GTTFLoader(KARATE, [1], torch.zeros(40, dtype=torch.int64), batch_size=1)
    assert len({int(batch.e_id) for batch in loader}) > 5
    assert len({int(loader([0]).e_id) for _ in range(40)}) > 5


def test_workers_of_a_drawn_input():
    """A sampler of torch that repeats nodes."""
    found = []
    for workers in (0, 2):
        torch.manual_seed(1)
        sampler = WeightedRandomSampler(torch.rand(34), 60)
        loader = GTTFLoader(
            KARATE, [2, 2], sampler=sampler, batch_size=20, num_workers=workers
        )
        batches = list(loader)
        for batch in batches:
            assert_consistent(batch, KARATE)
        found.append([numbers(batch) for batch in batches])
    assert found[0] == found[1]


@pytest.mark.skipif(
    "__reduce__" not in vars(torch.Generator),
    reason="torch pickles no generator before 2.4",
)
@pytest.mark.parametrize("make", [*NEIGHBORS, *BESIDE])
def test_loader_pickles(make):
    loader = make(seed=2)
    expected = epochs(make(seed=2), 1)
    for other in (pickle.loads(pickle.dumps(loader)), copy.copy(make(seed=2))):
        assert epochs(other, 1) == expected


@pytest.mark.parametrize("make", [*NEIGHBORS, *BESIDE])
def test_loader_refuses_a_generator_that_is_none(make):
    with pytest.raises(TypeError, match="'generator' must be a torch"):
        make(generator=3)


def weighted(path, node, neighborhood):
    return EdgeWeightBias()(path, node, neighborhood)


@pytest.mark.process
@pytest.mark.parametrize("kind", ["nodes", "per worker", "links", "shadow"])
def test_workers_that_persist_end_with_their_loader(kind):
    """Not with a cycle that is left to the collector, which waits seconds for each."""
    data = Data(x=torch.rand(40, 2), edge_index=torch.randint(40, (2, 200)))
    how = {"batch_size": 20, "num_workers": 1, "persistent_workers": True}
    how["thread_workers"] = False
    gc.collect()
    gc.disable()
    try:
        if kind == "shadow":
            loader = ShaDowKHopSampler(data, 2, 3, **how)
        elif kind == "links":
            loader = GTTFLinkLoader(data, [2, 2], **how)
        else:
            loader = GTTFLoader(data, [2], filter_per_worker=kind != "nodes", **how)
        for _ in range(2):
            assert len(list(loader)) == len(loader)
        gone = weakref.ref(loader)
        workers = loader._iterator._workers if kind != "nodes" else None
        workers = workers or loader._iterator.iterator._workers
        assert all(worker.is_alive() for worker in workers)
        start = time.monotonic()
        del loader
        assert gone() is None
        assert time.monotonic() - start < 4  # torch waits five for a worker
        assert not any(worker.is_alive() for worker in workers)
    finally:
        gc.enable()


def test_collate_fn_outlives_its_loader():
    data = KarateClub()[0]
    loader = GTTFLoader(data, [3, 3], batch_size=8)
    taken = loader.collate_fn
    torch.manual_seed(0)
    before = taken(torch.arange(8))
    del loader
    gc.collect()
    torch.manual_seed(0)
    after = taken(torch.arange(8))
    assert after.n_id.equal(before.n_id)
    torch.manual_seed(1)
    seen = [batch.input_id for batch in GTTFLoader(data, [3], batch_size=8)]
    assert torch.cat(seen).equal(torch.arange(34))


@pytest.mark.process
def test_workers_with_weights_and_times(tmp_path):
    data = KARATE.clone()
    generator = torch.Generator().manual_seed(0)
    data.w = torch.rand(156, generator=generator)
    data.edge_time = torch.randint(0, 9, (156,), generator=generator)
    data.disk = np.memmap(tmp_path / "x.bin", np.float32, "w+", shape=(34, 3))
    data.disk[:] = np.arange(102.0).reshape(34, 3)
    nodes = torch.arange(34)
    found = []
    for workers in (0, 2):
        torch.manual_seed(5)
        loader = GTTFLoader(
            data,
            [3, 3],
            nodes,
            torch.full_like(nodes, 6),
            time_attr="edge_time",
            weight_attr="w",
            bias=weighted,
            batch_size=9,
            num_workers=workers,
        )
        batches = list(loader)
        for batch in batches:
            expected = torch.from_numpy(np.asarray(data.disk)[batch.n_id])
            assert torch.equal(batch.disk, expected)
        found.append([numbers(batch) for batch in batches])
    assert found[0] == found[1]


def missing():
    raise AssertionError("a worker would have to make this")


def test_workers_share_the_tables_of_the_graph():
    """They are made before the workers are, and travel with the graph."""
    data = KARATE.clone()
    data.w = torch.rand(156, generator=torch.Generator().manual_seed(0))
    options = {"weight_attr": "w", "exclude_edges": True}
    loader = GTTFLinkLoader(data, [2, 2], num_workers=1, **options)
    sampler = pickle.loads(pickle.dumps(loader.link_sampler))
    (adj,) = sampler.adjs.values()
    for table in ("weight_table", "sorted_col", "sorted_order"):
        adj.cached(table, missing)
    state = torch.get_rng_state()
    typed(num_workers=1)
    assert torch.equal(torch.get_rng_state(), state)  # nothing was drawn for it


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
def test_memory_does_not_grow():
    """Not over 2,000 batches of some twenty kilobytes."""
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(0, 3000, (2, 30_000), generator=generator)
    data = Data(x=torch.zeros(3000, 16), edge_index=index)
    loader = GTTFLoader(data, [9], batch_size=20, shuffle=True, seed=0)

    def run(batches: int) -> None:
        while batches > 0:
            for _ in loader:
                batches -= 1

    run(300)
    gc.collect()
    before, objects = resident(), len(gc.get_objects())
    run(2000)
    gc.collect()
    assert resident() - before < 8 << 20
    assert len(gc.get_objects()) - objects < 100


@pytest.mark.parametrize("workers", [0, 1])
def test_two_loaders_side_by_side_draw_different_batches(workers):
    """Two views of one graph, as in contrastive training; the same for any workers."""

    def views(number):
        torch.manual_seed(3)
        loaders = [
            GTTFLoader(KARATE, [2, 2], batch_size=8, num_workers=number)
            for _ in range(2)
        ]
        return [(a.e_id, b.e_id) for a, b in zip(*loaders, strict=True)]

    found = views(workers)
    assert any(not torch.equal(a, b) for a, b in found)
    alone = views(0)
    for (a, b), (c, d) in zip(found, alone, strict=True):
        assert torch.equal(a, c)
        assert torch.equal(b, d)


@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_drawn_after_an_epoch_began_does_not_change_it(workers):
    def epoch(extra):
        torch.manual_seed(5)
        batches = iter(GTTFLoader(KARATE, [2, 2], batch_size=8, num_workers=workers))
        torch.rand(extra)
        return [batch.e_id for batch in batches]

    for a, b in zip(epoch(0), epoch(3), strict=True):
        assert torch.equal(a, b)


def test_every_bit_of_a_seed_counts():
    data = KarateClub()[0]

    def run(seed, **options):
        loader = GTTFLinkLoader(
            data, [2], neg_sampling="binary", batch_size=20, seed=seed, **options
        )
        return [batch.n_id.tolist() for batch in loader]

    assert run(1) == run(1)
    assert run(1) != run(1 + (1 << 32))
    assert run(1) != run(1 + (1 << 63))


def test_negatives_use_all_of_the_key():
    """Keys that share 32 bits draw apart."""
    from torch_geometric.sampler import NegativeSampling

    from gttf_pyg.negatives import KeyedNegatives

    for how in ({}, {"dst_weight": torch.ones(1000)}):
        negatives = NegativeSampling("triplet", **how)
        found = [
            KeyedNegatives(negatives, key).sample(50, "dst", 1000).tolist()
            for key in (5, 5 + (1 << 32), 5 + (1 << 63), 5)
        ]
        assert found[0] == found[3]
        assert len({tuple(some) for some in found}) == 3


@pytest.mark.process
@pytest.mark.parametrize("kind", [LADIESBias, FastGCNBias])
def test_layer_bias_is_governed_by_the_loader(kind):
    """Any number of workers, every epoch and every batch another draw."""

    def run(workers, seed=1, **options):
        loader = GTTFLoader(
            KarateClub()[0],
            [-1],
            torch.zeros(24, dtype=torch.int64),
            bias=kind(3),
            batch_size=1,
            seed=seed,
            num_workers=workers,
            **options,
        )
        return [[batch.n_id.tolist() for batch in loader] for _ in range(2)]

    first, second = run(0)
    assert [first, second] == run(1) == run(2)
    assert [first, second] == run(2, persistent_workers=True)
    assert first != second
    assert len({tuple(nodes) for nodes in first}) > 12
    assert run(0, seed=2) != [first, second]
