"""NegativeSampler: the alias table is exact, and draws are the same everywhere."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from exact import assert_frequencies, graph, one_thread  # noqa: F401
from gttf_sampler import CompactAdj, use_backend
from gttf_sampler.objectives import NegativeSampler
from gttf_sampler.objectives.base import alias_table
from strategies import BACKENDS

ROWS = [[1, 2, 3, 4], [0], [0, 1], [], [0, 0, 1, 2, 3, 3, 4, 4, 4]]
POWERS = pytest.mark.parametrize("power", [0, 0.5, 0.75, 1.0, 2.5])


def with_degrees(degrees):
    degree = torch.as_tensor(degrees)
    row = torch.arange(len(degree)).repeat_interleave(degree)
    edges = torch.stack([row, torch.zeros_like(row)])
    return CompactAdj.from_edge_index(edges, len(degree), direction="out")


def powers_of(degrees, power):
    weight = torch.as_tensor(degrees).double() ** power
    return weight / weight.sum()


@POWERS
def test_negatives_frequencies(power):
    nodes = NegativeSampler(graph(ROWS), power).draw(200_000, generator=0)
    exact = powers_of([len(row) for row in ROWS], power).tolist()
    assert_frequencies(nodes[:, None], {(v,): p for v, p in enumerate(exact) if p})


@POWERS
@given(degrees=st.lists(st.integers(0, 9), min_size=1, max_size=40))
def test_negatives_table_is_exact(power, degrees):
    sampler = NegativeSampler(with_degrees(degrees), power)
    expected = powers_of(degrees if any(degrees) else [1] * len(degrees), power)
    torch.testing.assert_close(sampler.probability, expected, rtol=1e-9, atol=1e-12)
    assert bool((sampler.probability[expected == 0] == 0).all())


@given(parts=st.lists(st.integers(0, 50), min_size=1, max_size=40))
def test_alias_table_keeps_every_mass(parts):
    """In integers: own shares plus what others hand over is the mass, to the last."""
    bits, size = 10, len(parts)
    left = size << bits
    mass = [part * left // (sum(parts) + 1) for part in parts]
    mass[0] += left - sum(mass)
    share, alias = alias_table(torch.tensor(mass), bits)
    assert bool((share >= 0).all())
    assert bool((share <= 1 << bits).all())
    total = share.index_add(0, alias, (1 << bits) - share)
    assert total.tolist() == mass


def test_negatives_of_a_star_with_a_million_leaves():
    degrees = torch.ones(1_000_001, dtype=torch.int64)
    degrees[-1] = 1_000_000
    sampler = NegativeSampler(with_degrees(degrees))
    hub = powers_of(degrees, 0.75)[-1].item()
    nodes = sampler.draw(100_000, generator=1)
    share = (nodes == 1_000_000).double().mean().item()
    assert abs(share - hub) < 5 * (hub * (1 - hub) / 100_000) ** 0.5
    assert sampler.probability[-1].item() == pytest.approx(hub, rel=1e-9)


def test_negatives_are_independent():
    pairs = NegativeSampler(graph(ROWS)).draw((100_000, 2), generator=2)
    chance = powers_of([len(row) for row in ROWS], 0.75).tolist()
    alive = [v for v, row in enumerate(ROWS) if row]
    exact = {(u, v): chance[u] * chance[v] for u in alive for v in alive}
    assert_frequencies(pairs, exact)


def test_negatives_are_the_same_everywhere(device):
    found = []
    for backend in BACKENDS:
        with use_backend(backend):
            torch.manual_seed(3)
            found.append(NegativeSampler(graph(ROWS)).draw((50, 3)))
    with device():
        torch.manual_seed(3)
        moved = graph(ROWS).to("cuda")
        drawn = NegativeSampler(moved).draw((50, 3))
        assert drawn.device.type == "cuda"
        found.append(drawn.cpu())
    for other in found[1:]:
        assert torch.equal(torch.as_tensor(other), found[0])


def test_negatives_do_not_wait_for_the_device(device):
    with device() as gpu:
        sampler = NegativeSampler(graph(ROWS).to("cuda"))
        gpu.syncs.clear()
        sampler.draw((50, 3), generator=0)
        assert not gpu.syncs


def test_negatives_do_not_depend_on_how_many_are_asked_for():
    sampler = NegativeSampler(graph(ROWS))
    few, many = (sampler.draw(count, generator=7) for count in (3, 30))
    assert torch.equal(few, many[:3])
    assert sampler.draw(0).shape == (0,)
    assert sampler.draw((2, 0, 3)).shape == (2, 0, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NegativeSampler([[0], [0]]), "'adj' must be a CompactAdj"),
        (lambda: NegativeSampler(graph([])), "'adj' must have nodes to draw from"),
        (lambda: NegativeSampler(graph(ROWS), -1), "'power' must lie between 0 and 4"),
        (
            lambda: NegativeSampler(graph(ROWS), float("nan")),
            "'power' must lie between",
        ),
        (lambda: NegativeSampler(graph(ROWS), "x"), "'power' must be a number"),
        (lambda: NegativeSampler(graph(ROWS)).draw(-1), "'shape' must not be negative"),
        (lambda: NegativeSampler(graph(ROWS)).draw(2.5), "'shape' must be"),
    ],
)
def test_negatives_validate(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_negatives_repr():
    assert (
        repr(NegativeSampler(graph(ROWS))) == "NegativeSampler(5 nodes ∝ degree^0.75)"
    )
