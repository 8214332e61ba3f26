"""CommunitySampler: an order of seeds by communities, mixed."""

import pytest
import torch

from gttf_sampler import CommunitySampler

PART = torch.arange(60) % 6 * 10  # any numbers will do


def test_order_keeps_mixed_communities_together():
    torch.manual_seed(0)
    sampler = CommunitySampler(PART, mix=2)
    first, second = list(sampler), list(sampler)
    assert len(sampler) == 60
    assert sorted(first) == sorted(second) == list(range(60))
    assert first != second
    for order in (first, second):
        for start in range(0, 60, 20):
            parts = [PART[i].item() for i in order[start : start + 20]]
            assert len(set(parts)) == 2
            assert len(set(parts[:10])) == 2  # shuffled, not one after another


def test_positions_are_uniform_over_epochs():
    """Every seed is as often in front as any other, in standard errors."""
    sampler = CommunitySampler(PART, 2, generator=torch.Generator().manual_seed(1))
    rounds, front = 3_000, torch.zeros(60)
    for _ in range(rounds):
        front[list(sampler)[:20]] += 1
    share = 1 / 3
    error = (share * (1 - share) / rounds) ** 0.5
    assert ((front / rounds - share).abs() < 5 * error).all()


def test_follows_its_generator():
    orders = [
        list(CommunitySampler(PART, generator=torch.Generator().manual_seed(seed)))
        for seed in (3, 3, 4)
    ]
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize(
    ("how", "error", "match"),
    [
        ({"part": [0.5]}, TypeError, "'part' must have dtype"),
        ({"mix": 0}, ValueError, "'mix' must be"),
        ({"generator": 3}, TypeError, "'generator' must be"),
    ],
)
def test_validate(how, error, match):
    with pytest.raises(error, match=match):
        CommunitySampler(**({"part": PART} | how))
    assert list(CommunitySampler([])) == []
