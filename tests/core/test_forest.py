"""WalkForest: paths, weights and edges read off the levels."""

import math
import pickle

import pytest
import torch
from hypothesis import given

from gttf_sampler import CompactAdj, WalkForest, traverse
from test_traverse import cases


def parents(forest: WalkForest, depth: int, i: int) -> list[int]:
    """Walker i at `depth` and those it came from, as positions, seed first."""
    line = [i]
    for fanout in reversed(forest.fanouts[:depth]):
        line.append(line[-1] // fanout)
    return line[::-1]


@given(cases())
def test_forest_path(case):
    _, forest = case.walk()
    for depth in range(forest.depth + 1):
        levels = [level.tolist() for level in forest.nodes[: depth + 1]]
        expected = [
            [
                levels[k][tree][place]
                for k, place in enumerate(parents(forest, depth, i))
            ]
            for tree in range(len(case.seeds))
            for i in range(math.prod(case.fanouts[:depth]))
        ]
        path = forest.path(depth)
        assert path.tolist() == expected
        assert path.shape == (len(expected), depth + 1)


def test_forest_path_of_the_figure(toy):
    forest = traverse(toy, [4, 0], [2, 2], generator=21874)
    assert forest.path(0).tolist() == [[4], [0]]
    assert forest.path(1).tolist() == [[4, 3], [4, 1], [0, 1], [0, 1]]
    assert forest.path(2).tolist() == [
        [4, 3, 4],
        [4, 3, 1],
        [4, 1, 2],
        [4, 1, 0],
        [0, 1, 0],
        [0, 1, 2],
        [0, 1, 4],
        [0, 1, 2],
    ]


@given(cases())
def test_forest_walk_weight(case):
    """Children share the weight of their parent; what has stopped weighs nothing."""
    _, forest = case.walk()
    for tree in range(len(case.seeds)):
        weights = [1.0]
        for depth, fanout in enumerate(case.fanouts, start=1):
            nodes = forest.nodes[depth][tree].tolist()
            shares = []
            for i, weight in enumerate(weights):
                family = nodes[i * fanout : (i + 1) * fanout]
                alive = sum(node >= 0 for node in family)
                shares += [weight / alive if node >= 0 else 0.0 for node in family]
            weights = shares
            found = forest.walk_weight(depth)[tree]
            assert found.tolist() == pytest.approx(weights)


@given(cases())
def test_forest_walk_weight_sums_to_one_while_alive(case):
    case = case._replace(bias=None, allowed=lambda root, edge: True)
    _, forest = case.walk()
    for depth in range(len(case.fanouts) + 1):
        weight = forest.walk_weight(depth)
        assert weight.shape == forest.nodes[depth].shape
        assert weight.sum(1).tolist() == pytest.approx([1.0] * len(case.seeds))
        if case.replace:
            eta = 1 / math.prod(case.fanouts[:depth])
            assert torch.allclose(weight, torch.full_like(weight, eta))


@given(cases())
def test_forest_edge_index(case):
    adj, forest = case.walk()
    steps = [
        (path[-2], path[-1], edge)
        for depth in range(1, forest.depth + 1)
        for path, edge in zip(
            forest.path(depth).tolist(),
            adj.original_edge(forest.edges[depth]).view(-1).tolist(),
            strict=True,
        )
        if edge >= 0
    ]
    pairs = forest.edge_index()
    assert pairs.dtype == torch.int64
    assert pairs.shape == (2, len(steps))
    assert pairs.t().tolist() == [[here, there] for here, there, _ in steps]
    for here, there, edge in steps:
        ends = case.graph.edge_index[:, edge].tolist()
        assert ends == (
            [there, here] if case.graph.direction == "in" else [here, there]
        )


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_forest_empty_batch(toy, depth):
    forest = traverse(toy, [], [2, 3])
    assert forest.path(depth).shape == (0, depth + 1)
    assert forest.walk_weight(depth).shape == (0, math.prod((2, 3)[:depth]))
    assert forest.edge_index().shape == (2, 0)


def test_forest_edge_index_without_steps(toy):
    assert traverse(toy, [1, 2], []).edge_index().tolist() == [[], []]


def test_forest_weight_of_short_rows(toy):
    forest = traverse(toy, [3, 1], [3], replace=False)
    assert forest.walk_weight(0).tolist() == [[1.0], [1.0]]
    half = torch.tensor([0.5, 0.5, 0.0])
    assert torch.equal(forest.walk_weight(1)[0], half)
    assert forest.walk_weight(1)[1].tolist() == pytest.approx([1 / 3] * 3)


def test_forest_is_a_plain_value(toy):
    forest = traverse(toy, [4, 0], [2, 2], generator=21874)
    again = pickle.loads(pickle.dumps(forest))
    assert [x.tolist() for x in again.nodes] == [x.tolist() for x in forest.nodes]
    assert again.fanouts == (2, 2)


def test_forest_to(toy):
    forest = traverse(toy, [4, 0], [2, 2])
    there = forest.to("meta")
    assert {x.device.type for x in there.nodes + there.edges} == {"meta"}
    assert there.adj.device.type == "meta"
    assert there.fanouts == forest.fanouts


def test_forest_repr(toy):
    forest = traverse(toy, [4, 0], [2, 3])
    assert repr(forest) == "WalkForest(2 trees, width 1 → 2 → 6 on cpu)"
    assert repr(traverse(toy, [], [])) == "WalkForest(0 trees, width 1 on cpu)"
    assert "0 trees" in repr(WalkForest(toy, (2,)))


@pytest.mark.parametrize("method", ["path", "walk_weight"])
@pytest.mark.parametrize(
    ("k", "error", "match"),
    [
        (3, ValueError, r"'k' must be a depth from 0 to 2 \(got 3\)"),
        (-1, ValueError, r"'k' must be a depth from 0 to 2 \(got -1\)"),
        (1.0, TypeError, r"'k' must be .*1.0"),
        ("1", TypeError, r"'k' must be .*'1'"),
        (None, TypeError, r"'k' must be .*None"),
    ],
)
def test_forest_validate(toy, method, k, error, match):
    forest = traverse(toy, [4, 0], [2, 2])
    with pytest.raises(error, match=f"^{match}"):
        getattr(forest, method)(k)


def test_forest_levels_are_distinct_arrays():
    """Nothing read off a forest changes it."""
    adj = CompactAdj.from_edge_index([[0, 1], [1, 0]])
    forest = traverse(adj, [0, 1], [2, 2])
    before = [level.clone() for level in forest.nodes]
    forest.path(2).fill_(7)
    forest.walk_weight(2).fill_(7)
    forest.edge_index().fill_(7)
    assert all(map(torch.equal, forest.nodes, before))
