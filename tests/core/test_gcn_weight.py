"""The GCN estimator: where its expectation is the full matrix, and where it is not."""

from itertools import combinations, product

import pytest
import torch

from all_pairs import all_pairs
from exact import ROUNDING, assert_means, copies, deviations, graph
from exact import one_thread as one_thread
from gttf_sampler import sample_rooted

RUNS = 6_000
FAR = 6  # standard errors beyond which an estimate is called biased

STAR = [[1, 2, 3, 4], [0], [0], [0], [0]]
# Degrees 1 to 5: a hub 0, triangles 0-1-2 and 0-2-3, a tail 3-4-5 and a chord 0-4.
IRREGULAR = [[1, 2, 3, 4, 6], [0, 2], [0, 1, 3], [0, 2, 4], [0, 3, 5], [4], [0]]
# Rows that differ from columns, an edge 0 ⇉ 1, a self-loop at 2 and an empty row.
AWKWARD = [[1, 1, 2, 3], [0, 2, 3], [2, 0, 4], [], [0, 1, 2, 3]]
# From 1 every walk returns to 0, from the clique 2-3-4 fewer do.
KITE = [[1, 2, 3, 4], [0], [0, 3, 4], [0, 2, 4], [0, 2, 3]]
LOOPED = [[0, 1, 2, 3], [0], [0], [0]]
GRAPHS = {"star": STAR, "irregular": IRREGULAR, "awkward": AWKWARD}

GRAPH = pytest.mark.parametrize("rows", GRAPHS.values(), ids=GRAPHS)
REPLACE = pytest.mark.parametrize("replace", [True, False])


def target(rows):
    """D'^-½ (A + I) D'^-½, float64 [n, n]."""
    full = torch.eye(len(rows), dtype=torch.float64)
    for u, row in enumerate(rows):
        for v in row:
            full[u, v] += 1
    scale = full.sum(1).rsqrt()
    return scale[:, None] * full * scale


def estimates(rows, fanouts, *, scheme="unbiased", replace=False, seed=1, runs=RUNS):
    """Rows of Åᴸ, [runs, n, n], L the number of hops, one disjoint tree per row."""
    adj, count = graph(rows), len(rows)
    seeds = torch.arange(count).repeat(runs)
    trees = sample_rooted(
        adj, seeds, fanouts, replace=replace, disjoint=True, generator=seed
    )
    output = layers(adj, trees, len(fanouts), scheme)[: seeds.numel()]
    return output.view(runs, count, count)


def layers(adj, sample, depth, scheme="unbiased", width=None):
    """`depth` linear layers over one sample; one-hot features tell all columns.

    `width` is the number of nodes of one copy where there are many.
    """
    width = width or adj.num_rows
    matrix = sample.to_sparse(sample.gcn_weight(adj, scheme)).double()
    hidden = torch.eye(width, dtype=torch.float64)[sample.node % width]
    for _ in range(depth):
        hidden = matrix @ hidden
    return hidden


def all_samples(rows, fanout):
    """Å [s, n, n] of all equally likely ways to sample every row."""
    ways = []
    for u, row in enumerate(rows):
        options = []
        for kept in combinations(row, min(fanout, len(row))):
            sampled = torch.zeros(len(rows), dtype=torch.float64)
            for v in kept:
                degrees = (len(row) + 1) * (len(rows[v]) + 1)
                sampled[v] += len(row) / len(kept) / degrees**0.5
            sampled[u] += 1 / (len(row) + 1)
            options.append(sampled)
        ways.append(options)
    return torch.stack([torch.stack(choice) for choice in product(*ways)])


def shared_expectation(rows, fanout, depth):
    """E[Åᴸ] exactly."""
    return torch.linalg.matrix_power(all_samples(rows, fanout), depth).mean(0)


def far_off(sample, exact):
    """Entries of a sample's mean that are more than `FAR` errors from `exact`."""
    off, error = deviations(sample, exact)
    return off.abs() > FAR * error + ROUNDING


@pytest.mark.parametrize(
    ("scheme", "replace", "loop"),
    [
        ("unbiased", False, 1 / 5),
        ("unbiased", True, 1 / 5),
        ("paper", False, 1 / 3),
        ("paper", True, 1 / 3),
    ],
)
def test_gcn_star_self_loop(scheme, replace, loop):
    assert target(STAR)[0, 0] == pytest.approx(1 / 5)
    sample = estimates(STAR, [2], scheme=scheme, replace=replace)[:, 0, 0]
    assert_means(sample, torch.tensor(loop, dtype=torch.float64))


@all_pairs
@GRAPH
@REPLACE
@pytest.mark.parametrize("fanout", [1, 2, 3])
def test_gcn_unbiased_rows(rows, replace, fanout):
    assert_means(estimates(rows, [fanout], replace=replace), target(rows))


@GRAPH
@REPLACE
def test_gcn_paper_rows_are_biased(rows, replace):
    biased = far_off(
        estimates(rows, [2], scheme="paper", replace=replace), target(rows)
    )
    larger = torch.tensor([len(row) > 2 for row in rows])
    assert bool(biased.diagonal()[larger].all())
    if not replace:  # rows that fit into the fanout are complete, and exact
        assert not bool(biased[~larger].any())


@all_pairs
@GRAPH
@pytest.mark.parametrize("scheme", ["unbiased", "paper"])
@pytest.mark.parametrize("fanout", [-1, 5])
def test_gcn_complete_rows_are_exact(rows, scheme, fanout):
    adj = graph(rows)
    sample = sample_rooted(adj, torch.arange(len(rows)), [fanout])
    found = layers(adj, sample, 1, scheme)
    assert torch.allclose(found, target(rows), atol=ROUNDING)


@GRAPH
@REPLACE
def test_gcn_sampled_normalises_the_sample(rows, replace):
    adj = graph(rows)
    sample = sample_rooted(adj, [0, 2, 2], [2, 2], replace=replace, generator=1)
    counts = sample.to_sparse().to_dense().double() + torch.eye(sample.num_nodes)
    scale = counts.sum(1).rsqrt()
    expected = scale[:, None] * counts * scale
    found = sample.to_sparse(sample.gcn_weight(adj, "sampled")).to_dense().double()
    assert torch.allclose(found, expected, atol=ROUNDING)


@all_pairs
@pytest.mark.parametrize("rows", [STAR, IRREGULAR], ids=["star", "irregular"])
@REPLACE
@pytest.mark.parametrize("fanouts", [[2, 2], [3, 1]])
def test_gcn_two_layers_share_a_sample_without_bias(rows, replace, fanouts):
    squared = target(rows) @ target(rows)
    assert_means(estimates(rows, fanouts, replace=replace), squared)


@pytest.mark.parametrize("scheme", ["paper", "sampled"])
def test_gcn_two_layers_of_other_schemes_are_biased(scheme):
    squared = target(IRREGULAR) @ target(IRREGULAR)
    assert bool(far_off(estimates(IRREGULAR, [2, 2], scheme=scheme), squared).any())


def test_gcn_two_layers_of_a_batch_share_a_sample_without_bias():
    # Three seeds whose neighbourhoods overlap, in each of many copies of the graph.
    count, batch = len(IRREGULAR), torch.tensor([0, 3, 2])
    adj = copies(IRREGULAR, RUNS)
    seeds = (count * torch.arange(RUNS)[:, None] + batch).view(-1)
    sample = sample_rooted(adj, seeds, [2, 2], generator=1)
    output = layers(adj, sample, 2, width=count)[: seeds.numel()]
    squared = target(IRREGULAR) @ target(IRREGULAR)
    assert_means(output.view(RUNS, 3, count), squared[batch])


@pytest.mark.parametrize(
    ("rows", "depth", "biased"),
    [
        (KITE, 1, False),
        (KITE, 2, False),
        (KITE, 3, True),
        (STAR, 3, False),  # by symmetry: whichever leaf v is, v → u weighs the same
        (LOOPED, 2, True),
    ],
)
def test_gcn_shared_sample_has_its_exact_expectation(rows, depth, biased):
    # u → v → u → w uses row u twice, and u → u → w if u is its own neighbour.
    sample = estimates(rows, [1] * depth, runs=4 * RUNS)
    full = torch.linalg.matrix_power(target(rows), depth)
    assert_means(sample, shared_expectation(rows, 1, depth))
    assert bool(far_off(sample, full).any()) == biased


def test_gcn_three_layers_sharing_a_sample_are_biased():
    cubed = torch.linalg.matrix_power(target(IRREGULAR), 3)
    sample = estimates(IRREGULAR, [1, 1, 1], runs=2 * RUNS)
    assert bool(far_off(sample, cubed).any())


@pytest.mark.parametrize(
    "rows", [KITE, IRREGULAR, LOOPED], ids=["kite", "irregular", "looped"]
)
@REPLACE
def test_gcn_three_layers_resampled_are_unbiased(rows, replace):
    first, second, third = (
        estimates(rows, [2], replace=replace, seed=seed) for seed in (1, 2, 3)
    )
    cubed = torch.linalg.matrix_power(target(rows), 3)
    assert_means(first @ second @ third, cubed)


def slopes(first, second, x, y, theta):
    """Xᵀ Å₁ᵀ (Å₂ X θ - y) for every pair of samples, [s, d]."""
    return (first @ x).mT @ ((second @ x) @ theta - y)


@pytest.mark.parametrize("rows", [KITE, IRREGULAR], ids=["kite", "irregular"])
@pytest.mark.parametrize("fanout", [1, 2])
def test_proposition_6_gradient_does_not_vanish_at_the_minimizer(rows, fanout):
    """A squared loss is convex, and multiplies a sample by itself: it adds a variance.

    Two samples, one for the error and one for its way back, are right in the mean.
    """
    torch.manual_seed(0)
    x, y = (torch.randn(len(rows), d, dtype=torch.float64) for d in (2, 1))
    full = target(rows) @ x
    theta = torch.linalg.lstsq(full, y).solution  # where the gradient is zero
    every = all_samples(rows, fanout)
    exact = slopes(every, every, x, y, theta).mean(0)
    off = (every - target(rows)) @ x
    assert torch.allclose(exact, (off.mT @ off).mean(0) @ theta)  # of the variance
    assert float(exact.norm()) > 0.05 * float((full.mT @ y).norm())
    first, second = (estimates(rows, [fanout], seed=seed) for seed in (1, 2))
    assert_means(slopes(first, first, x, y, theta), exact)
    assert_means(slopes(first, second, x, y, theta), torch.zeros_like(exact))
    assert bool(far_off(slopes(first, first, x, y, theta), exact * 0).any())
