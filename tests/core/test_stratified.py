"""StratifiedBias: its law by enumeration, its variance, the same on every backend."""

from itertools import chain, pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from all_pairs import all_pairs
from exact import ROUNDING, assert_frequencies, assert_means, graph, transition_matrix
from exact import one_thread as one_thread
from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    LABORBias,
    NoRevisitBias,
    StratifiedBias,
    TemporalBias,
    TransitionAcc,
    sample_rooted,
    traverse,
    use_backend,
)
from gttf_sampler.bias.base import spread
from strategies import graphs, seeds

RUNS = 20_000
# A hub, a multi-edge 1 ⇉ 2, a self-loop at 3 and a dead end 4.
ROWS = [[1, 2, 3, 4], [0, 2, 2], [0, 1], [3, 0], []]
WEIGHTS = [[1.0, 2.0, 0.0, 3.0], [1.0, 1.0, 4.0], [2.0, 1.0], [1.0, 5.0], []]
ONES = [[1.0] * len(row) for row in ROWS]
WAYS = pytest.mark.parametrize("systematic", [True, False])
WEIGHED = pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["uniform", "weight"])


def weighted(rows=ROWS, weights=WEIGHTS):
    return graph(rows, edge_weight=torch.tensor(list(chain.from_iterable(weights))))


def bias_of(weights, **how):
    return StratifiedBias(None if weights is None else EdgeWeightBias(), **how)


def ends(weights):
    """Ends of the cumulative shares of a row, from 0 to 1."""
    total, found = sum(weights), [0.0]
    for weight in weights:
        found.append(found[-1] + weight / total)
    return found


def at(weights, place):
    """The entry of a row that a number of [0, 1) falls into."""
    return next(i for i, (a, b) in enumerate(pairwise(ends(weights))) if a <= place < b)


def systematic_draws(weights, fanout):
    """The probability of every tuple of entries, in the order of the draws."""
    cuts = {0.0, 1.0}
    for end in ends(weights):
        cuts |= {(end - i / fanout) % 1 for i in range(fanout)}
    exact = {}
    for a, b in pairwise(sorted(cuts)):
        if b - a > 1e-12:
            middle = (a + b) / 2
            drawn = (at(weights, (middle + i / fanout) % 1) for i in range(fanout))
            outcome = tuple(drawn)
            exact[outcome] = exact.get(outcome, 0.0) + b - a
    return exact


def stratified_draws(weights, fanout):
    """The same with a number per part, and the parts turned by a random number."""
    parts = []
    for s in range(fanout):
        share, (a, b) = {}, (s / fanout, (s + 1) / fanout)
        for i, (low, high) in enumerate(pairwise(ends(weights))):
            inside = min(high, b) - max(low, a)
            if inside > 1e-12:
                share[i] = inside * fanout
        parts.append(share)
    exact = {}
    for turn in range(fanout):
        grown = {(): 1 / fanout}
        for i in range(fanout):
            part = parts[(i + turn) % fanout]
            grown = {
                (*drawn, j): p * q
                for drawn, p in grown.items()
                for j, q in part.items()
            }
        for outcome, p in grown.items():
            exact[outcome] = exact.get(outcome, 0.0) + p
    return exact


def draws(systematic):
    return systematic_draws if systematic else stratified_draws


@all_pairs
@WAYS
@WEIGHED
@pytest.mark.parametrize("fanout", [1, 2, 3, 6])
def test_draws_have_their_exact_law(systematic, weights, fanout):
    adj, bias = weighted(), bias_of(weights, systematic=systematic)
    for u in (0, 1):
        forest = traverse(adj, [u] * RUNS, [fanout], bias, generator=u + 1)
        offset = forest.edges[1] - adj.rowptr[u]
        own = (weights or ONES)[u]
        assert_frequencies(offset, draws(systematic)(own, fanout))


@all_pairs
@WAYS
@WEIGHED
@pytest.mark.parametrize("fanout", [2, 3, 5])
def test_every_draw_alone_has_the_law_of_the_bias(systematic, weights, fanout):
    own = (weights or ONES)[0]
    exact = draws(systematic)(own, fanout)
    for i in range(fanout):
        for j, weight in enumerate(own):
            chance = sum(p for drawn, p in exact.items() if drawn[i] == j)
            assert chance == pytest.approx(weight / sum(own))


def test_shares_are_met_to_the_next_integer():
    weights = WEIGHTS[1]
    for fanout in (2, 5, 7):
        forest = traverse(
            weighted(), [1] * 500, [fanout], bias_of(WEIGHTS), generator=fanout
        )
        offset = forest.edges[1] - len(ROWS[0])
        for i, weight in enumerate(weights):
            off = (offset == i).sum(1) - fanout * weight / sum(weights)
            assert float(off.abs().max()) < 1


def variance(weights, fanouts, how):
    """Var[𝒯̂ᵏ(u, v)] exactly: between the draws of a row, and within their subtrees."""
    one = transition_matrix(ROWS, weights)
    if not fanouts:
        return torch.zeros_like(one)
    below = torch.linalg.matrix_power(one, len(fanouts) - 1)
    within = one @ variance(weights, fanouts[1:], how) / fanouts[0]
    between = torch.zeros_like(one)
    for u, row in enumerate(ROWS):
        if row:
            for drawn, p in how(weights[u], fanouts[0]).items():
                mean = below[[row[j] for j in drawn]].mean(0)
                between[u] += p * (mean - one[u] @ below).square()
    return within + between


@all_pairs
@WAYS
@WEIGHED
@pytest.mark.parametrize("fanouts", [[3], [2, 3], [3, 1, 2]])
def test_powers_are_unbiased_and_have_their_exact_variance(
    systematic, weights, fanouts
):
    acc, k = TransitionAcc(len(fanouts)), len(fanouts)
    start = torch.arange(len(ROWS)).repeat(RUNS)
    bias = bias_of(weights, systematic=systematic)
    traverse(weighted(), start, fanouts, bias, acc, generator=3)
    sample = acc.result().to_dense().view(RUNS, len(ROWS), len(ROWS)).double()
    own = weights or ONES
    exact = torch.linalg.matrix_power(transition_matrix(ROWS, own), k)
    assert_means(sample, exact)
    assert_means((sample - exact).square(), variance(own, fanouts, draws(systematic)))


def independent(weights, fanout):
    total, exact = sum(weights), {(): 1.0}
    for _ in range(fanout):
        exact = {
            (*drawn, j): p * weight / total
            for drawn, p in exact.items()
            for j, weight in enumerate(weights)
            if weight
        }
    return exact


@WEIGHED
@pytest.mark.parametrize("fanouts", [[2], [3], [2, 3], [3, 2], [2, 2, 2]])
def test_a_number_per_part_never_varies_more(weights, fanouts):
    own = weights or ONES
    plain = variance(own, fanouts, independent)
    gain = plain - variance(own, fanouts, stratified_draws)
    assert bool((gain >= -1e-12).all())
    assert bool((gain > 0.1 * plain).any())


def test_one_number_for_all_can_vary_more():
    """True of rows that repeat every 1 / f of their length, false of their parts."""
    value, weights = torch.tensor([0.0, 1.0, 0.0, 1.0]), [1.0] * 4
    found = {}
    for how in (systematic_draws, stratified_draws, independent):
        found[how] = sum(
            p * float(value[list(drawn)].mean() - 0.5) ** 2
            for drawn, p in how(weights, 2).items()
        )
    assert found[systematic_draws] == pytest.approx(1 / 4)
    assert found[independent] == found[stratified_draws] == pytest.approx(1 / 8)


@WAYS
def test_sums_of_rooted_samples_are_unbiased(systematic):
    """Two layers of the mean of neighbours, as a rooted sample with replacement."""
    trees = sample_rooted(
        weighted(),
        torch.arange(len(ROWS)).repeat(RUNS),
        [2],
        bias=StratifiedBias(systematic=systematic),
        replace=True,
        disjoint=True,
        generator=1,
    )
    weight = trees.to_sparse(trees.gcn_weight(weighted())).double()
    found = weight @ torch.eye(len(ROWS), dtype=torch.float64)[trees.node]
    full = torch.eye(len(ROWS), dtype=torch.float64)
    for u, row in enumerate(ROWS):
        for v in row:
            full[u, v] += 1
    degree = torch.tensor([len(row) + 1.0 for row in ROWS], dtype=torch.float64)
    exact = full / (degree[:, None] * degree).sqrt()
    shape = (RUNS, len(ROWS), len(ROWS))
    assert_means(found[: RUNS * len(ROWS)].view(shape), exact)


BIASES = {
    "uniform": lambda: StratifiedBias(),
    "parts": lambda: StratifiedBias(systematic=False),
    "weight": lambda: StratifiedBias(EdgeWeightBias()),
    "weight in parts": lambda: StratifiedBias(EdgeWeightBias(), systematic=False),
    "function": lambda: StratifiedBias(lambda path, node, hood: hood.neighbor + 1.0),
    "product": lambda: StratifiedBias(NoRevisitBias() * EdgeWeightBias()),
}


@pytest.mark.parametrize("name", BIASES)
@settings(max_examples=25)
@given(drawn=graphs(weighted=True), data=st.data())
def test_backends_agree(name, drawn, data):
    pytest.importorskip("numba")
    adj, start = drawn.adj(), data.draw(seeds(drawn.num_nodes))
    found = []
    for backend in ("torch", "numba"):
        with use_backend(backend):
            forest = traverse(adj, start, [2, 3], BIASES[name](), generator=5)
            how = {"bias": BIASES[name](), "replace": True, "generator": 5}
            sub = sample_rooted(adj, start, [3, 0, 2], **how)
            found.append([*forest.nodes, *forest.edges, sub.node, sub.edge])
    for ours, theirs in zip(*found, strict=True):
        assert torch.equal(ours, theirs)


def test_one_draw_is_the_plain_one(toy):
    """A walk has nothing to spread: its words are those of independent draws."""
    plain = traverse(toy, [4, 0], [1] * 5, generator=7).path(5)
    assert torch.equal(
        traverse(toy, [4, 0], [1] * 5, StratifiedBias(), generator=7).path(5), plain
    )


@WAYS
def test_words_are_one_per_part(systematic):
    stream = torch.arange(1000) * 77777
    for fanout in (1, 2, 3, 7):
        word = spread(stream, fanout, systematic)
        upper = (word >> 32).bitwise_and((1 << 32) - 1).double() / 2**32
        first = upper if not systematic else (upper - upper[:, :1]) % 1 + ROUNDING
        part = (first * fanout).long().sort(1).values
        assert torch.equal(part, torch.arange(fanout).expand_as(part))
    assert spread(stream, 0, systematic).shape == (1000, 0)


def test_other_biases_say_where(toy):
    adj = CompactAdj.from_edge_index(
        [[0, 1, 2], [3, 3, 3]], edge_time=[10, 20, 30], edge_weight=[1.0, 1.0, 2.0]
    )
    early = StratifiedBias(TemporalBias([20] * 50))
    forest = traverse(adj, [3] * 50, [2], early)
    assert {tuple(sorted(pair)) for pair in forest.nodes[1].tolist()} == {(0, 1)}
    by_weight = StratifiedBias(TemporalBias([30] * 50, weighted=True))
    forest = traverse(adj, [3] * 50, [4], by_weight)
    assert {tuple(sorted(x)) for x in forest.nodes[1].tolist()} == {(0, 1, 2, 2)}
    hidden = StratifiedBias(ExcludeBias([1]))
    forest = traverse(adj, [3] * 50, [2], hidden)
    assert {tuple(sorted(pair)) for pair in forest.nodes[1].tolist()} == {(0, 2)}
    once = StratifiedBias(NoRevisitBias())
    assert traverse(toy, [0, 0], [2], once).nodes[1][1].tolist() == [-1, -1]
    subs = [
        sample_rooted(toy, [0, 0], [2, 2], bias=bias, replace=True, generator=1)
        for bias in (once, StratifiedBias())
    ]
    assert torch.equal(subs[0].edge, subs[1].edge)


def test_awkward():
    adj = CompactAdj.from_edge_index([[0, 1, 1], [0, 0, 0]], 3, edge_weight=[0.0, 0, 0])
    for bias in (StratifiedBias(), StratifiedBias(EdgeWeightBias())):
        assert traverse(adj, [], [2], bias).nodes[1].shape == (0, 2)
        assert traverse(adj, [2], [2], bias).nodes[1].tolist() == [[2, 2]]  # stays
    assert traverse(adj, [0], [2], bias).nodes[1].tolist() == [[-1, -1]]
    everything = sample_rooted(adj, [0], [-1], bias=StratifiedBias(), replace=True)
    assert everything.num_edges == 3
    empty = CompactAdj.from_edge_index(torch.empty(2, 0, dtype=torch.long), 2)
    assert traverse(empty, [1], [3], StratifiedBias()).nodes[1].tolist() == [[1] * 3]


def test_validate(toy):
    with pytest.raises(ValueError, match="'replace' must be True with StratifiedBias"):
        sample_rooted(toy, [0], [2], bias=StratifiedBias())
    with pytest.raises(ValueError, match="'replace' must be True with StratifiedBias"):
        traverse(toy, [0], [2], StratifiedBias(), replace=False)
    with pytest.raises(ValueError, match="'bias' must be a bias whose weights say all"):
        StratifiedBias(LABORBias(2))
    with pytest.raises(TypeError, match="'bias'"):
        StratifiedBias(5)
    with pytest.raises(TypeError, match="'systematic' must be True or False"):
        StratifiedBias(systematic="yes")
    with pytest.raises(ValueError, match="'left' must be a bias whose weights say all"):
        StratifiedBias() * NoRevisitBias()
    shown = StratifiedBias(EdgeWeightBias(), systematic=False)
    assert repr(shown) == "StratifiedBias(EdgeWeightBias(), systematic=False)"
    assert repr(StratifiedBias()) == "StratifiedBias()"
