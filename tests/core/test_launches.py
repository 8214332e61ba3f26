"""Limits of launches and host syncs on an accelerator without fused kernels.

One limit per kind of work."""

import pytest
import torch

from gttf_sampler import (
    CompactAdj,
    DeepWalkAcc,
    EdgeWeightBias,
    TemporalBias,
    WYSAcc,
    sample_rooted,
    traverse,
    use_backend,
)
from gttf_sampler.objectives import transitions
from gttf_sampler.objectives.deepwalk import masses, path_counts
from simulated import Accelerator

NODES, EDGES, BATCH = 2_000, 30_000, 64
HOPS = [15, 10]
STEPS = 20


@pytest.fixture(scope="module")
def there():
    """A graph, three relations and seeds, all on the accelerator."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, NODES, (2, EDGES), generator=generator)
    weight = torch.rand(EDGES, generator=generator)
    time = torch.randint(0, 9, (EDGES,), generator=generator)
    seeds = torch.randint(0, NODES, (BATCH,), generator=generator)
    kinds = [("a", "r", "a"), ("a", "to", "b"), ("b", "of", "a")]
    with use_backend("torch"), Accelerator():
        adj = CompactAdj.from_edge_index(
            ends, NODES, edge_weight=weight, edge_time=time
        )
        typed = {
            kind: CompactAdj.from_edge_index(part, (NODES, NODES)).to("cuda")
            for kind, part in zip(kinds, ends.chunk(3, dim=1), strict=True)
        }
        return {
            "adj": adj.to("cuda"),
            "typed": typed,
            "seeds": seeds.to("cuda"),
            "time": (seeds % 9).to("cuda"),
            "key": torch.tensor(5).to("cuda"),  # what a captured step would count up
        }


def rooted(**how):
    """A batch of two hops."""

    def work(there):
        time = how.get("time")
        bias = TemporalBias(there["time"]) if time else how.get("bias")
        rest = {k: v for k, v in how.items() if k not in ("bias", "time")}
        sample_rooted(
            *(there["adj"], there["seeds"], HOPS),
            bias=bias,
            generator=there["key"] if how.get("padded") else 5,
            **rest,
        )

    return work


def typed(**how):
    """A batch of two hops over three relations."""

    def work(there):
        seeds, key = {"a": there["seeds"]}, there["key"] if how.get("padded") else 5
        sample_rooted(there["typed"], seeds, HOPS, generator=key, **how)

    return work


def forest(fanouts, bias=None, accumulate=None, **how):
    """A forest, and what is accumulated of it."""

    def work(there):
        traverse(
            *(there["adj"], there["seeds"], fanouts, bias, accumulate),
            generator=5,
            **how,
        )

    return work


RELATIONS = 3
LIMITS = {  # work: (operations, of so many hops or steps, syncs)
    "rooted": (rooted(), 120, len(HOPS), 2),
    "rooted, unchecked": (rooted(validate=False), 120, len(HOPS), 2),
    "rooted, replaced": (rooted(replace=True), 120, len(HOPS), 2),
    "rooted, disjoint": (rooted(disjoint=True), 140, len(HOPS), 2),
    "rooted, by weight, replaced": (
        rooted(bias=EdgeWeightBias(), replace=True),
        *(120, len(HOPS), 2),
    ),
    # eight per draw: each is made from the mass that the ones before have left
    "rooted, by weight": (rooted(bias=EdgeWeightBias()), 220, len(HOPS), 2),
    "rooted, by time": (rooted(time=True), 200, len(HOPS), 2),
    "rooted, typed": (typed(), 120, len(HOPS) * RELATIONS, 2),
    "padded": (rooted(padded=True), 150, len(HOPS), 0),
    "padded, replaced": (rooted(padded=True, replace=True), 130, len(HOPS), 0),
    "padded, typed": (typed(padded=True), 120, len(HOPS) * RELATIONS, 0),
    "forest": (forest(HOPS), 70, len(HOPS), 0),
    "forest, distinct": (forest(HOPS, replace=False), 90, len(HOPS), 0),
    "walk": (forest([1] * STEPS), 60, STEPS, 0),
}


@pytest.mark.parametrize("name", LIMITS)
def test_operations_and_syncs_stay_below_their_limits(there, name):
    work, limit, of, waits = LIMITS[name]
    with Accelerator() as gpu:
        work(there)  # what is made once per graph
        with gpu.counting():
            work(there)
    assert len(gpu.launches) <= limit * of
    assert len(gpu.syncs) == waits
    assert len(gpu.launches) > of  # something was counted


def test_counting_leaves_views_and_allocations_out():
    with Accelerator() as gpu:
        some = torch.arange(6, device="cuda")
        with gpu.counting():
            some.view(2, 3)[0].t()
            torch.empty_like(some)
            (some + 1).mul_(2)
            some.sort()
        assert gpu.launches == ["add", "mul_", "sort"]
        some + 1
    assert len(gpu.launches) == 3


@pytest.mark.parametrize("fanouts", [[1, 1], [3, 2]])
@pytest.mark.parametrize("contrast", ["partition", "logistic"])
def test_loss_of_a_forest_is_not_waited_for(there, contrast, fanouts):
    """Not by what the loss is computed from either; negatives are made once."""

    def work():
        loss = DeepWalkAcc(table, window=2, contrast=contrast)
        forest(fanouts, accumulate=loss)(there)
        return loss.result()

    with use_backend("torch"), Accelerator() as gpu:
        table = torch.rand(NODES, 4).to("cuda")
        work()
        with gpu.counting():
            work()
    assert gpu.launches
    assert gpu.syncs == []


def test_moves_to_another_tensor_are_waited_for():
    with Accelerator() as gpu:
        there = torch.zeros(2, dtype=torch.float64, device="cuda")
        found = torch.ones(3).to(there)
        assert (found.device.type, found.dtype) == ("cuda", torch.float64)
        assert gpu.syncs == ["to"]
        assert found.to(torch.ones(1)).device.type == "cpu"
        there.new_tensor([1.0])
    assert gpu.syncs == ["to", "to", "new_tensor"]


@pytest.mark.parametrize("counted", [masses, path_counts])
def test_what_pairs_count_is_not_waited_for(counted):
    weight = [torch.rand(3, 1) for _ in range(4)]
    with Accelerator() as gpu:
        moved = [level.to("cuda") for level in weight]
        with gpu.counting():
            found = counted(moved, 2)
    assert gpu.launches
    assert gpu.syncs == []
    assert found.as_subclass(torch.Tensor).equal(counted(weight, 2))


def test_loss_of_kernels_is_not_waited_for(monkeypatch):
    """Watch Your Step's, up to the pass over the pairs."""
    asked = []
    monkeypatch.setattr(transitions, "loss_of", lambda *args: asked.append(args[4]))
    with Accelerator() as gpu:
        table, context = torch.rand(9, 2).to("cuda"), torch.rand(2).to("cuda")
        seed, negative = (torch.zeros(3, k).long().to("cuda") for k in (1, 5))
        levels = [torch.zeros(3, k).long().to("cuda") for k in (2, 4)]
        weight = [torch.ones(3, k).to("cuda") for k in (2, 4)]
        loss = WYSAcc(table, table, context)
        with gpu.counting():
            loss._fused(seed, [*levels, negative], weight)
        assert gpu.syncs == []
        expected = context.softmax(0).cpu()[[0, 0, 1, 1, 1, 1]].repeat(3)
        assert asked[0].cpu().equal(torch.cat([expected, torch.full((1,), 0.2)]))
