"""Memory of results is used again, but never while anybody can see it."""

import gc
import os
from typing import Any

import pytest
import torch

from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    TemporalBias,
    sample_rooted,
    traverse,
)
from gttf_sampler._backends import memory
from gttf_sampler.bench.machine import PeakMemory, resident
from gttf_sampler.rooted import RootedSampler

pytest.importorskip("numba", reason="numba is missing")


@pytest.fixture(scope="module")
def adj() -> CompactAdj:
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(0, 20_000, (2, 400_000), generator=generator)
    return CompactAdj.from_edge_index(edge_index, 20_000)


SEEDS = torch.arange(2000)


def test_memory_of_a_result_in_use_is_left_alone(adj):
    kept = sample_rooted(adj, SEEDS, [5, 5], generator=1)
    before = [x.clone() for x in (kept.node, kept.row, kept.col, kept.edge)]
    for number in range(2, 30):
        sample_rooted(adj, SEEDS, [5, 5], generator=number)
    after = (kept.node, kept.row, kept.col, kept.edge)
    assert all(map(torch.equal, before, after))


@pytest.mark.parametrize(
    "hold",
    [
        lambda sub: sub.row[7:9000],
        lambda sub: sub.row.numpy(),
        lambda sub: sub.row.view(-1, 1).t(),
        lambda sub: torch.utils.data.default_collate([sub.row[:9000]])[0],
        lambda sub: sub.row.untyped_storage(),
    ],
)
def test_memory_is_held_by_whatever_shares_it(adj, hold):
    held = hold(sample_rooted(adj, SEEDS, [5, 5], generator=1))
    before = torch.as_tensor(held[100:2000]).clone()
    gc.collect()
    for number in range(2, 30):
        sample_rooted(adj, SEEDS, [5, 5], generator=number)
        traverse(adj, SEEDS, [5, 5], generator=number)
    assert torch.equal(torch.as_tensor(held[100:2000]), before)


def test_memory_of_a_result_gone_serves_again(adj):
    memory.IDS.idle.items.clear()
    places = set()
    for number in range(12):
        sub = sample_rooted(adj, SEEDS, [5, 5], generator=number)
        places |= {x.data_ptr() for x in (sub.node, sub.row, sub.col, sub.edge)}
        del sub
    assert len(places) <= 8  # two batches, as one is made before the other is dropped


def test_memory_does_not_grow(adj):
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("needs /proc")
    for number in range(200):
        sample_rooted(adj, SEEDS[: 500 + number], [5, 5], generator=number)
    before = resident()
    for number in range(2000):
        sample_rooted(adj, SEEDS[: 500 + number % 1500], [5, 5], generator=number)
    assert resident() - before < 20e6


def test_memory_idle_is_bounded():
    for _ in range(100):
        memory.give_back(memory.np.empty(memory.IDS.small, memory.np.int64))
    assert len(memory.IDS.idle.items) <= memory.IDS.idle.kept


def test_memory_of_a_small_result_is_small():
    """Whatever the fanouts might have found."""
    path = CompactAdj.from_edge_index([[0, 1, 2], [1, 2, 3]])
    sub = sample_rooted(path, [3], [-1, -1])
    assert sub.row.untyped_storage().nbytes() < 10_000


def test_memory_of_the_caller_is_not_kept():
    edge_index = torch.tensor([[1, 0], [0, 1]], dtype=torch.int32)
    seeds = torch.tensor([0, 1])
    weight, time = torch.tensor([1.0, 2.0]), torch.tensor([3, 4])
    adj = CompactAdj.from_edge_index(edge_index, edge_weight=weight, edge_time=time)
    forest = traverse(adj, seeds, [1])
    for given in (edge_index, seeds, weight, time):
        given.zero_()
    assert adj.col.tolist() == [1, 0]
    assert adj.edge_weight.tolist() == [1.0, 2.0]
    assert adj.edge_time.tolist() == [3, 4]
    assert forest.nodes[0].view(-1).tolist() == [0, 1]


def test_memory_of_one_wide_tree(adj):
    """Scratch is for the seeds there are, not for a block of them: 120 MB."""
    traverse(adj, [0], [3, 4, 1], generator=0)
    with PeakMemory() as memory:
        traverse(adj, [0], [300, 400, 1], generator=0)
    assert memory.beyond < 30 << 20


def test_memory_of_the_largest_room_serves_again():
    """Borrowed at the limit, it is a bit larger than that, and kept all the same."""
    memory.IDS.idle.items.clear()
    array = memory.borrow(memory.IDS.large)
    memory.give_back(array)
    assert memory.borrow(memory.IDS.large) is array
    memory.give_back(memory.borrow(2 * memory.IDS.large))
    assert all(idle is array for idle in memory.IDS.idle.items)


MODES = {
    "plain": {},
    "replace": {"replace": True},
    "disjoint": {"disjoint": True},
    "weighted": {"bias": EdgeWeightBias()},
    "hidden": {"bias": ExcludeBias(torch.arange(100))},
    "times": {"bias": TemporalBias},
    "typed": {"typed": True},
    "typed disjoint": {"typed": True, "disjoint": True},
}


@pytest.mark.parametrize("size", [64, 2000], ids=["small", "large"])
@pytest.mark.parametrize("mode", MODES)
def test_memory_of_a_batch_is_all_that_it_takes(mode, size):
    """In the long run not even that: pages come from batches that are gone."""
    resource = pytest.importorskip("resource", reason="pages are counted on Unix")
    how = dict(MODES[mode])
    bias, typed = how.pop("bias", None), how.pop("typed", False)
    nodes, edges = 20_000, 400_000
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, nodes, (2, edges), generator=generator)
    columns = {"edge_weight": torch.rand(edges), "edge_time": torch.arange(edges)}
    rows: Any = CompactAdj.from_edge_index(ends, nodes, **columns)
    if typed:
        back = CompactAdj.from_edge_index(ends.flip(0), nodes)
        rows = {("a", "to", "a"): rows, ("b", "to", "a"): back, ("a", "by", "b"): back}
    sampler = RootedSampler(rows, [10, 5], **how)

    def draw(number: int) -> Any:
        seeds: Any = (torch.arange(size) * 7 + number * 13) % nodes
        own = bias
        if bias is TemporalBias:
            own = TemporalBias(torch.full((size,), edges // 2))
        seeds = {"a": seeds} if typed else seeds
        return sampler(seeds, bias=own, generator=number)

    def pages() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    for number in range(30):
        found = draw(number)
    before = pages()
    for number in range(30, 60):
        found = draw(number)
    new = (pages() - before) * resource.getpagesize() / 30
    parts = [x for x in vars(found).values() if isinstance(x, torch.Tensor | dict)]
    own = [y for x in parts for y in (x.values() if isinstance(x, dict) else [x])]
    result = sum(x.nbytes for x in own if isinstance(x, torch.Tensor))
    assert result > 500 * size
    assert new < result / 4
