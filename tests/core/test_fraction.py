"""Shares of the degree, against exact chances."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch

from exact import assert_frequencies, copies, graph, successive
from exact import one_thread as one_thread
from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    FractionBias,
    LADIESBias,
    TemporalBias,
    sample_rooted,
    use_backend,
)

ROWS = [[1, 2, 3, 4, 5], [0, 0, 3], [], [4], [5, 1], [2]]


@pytest.mark.parametrize(
    ("share", "counts"),
    [(0.1, [1, 1, 0, 1, 1, 1]), (0.4, [2, 2, 0, 1, 1, 1]), (0.5, [3, 2, 0, 1, 1, 1])],
)
def test_fraction_takes_its_share_of_every_row(share, counts):
    adj = graph(ROWS)
    sub = sample_rooted(adj, range(6), [-1], bias=FractionBias([share]))
    assert torch.bincount(sub.col, minlength=6).tolist() == counts


def test_fraction_rounds_as_people_do():
    """0.1 · 30 is a little more than 3 in floats."""
    star = CompactAdj.from_edge_index([list(range(1, 31)), [0] * 30])
    for share, count in ((0.1, 3), (0.7, 21), (1 / 3, 10), (1.0, 30)):
        sub = sample_rooted(star, [0], [-1], bias=FractionBias([share]))
        assert sub.num_edges == count


def sets(rows, bias, weight=None):
    """The edges that the first rows of 1,500 graphs side by side draw, [1500, k]."""
    many = copies(rows, 1500)
    if weight is not None:
        many = replace(many, edge_weight=torch.tensor(weight).repeat(1500))
    seeds = len(rows) * torch.arange(1500)
    sub = sample_rooted(many, seeds, [-1], bias=bias, generator=0)
    edge = sub.edge[sub.col.argsort(stable=True)] % sum(map(len, rows))
    return edge.view(1500, -1).sort().values


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_fraction_draws_sets_uniformly(backend):
    if backend == "numba":
        pytest.importorskip("numba", reason="numba is not installed")
    with use_backend(backend):
        found = sets(ROWS, FractionBias([0.6]))
    assert_frequencies(found, dict.fromkeys(combinations(range(5), 3), 1 / 10))


def test_fraction_draws_by_weight():
    weight, bias = [1.0, 4.0, 0.0, 2.0, 1.0], FractionBias([0.5], EdgeWeightBias())
    found = sets([ROWS[0], [], [], [], [], []], bias, weight)
    assert_frequencies(found, successive(weight, 2))  # half of four


def test_fraction_counts_what_is_admitted():
    adj = CompactAdj.from_edge_index(
        [[1, 2, 3, 4], [0, 0, 0, 0]], edge_time=[1, 2, 3, 4]
    )
    times = [0, 1, 2, 4]
    bias = FractionBias([0.5], TemporalBias(times), disjoint=True)
    sub = sample_rooted(adj, [0] * 4, [-1], bias=bias, generator=0)
    assert torch.bincount(sub.col, minlength=4).tolist()[:4] == [0, 1, 1, 2]
    late = adj.edge_time[sub.edge] > torch.tensor(times)[sub.batch[sub.col]]
    assert not late.any()


def test_fraction_mixes_with_fanouts_and_repeats_for_copies():
    adj = graph([[(u + k) % 12 for k in range(1, 9)] for u in range(12)])
    sub = sample_rooted(
        adj, [0, 0], [-1, 3, -1], bias=FractionBias([0.25, None, None]), generator=3
    )
    first = sub.edge[sub.col == 0]
    assert torch.equal(first, sub.edge[sub.col == 1])
    assert sub.num_sampled_edges[0] == 4
    second = sub.num_sampled_edges[1] / sub.num_sampled_nodes[1]
    assert second == 3
    third = sub.num_sampled_edges[2] / sub.num_sampled_nodes[2]
    assert third == 8
    apart = FractionBias([0.25], disjoint=True)
    trees = sample_rooted(adj, [0] * 20, [-1], bias=apart, disjoint=True, generator=3)
    drawn = {tuple(trees.edge[trees.col == i].tolist()) for i in range(20)}
    assert len(drawn) > 1


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: FractionBias([0.0]), r"'shares' must be in \(0, 1\]"),
        (lambda: FractionBias([1.5]), "'shares' must be in"),
        (lambda: FractionBias(["half"]), "'shares' must be"),
        (lambda: FractionBias([0.5], LADIESBias(2)), "whose weights say all"),
        (lambda: FractionBias([0.5]) * EdgeWeightBias(), "whose weights say all"),
    ],
)
def test_validate(make, match):
    with pytest.raises((ValueError, TypeError), match=match):
        make()
