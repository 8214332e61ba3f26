from collections import Counter
from itertools import product
from math import prod

import pytest
import torch

from exact import SIGMAS, assert_frequencies, assert_means, graph
from exact import one_thread as one_thread
from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    FastGCNBias,
    LADIESBias,
    sample_rooted,
)

# Seeds 0 and 1 share neighbour 3; 5 is a neighbour of nobody in the batch.
ROWS = [[2, 3], [3, 4, 5], [0, 6], [0], [1], [6], [5, 2]]
SEEDS = [0, 1]
SIZE = 2


def column_mass(rows, receivers):
    """Σ 1 / (δᵤ δᵥ) of every node v over the receivers u, in plain Python."""
    degree = [max(1, len(row)) for row in rows]
    mass = Counter()
    for u in receivers:
        for v in rows[u]:
            mass[v] += 1 / (degree[u] * degree[v])
    total = sum(mass.values())
    return {v: mass[v] / total for v in sorted(mass)}


CASES = [
    (LADIESBias, column_mass(ROWS, SEEDS)),
    (FastGCNBias, column_mass(ROWS, range(len(ROWS)))),
]


@pytest.mark.parametrize(("kind", "chance"), CASES)
def test_layer_bias_draws_node_sets(kind, chance):
    """All ordered draws are enumerated; the batch reaches those that are neighbours."""
    near = set(ROWS[0]) | set(ROWS[1])
    exact = Counter()
    for draws in product(chance, repeat=SIZE):
        reached = sorted(set(draws) & near)
        exact[(*reached, *[-1] * (SIZE - len(reached)))] += prod(map(chance.get, draws))
    bias, adj, found = kind(SIZE), graph(ROWS), []
    for i in range(1000):
        sub = sample_rooted(adj, SEEDS, [-1], bias=bias, generator=i)
        node = sub.node[2:].sort().values
        found.append(torch.nn.functional.pad(node, (0, SIZE - node.numel()), value=-1))
    assert_frequencies(torch.stack(found), exact)


@pytest.mark.parametrize(("kind", "chance"), CASES)
def test_layer_bias_factor_is_count_over_expected_count(kind, chance):
    size = 200_000
    bias = kind(size)
    sub = sample_rooted(graph(ROWS), SEEDS, [-1], bias=bias, generator=0)
    assert sub.num_edges == 5
    sender = sub.node[sub.row].tolist()
    for v, factor in zip(sender, bias.factor(sub).tolist(), strict=True):
        q = chance[v]
        assert abs(factor - 1) < SIGMAS * ((1 - q) / (q * size)) ** 0.5
        assert factor * size * q == pytest.approx(round(factor * size * q), abs=1e-5)


@pytest.mark.parametrize("kind", [LADIESBias, FastGCNBias])
def test_layer_bias_is_unbiased_over_two_layers(kind):
    """A fresh set per layer: E[Â₁ Â₂ x] = A A x, the sets being independent."""
    adj = graph(ROWS)
    x = torch.tensor([1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0], dtype=torch.float64)
    dense = torch.zeros(7, 7, dtype=torch.float64)
    for u, row in enumerate(ROWS):
        dense[u, row] = 1
    bias, found = kind(3), []
    generator = torch.Generator().manual_seed(3)
    for _ in range(500):
        layers, nodes = [], torch.tensor(SEEDS)
        for _ in range(2):
            sub = sample_rooted(adj, nodes, [-1], bias=bias, generator=generator)
            layers.append((sub, bias.factor(sub)))
            nodes = sub.node
        h = x[nodes]
        for sub, factor in reversed(layers):
            out = torch.zeros(sub.num_nodes, dtype=h.dtype)
            h = out.scatter_add_(0, sub.col, factor * h[sub.row])[: sub.num_nodes]
            h = h[: sub.num_sampled_nodes[0]]
        found.append(h)
    assert_means(torch.stack(found), (dense @ dense @ x)[SEEDS])


def test_layer_bias_bounds_every_hop(toy):
    bias = LADIESBias(2)
    for _ in range(20):
        sub = sample_rooted(toy, [0, 4], [-1, -1, -1], bias=bias)
        assert max(sub.num_sampled_nodes[1:]) <= 2
        assert bias.factor(sub).gt(0).all()


def test_layer_bias_is_governed_by_the_key_of_the_batch(toy):
    def nodes(seed):
        source = None if seed is None else torch.Generator().manual_seed(seed)
        how = {"bias": LADIESBias(2), "generator": source}
        subs = [sample_rooted(toy, [1], [-1, -1], **how) for _ in range(8)]
        return [sub.node.tolist() for sub in subs]

    assert nodes(5) == nodes(5)
    assert nodes(5) != nodes(6)
    assert len({tuple(sample) for sample in nodes(5)}) > 1  # batch after batch differs
    torch.manual_seed(1)
    first = nodes(None)
    torch.manual_seed(1)
    assert nodes(None) == first


@pytest.mark.parametrize("kind", [LADIESBias, FastGCNBias])
def test_layer_bias_awkward(kind):
    bias = kind(3)
    adj = CompactAdj.from_edge_index([[0, 1, 1], [0, 0, 0]], 3)  # loop, multi-edge
    for seeds, nodes in (([], 0), ([2], 1)):  # nobody, and one without neighbours
        sub = sample_rooted(adj, seeds, [-1, -1], bias=bias)
        assert (sub.num_nodes, sub.num_edges) == (nodes, 0)
        assert bias.factor(sub).tolist() == []
    sub = sample_rooted(adj, [0, 0], [-1], bias=bias)  # every copy gets its edges
    assert sub.num_edges % 2 == 0
    lone = CompactAdj.from_edge_index(torch.empty(2, 0, dtype=torch.long), 2)
    assert sample_rooted(lone, [0], [-1], bias=kind(3)).num_nodes == 1


def test_layer_bias_validate(toy):
    with pytest.raises(ValueError, match="'size' must be positive"):
        LADIESBias(0)
    with pytest.raises(TypeError, match="'size'"):
        FastGCNBias(1.5)
    bias = LADIESBias(2)
    sub = sample_rooted(toy, [0], [-1], bias=bias)
    sample_rooted(toy, [0], [-1, -1], bias=bias)
    with pytest.raises(ValueError, match="'subgraph' must be the last batch, of 2"):
        bias.factor(sub)
    with pytest.raises(TypeError, match="'subgraph'"):
        bias.factor(None)
    assert repr(FastGCNBias(4)) == "FastGCNBias(4)"


@pytest.mark.parametrize("bias", [LADIESBias(3), FastGCNBias(3)])
def test_layers_are_in_no_product(bias):
    with pytest.raises(ValueError, match="'left' must be a bias whose weights say all"):
        bias * EdgeWeightBias()
