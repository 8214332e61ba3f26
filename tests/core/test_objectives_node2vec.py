"""Node2VecAcc: importance weights, and the gradients in p and q."""

from itertools import chain

import pytest
import torch
import torch.nn.functional as F

from exact import assert_means, graph, one_thread, paths, second_order  # noqa: F401
from gttf_sampler import (
    DeepWalkAcc,
    EdgeWeightBias,
    Node2VecAcc,
    Node2VecBias,
    traverse,
)
from gttf_sampler.objectives import NegativeSampler, node2vec

# Directed: a dead end (3), a self-loop (2), a multi-edge (1 → 2), a source only (4).
DIRECTED = [[1, 2], [0, 2, 2, 3], [0, 1, 2], [], [3, 0]]
UNDIRECTED = [[1, 2, 3], [0, 2], [0, 1, 3], [0, 2, 4], [3]]
WEIGHTS = [[1.0, 2.0], [0.5, 1.0, 3.0, 1.0], [2.0, 1.0, 1.0], [], [1.0, 4.0]]
GRAPHS = pytest.mark.parametrize("rows", [DIRECTED, UNDIRECTED])
N, D, C, H, NEGATIVES = 5, 2, 2, 3, 2
COPIES, ROUNDS = 200, 60


def embeddings():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(N, D, generator=generator, dtype=torch.float64).requires_grad_()


def scalar(value):
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def walks(rows, p, q, weights=None):
    """(probability, nodes) of every walk of H steps by node2vec, in plain Python."""
    weights = weights or [[1.0] * len(row) for row in rows]
    step = second_order(rows, chain.from_iterable(weights), p, q)
    found = [paths(step, u, H) for u in range(N)]
    return [(chance, nodes) for some in found for nodes, chance in some.items()]


def exact(z, rows, p, q, weights=None):
    """The expected loss with the logistic contrast."""
    chance, score = NegativeSampler(graph(rows)).probability, z @ z.T
    unlike, loss = NEGATIVES * (chance * F.softplus(score)).sum(1), 0.0
    for likely, nodes in walks(rows, p, q, weights):
        for i in range(H):
            for k in range(1, min(C, H - i) + 1):
                pair = unlike[nodes[i]] - F.logsigmoid(score[nodes[i], nodes[i + k]])
                loss = loss + likely * (C - k + 1) / C * pair
    return loss


def make(z, p, q, **options):
    return Node2VecAcc(z, C, p, q, NEGATIVES, contrast="logistic", **options)


@GRAPHS
@pytest.mark.parametrize("fanouts", [[1, 1, 1], [2, 3, 1]])
def test_gradient_in_embeddings_p_and_q_is_unbiased(rows, fanouts):
    z, p, q = embeddings(), scalar(0.4), scalar(3.0)
    expected = torch.autograd.grad(exact(z, rows, p, q), [z, p, q])
    torch.manual_seed(0)
    acc, found = make(z, p, q), []
    adj, seeds = graph(rows), torch.arange(N).repeat(COPIES)
    for turn in range(ROUNDS):
        traverse(adj, seeds, fanouts, accumulate=acc, generator=turn)
        found.append(torch.autograd.grad(acc.result() / COPIES, [z, p, q]))
    for sample, value in zip(zip(*found, strict=True), expected, strict=True):
        assert bool((value.abs() > 0.01).any())
        assert_means(torch.stack(sample), value)


@GRAPHS
def test_gradient_in_p_and_q_is_that_of_finite_differences(rows):
    """Exactly: with all walks in the forest, once each, nothing they add is random."""
    z, step = embeddings().detach(), 1e-5
    every = traverse(graph(rows), range(N), [4, 4, 4], replace=False)
    parameters = scalar(0.4), scalar(3.0)
    acc = Node2VecAcc(z, C, *parameters)  # p and q are not in its negative term
    found = torch.autograd.grad(acc.loss(every), parameters)

    def pairs(p, q):
        return -sum(
            likely * (C - k + 1) / C * float(z[nodes[i]] @ z[nodes[i + k]])
            for likely, nodes in walks(rows, p, q)
            for i in range(H)
            for k in range(1, min(C, H - i) + 1)
        )

    differences = [
        (pairs(0.4 + dp, 3.0 + dq) - pairs(0.4 - dp, 3.0 - dq)) / (2 * step)
        for dp, dq in ((step, 0.0), (0.0, step))
    ]
    assert min(map(abs, differences)) > 0.001
    assert [g.item() for g in found] == pytest.approx(differences, rel=1e-5)


@GRAPHS
def test_weights_of_all_walks_are_their_probabilities(rows):
    every = traverse(graph(rows), range(N), [4, 4, 4], replace=False)
    weight = make(embeddings(), scalar(0.4), scalar(3.0)).weights(every)[H].view(-1)
    found = {}
    for path, value in zip(every.path(H).tolist(), weight.tolist(), strict=True):
        if path[-1] >= 0:
            found[tuple(path)] = found.get(tuple(path), 0.0) + value
    expected = {}
    for likely, nodes in walks(rows, 0.4, 3.0):
        expected[tuple(nodes)] = expected.get(tuple(nodes), 0.0) + likely
    assert found == pytest.approx(expected, abs=1e-6)


def test_weights_of_all_walks_with_edge_weights():
    flat = [weight for row in WEIGHTS for weight in row]
    adj = graph(DIRECTED, edge_weight=torch.tensor(flat))
    acc = make(embeddings(), scalar(0.4), scalar(3.0), weighted=True)
    seeds = torch.arange(N).repeat(40_000)
    forest = traverse(adj, seeds, [1, 1, 1], bias=EdgeWeightBias(), generator=0)
    weight, path = acc.weights(forest)[H].view(-1), forest.path(H)
    code = (path * N ** torch.arange(H + 1)).sum(1)
    exactly = {}
    for likely, nodes in walks(DIRECTED, 0.4, 3.0, WEIGHTS):
        key = sum(node * N**i for i, node in enumerate(nodes))
        exactly[key] = exactly.get(key, 0.0) + likely
    assert set(code.tolist()) <= set(exactly)
    for key, likely in exactly.items():
        assert_means(N * weight * (code == key), torch.tensor(likely))


@GRAPHS
def test_both_forms_agree(rows):
    """p and q in the walks, or in the loss: the same gradient in expectation."""
    z = embeddings()
    expected = torch.autograd.grad(exact(z, rows, 0.4, 3.0), [z])[0]
    torch.manual_seed(0)
    acc = DeepWalkAcc(z, C, NEGATIVES, contrast="logistic")
    adj, seeds, found = graph(rows), torch.arange(N).repeat(COPIES), []
    for turn in range(ROUNDS):
        forest = traverse(adj, seeds, [2, 1, 2], Node2VecBias(0.4, 3.0), generator=turn)
        found.append(torch.autograd.grad(acc.loss(forest) / COPIES, [z])[0])
    assert_means(torch.stack(found), expected)


def test_p_and_q_of_one_change_nothing():
    z, adj = embeddings(), graph(DIRECTED)
    forest = traverse(adj, range(N), [2, 1, 2], generator=0)
    for level, eta in enumerate(make(z, 1.0, 1.0).weights(forest)):
        torch.testing.assert_close(eta, forest.walk_weight(level))


def test_printed_form_has_no_normaliser():
    """As printed the total weight is not one, so that p and q are worth shrinking."""
    every = traverse(graph(UNDIRECTED), range(N), [4, 4, 4], replace=False)
    for scheme, total in (("unbiased", N), ("paper", None)):
        weight = make(embeddings(), 0.1, 0.1, scheme=scheme).weights(every)[H].sum()
        if total is None:
            assert weight.item() > 5 * N
        else:
            assert weight.item() == pytest.approx(total, rel=1e-5)


def test_neighbours_are_counted_in_groups(monkeypatch):
    forest = traverse(graph(DIRECTED), torch.arange(N).repeat(9), [2, 2, 2])
    acc = make(embeddings(), 0.4, 3.0)
    whole = acc.weights(forest)
    monkeypatch.setattr(node2vec, "ENTRIES", 3)
    for one, other in zip(acc.weights(forest), whole, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("rows", [DIRECTED, [[], [], []]])
@pytest.mark.parametrize("seeds", [[], [0, 0, 2]])
def test_awkward_forests(rows, seeds):
    p = scalar(0.5)
    acc = make(torch.zeros(N, D, requires_grad=True), p, 2.0)
    value = acc.loss(traverse(graph(rows), seeds, [2, 1, 1]))
    value.backward()
    assert bool(p.grad.isfinite())
    assert acc.loss(traverse(graph(rows), seeds, [])).item() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p": 0.0}, "'p' must be finite and greater than 0"),
        ({"q": "x"}, "'q' must be a number"),
        ({"p": torch.ones(2)}, "'p' must be a number or a floating-point tensor"),
        ({"q": torch.tensor(1)}, "'q' must be a number or a floating-point tensor"),
        ({"scheme": "x"}, "'scheme' must be one of"),
        ({"window": 0}, "'window' must be at least 1"),
    ],
)
def test_validate(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Node2VecAcc(embeddings(), **{"window": 2, **options})
