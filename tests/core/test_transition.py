"""Propositions 1 and 2: the mean and the variance of the estimate of 𝒯ᵏ."""

from fractions import Fraction
from itertools import chain, product

import pytest
import torch
from hypothesis import given, settings

from exact import (
    ROUNDING,
    SIGMAS,
    assert_means,
    deviations,
    graph,
    successive,
    transition_matrix,
)
from exact import one_thread as one_thread
from gttf_sampler import EdgeWeightBias, TransitionAcc, traverse
from strategies import graphs, positive_fanouts

RUNS = 10_000

# A hub, a multi-edge 1 ⇉ 2, a self-loop at 3 and a dead end 4.
ROWS = [[1, 2, 3, 4], [0, 2, 2], [0, 1], [3, 0], []]
WEIGHTS = [[1.0, 2.0, 0.0, 3.0], [1.0, 1.0, 4.0], [2.0, 1.0], [1.0, 5.0], []]
# Half of 0's neighbours always lead to 5, the others never do.
FORK = [[1, 2, 3, 4], [5], [5], [6], [6], [], []]


def estimates(rows, fanouts, replace=True, weights=None):
    """𝒯̂ᵏ for k = 0 … h, each [RUNS, n, n], from one traversal of RUNS batches."""
    edge = {}
    if weights is not None:
        edge["edge_weight"] = torch.tensor(list(chain.from_iterable(weights)))
    powers = [TransitionAcc(k) for k in range(len(fanouts) + 1)]
    traverse(
        graph(rows, **edge),
        torch.arange(len(rows)).repeat(RUNS),
        fanouts,
        None if weights is None else EdgeWeightBias(),
        powers,
        replace=replace,
        generator=1,
    )
    shape = (RUNS, len(rows), len(rows))
    return [power.result().to_dense().view(shape).double() for power in powers]


def power(matrix, k):
    return torch.linalg.matrix_power(matrix, k)


def variance(rows, fanouts, replace=True):
    """Var[𝒯̂ᵏ(u, v)] of one tree, exactly, by the law of total variance.

    The children of u are `f` draws w of its row, and the subtrees below them are
    independent of each other, so that Var = (E_w[Var_w] + c · Var_w[𝒯ᵏ⁻¹(w, v)]) / f.
    Draws without replacement make at most as many children as there are neighbours,
    and are negatively correlated: c = (δ - f) / (δ - 1) instead of 1.
    """
    one = transition_matrix(rows)
    if not fanouts:
        return torch.zeros_like(one)
    below = power(one, len(fanouts) - 1)
    between = one @ below.square() - (one @ below).square()
    within = one @ variance(rows, fanouts[1:], replace)
    degree = torch.tensor([max(len(row), 1) for row in rows], dtype=torch.float64)
    drawn, finite = torch.full_like(degree, fanouts[0]), torch.ones_like(degree)
    if not replace:
        drawn = drawn.minimum(degree)
        finite = (degree - drawn) / (degree - 1).clamp(min=1)
    return (within + finite[:, None] * between) / drawn[:, None]


FANOUTS = pytest.mark.parametrize(
    "fanouts", [[1, 1, 1, 1], [2, 1, 3, 2], [4, 2, 1, 1], [1, 3, 2, 2]]
)
REPLACE = pytest.mark.parametrize("replace", [True, False])


@FANOUTS
@REPLACE
def test_proposition_1_powers_are_unbiased(fanouts, replace):
    one = transition_matrix(ROWS)
    for k, sample in enumerate(estimates(ROWS, fanouts, replace)):
        assert_means(sample, power(one, k))
        assert torch.allclose(sample.sum(-1), torch.ones(()).double(), atol=ROUNDING)


def test_proposition_1_on_the_papers_graph(toy):
    count, acc = toy.num_rows, TransitionAcc(3)
    traverse(toy, torch.arange(count).repeat(RUNS), [3, 2, 2], None, acc, generator=2)
    rows = [row.tolist() for row in toy.col.split(toy.degree.tolist())]
    sample = acc.result().to_dense().view(RUNS, count, count)
    assert_means(sample, power(transition_matrix(rows), 3))


@FANOUTS
def test_proposition_1_holds_for_weighted_walks(fanouts):
    one = transition_matrix(ROWS, WEIGHTS)
    for k, sample in enumerate(estimates(ROWS, fanouts, weights=WEIGHTS)):
        assert_means(sample, power(one, k))


def test_transition_weighted_draws_without_replacement_are_biased():
    # With two distinct children each, the one that weighs 4 of 6 is there too rarely.
    rows, weights = [[0, 1, 2], [1], [2]], [1.0, 1.0, 4.0]
    sample = estimates(rows, [2], False, [weights, [1.0], [1.0]])[1][:, 0]
    pairs = successive(weights, 2)
    exact = [sum(p for pair, p in pairs.items() if v in pair) / 2 for v in range(3)]
    assert_means(sample, torch.tensor(exact, dtype=torch.float64))
    off, error = deviations(sample, torch.tensor(weights) / 6)
    assert bool((off.abs() > SIGMAS * error).all())


@REPLACE
def test_transition_stopped_walkers_make_short_rows(replace):
    weights = [*WEIGHTS[:2], [0.0, 0.0], *WEIGHTS[3:]]  # nobody leaves 2
    one = transition_matrix(ROWS, weights)
    assert one[2].sum() == 0
    fanouts = [1, 1, 1] if not replace else [2, 1, 2]
    for k, sample in enumerate(estimates(ROWS, fanouts, replace, weights)):
        assert_means(sample, power(one, k))
        assert bool((sample.sum(-1) <= 1 + ROUNDING).all())
    assert bool((sample.sum(-1)[:, 0] < 0.5).any())


@FANOUTS
@REPLACE
def test_variance_is_that_of_trees(fanouts, replace):
    one = transition_matrix(ROWS)
    samples = estimates(ROWS, fanouts, replace)
    for k in range(1, len(fanouts) + 1):
        squares = (samples[k] - power(one, k)).square()
        assert_means(squares, variance(ROWS, fanouts[:k], replace))


def test_variance_without_replacement_is_smaller_in_rows_that_are_long_enough():
    for fanouts in ([2], [3, 2], [2, 1, 3]):
        gain = variance(ROWS, fanouts) - variance(ROWS, fanouts, replace=False)
        assert bool((gain >= -1e-12).all())
        assert bool((gain > 1e-3).any())


def test_variance_without_replacement_is_larger_where_it_makes_fewer_walkers():
    """One neighbour is drawn once, so that one walker decides instead of three."""
    rows = [[1], [2, 3], [], []]
    assert variance(rows, [3, 1])[0, 2] == pytest.approx(1 / 12)
    assert variance(rows, [3, 1], replace=False)[0, 2] == pytest.approx(1 / 4)


@pytest.mark.parametrize("fanout", [2, 3, 5])
def test_proposition_2_fails_for_two_steps(fanout):
    # Siblings share their parent: with T²(0, 5) = 1/2 the variance is 1 / (4 f).
    bound = 1 / (4 * fanout**2)
    exact = variance(FORK, [fanout, fanout])[0, 5]
    assert exact == pytest.approx(1 / (4 * fanout))
    sample = estimates(FORK, [fanout, fanout])[2][:, 0, 5]
    squares = (sample - 1 / 2).square()
    assert_means(squares, exact)
    above, error = deviations(squares, torch.tensor(bound))
    assert above > SIGMAS * error


@pytest.mark.parametrize("rows", [ROWS, FORK])
@pytest.mark.parametrize("fanouts", [[1], [2], [5], [1, 1], [1, 1, 1], [1, 1, 1, 1]])
def test_proposition_2_holds_for_one_step_or_one_child(rows, fanouts):
    bound = 1 / (4 * fanouts[0] ** len(fanouts))
    exact = variance(rows, fanouts)
    assert bool((exact <= bound + 1e-12).all())
    mean = power(transition_matrix(rows), len(fanouts))
    squares = (estimates(rows, fanouts)[-1] - mean).square()
    above, error = deviations(squares, torch.full_like(exact, bound))
    assert bool((above <= SIGMAS * error + ROUNDING).all())


# The bound that holds: with F_j = f₁ ⋯ f_j the variance is Σ g_j / F_j, where g_j is
# what the j-th step of one walk adds to Var[1{X_k = v}] = p (1 - p).


def increments(rows, k):
    """g_1 … g_k [k, n, n]: E[Var(P(X_k = v | X_j) | X_j-1)], v across and X_0 down."""
    one = transition_matrix(rows)
    found = []
    for j in range(1, k + 1):
        later, now = power(one, k - j), power(one, k - j + 1)
        found.append(power(one, j - 1) @ (one @ later.square() - now.square()))
    return torch.stack(found)


def all_trees(rows, u, fanouts):
    """(probability, nodes at the last depth) of every tree from u, in fractions."""
    if not fanouts:
        yield Fraction(1), (u,)
        return
    row = rows[u] or [u]
    for children in product(row, repeat=fanouts[0]):
        chance = Fraction(1, len(row)) ** fanouts[0]
        below = [list(all_trees(rows, child, fanouts[1:])) for child in children]
        for trees in product(*below):
            likely, leaves = chance, ()
            for p, nodes in trees:
                likely, leaves = likely * p, leaves + nodes
            yield likely, leaves


# From 1 two walks of three go on to 3, from 2 one of three.
SMALL = [[1, 2], [3, 3, 0], [0, 0, 3], [0]]


@pytest.mark.parametrize("fanouts", [[2, 2], [3, 2], [2, 1, 2], [1, 2, 2]])
def test_variance_is_that_of_all_trees(fanouts):
    """Every tree enumerated: the mean, the variance, and where the paper's bound is."""
    k, size = len(fanouts), 1
    for fanout in fanouts:
        size *= fanout
    p = power(transition_matrix(SMALL), k)
    exact, steps = variance(SMALL, fanouts), increments(SMALL, k)
    for v in range(len(SMALL)):
        mean = square = Fraction(0)
        for likely, leaves in all_trees(SMALL, 0, fanouts):
            share = Fraction(leaves.count(v), size)
            mean, square = mean + likely * share, square + likely * share * share
        assert float(mean) == pytest.approx(float(p[0, v]))
        found = float(square - mean * mean)
        assert found == pytest.approx(float(exact[0, v]))
        widths = torch.tensor(fanouts).cumprod(0)
        assert found == pytest.approx(float((steps[:, 0, v] / widths).sum()))


def test_paper_takes_its_lower_bound_for_the_variance():
    """Two of its numbers fail for SMALL and f = 2, k = 2: the value and the bound."""
    exact = variance(SMALL, [2, 2])[0, 3]
    p = float(power(transition_matrix(SMALL), 2)[0, 3])
    printed, bound = p * (1 - p) / 4, 1 / 16
    assert printed == bound < float(exact) < p * (1 - p) / 2 == 1 / 8


@settings(max_examples=60)
@given(graphs(), positive_fanouts())
def test_variance_bounds_that_hold(drawn, fanouts):
    """p (1 - p) / (f₁ ⋯ f_k) <= Var <= p (1 - p) / f₁ <= 1 / (4 f₁), on any graph."""
    rows = [[v for v, _ in row] for row in drawn.rows()]
    if not rows or not fanouts:
        return
    k = len(fanouts)
    p = power(transition_matrix(rows), k)
    one, exact, steps = p * (1 - p), variance(rows, fanouts), increments(rows, k)
    widths = torch.tensor(fanouts).cumprod(0)
    assert bool((steps >= -1e-12).all())
    assert torch.allclose(steps.sum(0), one)
    assert torch.allclose((steps / widths[:, None, None]).sum(0), exact)
    assert bool((exact >= one / widths[-1] - 1e-12).all())
    assert bool((exact <= one / fanouts[0] + 1e-12).all())
    assert bool((one <= 1 / 4 + 1e-12).all())
    # No fanouts have less variance times steps; those do where F_j is in proportion
    # to √g_j.
    least = steps.clamp(min=0).sqrt().sum(0).square()
    assert bool((exact * widths.sum() >= least - 1e-9).all())


@pytest.mark.parametrize("fanouts", [[2, 2], [3, 1, 2], [2, 2, 2, 2]])
def test_variance_bounds_are_attained(fanouts):
    """The upper one by FORK; the lower one where all neighbours lead on alike."""
    ahead = [*fanouts[:1], *[1] * (len(fanouts) - 1)]  # splits where nothing is decided
    assert variance(FORK, fanouts)[0, 5] == pytest.approx(1 / (4 * fanouts[0]))
    assert variance(FORK, ahead)[0, 5] == pytest.approx(1 / (4 * fanouts[0]))
    clique = [[0, 1, 2]] * 3  # the last step alone decides
    lower = 2 / 9 / torch.tensor(fanouts).prod()
    assert variance(clique, fanouts)[0, 1] == pytest.approx(float(lower))


# Undirected, connected, with triangles.
MIXING = [[1, 2, 3], [0, 2, 4], [0, 1, 3, 4], [0, 2, 4], [1, 2, 3]]


@pytest.mark.parametrize("fanout", [1, 2, 3])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_paper_rate_holds_where_walks_forget_faster_than_trees_grow(fanout, k):
    """On the mean over π: Σ c² (1 - λ²) Σ_j λ^{2 (k - j)} / f^j, by eigenvectors of 𝒯.

    With f λ² < 1 that is at most π (1 - π) / (f^k (1 - f λ²)): the printed rate.
    """
    one = transition_matrix(MIXING)
    degree = torch.tensor([len(row) for row in MIXING], dtype=torch.float64)
    stationary = degree / degree.sum()
    found = stationary @ variance(MIXING, [fanout] * k)
    root = stationary.sqrt()
    value, vector = torch.linalg.eigh(root[:, None] * one / root)
    share = (vector * root[:, None]).square().T  # c² [eigenvector, v]
    depth = torch.arange(1, k + 1)
    series = (value.square()[:, None] ** (k - depth) / fanout**depth).sum(1)
    exact = ((1 - value.square()) * series) @ share
    assert torch.allclose(found, exact)
    second = float(value[:-1].abs().max()) ** 2
    if fanout * second < 1:
        bound = stationary * (1 - stationary) / (fanout**k * (1 - fanout * second))
        assert bool((found <= bound + 1e-12).all())
    assert 2 * second < 1  # so that the bound was put to the test with branching
