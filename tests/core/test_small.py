"""Small batches: one call, one workspace, results of their own."""

import gc
import threading
import weakref

import pytest
import torch

from gttf_sampler import CompactAdj
from gttf_sampler._backends.memory import Workspace
from gttf_sampler._backends.numba.small import MOST_EDGES
from gttf_sampler.rooted import RootedSampler

pytest.importorskip("numba", reason="numba is missing")

NODES = 500


def make_sampler(**options) -> RootedSampler:
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(0, NODES, (2, 5000), generator=generator)
    return RootedSampler(
        CompactAdj.from_edge_index(edge_index, NODES), [4, 3], **options
    )


def draw(sampler: RootedSampler, seeds: torch.Tensor, key: int):
    return sampler.sample({"": seeds}, {}, key)


def workspaces(sampler: RootedSampler) -> list[Workspace]:
    idle = sampler.plan.pools[0]._idle.values()
    return [x for some in idle for x in some.items if isinstance(x, Workspace)]


def test_graphs_go_with_the_last_who_has_them():
    sampler = make_sampler()
    draw(sampler, torch.arange(9), 7)
    alive = weakref.ref(sampler.plan.relations[0].adj)
    gc.disable()
    try:
        del sampler
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("disjoint", [False, True])
def test_one_workspace_serves_batches_of_any_size(disjoint):
    sampler = make_sampler(disjoint=disjoint)
    sizes = [1, 300, 2, 0, 40]
    found = [draw(sampler, torch.arange(size), 7) for size in sizes]
    (workspace,) = workspaces(sampler)
    room = workspace.space.size
    for size, batch in zip(sizes, found, strict=True):  # not written over meanwhile
        alone = draw(make_sampler(disjoint=disjoint), torch.arange(size), 7)
        assert torch.equal(batch.node, alone.node)
        assert torch.equal(batch.row, alone.row)
    draw(sampler, torch.arange(300), 8)
    (same,) = workspaces(sampler)
    assert same is workspace
    assert workspace.space.size == room


def test_nodes_ends_and_edges_have_memory_of_their_own():
    """Sharing one of them with a process must not move the others."""
    batch = draw(make_sampler(), torch.arange(9), 7)
    parts = batch.node, batch.row, batch.edge
    assert len({part.untyped_storage().data_ptr() for part in parts}) == 3
    places = [part.untyped_storage().data_ptr() for part in (batch.row, batch.col)]
    assert places[0] == places[1]


def test_many_seeds_after_few_make_no_large_workspace():
    sampler = make_sampler()
    draw(sampler, torch.arange(2), 7)
    many = torch.zeros(MOST_EDGES + 1, dtype=torch.int64)
    assert draw(sampler, many, 7).node.numel() > MOST_EDGES
    (workspace,) = workspaces(sampler)
    assert workspace.space.size < MOST_EDGES


@pytest.mark.parametrize("wrong", [-1, NODES])
@pytest.mark.parametrize("count", [3, 100_000], ids=["small", "large"])
def test_seeds_that_are_no_nodes_are_refused(wrong, count):
    sampler, seeds = make_sampler(), torch.zeros(count, dtype=torch.int64)
    seeds[count // 2] = wrong
    with pytest.raises(ValueError, match=f"'seeds' must .* \\(got {wrong}"):
        draw(sampler, seeds, 7)
    assert draw(sampler, seeds.clamp(0, 5), 7).node.numel() >= count


def test_threads_have_workspaces_of_their_own():
    sampler = make_sampler()
    expected = [draw(sampler, torch.arange(50), key).row.sum() for key in range(200)]
    found: dict[int, torch.Tensor] = {}

    def work(first: int) -> None:
        for key in range(first, 200, 4):
            found[key] = draw(sampler, torch.arange(50), key).row.sum()

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[key] for key in range(200)] == expected
    assert 1 <= len(workspaces(sampler)) <= 4
