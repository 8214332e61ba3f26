"""The estimate of an edge sampled by attention: `AttentionBias.factor`."""

import pytest
import torch

from exact import assert_means, graph
from exact import one_thread as one_thread
from gttf_sampler import AttentionBias, StratifiedBias, sample_rooted

RUNS = 20_000
# A hub, a multi-edge 1 ⇉ 2, a self-loop at 3 and a dead end 4.
ROWS = [[1, 2, 3, 4], [0, 2, 2], [0, 1], [3, 0], []]


def attention(node, neighbor):
    return 0.5 + (3.0 * node - neighbor) ** 2


def messages(sub, adj, factor):
    """Σ a m and Σ a of every seed, from a sample; m is the number of the sender."""
    receiver, sender = sub.node[sub.col], sub.node[sub.row]
    each = attention(receiver, sender).double() * factor
    pair = torch.stack([each * sender, each], 1)
    found = torch.zeros(sub.num_nodes, 2, dtype=torch.float64)
    return found.index_add_(0, sub.col, pair)


@pytest.mark.parametrize("kind", ["plain", "stratified"])
def test_attention_factor_is_unbiased(kind):
    adj, bias = graph(ROWS), AttentionBias(attention)
    start = torch.arange(len(ROWS)).repeat(RUNS)
    drawn = bias if kind == "plain" else StratifiedBias(bias)
    sub = sample_rooted(
        adj, start, [3], bias=drawn, replace=True, disjoint=True, generator=2
    )
    whole = sample_rooted(adj, start[: len(ROWS)], [-1])
    ones = torch.ones(whole.num_edges, dtype=torch.float64)
    exact = messages(whole, adj, ones)[: len(ROWS)]
    found = messages(sub, adj, bias.factor(adj, sub))[: start.numel()]
    assert_means(found.view(RUNS, len(ROWS), 2), exact)


def test_attention_without_its_factor_is_biased():
    adj, bias = graph(ROWS), AttentionBias(attention)
    sub = sample_rooted(adj, [0] * RUNS, [3], bias=bias, replace=True, disjoint=True)
    exact = sum(float(attention(0, v)) * v for v in ROWS[0])
    plain = torch.full((sub.num_edges,), len(ROWS[0]) / 3, dtype=torch.float64)
    found = messages(sub, adj, plain)[:RUNS, 0]
    assert abs(float(found.mean()) - exact) > 20 * float(found.std()) / RUNS**0.5


def test_attention_factor_of_two_hops_and_of_nothing():
    adj, bias = graph(ROWS), AttentionBias(attention)
    sub = sample_rooted(adj, [0, 1, 1, 4], [2, 2], bias=bias, replace=True, generator=3)
    factor = bias.factor(adj, sub)
    for i in range(sub.num_nodes):
        u, mine = int(sub.node[i]), sub.col == i
        if bool(mine.any()):
            root = attention(u, sub.node[sub.row[mine]]).sqrt().double()
            row = sum(float(attention(u, v)) ** 0.5 for v in ROWS[u])
            assert factor[mine].tolist() == pytest.approx((row / 2 / root).tolist())
    none = sample_rooted(adj, [4], [2], bias=bias, replace=True)
    assert bias.factor(adj, none).tolist() == []
    with pytest.raises(ValueError, match="'adj' must be the graph that the sample was"):
        bias.factor(graph([[1], [0], [1], [0], [0]]), sub)
    with pytest.raises(TypeError, match="'subgraph' must be a Subgraph"):
        bias.factor(adj, 5)
