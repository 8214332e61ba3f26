"""LABORBias: chances, shared numbers, unbiased sums, and fewer nodes."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from all_pairs import all_pairs
from exact import assert_frequencies, assert_means, copies, graph
from exact import one_thread as one_thread
from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    LABORBias,
    LADIESBias,
    sample_rooted,
    traverse,
    use_backend,
)

# Seeds 0 and 1 share neighbours 3 and 4; row 2 is short.
ROWS = [[2, 3, 4], [3, 4, 5, 6], [0, 6], [0], [1], [6], [5, 2]]
SEEDS = [0, 1, 2]
X = torch.tensor([1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0], dtype=torch.float64)
WEIGHT = [5.0, 1.0, 2.0, 1.0, 4.0, 0.0, 3.0, 1.0, 2.0, 1.0, 1.0, 1.0, 2.0, 0.5]


def outcomes(cuts):
    """(interval, probability) of a number of [0, 1) cut at the given places."""
    edges = sorted({0.0, 1.0, *(cut for cut in cuts if 0 < cut < 1)})
    return [((a + b) / 2, b - a) for a, b in pairwise(edges)]


@pytest.mark.parametrize("fanout", [1, 2, 3])
def test_sets_follow_one_number_per_neighbour(fanout):
    """All of them enumerated: r of each neighbour falls below some chances or not."""
    chance = {u: min(1, fanout / len(ROWS[u])) for u in (0, 1)}
    exact = {(): 1.0}
    for v in range(2, 7):
        rows = [u for u in (0, 1) if v in ROWS[u]]
        grown = {}
        for taken, p in exact.items():
            for r, share in outcomes([chance[u] for u in rows]):
                now = (*taken, *(int(u in rows and r < chance[u]) for u in (0, 1)))
                grown[now] = grown.get(now, 0.0) + p * share
        exact = grown
    count, size = 20_000, len(ROWS)
    seeds = (size * torch.arange(count)[:, None] + torch.tensor([0, 1])).view(-1)
    many, bias = copies(ROWS, count), LABORBias(fanout)
    sub = sample_rooted(many, seeds, [-1], bias=bias, generator=fanout)
    found = torch.zeros(count, 5, 2, dtype=torch.int64)
    sender = sub.node[sub.row] % size - 2
    found[sub.col // 2, sender, sub.col % 2] = 1
    assert_frequencies(found.view(count, 10), exact)


@all_pairs
@pytest.mark.parametrize("importance", [0, 1, 3, -1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fanout", [1, 2])
def test_sums_are_unbiased(importance, weighted, fanout):
    adj = graph(ROWS, edge_weight=WEIGHT)
    weight = torch.tensor(WEIGHT if weighted else [1.0] * 14, dtype=torch.float64)
    exact = torch.stack(
        [(weight[adj.rowptr[u] : adj.rowptr[u + 1]] * X[ROWS[u]]).sum() for u in SEEDS]
    )
    count, many = 20_000, copies(ROWS, 20_000)
    many = replace(many, edge_weight=torch.tensor(WEIGHT).repeat(count))
    own = EdgeWeightBias() if weighted else None
    bias = LABORBias(fanout, own, importance=importance)
    seeds = (len(ROWS) * torch.arange(count)[:, None] + torch.tensor(SEEDS)).view(-1)
    sub = sample_rooted(many, seeds, [-1], bias=bias, generator=fanout)
    sent = X[sub.node[sub.row] % len(ROWS)]
    each = bias.factor(sub) * weight[sub.edge % len(WEIGHT)] * sent
    found = torch.zeros(len(seeds), dtype=each.dtype).scatter_add_(0, sub.col, each)
    assert_means(found.view(count, 3), exact)


def test_variance_is_that_of_draws_and_nodes_are_fewer():
    """Many seeds that share neighbours: the same edges in the mean, fewer nodes."""
    generator = torch.Generator().manual_seed(4)
    ends = torch.stack([torch.randint(500, (8000,), generator=generator) for _ in "ab"])
    adj = CompactAdj.from_edge_index(ends, 500)
    seeds, nodes, edges = torch.arange(100), {}, {}
    ways = {"plain": None, "labor": 0, "labor 1": 1, "labor *": -1}
    for name, importance in ways.items():
        subs = []
        for i in range(20):
            labor = importance is not None
            bias = LABORBias(5, importance=importance) if labor else None
            fanouts = [-1] if labor else [5]
            subs.append(sample_rooted(adj, seeds, fanouts, bias=bias, generator=i))
        nodes[name] = sum(sub.num_nodes for sub in subs) / 20
        edges[name] = sum(sub.num_edges for sub in subs) / 20
    assert nodes["labor"] < 0.8 * nodes["plain"]
    assert nodes["labor *"] <= nodes["labor 1"] < nodes["labor"]
    assert edges["labor"] == pytest.approx(500, rel=0.05)


def test_weights_settle_the_variance_asked_for():
    """Σ w² / p of every long row is Σ w² + (Σ w)² (1 / k − 1 / δ), as it is solved."""
    adj = graph(ROWS, edge_weight=WEIGHT)
    seen = {}

    def keep(node, key):
        return torch.zeros_like(node, dtype=torch.float64)  # takes all, shows 1 / p

    for u in (0, 1):
        bias = LABORBias(2, EdgeWeightBias(), variate=keep)
        sub = sample_rooted(adj, [u], [-1], bias=bias)
        weight = torch.tensor(WEIGHT, dtype=torch.float64)[sub.edge]
        seen[u] = float((weight**2 * bias.factor(sub)).sum())
        total, square, degree = weight.sum(), (weight**2).sum(), len(weight)
        asked = square + total**2 * (1 / 2 - 1 / degree)
        assert seen[u] == pytest.approx(float(asked), rel=1e-5)


def test_fanouts_per_depth_and_all(toy):
    bias = LABORBias([-1, 0])
    whole = sample_rooted(toy, [0, 1], [-1])
    sub = sample_rooted(toy, [0, 1], [-1, -1], bias=bias)
    assert torch.equal(sub.edge, whole.edge)
    assert bias.factor(sub).tolist() == [1.0] * sub.num_edges
    with pytest.raises(ValueError, match="'fanout' must have an entry for depth 2"):
        sample_rooted(toy, [0, 1], [-1, -1, -1], bias=LABORBias([-1, -1]))


def test_hidden_edges_are_not_there(toy):
    _, hidden = toy.edges_between([0], [int(toy.neighbor(0, 0))])
    for i in range(20):
        bias = LABORBias(2, ExcludeBias(hidden))
        sub = sample_rooted(toy, [0], [-1], bias=bias, generator=i)
        assert not torch.isin(sub.edge, hidden).any()
    left = LABORBias(100, ExcludeBias(hidden))
    assert sample_rooted(toy, [0], [-1], bias=left).num_edges == int(toy.degree[0]) - 1


def test_governed_by_the_seed_on_every_backend(toy):
    def drawn(seed):
        torch.manual_seed(seed)
        bias = LABORBias(1, importance=1)
        return [sample_rooted(toy, [0, 1], [-1, -1], bias=bias).edge.tolist()] * 3

    with use_backend("torch"):
        first = drawn(1)
    assert drawn(1) == first
    assert drawn(2) != first or drawn(3) != first


@pytest.mark.parametrize("importance", [0, 2, -1])
def test_awkward(importance):
    adj = CompactAdj.from_edge_index([[0, 1, 1], [0, 0, 0]], 3)  # loop, multi-edge
    bias = LABORBias(1, importance=importance)
    for seeds, nodes in (([], 0), ([2], 1)):
        sub = sample_rooted(adj, seeds, [-1, -1], bias=bias)
        assert (sub.num_nodes, sub.num_edges) == (nodes, 0)
        assert bias.factor(sub).tolist() == []
    sub = sample_rooted(adj, [0, 0], [-1], bias=bias)
    assert sub.num_edges % 2 == 0
    nothing = CompactAdj.from_edge_index([[1, 2], [0, 0]], edge_weight=[0.0, 0.0])
    bias = LABORBias(1, EdgeWeightBias(), importance=importance)
    assert sample_rooted(nothing, [0], [-1], bias=bias).num_edges == 0


def test_validate(toy):
    with pytest.raises(TypeError, match="'fanouts' must be a list of integers"):
        LABORBias(1.5)
    with pytest.raises(TypeError, match="'importance'"):
        LABORBias(1, importance="much")
    with pytest.raises(TypeError, match="'weights'"):
        LABORBias(1, 5)
    with pytest.raises(TypeError, match="'variate'"):
        LABORBias(1, variate=5)
    with pytest.raises(ValueError, match="'fanouts' must be -1 with LABORBias"):
        sample_rooted(toy, [0], [2], bias=LABORBias(2))
    with pytest.raises(ValueError, match="'fanouts' must be -1 with LABORBias"):
        traverse(toy, [0], [2], bias=LABORBias(2))
    bias = LABORBias(2)
    sub = sample_rooted(toy, [0], [-1], bias=bias)
    sample_rooted(toy, [0], [-1, -1], bias=bias)
    with pytest.raises(ValueError, match="'subgraph' must be the last batch"):
        bias.factor(sub)
    with pytest.raises(ValueError, match="'left' must be a bias whose weights say all"):
        bias * LADIESBias(2)
    shown = LABORBias([1, 2], EdgeWeightBias(), importance=1)
    assert repr(shown) == "LABORBias([1, 2], EdgeWeightBias(), importance=1)"
