"""A partitioned graph gives the batches of one machine, bit for bit."""

import os
import resource
import shutil
from multiprocessing import get_context

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from distributed_tasks import (
    MACHINES,
    features,
    large,
    one_by_one,
    opens,
    refuses,
    resident,
    transform_fails,
    two_at_once,
    typed,
    uneven,
)
from gttf_sampler import CompactAdj
from gttf_sampler.distributed import partition
from strategies import graphs, hetero
from worlds import World

SIZES = (1, 2, 3, 4)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    # spawned: pages that a fork shares would count where memory is compared
    spawn, folder = get_context("spawn"), tmp_path_factory.mktemp("world")
    found = World(max(SIZES), folder, spawn)
    yield found
    found.close()


def methods(data, size, parts):
    """Ranges, hashes, or any parts at all."""
    one = st.integers(0, parts - 1)
    anyhow = st.lists(one, min_size=size, max_size=size)
    return data.draw(
        st.sampled_from(["range", "hash"])
        | anyhow.map(lambda numbers: np.array(numbers, np.int64))
    )


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=graphs(), size=st.sampled_from(SIZES), data=st.data())
def test_batches_are_those_of_one_machine(world, tmp_path_factory, graph, size, data):
    adj, path = graph.adj(), tmp_path_factory.mktemp("cut")
    share = data.draw(st.sampled_from([0.0, 0.3]))
    method = methods(data, adj.num_rows, size)
    partition(adj, path, size, method=method, replicate=share)
    one = st.integers(0, max(adj.num_rows - 1, 0))
    seeds = data.draw(st.lists(one, max_size=6))
    key = data.draw(st.integers(0, 1 << 40))
    done = world.run(one_by_one, size, path, adj, seeds, key)
    assert sum(done) > 0


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    graph=st.booleans().flatmap(lambda t: hetero(timed=t, weighted=t)),
    size=st.sampled_from(SIZES),
    share=st.sampled_from([0.0, 0.3]),
    data=st.data(),
)
def test_typed_batches_are_those_of_one_machine(
    world, tmp_path_factory, graph, size, share, data
):
    adjs, path = graph.adjs(), tmp_path_factory.mktemp("cut")
    ends = {end for kind in adjs for end in (kind[0], kind[2])}
    method = {end: methods(data, graph.sizes[end], size) for end in sorted(ends)}
    if any(isinstance(each, str) for each in method.values()):
        method = "hash"
    partition(adjs, path, size, method=method, replicate=share)
    seeds = {kind: ids for kind, ids in graph.seeds.items() if kind in ends}
    times = torch.arange(sum(map(len, seeds.values()))) % 4
    key = data.draw(st.integers(0, 1 << 40))
    done = world.run(typed, size, path, adjs, seeds, times, key)
    assert sum(done) > 0


@pytest.mark.parametrize("method", ["range", "hash", "one has all"])
def test_features_are_those_of_one_machine(world, tmp_path, method):
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, 300, (2, 3000), generator=generator)
    adj = CompactAdj.from_edge_index(ends, 300)
    floats = torch.randn(300, 33, generator=generator)
    values = {
        "x": floats,
        "half": floats.half()[:, :3].contiguous(),
        "wide": torch.arange(300 * 500, dtype=torch.float64).view(300, 500),
        "y": torch.arange(300) * 3,
        "mask": floats[:, 0] > 0,
        "bytes": torch.arange(300 * 5).to(torch.uint8).view(300, 5),
        "image": floats[:, :12].reshape(300, 3, 2, 2),
        "nothing": torch.empty(300, 0),
    }
    book = np.zeros(300, np.int64) if method == "one has all" else method
    partition(adj, tmp_path, max(SIZES), method=book, features=values)
    for machines in MACHINES:
        asked = 0
        for told in world.run(features, tmp_path, values, 7, machines):
            hits, misses, text = told[0]
            asked += misses
            if misses:
                rate = f"{hits / (hits + misses):.0%}"
                assert hits > 0
                assert f"{rate} of others' rows in the cache" in text
        assert (asked > 0) == (len(set(machines)) > 1)


@pytest.fixture
def cut(tmp_path):
    """A graph and its parts."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, 100, (2, 1000), generator=generator)
    adj = CompactAdj.from_edge_index(ends, 100)
    partition(adj, tmp_path / "cut", max(SIZES), method="hash")
    return adj, tmp_path / "cut"


@pytest.mark.parametrize("direct", [False, True])
def test_processes_need_not_have_as_many_batches(world, cut, direct):
    adj, path = cut
    assert world.run(uneven, path, adj, [7, 0, 30, 1], direct) == [7, 0, 30, 1]


def test_two_graphs_and_two_threads(world, cut):
    adj, path = cut
    assert world.run(two_at_once, path, adj) == [20] * 4


@pytest.mark.parametrize("direct", [False, True])
def test_an_exception_is_told_to_all(world, cut, direct):
    told = world.run(transform_fails, cut[1], direct)
    assert told[1] == "ValueError: a transform has failed"
    for rank in (0, 2, 3):
        said = "PeerError: rank 1 has failed: ValueError: a transform has failed"
        assert told[rank] == said


def test_what_needs_the_rows_is_refused(world, cut):
    for said in world.run(refuses, cut[1]):
        assert "Node2VecBias" in said[0]
        assert all(
            text.endswith("open the whole graph as a CompactAdj") for text in said
        )


def test_wrong_and_missing_parts(world, cut, tmp_path):
    adj, path = cut
    other, broken = tmp_path / "other", tmp_path / "broken"
    partition(adj, other, max(SIZES), method="range")
    shutil.copytree(path, broken)
    (missing,) = broken.glob("cut-*/part-2")
    shutil.rmtree(missing)
    told = world.run(opens, [broken] * 4)
    assert "must be the header of a part" in told[2]
    for rank in (0, 1, 3):
        assert told[rank].startswith("PeerError: rank 2 could not open the graph")
    told = world.run(opens, [path, path, other, path])
    assert all("has opened another graph" in said for said in told)
    few = tmp_path / "few"
    partition(adj, few, 2)
    told = world.run(opens, [few] * 4)
    assert "must be one of the 2 parts" in told[2]
    assert "must be cut into as many parts" in told[0]
    assert world.run(opens, [path] * 4) == ["no error"] * 4


def test_a_graph_of_a_million_edges(world, tmp_path):
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, 100_000, (2, 1_000_000), generator=generator)
    weight = torch.rand(1_000_000, generator=generator)
    adj = CompactAdj.from_edge_index(ends, 100_000, edge_weight=weight)
    adj.save(tmp_path / "whole")
    partition(adj, tmp_path / "cut", max(SIZES), method="hash", replicate=0.01)
    found = world.run(large, tmp_path / "cut", tmp_path / "whole")
    assert min(found) > 40_000


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
@pytest.mark.parametrize("method", ["range", "hash"])
def test_a_part_of_two_takes_half_the_memory(world, tmp_path, method):
    """Resident pages, with all that is mapped read once."""
    generator, places = torch.Generator().manual_seed(0), []
    for nodes in (1000, 300_000):
        folder = tmp_path / str(nodes)
        col = torch.randint(nodes, (16 * nodes,), generator=generator)
        rowptr = torch.arange(nodes + 1) * 16
        adj = CompactAdj.from_csr(rowptr, col.to(torch.int32))
        values = torch.rand(nodes, 100, generator=generator).numpy()
        adj.save(folder / "whole")
        np.save(folder / "x.npy", values)
        partition(adj, folder / "cut", 2, method=method, features={"x": values})
        places.append((folder / "cut", folder / "whole", folder / "x.npy"))
    *parts, whole, _ = world.run(resident, *places)
    assert whole * resource.getpagesize() > values.nbytes + 4 * col.numel()
    assert max(parts) <= 0.55 * whole, [part / whole for part in parts]
