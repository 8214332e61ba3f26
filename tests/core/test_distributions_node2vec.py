"""node2vec walks against their exact second-order probabilities, on every code path."""

import time

import pytest
import torch

from exact import assert_frequencies, graph, paths, second_order, successive
from exact import one_thread as one_thread
from gttf_sampler import CompactAdj, Node2VecBias, sample_rooted, traverse, use_backend

N = 15_000  # walks from every node

# A triangle 0-1-2, a path 2-3-4 to a leaf, 1-3 twice, and a self-loop at 3.
UNDIRECTED = [[1, 2], [0, 2, 3, 3], [0, 1, 3], [2, 1, 1, 3, 4], [3]]
# Adjacency is not mutual: 3 leads to 0 (twice), 0 does not lead to 3. Loop at 2.
DIRECTED = [[1, 2], [2, 3], [0, 2, 1], [0, 0, 1]]
# No triangle anywhere: with p and q large, every proposal is refused.
TREE = [[1], [0, 2, 3], [1, 4], [1], [2]]
GRAPHS = {"undirected": UNDIRECTED, "directed": DIRECTED, "tree": TREE}


def ones(path, node, neighborhood):
    return torch.ones_like(neighborhood.neighbor, dtype=torch.float64)


def edge_weights(rows):
    """One weight per edge, no two alike, one of them zero; in the order of the rows."""
    weights = [0.5 + (7 * i) % 5 for i in range(sum(map(len, rows)))]
    weights[1] = 0.0
    return weights


def assert_walks(rows, bias, weights=None, **options):
    """Walks of three steps from every node have the probabilities they should."""
    weight = None if weights is None else torch.tensor(weights)
    adj = graph(rows, edge_weight=weight)
    seeds = torch.arange(len(rows)).repeat_interleave(N)
    forest = traverse(adj, seeds, [1, 1, 1], bias, generator=1, **options)
    own = bias if isinstance(bias, Node2VecBias) else bias.left
    step = second_order(rows, weights or [1.0] * adj.num_edges, own.p, own.q)
    walks = forest.path(3).view(len(rows), N, 4)
    for start in range(len(rows)):
        assert_frequencies(walks[start], paths(step, start, 3))


GRAPH = pytest.mark.parametrize("rows", GRAPHS.values(), ids=GRAPHS)
PQ = pytest.mark.parametrize(
    ("p", "q"),
    [(1, 1), (0.25, 4), (4, 0.25), (1e3, 1), (1, 1e3), (1e3, 2e3), (0.01, 0.02)],
)


@GRAPH
@PQ
def test_node2vec_by_rejection(rows, p, q):
    assert_walks(rows, Node2VecBias(p, q))


@GRAPH
@pytest.mark.parametrize(("p", "q"), [(0.25, 4), (1e3, 1), (1e3, 2e3)])
def test_node2vec_by_weight(rows, p, q):
    assert_walks(rows, Node2VecBias(p, q) * ones)
    assert_walks(rows, Node2VecBias(p, q), replace=False)


@GRAPH
@pytest.mark.parametrize(("p", "q"), [(0.25, 4), (1e3, 2e3)])
def test_node2vec_weighted(rows, p, q):
    bias, weights = Node2VecBias(p, q, weighted=True), edge_weights(rows)
    assert_walks(rows, bias, weights)
    assert_walks(rows, bias * ones, weights)
    assert_walks(rows, bias, weights, replace=False)


@pytest.mark.parametrize("bias", [Node2VecBias(4, 0.5), Node2VecBias(1e3, 2e3)])
def test_node2vec_siblings_are_independent(bias):
    adj = graph(UNDIRECTED)
    forest = traverse(adj, [0] * 50_000, [1, 2], bias, generator=2)
    step = second_order(UNDIRECTED, [1.0] * adj.num_edges, bias.p, bias.q)
    for here in UNDIRECTED[0]:
        one = step((0, here))
        exact = {(a, b): one[a] * one[b] for a in one for b in one}
        stands = forest.nodes[1][:, 0] == here
        assert_frequencies(forest.nodes[2][stands], exact)


@pytest.mark.parametrize("weighted", [False, True])
def test_node2vec_distinct_sets(weighted):
    # 0 → 1, then two different edges out of 1: back, to a common neighbour, away.
    rows = [[1], [0, 2, 3, 4], [0], [], []]
    weights = [1.0, 2.0, 1.0, 3.0, 0.5, 1.0] if weighted else [1.0] * 6
    adj = graph(rows, edge_weight=torch.tensor(weights))
    bias = Node2VecBias(0.5, 4, weighted=weighted)
    forest = traverse(adj, [0] * 50_000, [1, 2], bias, replace=False, generator=3)
    alpha = [1 / 0.5, 1.0, 1 / 4, 1 / 4]
    exact = successive([a * w for a, w in zip(alpha, weights[1:5], strict=True)], 2)
    assert_frequencies(forest.edges[2] - 1, exact)


@pytest.mark.parametrize("replace", [True, False])
def test_node2vec_rooted(replace):
    rows = [[1], [0, 2, 3], [0], []]
    trees = sample_rooted(
        graph(rows),
        [0] * 50_000,
        [1, 1],
        bias=Node2VecBias(0.5, 4),
        replace=replace,
        disjoint=True,
        generator=4,
    )
    second = trees.edge[50_000:, None] - 1
    assert_frequencies(second, {(0,): 8 / 13, (1,): 4 / 13, (2,): 1 / 13})


@pytest.mark.parametrize("bias", [Node2VecBias(2, 3), Node2VecBias(2, 3) * ones])
def test_node2vec_dead_end_keeps_and_no_weight_stops(bias):
    forest = traverse(graph([[1], []]), [0, 1], [1, 1, 1], bias, generator=5)
    assert forest.path(3).tolist() == [[0, 1, 1, 1], [1, 1, 1, 1]]
    adj = graph([[1], [0]], edge_weight=torch.tensor([1.0, 0.0]))
    bias = Node2VecBias(2, 3, weighted=True)
    forest = traverse(adj, [0, 1], [1, 1, 1], bias, generator=5)
    assert forest.path(3).tolist() == [[0, 1, -1, -1], [1, -1, -1, -1]]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_node2vec_after_refusals_draws_from_words_of_its_own(backend, weighted):
    """Earlier refusals must not decide the outcome of the exact draw.

    From node 1 to the hub 0; 64 of its 4,096 neighbours, first in the row, are near.
    """
    near, degree, draws = 64, 4096, 4_000
    leaf = torch.arange(1, degree + 1)
    friends = torch.arange(2, near + 2)
    rows = torch.cat([torch.zeros_like(leaf), torch.ones(1).long(), friends])
    cols = torch.cat([leaf.roll(-1), torch.zeros(1).long(), torch.ones_like(friends)])
    adj = CompactAdj.from_edge_index(
        torch.stack([rows, cols]), direction="out", edge_weight=torch.ones(len(rows))
    )
    bias = Node2VecBias(p=1, q=1e9, weighted=weighted)
    with use_backend(backend):
        walks = traverse(adj, [1] * draws, [1, 1], bias, generator=0)
    # back and near weigh 1 each, the others together 4e-6
    exact = {(v,): 1 / (near + 1) for v in range(1, near + 2)}
    assert_frequencies(walks.nodes[2], exact)


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_node2vec_costs_no_more_than_there_is_to_look_at(backend):
    """A hub with 10^6 leaves, where every proposal is refused: seconds, not minutes."""
    leaves, steps = (10**6, 64) if backend == "numba" else (10**5, 16)
    leaf = torch.arange(1, leaves + 1)
    ends = torch.stack([leaf, torch.zeros_like(leaf)])
    edge_index = torch.cat([ends, ends.flip(0)], dim=1)
    adj = CompactAdj.from_edge_index(edge_index, direction="out")
    bias = Node2VecBias(p=1e6, q=1e6)
    with use_backend(backend):
        traverse(adj, [1], [1] * 4, bias, generator=0)  # makes the tables
        begin = time.process_time()
        traverse(adj, [1] * 8, [1] * steps, bias, generator=0)
    assert time.process_time() - begin < (0.5 if backend == "numba" else 30)
