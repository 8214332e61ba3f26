"""Gradients of the losses, against those of the exact objectives from dense 𝒯ᵏ."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F

from exact import assert_means, graph, one_thread, transition_matrix  # noqa: F401
from gttf_sampler import (
    DeepWalkAcc,
    TransitionAcc,
    TransitionFactorizationAcc,
    WYSAcc,
    traverse,
    use_backend,
)
from gttf_sampler.objectives import LossAcc, NegativeSampler, base

# A dead end (3), a self-loop (2), a multi-edge (1 → 2), a node nobody leads to (4).
ROWS = [[1, 2], [0, 2, 2, 3], [0, 1, 2], [], [3, 0]]
N, D, C, H = len(ROWS), 2, 2, 3
COPIES, ROUNDS = 100, 60
FANOUTS = pytest.mark.parametrize("fanouts", [[1, 1, 1], [2, 1, 3], [3, 3, 1]])
CONTRASTS = pytest.mark.parametrize("contrast", ["partition", "logistic"])
SCHEMES = pytest.mark.parametrize("scheme", ["unbiased", "paper"])


def powers():
    """𝒯⁰ … 𝒯ʰ."""
    one = transition_matrix(ROWS)
    return [torch.linalg.matrix_power(one, k) for k in range(H + 1)]


def matrix(seed, rows=N, cols=D):
    generator = torch.Generator().manual_seed(seed)
    value = torch.randn(rows, cols, generator=generator, dtype=torch.float64)
    return value.requires_grad_()


def gradients(acc, parameters, fanouts, replace=True):
    """Per round the gradients of a batch with many copies of every node as a seed."""
    adj, seeds = graph(ROWS), torch.arange(N).repeat(COPIES)
    found = []
    for turn in range(ROUNDS):
        forest = traverse(
            adj, seeds, fanouts, accumulate=acc, replace=replace, generator=turn
        )
        assert forest.depth == H
        found.append(torch.autograd.grad(acc.result() / COPIES, parameters))
    return [torch.stack(rounds) for rounds in zip(*found, strict=True)]


def assert_unbiased(acc, exact, parameters, fanouts, replace=True):
    torch.manual_seed(0)
    expected = torch.autograd.grad(exact, parameters)
    found = gradients(acc, parameters, fanouts, replace)
    for sample, value in zip(found, expected, strict=True):
        assert bool((value.abs() > 0.01).any())
        assert_means(sample, value)


def all_walks():
    """(seed, probability, nodes) of every walk of H steps."""
    walks = [(u, 1.0, [u]) for u in range(N)]
    for _ in range(H):
        walks = [
            (u, p / len(row), [*nodes, v])
            for u, p, nodes in walks
            for row in [ROWS[nodes[-1]] or [nodes[-1]]]
            for v in row
        ]
    return walks


def exact_deepwalk(z, contrast, s, score=None, negative_weight=1.0):
    """The expected loss: 𝒯 for the walks, an enumeration for the negatives."""
    chance = negative_weight * NegativeSampler(graph(ROWS)).probability
    score = z @ z.T if score is None else score
    T, loss = powers(), 0.0
    similar = F.logsigmoid(score) if contrast == "logistic" else score
    unlike = s * (chance * F.softplus(score)).sum(1)
    for i in range(H):
        for k in range(1, min(C, H - i) + 1):
            position = (C - k + 1) / C
            loss = loss - position * (T[i].sum(0) @ (T[k] * similar)).sum()
            if contrast == "logistic":
                loss = loss + position * T[i].sum(0) @ unlike
    if contrast == "partition":
        for chosen in product(range(N), repeat=s):
            p = (chance[list(chosen)] / negative_weight).prod() * negative_weight
            loss = loss + p * (score[:, list(chosen)].exp().mean(1).log()).sum()
    return loss


@FANOUTS
@CONTRASTS
def test_deepwalk_gradient_is_unbiased(fanouts, contrast):
    z = matrix(0)
    acc = DeepWalkAcc(z, C, 2, contrast=contrast)
    assert_unbiased(acc, exact_deepwalk(z, contrast, 2), [z], fanouts)


@CONTRASTS
@pytest.mark.parametrize("symmetric", [False, True])
def test_deepwalk_gradient_is_unbiased_with_two_vectors_per_node(contrast, symmetric):
    left, right = matrix(0), matrix(1)
    score = left @ right.T
    if symmetric:
        score = (score + score.T) / 2
    exact = exact_deepwalk(left, contrast, 2, score, negative_weight=0.3)
    how = {"right": right, "symmetric": symmetric, "negative_weight": 0.3}
    acc = DeepWalkAcc(left, C, 2, contrast=contrast, **how)
    assert_unbiased(acc, exact, [left, right], [2, 1, 3])


@FANOUTS
def test_deepwalk_gradient_is_unbiased_with_shared_negatives(fanouts):
    z = matrix(0)
    acc = DeepWalkAcc(z, C, 2, contrast="logistic", share_negatives=True)
    assert_unbiased(acc, exact_deepwalk(z, "logistic", 2), [z], fanouts)


def test_deepwalk_gradient_is_unbiased_without_replacement():
    z = matrix(0)
    exact = exact_deepwalk(z, "logistic", 1)
    acc = DeepWalkAcc(z, C, 1, contrast="logistic")
    assert_unbiased(acc, exact, [z], [2, 2, 2], replace=False)


def test_deepwalk_is_word2vec_at_fanout_1():
    """The window of every centre is uniform on 1 … C, word2vec's way of weighting."""
    z = matrix(1)
    chance, score = NegativeSampler(graph(ROWS)).probability, z @ z.T
    loss = 0.0
    for _, p, nodes in all_walks():
        for centre, size in product(range(H), range(1, C + 1)):
            for context in nodes[centre + 1 : centre + 1 + size]:
                pair = F.logsigmoid(score[nodes[centre], context])
                strangers = 3 * chance @ F.logsigmoid(-score[nodes[centre]])
                loss = loss - p / C * (pair + strangers)
    assert loss.item() == pytest.approx(exact_deepwalk(z, "logistic", 3).item())
    acc = DeepWalkAcc(z, C, 3, contrast="logistic")
    assert_unbiased(acc, loss, [z], [1, 1, 1])


def test_deepwalk_partition_has_no_lower_bound():
    """Not even with every node as a negative: pairs weigh more than one per seed."""
    for size in (3.0, 10.0):
        z = torch.full((N, 1), size, dtype=torch.float64)
        assert exact_deepwalk(z, "partition", 1).item() < -(size**2)


@FANOUTS
def test_wys_gradient_is_unbiased(fanouts):
    left, right, context = matrix(0), matrix(1), matrix(2, 1, H)[0].detach()
    context.requires_grad_()
    score, loss = left @ right.T, 0.0
    for share, T in zip(context.softmax(0), powers()[1:], strict=True):
        loss = loss - share * (T * F.logsigmoid(score)).sum()
    loss = loss + 3.0 * F.softplus(score).mean(1).sum()
    acc = WYSAcc(left, right, context, 4, negative_weight=3.0)
    assert_unbiased(acc, loss, [left, right, context], fanouts)


def test_wys_gradient_of_the_printed_form():
    left, right, context = matrix(0), matrix(1), matrix(2, 1, H)[0].detach()
    context.requires_grad_()
    score, share, loss = left @ right.T + right @ left.T, context.softmax(0), 0.0
    for u, p, nodes in all_walks():
        loss = loss - p * F.logsigmoid(share @ score[u, nodes[1:]])
    for chosen in product(range(N), repeat=2):
        loss = loss + F.softplus(score[:, list(chosen)].mean(1)).sum() / N**2
    acc = WYSAcc(left, right, context, 2, scheme="paper")
    assert_unbiased(acc, loss, [left, right, context], [2, 1, 3])


@FANOUTS
def test_factorization_gradient_is_unbiased(fanouts):
    left, right, coefficients = matrix(0), matrix(1), [0.5, -1.0, 2.0]
    series = sum(c * T for c, T in zip(coefficients, powers()[1:], strict=True))
    loss = (left @ right.T - series).square().sum() / 2
    acc = TransitionFactorizationAcc(left, right, coefficients)
    assert_unbiased(acc, loss, [left, right], fanouts)


def upwards(path, node, neighborhood):
    """Only to larger nodes: 3 keeps its walkers, those at 2 and 4 stop or turn to 3."""
    return (neighborhood.neighbor > node[neighborhood.walker]).double()


STOPS = pytest.mark.parametrize("bias", [None, upwards])


def grow(bias):
    """A forest and, dense, its estimates of 𝒯 … 𝒯ʰ; stopped walkers are missing."""
    accs, seeds = [TransitionAcc(k) for k in range(1, H + 1)], [1, 0, 0, 3]
    forest = traverse(
        graph(ROWS), seeds, [2, 3, 1], bias=bias, accumulate=accs, generator=0
    )
    stopped = any(bool((level < 0).any()) for level in forest.nodes)
    assert stopped == (bias is not None)
    return forest, seeds, [acc.result().to_dense() for acc in accs]


@STOPS
def test_factorization_loss_is_that_of_the_matrices(bias):
    left, right, coefficients = matrix(0), matrix(1), [0.5, -1.0, 2.0]
    forest, seeds, T = grow(bias)
    series = sum(c * power for c, power in zip(coefficients, T, strict=True))
    dense = (left[seeds] @ right.T - series).square().sum() / 2
    loss = TransitionFactorizationAcc(left, right, coefficients).loss(forest)
    assert loss.item() == pytest.approx(dense.item(), rel=1e-6)


@STOPS
def test_wys_loss_is_that_of_the_matrices(bias):
    left, right, context = matrix(0), matrix(1), torch.tensor([1.0, 0.0, -1.0])
    forest, seeds, T = grow(bias)
    values = []
    for weight in (1.0, 2.0):  # the difference is what the negatives add
        own = torch.Generator().manual_seed(0)
        acc = WYSAcc(left, right, context, negative_weight=weight, generator=own)
        values.append(acc.loss(forest).item())
    similar, share = F.logsigmoid(left @ right.T)[seeds], context.softmax(0)
    dense = -sum(q * (power * similar).sum() for q, power in zip(share, T, strict=True))
    assert 2 * values[0] - values[1] == pytest.approx(dense.item(), rel=1e-6)


@STOPS
def test_deepwalk_loss_is_that_of_the_paths(bias):
    z, (forest, seeds, _) = matrix(0).detach(), grow(bias)
    expected = 0.0
    for j in range(1, H + 1):
        weight = forest.walk_weight(j).view(-1).tolist()
        for path, eta in zip(forest.path(j).tolist(), weight, strict=True):
            for k in range(1, min(C, j) + 1):
                if path[-1] >= 0:  # then it has never stopped before
                    position = (C - k + 1) / C
                    expected -= eta * position * float(z[path[j - k]] @ z[path[j]])

    def loss(forest):
        own = torch.Generator().manual_seed(0)
        return DeepWalkAcc(z, C, generator=own).loss(forest).item()

    strangers = loss(traverse(forest.adj, seeds, []))  # no walks: negatives alone
    assert loss(forest) - strangers == pytest.approx(expected, rel=1e-6)


def losses(sparse=False):
    """One of each, on embeddings of their own, with all their parameters."""
    torch.manual_seed(0)
    z, left, right = (torch.nn.Embedding(N, D, sparse=sparse) for _ in range(3))
    context = torch.zeros(H, requires_grad=True)
    return {
        "partition": (DeepWalkAcc(z, C), [z.weight]),
        "logistic": (DeepWalkAcc(z, C, contrast="logistic"), [z.weight]),
        "wys": (WYSAcc(left, right, context), [left.weight, right.weight]),
        "paper": (
            WYSAcc(left, right, context, scheme="paper"),
            [left.weight, right.weight],
        ),
        "factorization": (
            TransitionFactorizationAcc(left, right, [1.0, 1.0, 1.0]),
            [left.weight, right.weight],
        ),
    }


NAMES = pytest.mark.parametrize("name", list(losses()))


@NAMES
@pytest.mark.parametrize("sparse", [False, True])
def test_losses_have_the_gradients_embeddings_ask_for(name, sparse, monkeypatch):
    found = []
    for group in (1 << 17, 60):  # all trees at once, or a few at a time
        monkeypatch.setattr(base, "GROUP", group)
        acc, weights = losses(sparse)[name]
        torch.manual_seed(1)
        forest = traverse(graph(ROWS), [0, 1, 2, 3, 4, 0, 1], [2, 1, 2])
        value = acc.loss(forest)
        value.backward()
        assert {weight.grad.is_sparse for weight in weights} == {sparse}
        found.append([value, *(weight.grad.to_dense() for weight in weights)])
    for whole, grouped in zip(*found, strict=True):
        torch.testing.assert_close(grouped, whole)


def kept_vectors(name):
    """Numbers of vectors that autograd keeps between forward and backward."""
    acc, _ = losses()[name]
    forest = traverse(graph(ROWS), torch.arange(N).repeat(200), [2, 2, 2])
    kept = []

    def pack(tensor):
        if tensor.is_floating_point() and tensor.dim() > 2:
            kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        acc.loss(forest)
    return sum(kept)


@NAMES
def test_losses_hold_one_group_of_vectors_at_a_time(name, monkeypatch):
    """Autograd's memory between the passes does not grow with the batch."""
    with use_backend("torch"):
        assert kept_vectors(name) > 1000 * H * D
        monkeypatch.setattr(base, "GROUP", 64)
        assert kept_vectors(name) == 0


@NAMES
def test_fused_losses_hold_no_vectors(name):
    pytest.importorskip("numba")
    with use_backend("numba"):
        assert kept_vectors(name) == 0


@NAMES
def test_losses_of_awkward_batches(name):
    acc, weights = losses()[name]
    adj = graph(ROWS)
    for seeds in ([], [3], [3, 3, 3], torch.tensor([4, 0], dtype=torch.int32)):
        value = acc.loss(traverse(adj, seeds, [2, 1, 1]))
        value.backward()
        assert value.shape == ()
        assert all(bool(weight.grad.isfinite().all()) for weight in weights)


def test_result_needs_a_traversal():
    with pytest.raises(ValueError, match="'result' needs a traversal"):
        DeepWalkAcc(matrix(0), 2).result()


def test_losses_run_beside_other_callbacks():
    """`accumulate` takes a loss, an estimate and a plain function in one traversal."""
    seen = []
    acc, power = DeepWalkAcc(matrix(0), C), TransitionAcc(2)

    def note(path, node, fanout):
        seen.append((path.shape, node.shape, fanout))

    traverse(graph(ROWS), [0, 1], [2, 3, 1], accumulate=[acc, power, note])
    assert seen == [((4, 1), (4,), 2), ((12, 2), (12,), 3), ((12, 3), (12,), 1)]
    assert acc.result().shape == ()
    assert power.result().shape == (2, N)


def test_loss_acc_needs_a_loss():
    acc = LossAcc()
    forest = traverse(graph(ROWS), [0], [1], accumulate=acc)
    with pytest.raises(NotImplementedError):
        acc.loss(forest)


def test_losses_draw_with_the_generator_they_are_given():
    z, forest = matrix(0), traverse(graph(ROWS), range(N), [1, 1], generator=0)

    def value(seed):
        own = torch.Generator().manual_seed(seed)
        torch.manual_seed(int(torch.randint(1000, ())))
        return DeepWalkAcc(z, 2, generator=own).loss(forest).item()

    assert value(3) == value(3) != value(4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DeepWalkAcc(3, 2), "'embedding' must be an embedding"),
        (lambda: DeepWalkAcc(torch.nn.Embedding, 2), "'embedding' must be an embedd"),
        (lambda: DeepWalkAcc(torch.ones(3), 2), r"'embedding' must be a matrix \[n, d"),
        (lambda: DeepWalkAcc(matrix(0), 0), "'window' must be at least 1"),
        (lambda: DeepWalkAcc(matrix(0), 1.5), "'window' must be an integer"),
        (lambda: DeepWalkAcc(matrix(0), 2, 0), "'num_negatives' must be at least 1"),
        (
            lambda: DeepWalkAcc(matrix(0), 2, 1, "x"),
            "'negative_power' must be a number",
        ),
        (lambda: DeepWalkAcc(matrix(0), 2, contrast="x"), "'contrast' must be one of"),
        (
            lambda: DeepWalkAcc(matrix(0), 2, symmetric=True),
            "'symmetric' must be False of one vector per node",
        ),
        (lambda: DeepWalkAcc(matrix(0), 2, right=3), "'right' must be an embedding"),
        (
            lambda: DeepWalkAcc(matrix(0), 2, negative_weight=0),
            "'negative_weight' must be finite and greater than 0",
        ),
        (lambda: WYSAcc(matrix(0), matrix(0), [1.0]), "'context' must be a tensor"),
        (
            lambda: WYSAcc(matrix(0), matrix(0), torch.ones(2, 2)),
            "'context' must have one entry per depth",
        ),
        (
            lambda: WYSAcc(
                *(matrix(0), matrix(0), torch.ones(2)), symmetric=True, scheme="paper"
            ),
            'must be False in the "paper" scheme',
        ),
        (
            lambda: WYSAcc(matrix(0), matrix(0), torch.ones(2), negative_weight=0),
            "'negative_weight' must be finite and greater than 0",
        ),
        (
            lambda: WYSAcc(matrix(0), matrix(0), torch.ones(2), scheme="x"),
            "'scheme' must be one of",
        ),
        (
            lambda: TransitionFactorizationAcc(matrix(0), matrix(0), [float("nan")]),
            "'coefficients' must be finite",
        ),
    ],
)
def test_losses_validate(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_losses_validate_the_forest():
    adj = graph(ROWS)
    short = WYSAcc(matrix(0), matrix(0), torch.ones(2))
    with pytest.raises(ValueError, match="'context' must have one entry per depth"):
        traverse(adj, [0], [1, 1, 1], accumulate=short)
    with pytest.raises(ValueError, match="'context' must have one entry per depth"):
        short.loss(traverse(adj, [0], [1]))
    with pytest.raises(ValueError, match="'coefficients' must have one entry per dep"):
        TransitionFactorizationAcc(matrix(0), matrix(0), [])
    series = TransitionFactorizationAcc(matrix(0), matrix(0), [1.0])
    with pytest.raises(ValueError, match="'coefficients' must have one entry per"):
        traverse(adj, [0], [1, 1], accumulate=series)
    with pytest.raises(ValueError, match="'coefficients' must have one entry per"):
        series.loss(traverse(adj, [0], [1, 1]))


def test_objective_of_a_random_embedding_in_groups(toy, monkeypatch):
    """Recomputation for the backward pass drops the same entries."""
    monkeypatch.setattr(base, "GROUP", 64)
    table = torch.nn.Embedding(5, 4).double()
    lookup = torch.nn.Sequential(table, torch.nn.Dropout(0.5))
    forest = traverse(toy, torch.arange(5).repeat(8), [2, 2], generator=0)

    def loss():
        torch.manual_seed(0)
        return DeepWalkAcc(lookup, 2).loss(forest)

    (gradient,) = torch.autograd.grad(loss(), table.weight)
    for place in ((0, 0), (3, 2)):
        with torch.no_grad():
            table.weight[place] += 1e-6
            ahead = loss()
            table.weight[place] -= 2e-6
            slope = (ahead - loss()) / 2e-6
            table.weight[place] += 1e-6
        assert gradient[place].item() == pytest.approx(slope.item(), rel=1e-4)


def test_loss_with_a_call_of_its_own_is_called(toy):
    class Counting(DeepWalkAcc):
        calls = 0

        def __call__(self, path, node, fanout):
            self.calls += 1

    counting = Counting(torch.nn.Embedding(5, 2), 1)
    traverse(toy, [0], [1, 1], accumulate=counting)
    assert counting.calls == 2
    assert not DeepWalkAcc.watches


@pytest.mark.parametrize("symmetric", [True, False])
def test_two_halves_of_a_forest_without_steps_lose_nothing(toy, symmetric):
    left, right = torch.rand(2, toy.num_rows, 4)
    loss = DeepWalkAcc(
        *(left.__getitem__, 2, 3),
        contrast="logistic",
        right=right.__getitem__,
        symmetric=symmetric,
    )
    with use_backend("torch"):
        traverse(toy, [0, 1], [], accumulate=loss)
    assert loss.result().item() == 0
