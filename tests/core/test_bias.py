"""The biases: what they weigh, alone and multiplied, and what they refuse."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gttf_sampler import (
    AttentionBias,
    CompactAdj,
    EdgeWeightBias,
    Neighborhood,
    Node2VecBias,
    NoRevisitBias,
    TemporalBias,
    sample_rooted,
    traverse,
)
from gttf_sampler.bias import Law
from gttf_sampler.bias.base import TRAITS, Bias, as_bias
from odd_values import mistyped, wrong
from strategies import graphs, seeds

NAN, INF = math.nan, math.inf


def hood_of(
    adj: CompactAdj, node: list[int], root: list[int] | None = None
) -> Neighborhood:
    """The neighbourhoods of walkers that stand at `node`, made by hand."""
    ends = adj.rowptr.tolist()
    edges = [range(ends[u], ends[u + 1]) if u >= 0 else range(0) for u in node]
    flat = torch.tensor([edge for row in edges for edge in row], dtype=torch.int64)
    walker = [i for i, row in enumerate(edges) for _ in row]
    ptr = torch.tensor([0, *(len(row) for row in edges)]).cumsum(0)
    return Neighborhood(
        adj,
        torch.tensor(walker, dtype=torch.int64),
        adj.col[flat].long(),
        flat,
        ptr,
        torch.tensor(list(range(len(node))) if root is None else root),
    )


def weigh(bias: Any, adj: CompactAdj, path: list[list[int]], node: list[int]) -> Any:
    """The weights of every walker's neighbours, one list per walker."""
    hood = hood_of(adj, node)
    steps = len(path[0]) if path else 0
    way = torch.tensor(path, dtype=torch.int64).view(len(node), steps)
    weight = bias(way, torch.tensor(node), hood)
    return [part.tolist() for part in weight.split(hood.ptr.diff().tolist())]


@given(graphs(weighted=True))
def test_edge_weight_bias_weighs_by_edge_weight(graph):
    adj, nodes = graph.adj(), list(range(graph.num_nodes))
    weight = graph.weight.tolist()
    expected = [[weight[edge] for _, edge in row] for row in graph.rows()]
    if nodes:
        assert weigh(EdgeWeightBias(), adj, [[] for _ in nodes], nodes) == expected


@given(
    graphs(weighted=True),
    st.sampled_from([0.25, 1.0, 4.0]),
    st.sampled_from([0.5, 1.0, 8.0]),
    st.booleans(),
    st.data(),
)
def test_node2vec_bias_weighs_by_the_last_node(graph, p, q, weighted, data):
    adj, rows = graph.adj(), graph.rows()
    start = data.draw(seeds(graph.num_nodes))
    steps = [(u, v) for u in start for v, _ in rows[u]]
    bias = Node2VecBias(p, q, weighted=weighted)
    expected = []
    for last, node in steps:
        row = []
        for there, edge in rows[node]:
            alpha = 1 / q
            if there == last:
                alpha = 1 / p
            elif last in [node for node, _ in rows[there]]:
                alpha = 1.0
            row.append(alpha * (graph.weight[edge].item() if weighted else 1.0))
        expected.append(row)
    if steps:
        found = weigh(bias, adj, [[u] for u, _ in steps], [v for _, v in steps])
        for mine, theirs in zip(found, expected, strict=True):
            assert mine == pytest.approx(theirs)


def test_node2vec_bias_first_step_has_no_last_node(toy):
    assert weigh(Node2VecBias(9.0, 9.0), toy, [[]], [3]) == [[1.0, 1.0]]


@pytest.mark.parametrize(("p", "q"), [(1e-9, 1.0), (1e9, 1e9), (1e-300, 1e300)])
@pytest.mark.parametrize("replace", [True, False])
def test_node2vec_bias_extremes_stay_on_edges(toy, p, q, replace):
    forest = traverse(toy, [0, 1, 2, 3, 4], [2, 2], Node2VecBias(p, q), replace=replace)
    rows = [set(row.tolist()) for row in toy.col.split(toy.degree.tolist())]
    for path in forest.path(2).tolist():
        alive = [node for node in path if node >= 0]
        for here, there in itertools.pairwise(alive):
            assert there in rows[here]


@given(graphs(weighted=True, timed=True), st.booleans(), st.data())
def test_temporal_bias_admits_what_the_seed_may_see(graph, weighted, data):
    adj, start = graph.adj(), data.draw(seeds(graph.num_nodes))
    size = {"min_size": len(start), "max_size": len(start)}
    clock = data.draw(st.lists(st.integers(-4, 7), **size))
    window = data.draw(st.sampled_from([None, 0, 2, 3.5]))
    bias = TemporalBias(torch.tensor(clock).long(), window=window, weighted=weighted)
    time, weight = graph.time.tolist(), graph.weight.tolist()
    expected = []
    for now, seed in zip(clock, start, strict=True):
        first = -INF if window is None else now - window
        expected.append(
            [
                (weight[edge] if weighted else 1.0) * (first <= time[edge] <= now)
                for _, edge in graph.rows()[seed]
            ]
        )
    if start:
        assert weigh(bias, adj, [[] for _ in start], start) == expected


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32])
@pytest.mark.parametrize("clock", [[3], [3.0]])
def test_temporal_bias_times_may_be(dtype, clock):
    time = torch.tensor([1, 3, 5]).to(dtype)
    adj = CompactAdj.from_edge_index([[0, 1, 2], [3, 3, 3]], edge_time=time)
    if isinstance(clock[0], float) and not dtype.is_floating_point:
        with pytest.raises(TypeError, match=r"^'seed_time' must be integer like the"):
            sample_rooted(adj, [3], [-1], bias=TemporalBias(clock))
        return
    for fanout in (-1, 3):
        sub = sample_rooted(adj, [3], [fanout], bias=TemporalBias(clock))
        assert sub.node.tolist() == [3, 0, 1]


@pytest.mark.parametrize("weighted", [False, True])
def test_temporal_bias_at_other_times(weighted):
    time, weight = torch.tensor([1, 2, 3]), torch.tensor([1.0, 0.0, 2.0])
    attributes = {"edge_time": time, "edge_weight": weight}
    adj = CompactAdj.from_edge_index([[0, 1, 2], [3, 3, 3]], 4, **attributes)
    how = {"window": 1, "weighted": weighted}
    rule = TemporalBias([], **how)
    for times in ([3, 1], [2, 2]):
        ours, new = rule.at(torch.tensor(times)), TemporalBias(times, **how)
        seen = [sample_rooted(adj, [3, 3], [-1], bias=bias) for bias in (ours, new)]
        assert torch.equal(seen[0].node, seen[1].node)
        assert torch.equal(seen[0].batch, seen[1].batch)
    with pytest.raises(ValueError, match="'seed_time' must not hold NaN"):
        rule.at(torch.tensor([1.0, torch.nan]))
    with pytest.raises(ValueError, match="'seed_time' must have 1 dimension"):
        rule.at(torch.ones(2, 2))


@pytest.mark.parametrize("replace", [True, False])
def test_temporal_bias_last_draws_from_the_latest(replace):
    time = torch.arange(10)
    edges = torch.stack([torch.arange(10), torch.full((10,), 10)])
    adj = CompactAdj.from_edge_index(edges, edge_time=time)
    bias = TemporalBias([6] * 50, strategy="last")
    forest = traverse(adj, [10] * 50, [3], bias, replace=replace, generator=0)
    assert set(forest.nodes[1].view(-1).tolist()) == {4, 5, 6}
    if not replace:
        assert forest.nodes[1].sort(1).values.tolist() == [[4, 5, 6]] * 50


def test_temporal_bias_last_is_not_lost_in_a_product():
    """The weights of a product know no order, so that the latest cannot be taken."""
    adj = CompactAdj.from_edge_index(
        [[0, 1, 2], [3, 3, 3]], edge_time=[1, 2, 3], edge_weight=[1.0, 1.0, 1.0]
    )
    bias = TemporalBias([9] * 30, strategy="last")
    try:
        sub = sample_rooted(adj, [3] * 30, [1], bias=bias * EdgeWeightBias())
    except ValueError:
        return  # it says so
    assert set(sub.node[30:].tolist()) == {2}


def test_no_revisit_bias_walks_on_once_per_node(toy):
    bias = NoRevisitBias()
    forest = traverse(toy, [1, 1, 4], [4, 2], bias, replace=False, generator=0)
    assert (forest.nodes[1][1] == -1).all()  # the second copy of the seed
    assert forest.nodes[1][0].tolist() == [0, 2, 3, 4]
    # 4 was a seed and 3 is reached twice: the walkers at 0, 2 and the first 3 go on
    alive = (forest.nodes[2].view(3, 4, 2) >= 0).any(2)
    assert alive.tolist() == [
        [True, True, True, False],
        [False] * 4,
        [False] * 4,
    ]


def test_no_revisit_bias_starts_over(toy):
    bias = NoRevisitBias()
    first = traverse(toy, [4, 0], [2, 2], bias, generator=3)
    second = traverse(toy, [4, 0], [2, 2], bias, generator=3)
    assert all(map(torch.equal, first.nodes, second.nodes))


def test_no_revisit_bias_weighs_like_it_draws(toy):
    draws = traverse(toy, [4, 0], [9, 9], NoRevisitBias(), replace=False)
    product = NoRevisitBias() * (lambda path, node, hood: torch.ones(hood.edge.numel()))
    weighed = traverse(toy, [4, 0], [9, 9], product, replace=False)
    for mine, theirs in zip(draws.nodes, weighed.nodes, strict=True):
        assert torch.equal(mine, theirs)


def test_attention_bias_asks_about_pairs(toy):
    asked = []

    def score(node, neighbor):
        asked.append((node.tolist(), neighbor.tolist()))
        return torch.tensor([4.0, 9.0])

    assert weigh(AttentionBias(score), toy, [[]], [3]) == [[2.0, 3.0]]
    assert asked == [([3, 3], [1, 4])]


def test_attention_bias_needs_no_gradient(toy):
    scale = torch.ones(1, requires_grad=True)
    bias = AttentionBias(lambda node, neighbor: scale * (1.0 + neighbor))
    forest = traverse(toy, [1, 3], [2, 2], bias)
    assert not any(level.requires_grad for level in forest.nodes)


def twice(path: Any, node: Any, hood: Neighborhood) -> torch.Tensor:
    return torch.full((hood.edge.numel(),), 2.0)


def test_product_bias_multiplies():
    adj = CompactAdj.from_edge_index(
        [[0, 1], [2, 2]], edge_weight=[3.0, 5.0], edge_time=[1, 2]
    )
    weight, time = EdgeWeightBias(), TemporalBias([1])
    for bias, expected in (
        (weight * weight, [9.0, 25.0]),
        (weight * twice, [6.0, 10.0]),
        (twice * weight, [6.0, 10.0]),
        (twice * weight * time, [6.0, 0.0]),
        (time * weight, [3.0, 0.0]),
    ):
        assert weigh(bias, adj, [[]], [2]) == [expected]
    assert (time * weight).separates_trees
    assert (weight * (twice * time)).separates_trees
    assert not (weight * twice).separates_trees


def test_product_bias_tells_both_parts_to_begin(toy):
    begun = []

    class Part:
        def begin(self, adj, start):
            begun.append(start.tolist())

        def __call__(self, path, node, hood):
            return torch.ones(hood.edge.numel())

    traverse(toy, [4], [1], Part() * (NoRevisitBias() * Part()))
    assert begun == [[4], [4]]


REPRS = [
    (EdgeWeightBias(), "EdgeWeightBias()"),
    (NoRevisitBias(), "NoRevisitBias()"),
    (Node2VecBias(0.5, 2), "Node2VecBias(p=0.5, q=2)"),
    (Node2VecBias(weighted=True), "Node2VecBias(p=1, q=1, weighted=True)"),
    (TemporalBias([1, 2]), "TemporalBias(2 seeds, strategy='uniform')"),
    (
        TemporalBias([1], strategy="last", window=3),
        "TemporalBias(1 seeds, strategy='last', window=3)",
    ),
    (AttentionBias(max), "AttentionBias(<built-in function max>)"),
    (EdgeWeightBias() * NoRevisitBias(), "EdgeWeightBias() * NoRevisitBias()"),
]


@pytest.mark.parametrize(("bias", "text"), REPRS)
def test_bias_repr(bias, text):
    assert repr(bias) == text


NODE2VEC_ERRORS = [
    (0, ValueError, r"must be finite and greater than 0 \(got 0\)"),
    (-1.5, ValueError, r"must be finite and greater than 0 \(got -1.5\)"),
    (NAN, ValueError, r"must be finite and greater than 0 \(got nan\)"),
    (INF, ValueError, r"must be finite and greater than 0 \(got inf\)"),
    (1e-310, ValueError, r"must be "),  # 1 / p is infinite
    (10**400, ValueError, r"must be "),  # not a float
    ("1", TypeError, r"must be a number \(got '1'\)"),
    (None, TypeError, r"must be a number \(got None\)"),
    (True, TypeError, r"must be a number \(got True\)"),
    ([1.0], TypeError, r"must be a number \(got \[1.0\]\)"),
]


@pytest.mark.parametrize("name", ["p", "q"])
@pytest.mark.parametrize(
    ("value", "error", "match"), NODE2VEC_ERRORS, ids=lambda x: str(x)[:12]
)
def test_node2vec_bias_validate(toy, name, value, error, match):
    with pytest.raises(error, match=f"^'{name}' {match}"):
        traverse(toy, [1], [1, 1], Node2VecBias(**{name: value}))


@pytest.mark.parametrize("number", [2, np.float32(0.5), np.int64(2)])
def test_node2vec_bias_takes_any_number(toy, number):
    traverse(toy, [1], [1, 1], Node2VecBias(number, number))


def test_node2vec_bias_needs_weights_if_weighted(toy):
    with pytest.raises(ValueError, match=r"^'bias' needs edge weights .*; build"):
        traverse(toy, [1], [1], Node2VecBias(weighted=True))


TEMPORAL_ERRORS = [
    wrong(r"must have .*\(got shape \[\]\)", seed_time=3),
    wrong(r"must have .*\[1, 1\]", seed_time=[[3]]),
    mistyped(r"must be .*\(got NoneType\)", seed_time=None),
    wrong("must not hold NaN", seed_time=[NAN]),
    mistyped("must hold integers or float", seed_time=[True]),
    wrong("must have one entry per seed, 1", seed_time=[1, 2]),
    wrong("must have one entry per seed, 1 in", seed_time=[]),
    mistyped("must be integer like the edges'", seed_time=[1.5]),
    wrong(r"must be one of 'uniform', 'last' \(got 'first'\)", strategy="first"),
    wrong("must be one of 'uniform', 'last'", strategy=None),
    wrong(r"must be finite and not negative \(got -1", window=-1),
    wrong(r"must be finite and not negative \(got na", window=NAN),
    wrong(r"must be finite and not negative \(got in", window=INF),
    mistyped("must be .*'1'", window="1"),
    mistyped(r"must be .*\[1\]", window=[1]),
    wrong(
        r"'weighted' needs strategy='uniform' \(got strategy='last'\)",
        strategy="last",
        weighted=True,
    ),
    wrong("'bias' needs edge weights .*; build", weighted=True),
]


@pytest.mark.parametrize("fanout", [2, -1])
@pytest.mark.parametrize(("arguments", "error", "match"), TEMPORAL_ERRORS)
def test_temporal_bias_validate(arguments, error, match, fanout):
    adj = CompactAdj.from_edge_index([[0, 1], [2, 2]], edge_time=[1, 2])
    with pytest.raises(error, match=f"^{match}"):
        sample_rooted(
            adj, [2], [fanout], bias=TemporalBias(**{"seed_time": [2], **arguments})
        )


@pytest.mark.parametrize("fanout", [2, -1])
@pytest.mark.parametrize(
    ("window", "now"), [(1e300, 2), (10**30, 2), (2**64, 2), (2**63 - 1, -3)]
)
def test_temporal_bias_window_of_any_size(window, now, fanout):
    """Longer than all of time: the same as none."""
    adj = CompactAdj.from_edge_index([[0, 1, 3], [2, 2, 2]], edge_time=[-5, 1, 9])
    admitted = [0, 1] if now == 2 else [0]
    bias = TemporalBias([now], window=window)
    sub = sample_rooted(adj, [2], [fanout], bias=bias)
    assert sorted(sub.node[1:].tolist()) == admitted


@pytest.mark.parametrize("fanout", [2, -1])
def test_temporal_bias_needs_sorted_rows(fanout):
    adj = CompactAdj.from_edge_index(
        [[0, 1], [2, 2]], edge_time=[2, 1], sort_by_time=False
    )
    with pytest.raises(
        ValueError, match=r"^'bias' needs rows sorted by time .*; build"
    ):
        sample_rooted(adj, [2], [fanout], bias=TemporalBias([2]))


ATTENTION_ERRORS = [
    (3, TypeError, r"'score_fn' must be callable \(got 3\)"),
    (lambda here, there: 1.0, TypeError, r"'score_fn' must return a tensor"),
    (lambda here, there: None, TypeError, r"'score_fn' must return a tensor"),
    (lambda here, there: -torch.ones(there.numel()), ValueError, r"'score_fn' must "),
    (lambda here, there: torch.ones(there.numel(), 1), ValueError, r"'\w+' must "),
]


@pytest.mark.parametrize(("score", "error", "match"), ATTENTION_ERRORS)
def test_attention_bias_validate(toy, score, error, match):
    with pytest.raises(error, match=f"^{match}"):
        traverse(toy, [1], [2], AttentionBias(score))


def minus(path: Any, node: Any, hood: Neighborhood) -> torch.Tensor:
    return -torch.ones(hood.edge.numel())


PRODUCT_ERRORS = [
    (lambda: 5 * EdgeWeightBias(), TypeError, r"'left' must be a function .*\(got 5\)"),
    (lambda: EdgeWeightBias() * None, TypeError, r"'right' must be a function .*None"),
    (lambda: NoRevisitBias() * (lambda *_: 2.0), TypeError, r"'\w+' must return a te"),
    (
        lambda: NoRevisitBias() * (lambda *_: torch.ones(3)),
        ValueError,
        r"'\w+' must return one weight per neighbour",
    ),
    (
        lambda: NoRevisitBias() * (lambda *_: torch.ones(1)),
        ValueError,
        r"'\w+' must return one weight per neighbour",
    ),
    (lambda: NoRevisitBias() * minus, ValueError, r"'\w+' must not .*negative"),
    (
        lambda: NoRevisitBias() * minus * minus,
        ValueError,
        r"'\w+' must not .*negative",
    ),
]


@pytest.mark.parametrize(("make", "error", "match"), PRODUCT_ERRORS)
def test_product_bias_validate(toy, make, error, match):
    with pytest.raises(error, match=f"^{match}"):
        traverse(toy, [1], [2], make())


def test_bias_may_be_a_mask(toy):
    """True and False count as one and zero."""

    def upward(path, node, neighborhood):
        return neighborhood.neighbor > node[neighborhood.walker]

    forest = traverse(toy, [1] * 50, [1], upward)
    assert set(forest.nodes[1].view(-1).tolist()) == {2, 3, 4}


def test_node2vec_offers_the_way_back_apart_only_where_it_pays():
    """An edge that is there 64 times would otherwise burden every other row."""
    ring = [[*range(100)], [*range(1, 100), 0]]
    plain = CompactAdj.from_edge_index(ring, direction="out")
    assert Node2VecBias(0.5, 2)._envelope(plain).extra > 0
    assert Node2VecBias(2, 0.5)._envelope(plain).extra == 0
    often = [[*ring[0], *[0] * 64], [*ring[1], *[1] * 64]]
    multiple = CompactAdj.from_edge_index(often, direction="out")
    assert Node2VecBias(0.5, 2)._envelope(multiple).extra == 0


def test_attention_bias_factor_is_exact():
    """√a · Σ√a / f makes a sampled sum the attention-weighted one, in expectation."""
    attention = torch.tensor([0.1, 0.0, 0.6, 0.3], dtype=torch.float64)
    message = torch.tensor([3.0, 50.0, -2.0, 7.0], dtype=torch.float64)
    star = CompactAdj.from_edge_index([[1, 2, 3, 4], [0, 0, 0, 0]])
    bias = AttentionBias(lambda node, neighbor: attention[neighbor - 1])
    fanout, trees = 3, 40_000
    drawn = traverse(star, [0] * trees, [fanout], bias, generator=0).nodes[1] - 1
    root = attention.sqrt()
    found = (message * root * root.sum() / fanout)[drawn].sum(1)
    error = float(found.std()) / trees**0.5
    assert abs(float(found.mean() - (attention * message).sum())) < 5 * error


def test_every_trait_is_declared_in_one_place():
    """Every trait of a bias is declared and described by `Bias`."""
    for kind in (TemporalBias, Node2VecBias, EdgeWeightBias, NoRevisitBias):
        own = {name for name in vars(kind) if not name.startswith("_")}
        assert own - {"at"} <= set(dir(Bias)), kind  # makes another one
    for trait in TRAITS:
        assert f"{trait}:" in Bias.__doc__


def test_function_has_the_traits_of_a_bias():
    bias = as_bias(lambda path, node, neighborhood: neighborhood.neighbor)
    assert {name: getattr(bias, name) for name in TRAITS} == {
        name: getattr(Bias, name) for name in TRAITS
    }
    assert as_bias(bias) is bias
    assert as_bias(None) is None


def test_object_that_is_no_bias_keeps_its_traits(toy):
    class Counting:
        separates_trees = True
        begun = 0

        def begin(self, adj, seeds):
            self.begun += 1

        def __call__(self, path, node, neighborhood):
            return torch.ones(neighborhood.edge.numel())

    own = Counting()
    assert sample_rooted(toy, [1, 1], [2], bias=own).batch is not None
    traverse(toy, [1], [2, 2], own)
    assert own.begun == 2
    assert (as_bias(own) * NoRevisitBias()).separates_trees


def test_traits_of_a_product_are_those_of_its_factors():
    product = Node2VecBias(weighted=True) * NoRevisitBias() * TemporalBias([1])
    assert [type(part) for part in product.factors] == [
        Node2VecBias,
        NoRevisitBias,
        TemporalBias,
    ]
    assert product.looks_back
    assert product.needs_times
    assert product.needs_weights
    assert not product.takes_whole_rows
    assert not TemporalBias([1], strategy="last").multiplies


def test_old_names_of_traits_are_not_passed_over():
    class Old:
        per_root = True

        def __call__(self, path, node, neighborhood):
            return torch.ones(neighborhood.edge.numel())

    with pytest.raises(ValueError, match=r"'per_root' by its new name .*separates"):
        as_bias(Old())


class Lawful(Bias):
    """A bias that says what it is told to say."""

    def __init__(self, **law):
        self.own = Law(**law)

    def __call__(self, path, node, neighborhood):
        return torch.ones(neighborhood.edge.numel())

    def law(self, adj):
        return self.own


@pytest.mark.parametrize(
    ("law", "match"),
    [
        (
            {"cumulative_weight": torch.ones(10).long()},
            r"'law.cumulative_weight' must be that of EdgeWeightBias",
        ),
        (
            {"has_zero_weight": True},
            r"'law.cumulative_weight' must be that of EdgeWeightBias",
        ),
        (
            {"cumulative_weight": torch.ones(10), "excluded_edges": torch.tensor([1])},
            r"'law.excluded_edges' must not be given beside 'law.cumulative_weight'",
        ),
        (
            {"time": torch.arange(10)},
            r"'law.time_max' must be given where 'law.time' is",
        ),
        (
            {"time": torch.arange(10), "time_max": torch.arange(3)},
            r"'law.time_max' must have one entry per seed, 2 in all \(got 3\)",
        ),
        (
            {"excluded_edges": torch.tensor([10])},
            r"'law.excluded_edges' must hold ids below .* edges",
        ),
        (
            {"excluded_edges": torch.tensor([2, 1])},
            r"'law.excluded_edges' must ascend .* sort it",
        ),
    ],
)
def test_law_that_does_not_fit_is_refused(toy, law, match):
    with pytest.raises((TypeError, ValueError), match=match):
        sample_rooted(toy, [4, 0], [2], bias=Lawful(**law))


def test_law_is_not_inherited_by_who_weighs_otherwise(toy):
    class Other(Lawful):
        def __call__(self, path, node, neighborhood):
            return (neighborhood.neighbor == 1).float()

    class Mixed:
        def __call__(self, path, node, neighborhood):
            return (neighborhood.neighbor == 1).float()

    class Both(Mixed, Lawful):
        pass

    assert Both(excluded_edges=torch.arange(10)).law(toy) is None
    everything = Lawful(excluded_edges=torch.arange(10))
    assert sample_rooted(toy, [4], [3], bias=everything).num_edges == 0
    found = sample_rooted(toy, [4], [3], bias=Other(excluded_edges=torch.arange(10)))
    assert found.node.tolist() == [4, 1]


def test_law_with_times_separates_trees(toy):
    law = Lawful(time=torch.arange(10), time_max=torch.tensor([3, 9]))
    found = sample_rooted(toy, [4, 4], [-1], bias=law)
    assert found.batch is not None
    assert bool((found.edge[found.col == 0] <= 3).all())


def test_law_knows_the_former_names_of_its_fields():
    hidden = torch.tensor([1])
    with pytest.warns(DeprecationWarning, match="'hidden' of Law is called 'excluded"):
        law = Law(hidden=hidden)
    assert law.excluded_edges is hidden
    with pytest.warns(
        DeprecationWarning, match="'last' of Law is called 'most_recent'"
    ):
        assert law.last is False
    with pytest.raises(TypeError, match="unexpected keyword"):
        Law(nothing=1)
