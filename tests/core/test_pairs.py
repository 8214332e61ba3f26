"""Fused losses: kernels against the reference, in any shape and on any threads."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from all_pairs import all_pairs
from exact import graph
from gttf_sampler import (
    DeepWalkAcc,
    Node2VecAcc,
    TransitionFactorizationAcc,
    WYSAcc,
    traverse,
    use_backend,
)
from gttf_sampler._backends import pairs as terms
from gttf_sampler._backends.numba import optimizer as numba_optimizer
from gttf_sampler._backends.numba import pairs as numba_pairs
from gttf_sampler._backends.pairs import of_levels, of_windows
from gttf_sampler._backends.torch import pairs as torch_pairs
from gttf_sampler.objectives import NegativeSampler, scores

pytest.importorskip("numba")

# A dead end (3), a self-loop (2), a multi-edge (1 → 2), a node nobody leads to (4).
ROWS = [[1, 2], [0, 2, 2, 3], [0, 1, 2], [], [3, 0]]
N = len(ROWS)
SIZES = st.sampled_from([1, 3, 16, 17, 64, 70, 130])
FANOUTS = st.lists(st.integers(1, 3), max_size=4)
LOSSES = {
    "partition": lambda z, y, c, w: DeepWalkAcc(z, w, 3),
    "logistic": lambda z, y, c, w: DeepWalkAcc(z, w, 2, contrast="logistic"),
    "shared": lambda z, y, c, w: DeepWalkAcc(
        z, w, 2, contrast="logistic", share_negatives=True
    ),
    "halves": lambda z, y, c, w: DeepWalkAcc(z, w, 3, right=y, negative_weight=0.2),
    "halves symmetric": lambda z, y, c, w: DeepWalkAcc(
        z, w, 3, right=y, symmetric=True
    ),
    "halves logistic": lambda z, y, c, w: DeepWalkAcc(
        z, w, 2, contrast="logistic", right=y, negative_weight=3.0
    ),
    "halves shared": lambda z, y, c, w: DeepWalkAcc(
        *(z, w, 2), contrast="logistic", right=y, symmetric=True, share_negatives=True
    ),
    "node2vec": lambda z, y, c, w: Node2VecAcc(z, w, c.exp()[0], 2.0),
    "node2vec halves": lambda z, y, c, w: Node2VecAcc(
        *(z, w, c.exp()[0], c.exp()[1]), contrast="logistic", right=y, symmetric=True
    ),
    "trained": lambda z, y, c, w: Node2VecAcc(
        z, w, c.exp()[0], c.exp()[1], 2, contrast="logistic"
    ),
    "wys": lambda z, y, c, w: WYSAcc(z, y, c, 3, negative_weight=2.0),
    "wys symmetric": lambda z, y, c, w: WYSAcc(z, y, c, 3, symmetric=True),
    "wys paper": lambda z, y, c, w: WYSAcc(z, y, c, 2, scheme="paper"),
    "factorization": lambda z, y, c, w: TransitionFactorizationAcc(
        z, y, [0.5, -1.0, 2.0, 1.0][: len(c)]
    ),
}


def upwards(path, node, neighborhood):
    """Only to larger nodes: walkers stop."""
    return (neighborhood.neighbor > node[neighborhood.walker]).double()


def tables(size, dtype, sparse=False, seed=0):
    torch.manual_seed(seed)
    made = [torch.nn.Embedding(N, size, sparse=sparse) for _ in range(2)]
    for table in made:  # losses as large as their terms: no digits are cancelled
        torch.nn.init.normal_(table.weight, std=0.3)
    return [table.to(dtype) for table in made]


def outcome(backend, name, forest, size, window, dtype, sparse):
    """The loss and the gradients of both tables and of what else is learned."""
    z, y = tables(size, dtype, sparse)
    context = torch.linspace(-0.5, 0.5, max(2, forest.depth), dtype=dtype)
    context = context[: max(2, forest.depth)].requires_grad_()
    whole = name == "trained" or name.startswith("node2vec")
    logits = context if whole else context[: forest.depth]
    with use_backend(backend):
        torch.manual_seed(3)
        value = LOSSES[name](z, y, logits, window).loss(forest)
        value.backward()
    grads = [p.grad for p in (z.weight, y.weight, context)]
    assert all(g is None or g.is_sparse == sparse for g in grads[:2])
    return [value.detach(), *(g if g is None else g.to_dense() for g in grads)]


@pytest.mark.parametrize("name", list(LOSSES))
@given(
    seeds=st.lists(st.integers(0, N - 1), max_size=6),
    fanouts=FANOUTS,
    window=st.integers(1, 5),
    size=SIZES,
    stops=st.booleans(),
    sparse=st.booleans(),
)
def test_fused_losses_are_those_of_the_reference(
    name, seeds, fanouts, window, size, stops, sparse
):
    """Windows, fanouts, stopped walkers, repeated nodes: 1e-5 of the largest entry."""
    if not fanouts and name not in ("partition", "halves", "node2vec"):
        fanouts = [1]
    bias = upwards if stops else None
    forest = traverse(graph(ROWS), seeds, fanouts, bias, generator=1)
    how = name, forest, size, window
    found = outcome("numba", *how, torch.float32, sparse)
    expected = outcome("torch", *how, torch.float64, sparse)  # without its rounding
    for fused, reference in zip(found, expected, strict=True):
        if fused is None or reference is None:
            zero = fused if reference is None else reference
            assert zero is None or not zero.any()
            continue
        scale = max([0.1, *reference.abs().view(-1).tolist()])
        close = {"rtol": 1e-5, "atol": 1e-5 * scale}
        torch.testing.assert_close(fused.double(), reference, **close)


@given(
    levels=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    trees=st.integers(0, 5),
    size=SIZES,
    common=st.booleans(),
    both=st.booleans(),
    sparse=st.booleans(),
)
def test_kernels_are_those_of_the_reference(levels, trees, size, common, both, sparse):
    """Scores and gradients of levels, to the last digits of float64."""
    torch.manual_seed(0)
    widths = torch.tensor([1, *levels]).cumprod(0).tolist()
    nodes = [torch.randint(N, (trees, width)) for width in [*widths, 4]]
    last = len(nodes) - 1
    chosen = [(i, j) for i in range(last) for j in range(i + 1, last)]
    if common:
        chosen += [(i, last) for i in range(last)]
    described = of_levels(nodes, chosen, last)
    left = torch.randn(N, size, dtype=torch.float64)
    right = left if both else torch.randn(N, size, dtype=torch.float64)
    found = numba_pairs.pair_scores(described, left, right)
    expected = torch_pairs.pair_scores(described, left, right)
    torch.testing.assert_close(found, expected)
    assert found.numel() == described.scores
    how = described, left, right, torch.randn_like(found)
    compare(fast_gradients(*how), how, slow_gradients, sparse)


def gradients(module, pairs, left, right, coefficient):
    """Gradients of both tables, or of the one, by the coefficients of pairs."""
    how = terms.scored(pairs), coefficient, left, right, True, False
    return module.pair_pass(pairs, *how).gradients


fast_gradients = partial(gradients, numba_pairs)
slow_gradients = partial(gradients, torch_pairs)


def compare(found, how, reference, sparse):
    """Gradients of both tables, or of the one, against those of the reference."""
    _, left, right, *_ = how
    expected, tables = reference(*how), [left, right]
    assert len(found) == len(expected) == (1 if right is left else 2)
    for made, other, table in zip(found, expected, tables, strict=False):
        assert made.row.unique().numel() == made.row.numel()
        one, two = (
            module.as_gradient(rows, table, sparse, 0.5)
            for module, rows in ((numba_optimizer, made), (torch_pairs, other))
        )
        assert one.is_sparse == two.is_sparse == sparse
        assert not sparse or one.is_coalesced()
        if sparse:
            assert torch.equal(one.indices(), two.indices())
        torch.testing.assert_close(one.to_dense(), two.to_dense())


KINDS = (terms.LINEAR, terms.LIKE, terms.UNLIKE, terms.LIKE_EPS, terms.UNLIKE_EPS)


@given(
    levels=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    trees=st.integers(0, 5),
    size=SIZES,
    both=st.booleans(),
    symmetric=st.booleans(),
    sparse=st.booleans(),
    kinds=st.lists(st.sampled_from(KINDS), min_size=6, max_size=6),
    sorts=st.lists(
        st.sampled_from(["pair", "source", "block"]), min_size=6, max_size=6
    ),
    chunk=st.sampled_from([1 << 20, 1]),
)
def test_one_pass_is_that_of_the_reference(
    levels, trees, size, both, symmetric, sparse, kinds, sorts, chunk
):
    """Loss, gradients of vectors and of weights, in one chunk and in several."""
    torch.manual_seed(0)
    widths = torch.tensor([1, *levels]).cumprod(0).tolist()
    nodes = [torch.randint(N, (trees, width)) for width in [*widths, 4]]
    last = len(nodes) - 1
    chosen = [(i, j) for i in range(last) for j in range(i + 1, last)]
    chosen += [(i, last) for i in range(last)]
    pairs = of_levels(nodes, chosen, last)
    near = len(chosen) - last
    kind = [*kinds, *kinds][:near] + [terms.PARTITION] * last
    sort = [*sorts, *sorts][:near] + ["source"] * last
    described = terms.terms(pairs, kind, sort, eps=1e-15, symmetric=symmetric)
    left = torch.randn(N, size, dtype=torch.float64)
    right = left if both else torch.randn(N, size, dtype=torch.float64)
    weight = torch.randn(10_000, dtype=torch.float64)
    how = pairs, described, weight, left, right, True, True
    before, numba_pairs.CHUNK = numba_pairs.CHUNK, chunk
    try:
        found = numba_pairs.pair_pass(*how)
    finally:
        numba_pairs.CHUNK = before
    expected = torch_pairs.pair_pass(*how)
    torch.testing.assert_close(found.value, expected.value)
    torch.testing.assert_close(found.unit, expected.unit)
    given = found.gradients, (pairs, left, right), lambda *_: expected.gradients
    compare(*given, sparse)


@all_pairs
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", [*KINDS, terms.PARTITION])
def test_numbers_that_are_none_are_those_of_the_reference(kind, dtype, both):
    """NaN and both infinities in a table, beside rows that are sound."""
    nodes = [torch.tensor([[0], [2]]), torch.tensor([[1, 2, 3], [4, 5, 1]])]
    pairs = of_levels(nodes, [(0, 1)])
    described = terms.terms(pairs, [kind], ["source"], eps=1e-15)
    close = {"rtol": 1e-5, "atol": 1e-14, "equal_nan": True}  # of 1 + eps
    for odd in (math.nan, math.inf, -math.inf):
        for sign in (1, -1):
            torch.manual_seed(0)
            left = sign * torch.rand(6, 3, dtype=dtype)
            right = left if both else torch.rand(6, 3, dtype=dtype)
            left[2] = odd
            how = pairs, described, torch.rand(2, dtype=dtype), left, right, True, True
            found, expected = numba_pairs.pair_pass(*how), torch_pairs.pair_pass(*how)
            torch.testing.assert_close(found.value, expected.value, **close)
            torch.testing.assert_close(found.unit, expected.unit, **close)
            for own, other in zip(found.gradients, expected.gradients, strict=True):
                one, two = (
                    torch_pairs.as_gradient(g, left, False, 1.0) for g in (own, other)
                )
                torch.testing.assert_close(one, two, **close)


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_have_seven_digits_in_float32(kind):
    """Against float64, from scores of nothing to saturated ones."""
    score = torch.linspace(-30, 30, 2001)
    nodes = torch.arange(len(score))[:, None]
    pairs = of_levels([nodes, torch.zeros_like(nodes)], [(0, 1)])
    described = terms.terms(pairs, [kind], ["pair"], eps=1e-15)
    weight, one = torch.ones(len(score)), torch.ones(1, 1)
    how = score[:, None], one, True, True
    found = numba_pairs.pair_pass(pairs, described, weight, *how)
    tables = score[:, None].double(), one.double()
    how = weight.double(), *tables, True, True
    expected = torch_pairs.pair_pass(pairs, described, *how)
    few = score.abs() < (1 if kind == terms.UNLIKE_EPS else 31)  # 1 − σ is rounded
    eps = kind in (terms.LIKE_EPS, terms.UNLIKE_EPS)  # which 1 + eps is rounded by
    close = {"rtol": 1e-6, "atol": 2e-15 if eps else 1e-30}
    torch.testing.assert_close(found.unit[few].double(), expected.unit[few], **close)
    slope, exact = (
        module.as_gradient(passed.gradients[0], table, False, 1.0).double()[few]
        for module, passed, table in (
            (numba_optimizer, found, score[:, None]),
            (torch_pairs, expected, tables[0]),
        )
    )
    torch.testing.assert_close(slope, exact, **close)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rows", [(400, 7), (7, 400)])
def test_rows_that_are_asked_for_ahead_change_nothing(rows, sparse, monkeypatch):
    """Tables of other sizes, which one table's nodes must not be looked up in."""
    torch.manual_seed(0)
    source, target = (torch.randint(size, (40, 1)) for size in rows)
    described = of_levels([source, target], [(0, 1)])
    left, right = (torch.randn(size, 24) for size in rows)
    coefficient = torch.randn(described.scores)
    found = []
    for far in (1 << 24, 0):
        monkeypatch.setattr(numba_pairs, "FAR", far)
        made = fast_gradients(described, left, right, coefficient)
        grads = [
            numba_optimizer.as_gradient(rows, table, sparse, 1.0).to_dense()
            for rows, table in zip(made, (left, right), strict=True)
        ]
        found.append([numba_pairs.pair_scores(described, left, right), *grads])
    for near, ahead in zip(*found, strict=True):
        assert torch.equal(near, ahead)


@pytest.mark.parametrize("shapes", [[(12, 4), (12, 4)], [(12, 4), (24, 4)], [(5, 2)]])
@pytest.mark.parametrize("per_walk", [1, 3])
def test_windows_are_scored_in_their_order(shapes, per_walk):
    """Whatever is said of how they overlap."""
    torch.manual_seed(0)
    z = torch.randn(N, 24)
    windows = [torch.randint(N, shape) for shape in shapes]
    pairs = of_windows(windows, per_walk)
    expected = [(z[part[:, :1]] * z[part[:, 1:]]).sum(-1).view(-1) for part in windows]
    found = numba_pairs.pair_scores(pairs, z, z)
    torch.testing.assert_close(found, torch.cat(expected))


@pytest.mark.parametrize("first", [0, 7])
def test_negatives_of_the_kernel_are_those_of_the_reference(first):
    """Bit by bit."""
    sampler = NegativeSampler(graph(ROWS))
    table = sampler._share, sampler._alias, sampler._coin_bits
    how = *table, 0xFEDCBA9876543210, first, 5000
    found = numba_pairs.draw_alias(*how)
    assert torch.equal(found, torch_pairs.draw_alias(*how))
    assert found.unique().tolist() == [0, 1, 2, 4]  # 3 has no neighbour


def test_results_do_not_depend_on_threads():
    """Bit by bit, for losses of all kinds, dense and sparse."""
    adj, threads = graph(ROWS), torch.get_num_threads()
    forest = traverse(adj, torch.arange(N).repeat(60), [2, 1, 2], generator=0)
    try:
        # the square of all rows in a factorization is a product of matrices by torch
        for name in LOSSES.keys() - {"factorization"}:
            for sparse in (False, True):
                found = []
                for number in (1, 2, 5):
                    torch.set_num_threads(number)
                    how = name, forest, 70, 3, torch.float32, sparse
                    found.append(outcome("numba", *how)[1:3])
                for other in found[1:]:
                    for a, b in zip(found[0], other, strict=True):
                        assert (a is None) == (b is None)
                        assert a is None or torch.equal(a, b)
    finally:
        torch.set_num_threads(threads)


def test_gradient_of_the_context_is_that_of_finite_differences():
    forest = traverse(graph(ROWS), range(N), [2, 1, 2], generator=0)
    z, y = tables(6, torch.float64)
    context = torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64, requires_grad=True)

    def value(logits):
        torch.manual_seed(0)
        return WYSAcc(z, y, logits, 2).loss(forest)

    (found,) = torch.autograd.grad(value(context), context)
    assert bool((found.abs() > 1e-3).all())
    for entry in range(3):
        step = torch.zeros_like(context)
        step[entry] = 1e-6
        change = (value(context + step) - value(context - step)).item() / 2e-6
        assert change == pytest.approx(found[entry].item(), rel=1e-5)


@pytest.mark.parametrize("both", [True, False])
def test_losses_can_be_differentiated_twice(both):
    left = torch.randn(N, 3, dtype=torch.float64, requires_grad=True)
    right = torch.randn(N, 3, dtype=torch.float64, requires_grad=True)
    levels = [torch.randint(N, (4, 1)), torch.randint(N, (4, 3))]
    pairs = of_levels([*levels, torch.randint(N, (4, 2))], [(0, 1), (0, 2)])
    kinds = [terms.LIKE, terms.PARTITION]
    described = terms.terms(pairs, kinds, ["pair", "source"])
    weight = torch.rand(16, dtype=torch.float64, requires_grad=True)

    def loss(left, right, weight):
        tables = [scores.Table(x, False) for x in (left, left if both else right)]
        return scores.pair_loss(*tables, pairs, described, weight)

    torch.autograd.gradcheck(loss, (left, right, weight))
    torch.autograd.gradgradcheck(loss, (left, right, weight))


@pytest.mark.parametrize("both", [True, False])
def test_scores_can_be_differentiated_twice(both):
    left = torch.randn(N, 3, dtype=torch.float64, requires_grad=True)
    right = torch.randn(N, 3, dtype=torch.float64, requires_grad=True)
    described = of_levels(
        [torch.randint(N, (2, 1)), torch.randint(N, (2, 3))], [(0, 1)]
    )

    def score(left, right):
        tables = [scores.Table(x, False) for x in (left, left if both else right)]
        return scores.score_pairs(*tables, described).square()

    torch.autograd.gradcheck(score, (left, right))
    torch.autograd.gradgradcheck(score, (left, right))


@pytest.mark.parametrize(
    "change",
    [
        {"padding_idx": 0},
        {"max_norm": 1.0},
        {"scale_grad_by_freq": True},
    ],
)
def test_modules_that_do_more_than_look_up_are_asked(change):
    z = torch.nn.Embedding(N, 4, **change)
    assert scores.table_of(z) is None
    plain = torch.nn.Embedding(N, 4)
    assert scores.table_of(plain) is not None
    plain.register_forward_hook(lambda module, given, found: 2 * found)
    assert scores.table_of(plain) is None


@pytest.mark.parametrize(
    "table",
    [
        torch.zeros(4, N).T,
        torch.zeros(N, 4, dtype=torch.bfloat16),
        torch.zeros(N, 4, device="meta"),
        lambda node: torch.zeros(*node.shape, 4),
    ],
)
def test_what_kernels_cannot_read_is_looked_up(table):
    assert scores.table_of(table) is None


def test_tables_must_have_all_nodes():
    forest = traverse(graph(ROWS), [4, 1], [2, 2])
    short = torch.zeros(3, 4)
    for acc in (
        DeepWalkAcc(short, 2),
        WYSAcc(torch.zeros(N, 4), short, torch.zeros(2)),
    ):
        with pytest.raises(ValueError, match="must have a vector for every node"):
            acc.loss(forest)
    with pytest.raises(ValueError, match="'right' must have vectors as long as"):
        WYSAcc(torch.zeros(N, 4), torch.zeros(N, 3), torch.zeros(2)).loss(forest)
