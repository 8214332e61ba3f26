"""Temporal draws: uniform, latest or weighted, among exactly what is admissible."""

from itertools import combinations
from operator import mul

import pytest
import torch

from all_pairs import all_pairs
from exact import assert_frequencies, graph, proportional, successive
from exact import one_thread as one_thread
from gttf_sampler import (
    EdgeWeightBias,
    NoRevisitBias,
    TemporalBias,
    sample_rooted,
    traverse,
)

N = 20_000  # walkers per seed time
TIMES = [5, 10, 10, 20, 20, 30]
WEIGHTS = [3.0, 1.0, 0.0, 2.0, 4.0, 1.0]
DTYPES = pytest.mark.parametrize(
    "dtype", [torch.int32, torch.int64, torch.float32, torch.float64]
)

# seed time, window → the slots of TIMES that are admissible
ADMISSIBLE = [
    (4, None, []),
    (5, None, [0]),
    (9, None, [0]),
    (10, None, [0, 1, 2]),
    (19, None, [0, 1, 2]),
    (20, None, [0, 1, 2, 3, 4]),
    (99, None, [0, 1, 2, 3, 4, 5]),
    (20, 0, [3, 4]),
    (20, 9.5, [3, 4]),
    (20, 10, [1, 2, 3, 4]),
    (20, 14.5, [1, 2, 3, 4]),
    (20, 15, [0, 1, 2, 3, 4]),
    (15, 4, []),
    (15, 5, [1, 2]),
    (30, 1e6, [0, 1, 2, 3, 4, 5]),
]


def ones(path, node, neighborhood):
    return torch.ones_like(neighborhood.neighbor)


def timeline(dtype=torch.int64):
    """Node 1 has an edge for each of TIMES; the rows beside its own have times too."""
    rows = [[1, 1], [0, 2, 3, 4, 5, 6], [1], [1], [1], [1], [1]]
    time = torch.tensor([0, 99, *TIMES, 1, 7, 8, 20, 21], dtype=dtype)
    weight = torch.tensor([9.0, 9.0, *WEIGHTS, *[9.0] * 5])
    return graph(rows, edge_time=time, edge_weight=weight)


def draws(adj, seed_time, fanout, *, replace=True, product=False, **options):
    """Slots [N, f] that walkers with this seed time draw from the row of node 1."""
    bias = TemporalBias(
        torch.full((N,), seed_time, dtype=adj.edge_time.dtype), **options
    )
    seeds = torch.ones(N, dtype=torch.long)
    bias = bias * ones if product else bias
    forest = traverse(adj, seeds, [fanout], bias, replace=replace, generator=1)
    edge = forest.edges[1]
    assert bool((forest.nodes[1][edge < 0] == -1).all())
    return edge.where(edge < 0, edge - adj.rowptr[1])


def sets(slots, size):
    """All subsets of the slots of a size, equally likely; padded with -1 if short."""
    subsets = list(combinations(slots, min(size, len(slots))))
    padding = (-1,) * (size - min(size, len(slots)))
    return {subset + padding: 1 / len(subsets) for subset in subsets}


@all_pairs
@DTYPES
@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize(("seed_time", "window", "slots"), ADMISSIBLE)
def test_temporal_uniform_over_the_admissible(dtype, product, seed_time, window, slots):
    options = {"window": window, "product": product}
    found = draws(timeline(dtype), seed_time, 1, **options)
    assert_frequencies(found, sets(slots, 1))


@all_pairs
@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(("seed_time", "window", "slots"), ADMISSIBLE[3:])
def test_temporal_distinct_sets(product, size, seed_time, window, slots):
    options = {"window": window, "product": product, "replace": False}
    found = draws(timeline(), seed_time, size, **options)
    inside = found.where(found >= 0, 99).sort(1).values
    assert_frequencies(inside.where(inside < 99, -1), sets(slots, size))


@all_pairs
@DTYPES
@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize(("seed_time", "window", "slots"), ADMISSIBLE)
def test_temporal_last_takes_exactly_the_latest(dtype, size, seed_time, window, slots):
    options = {"window": window, "strategy": "last", "replace": False}
    found = draws(timeline(dtype), seed_time, size, **options)
    latest = slots[-size:]
    expected = latest + [-1] * (size - len(latest))
    assert found.equal(torch.tensor(expected).expand(N, -1))


@pytest.mark.parametrize(("seed_time", "window", "slots"), ADMISSIBLE[3:8])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_temporal_last_with_replacement_draws_from_the_latest(
    size, seed_time, window, slots
):
    options = {"window": window, "strategy": "last", "replace": True}
    found = draws(timeline(), seed_time, size, **options)
    latest = slots[-size:]
    for column in found.split(1, dim=1):
        assert_frequencies(column, {(slot,): 1 / len(latest) for slot in latest})


def test_temporal_last_is_refused_in_a_product():
    """The number of latest entries depends on the fanout, unknown to weights."""
    with pytest.raises(ValueError, match="must be a bias whose weights say all"):
        draws(timeline(), 20, 2, strategy="last", replace=False, product=True)


@pytest.mark.parametrize(
    "left", [ones, EdgeWeightBias(), NoRevisitBias(), EdgeWeightBias() * ones]
)
def test_temporal_last_is_refused_on_the_right_of_a_product(left):
    with pytest.raises(ValueError, match="must be a bias whose weights say all"):
        mul(left, TemporalBias([20], strategy="last"))


@all_pairs
@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize(
    ("seed_time", "window", "slots"), [case for case in ADMISSIBLE if case[2]]
)
def test_temporal_weighted(product, replace, seed_time, window, slots):
    options = {"window": window, "weighted": True, "product": product}
    size = 1 if replace else 2
    drawn = draws(timeline(), seed_time, size, replace=replace, **options)
    weights = [WEIGHTS[slot] if slot in slots else 0.0 for slot in range(6)]
    if replace:
        exact = proportional({(slot,): weight for slot, weight in enumerate(weights)})
    else:
        missing = (-1,) * (2 - min(2, sum(weight > 0 for weight in weights)))
        exact = {found + missing: p for found, p in successive(weights, 2).items()}
    assert_frequencies(drawn, exact)


def test_temporal_times_edge_weights_is_weighted():
    adj, time = timeline(), torch.full((N,), 20)
    bias = EdgeWeightBias() * TemporalBias(time)
    forest = traverse(adj, torch.ones_like(time), [1], bias, generator=2)
    weights = {(slot,): weight for slot, weight in enumerate(WEIGHTS[:5])}
    assert_frequencies(forest.edges[1] - adj.rowptr[1], proportional(weights))


def test_temporal_weighted_without_admissible_weight_stops():
    adj = graph([[0, 0]], edge_time=torch.tensor([1, 2]), edge_weight=[0.0, 1.0])
    forest = traverse(adj, [0], [1], TemporalBias([1], weighted=True))
    assert forest.nodes[1].tolist() == [[-1]]


@pytest.mark.parametrize("base", [1 << 53, 1 << 60, -(1 << 60)])
def test_temporal_large_integers_are_not_rounded(base):
    time = torch.tensor([base, base + 1, base + 2])
    adj = graph([[0, 0, 0]], edge_time=time)
    for seed, window, slots in [(0, None, [0]), (1, None, [0, 1]), (2, 1, [1, 2])]:
        bias = TemporalBias([base + seed], window=window)
        trees = sample_rooted(adj, [0], [-1], bias=bias)
        assert trees.edge.tolist() == slots


@DTYPES
def test_temporal_rooted_all_takes_the_admissible(dtype):
    adj = timeline(dtype)
    for window in (None, 0, 9.5, 10, 15, 4):
        cases = [(time, slots) for time, w, slots in ADMISSIBLE if w == window]
        seed_time = torch.tensor([time for time, _ in cases], dtype=dtype)
        bias = TemporalBias(seed_time, window=window)
        trees = sample_rooted(adj, [1] * len(cases), [-1], bias=bias)
        found = [
            (trees.edge[trees.col == tree] - adj.rowptr[1]).tolist()
            for tree in range(len(cases))
        ]
        assert found == [slots for _, slots in cases]


@pytest.mark.parametrize(
    ("strategy", "product"), [("uniform", False), ("uniform", True), ("last", False)]
)
@pytest.mark.parametrize("rooted", [False, True])
def test_temporal_the_seed_governs_at_every_hop(strategy, product, rooted):
    # 0 → 1 at time 1, then 1 → 2, 3, 4 at times 3, 7, 9. Trees of two times alternate:
    # the time of the first edge would admit nothing, that of another seed too much.
    time = torch.tensor([1, 3, 7, 9])
    adj = graph([[1], [2, 3, 4], [], [], []], edge_time=time)
    bias = TemporalBias(torch.tensor([4, 8]).repeat(N), strategy=strategy)
    bias = bias * ones if product else bias
    seeds = torch.zeros(2 * N, dtype=torch.long)
    if rooted:
        trees = sample_rooted(adj, seeds, [1, 1], bias=bias, generator=3)
        second = trees.edge[2 * N :]
    else:
        second = traverse(adj, seeds, [2, 1], bias, generator=3).edges[2]
    early, late = second.view(N, 2, -1).unbind(1)
    assert_frequencies(early.reshape(-1, 1), {(1,): 1.0})
    latest = {(2,): 1.0} if strategy == "last" else {(1,): 1 / 2, (2,): 1 / 2}
    assert_frequencies(late.reshape(-1, 1), latest)
