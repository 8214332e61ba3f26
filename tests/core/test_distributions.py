"""Draws of one step against exact probabilities: uniform, by weight, by a BiasFn."""

from itertools import combinations, product

import pytest
import torch

from all_pairs import all_pairs
from exact import SIGMAS, assert_frequencies, graph, proportional, successive
from exact import one_thread as one_thread
from gttf_sampler import AttentionBias, EdgeWeightBias, sample_rooted, traverse

N = 40_000


def forest_draws(adj, node, fanout, bias=None, *, replace):
    """Slots [N, f] in the row of `node`: the draws of N walkers that start there."""
    seeds = torch.full((N,), node)
    forest = traverse(adj, seeds, [fanout], bias, replace=replace, generator=1)
    return forest.edges[1] - adj.rowptr[node]


def rooted_draws(adj, node, fanout, bias=None, *, replace):
    """The same from N disjoint trees; all of them must have drawn equally many."""
    seeds = torch.full((N,), node)
    trees = sample_rooted(
        adj, seeds, [fanout], bias=bias, replace=replace, disjoint=True, generator=2
    )
    return trees.edge.view(N, -1) - adj.rowptr[node]


def edge_weight(path, node, neighborhood):
    """EdgeWeightBias as a plain function."""
    return neighborhood.adj.edge_weight[neighborhood.edge]


def ones(path, node, neighborhood):
    return torch.ones_like(neighborhood.neighbor)


def star(degree, **edge):
    """Node 1 has `degree` neighbours, and the rows beside its own are not empty."""
    return graph(
        [[1, 1], list(range(degree)), [1], *([1] for _ in range(degree))], **edge
    )


def weighted_star(weights, dtype=torch.float64):
    """The same with weights; those of the other rows must not matter."""
    others = torch.tensor([1.0] * (1 + len(weights))).to(dtype)
    weight = torch.cat([torch.tensor([3.0, 2.0]).to(dtype), weights.to(dtype), others])
    return star(len(weights), edge_weight=weight)


def weights_of(values):
    """Distribution of one draw by weight."""
    return proportional({(i,): float(value) for i, value in enumerate(values)})


DRAWS = pytest.mark.parametrize("draw", [forest_draws, rooted_draws])
WEIGHERS = pytest.mark.parametrize(
    "bias", [EdgeWeightBias(), edge_weight], ids=["table", "function"]
)


@DRAWS
@pytest.mark.parametrize("degree", range(1, 8))
def test_uniform_pairs_of_draws_are_independent(draw, degree):
    pairs = product(range(degree), repeat=2)
    exact = dict.fromkeys(pairs, 1 / degree**2)
    assert_frequencies(draw(star(degree), 1, 2, replace=True), exact)


@pytest.mark.parametrize("degree", range(1, 8))
def test_uniform_one_draw(degree):
    exact = {(slot,): 1 / degree for slot in range(degree)}
    for replace in (True, False):
        assert_frequencies(forest_draws(star(degree), 1, 1, replace=replace), exact)


def test_uniform_depths_siblings_and_trees_are_independent():
    clique = graph([[0, 1, 2]] * 3)
    forest = traverse(clique, torch.zeros(N, dtype=torch.long), [2, 2], generator=3)
    triples = dict.fromkeys(product(range(3), repeat=3), 1 / 27)
    parent, cousin = forest.nodes[1], forest.nodes[2][:, 1:3]
    assert_frequencies(torch.cat([parent[:, :1], cousin], dim=1), triples)
    pairs = dict.fromkeys(product(range(3), repeat=2), 1 / 9)
    assert_frequencies(parent[:, 0].view(-1, 2), pairs)


def test_uniform_long_row_has_no_gaps():
    degree = 5_000
    draws = forest_draws(graph([[0] * degree]), 0, 8, replace=True).view(-1)
    counts = draws.bincount(minlength=degree).double()
    expected = draws.numel() / degree
    square = float((counts - expected).square().sum()) / expected
    assert abs(square - (degree - 1)) <= SIGMAS * (2 * (degree - 1)) ** 0.5


def test_uniform_parallel_edges_count_each():
    forest = traverse(graph([[1, 1, 2], [], []]), [0] * N, [1], generator=4)
    assert_frequencies(forest.nodes[1], {(1,): 2 / 3, (2,): 1 / 3})


@DRAWS
@pytest.mark.parametrize(("degree", "size"), [(5, 1), (5, 2), (5, 3), (5, 4), (6, 3)])
def test_distinct_all_subsets_are_equally_likely(draw, degree, size):
    subsets = list(combinations(range(degree), size))
    draws = draw(star(degree), 1, size, replace=False)
    assert draws.shape == (N, size)
    assert_frequencies(draws.sort(1).values, dict.fromkeys(subsets, 1 / len(subsets)))


@DRAWS
@pytest.mark.parametrize(("degree", "size"), [(1, 1), (3, 3), (3, 5), (1, 4)])
def test_distinct_short_row_is_taken_in_order(draw, degree, size):
    draws = draw(star(degree), 1, size, replace=False)
    assert draws[:, :degree].equal(torch.arange(degree).expand(N, -1))
    assert bool((draws[:, degree:] < 0).all())


WEIGHTS = {
    "float64": torch.tensor([1.0, 2.0, 0.5, 4.0], dtype=torch.float64),
    "float32": torch.tensor([0.1, 0.2, 0.3]),
    "float16": torch.tensor([0.5, 1.5], dtype=torch.float16),
    "int64": torch.tensor([1, 2, 0, 5]),
    "int32": torch.tensor([3, 0, 1], dtype=torch.int32),
    "zeros": torch.tensor([0.0, 0.0, 1.0, 0.0, 3.0, 0.0]),
    "single": torch.tensor([0.0, 1e-20, 0.0]),
    "wide": torch.tensor([1e-30, 1e30, 1.0, 3e30, 0.0, 2e30], dtype=torch.float64),
    "wide float32": torch.tensor([1e-30, 1e30, 1.0, 3e30, 0.0, 2e30]),
    "tiny": torch.tensor([1e-30, 0.0, 3e-30]),
    "subnormal": torch.tensor([5e-324, 1e-323], dtype=torch.float64),
    "huge": torch.tensor([1e308, 1.5e308, 0.5e308], dtype=torch.float64),
    "one far above": torch.tensor([1e6, 1.0, 1e3, 10.0]),
}


@all_pairs
@DRAWS
@WEIGHERS
@pytest.mark.parametrize("name", WEIGHTS)
def test_weighted_one_draw(draw, bias, name):
    weights = WEIGHTS[name]
    adj = weighted_star(weights, weights.dtype)
    draws = draw(adj, 1, 1, bias, replace=True)
    assert_frequencies(draws, weights_of(weights.tolist()))


@DRAWS
@WEIGHERS
def test_weighted_pairs_of_draws_are_independent(draw, bias):
    weights = [4.0, 0.0, 1.0, 3.0]
    one = weights_of(weights)
    exact = {a + b: one[a] * one[b] for a in one for b in one}
    draws = draw(weighted_star(torch.tensor(weights)), 1, 2, bias, replace=True)
    assert_frequencies(draws, exact)


@all_pairs
@DRAWS
@WEIGHERS
@pytest.mark.parametrize("size", [1, 2, 3, 4, 6])
@pytest.mark.parametrize(
    "weights",
    [
        [5.0, 1.0, 0.0, 2.0, 4.0],
        [0.0, 1.0, 1.0, 1.0, 1.0],
        [100.0, 1.0, 2.0, 0.1, 0.0],
        [1.0, 2.0, 3.0, 1e9, 0.0],
    ],
)
def test_weighted_distinct_sets(draw, bias, size, weights):
    draws = draw(weighted_star(torch.tensor(weights)), 1, size, bias, replace=False)
    exact = successive(weights, size)
    drawn = min(size, 4)  # four of the five weights are positive
    assert bool((draws[:, drawn:] < 0).all())
    assert_frequencies(draws[:, :drawn], exact)


@WEIGHERS
def test_weighted_distinct_integers(bias):
    weights = torch.tensor([1, 0, 2, 4])
    adj = weighted_star(weights, torch.int64)
    draws = forest_draws(adj, 1, 2, bias, replace=False)
    assert_frequencies(draws, successive(weights.tolist(), 2))


@WEIGHERS
@pytest.mark.parametrize(("largest", "share"), [(1e12, 0.25), (1e30, 0.5)])
def test_weighted_distinct_after_a_far_larger_weight(bias, largest, share):
    # The largest goes first; of the rest, 3 is drawn three times as often as 1, unless
    # both are below what is kept of a row (`EdgeWeightBias` says so) and count alike.
    weights = torch.tensor([largest, 1.0, 3.0])
    draws = forest_draws(weighted_star(weights), 1, 2, bias, replace=False)
    assert_frequencies(draws, {(0, 1): share, (0, 2): 1 - share})


def test_weighted_distinct_uniform_weights_are_uniform():
    draws = forest_draws(
        weighted_star(torch.ones(6)), 1, 3, EdgeWeightBias(), replace=False
    )
    subsets = list(combinations(range(6), 3))
    assert_frequencies(draws, dict.fromkeys(subsets, 1 / len(subsets)))


LEFT, RIGHT = torch.tensor([1.0, 2.0, 0.0, 4.0]), torch.tensor([3.0, 1.0, 5.0, 0.5])


def right_weight(path, node, neighborhood):
    """RIGHT by the slot in the row of node 1, which starts at position 2."""
    slot = (neighborhood.edge - 2).clamp(0, 3)
    return RIGHT[slot]


@all_pairs
@DRAWS
@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize(
    "bias",
    [
        EdgeWeightBias() * right_weight,
        right_weight * EdgeWeightBias(),
        ones * (EdgeWeightBias() * right_weight),
        EdgeWeightBias() * right_weight * ones,
    ],
)
def test_product_of_biases_multiplies_weights(draw, replace, bias):
    draws = draw(weighted_star(LEFT), 1, 2, bias, replace=replace)
    both = (LEFT * RIGHT).tolist()
    one = weights_of(both)
    pairs = {a + b: one[a] * one[b] for a in one for b in one}
    assert_frequencies(draws, pairs if replace else successive(both, 2))


def test_attention_draws_by_the_square_root():
    attention = torch.tensor([1.0, 4.0, 9.0, 0.0])
    bias = AttentionBias(lambda node, neighbor: attention[neighbor])
    draws = forest_draws(star(4), 1, 1, bias, replace=True)
    assert_frequencies(draws, weights_of([1, 2, 3, 0]))


def test_bias_sees_the_path():
    def stay_close(path, node, neighborhood):
        """Neighbour v of a walker that began at s weighs 1 + 2·[v = s]."""
        start = path[:, 0] if path.shape[1] else node
        return 1.0 + 2.0 * (neighborhood.neighbor == start[neighborhood.walker])

    ring = graph([[1, 2], [0, 2], [0, 1]])
    forest = traverse(ring, [0] * N, [1, 1], stay_close, generator=5)
    exact = {(1, 0): 3 / 8, (1, 2): 1 / 8, (2, 0): 3 / 8, (2, 1): 1 / 8}
    assert_frequencies(forest.path(2)[:, 1:], exact)


@pytest.mark.parametrize("replace", [True, False])
@WEIGHERS
def test_zero_row_stops_walkers_for_good(bias, replace):
    # 0 → 1 or 2; every edge out of 1 weighs nothing; 2 ⇄ 0.
    adj = graph([[1, 2], [0, 2], [0]], edge_weight=torch.tensor([1.0, 3, 0, 0, 1]))
    forest = traverse(adj, [0] * N, [1, 1, 1], bias, replace=replace, generator=6)
    stopped, going = {(1, -1, -1): 1 / 4}, {(2, 0, 1): 3 / 16, (2, 0, 2): 9 / 16}
    assert_frequencies(forest.path(3)[:, 1:], stopped | going)
    trees = sample_rooted(adj, [1], [2, 2], bias=bias, replace=replace)
    assert trees.num_edges == 0


@pytest.mark.parametrize("bias", [None, EdgeWeightBias(), edge_weight])
def test_dead_end_keeps_its_walkers(bias):
    adj = graph([[0, 1], []], edge_weight=torch.tensor([1.0, 3.0]))
    forest = traverse(adj, [0] * N, [1, 1, 1], bias, generator=7)
    stay = 1 / 2 if bias is None else 1 / 4
    exact = {
        (0, 0, 0): stay**3,
        (0, 0, 1): stay**2 * (1 - stay),
        (0, 1, 1): stay * (1 - stay),
        (1, 1, 1): 1 - stay,
    }
    assert_frequencies(forest.path(3)[:, 1:], exact)
    assert bool((forest.edges[3][forest.nodes[2] == 1] == -1).all())
