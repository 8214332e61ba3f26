"""Triton's compiled kernels of `aggregate` have the CPU's bits, and no races."""

import pytest
import torch

pytest.importorskip("triton", reason="there is nothing to run without Triton")

import compiled
from gttf_sampler import use_backend
from gttf_sampler._backends.triton import launch as how
from gttf_sampler.aggregate import (
    REDUCTIONS,
    Receivers,
    aggregate,
    aggregate_and_own,
    attend,
    attend_to_sums,
    receivers_of,
)
from simulated import Accelerator

pytestmark = pytest.mark.compile
ROWS, RECEIVERS, EDGES = 30, 10, 150
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def edges_of(edges=EDGES):
    """Edges that are sorted already; one receiver has a third, the last has none."""
    generator = torch.Generator().manual_seed(edges)
    sender = torch.randint(ROWS, (edges,), generator=generator)
    receiver = torch.randint(RECEIVERS - 1, (edges,), generator=generator)
    receiver[: edges // 3] = 4
    return receivers_of(sender, receiver.sort().values, RECEIVERS)


def normal(*shape, dtype=torch.float32, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(dtype)


def with_gradients(call, given):
    """The output of a call, then its gradients."""
    leaves = [value.clone().requires_grad_() for value in given]
    out = call(*leaves)
    (out.float() ** 2).sum().backward()
    return [out.detach(), *(leaf.grad for leaf in leaves)]


def from_kernels(call, given, names, seed=1):
    """The same from compiled kernels, which have these names, without a race."""
    kernels = compiled.kernels(seed, watch=True)
    with kernels as races, use_backend("triton"), how.counting() as run:
        found = with_gradients(call, given)
    assert races == {}
    assert set(run) == set(names)
    return found


def assert_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        scale = max(1.0, float(other.abs().max())) if other.numel() else 1.0
        close = {torch.float32: 2e-6}.get(one.dtype, 1e-2)
        one, other = one.double() / scale, other.double() / scale
        torch.testing.assert_close(one, other, rtol=0, atol=close)


KERNELS = {
    "sum": {"sum_rows", "score_edges"},
    "mean": {"sum_rows", "score_edges"},
    "max": {"best_rows", "add_picked"},
    "min": {"best_rows", "add_picked"},
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_reductions_and_gradients_are_those_of_the_cpu(reduce, dtype):
    """Two interleavings; rows' gradients too are bit for bit those of numba."""
    pytest.importorskip("numba", reason="has the order of summation")
    edges, given = edges_of(), [normal(ROWS, 37, dtype=dtype), normal(EDGES, seed=2)]
    call = lambda x, weight: aggregate(x, edges, weight, reduce)  # noqa: E731
    with use_backend("torch"):
        close = with_gradients(call, given)
    with use_backend("numba"):
        wide = aggregate(given[0].float(), edges, given[1], reduce)
        expected = with_gradients(call, given)
    for seed in (1, 2):
        found = from_kernels(call, given, KERNELS[reduce], seed)
        assert found[0].equal(wide.to(dtype))
        assert found[1].equal(expected[1])
        assert_close(found, close)


@pytest.mark.parametrize("reduce", ["mean", "max"])
def test_wide_rows_without_weights_beside_their_own(reduce):
    edges, x = edges_of(), normal(ROWS, 150)
    call = lambda x: aggregate_and_own(x, edges, None, None, reduce)  # noqa: E731
    with use_backend("torch"):
        expected = with_gradients(call, [x])
    names = KERNELS[reduce] - {"score_edges"}
    weighted = names - {"add_picked"} if reduce == "mean" else names
    assert_close(from_kernels(call, [x], weighted), expected)
    with compiled.kernels(), use_backend("triton"):  # columns of a wider tensor
        wide = torch.full((RECEIVERS, 160), 7.0)
        aggregate(x, edges, reduce=reduce, out=wide[:, 4:154])
    assert_close([wide[:, 4:154]], [expected[0][:, :150]])
    assert wide[:, :4].eq(7).all()
    assert wide[:, 154:].eq(7).all()


@pytest.mark.parametrize("reduce", ["max", "min"])
def test_first_of_equal_rows_gets_the_gradient(reduce):
    sign = 1 if reduce == "max" else -1
    x = sign * torch.tensor([[1.0], [5.0], [5.0], [float("nan")], [float("nan")]])
    edges = Receivers(torch.tensor([0, 3, 6, 6]), torch.tensor([0, 2, 1, 1, 4, 3]))
    call = lambda x: aggregate(x, edges, None, reduce)  # noqa: E731
    out, grad = from_kernels(call, [x], KERNELS[reduce])
    assert out[0] == 5 * sign
    assert out[1].isnan()
    assert out[2] == 0
    assert grad.isnan().flatten().tolist() == [False, False, False, False, True]
    assert grad[:4].flatten().tolist() == [0, 0, 10 * sign, 0]


ATTENTION = {"soften", "sum_rows", "score_edges", "soften_back"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(ROWS, 9), (ROWS, 3, 9)])
def test_attention_and_gradients(shape, dtype):
    edges = edges_of()
    score = 30 * normal(EDGES, 3, seed=2)  # far apart: sums are scaled down
    mask = normal(EDGES, 3, seed=3)
    given = [normal(*shape, dtype=dtype), score, mask]
    call = lambda x, s, m: attend(x, edges, s, m)  # noqa: E731
    with use_backend("torch"):
        expected = with_gradients(call, given)
    found = from_kernels(call, given, ATTENTION)
    assert_close(found, expected)
    again = from_kernels(call, given, ATTENTION, seed=5)
    assert all(map(torch.equal, again, found))


def test_attention_of_sums_and_gradients():
    edges, width = edges_of(), 5
    given = [normal(n, 2, width, seed=n) for n in (ROWS, RECEIVERS)]
    given += [normal(2, width, seed=4), normal(EDGES, 2, seed=5)]
    call = lambda x, q, v, m: attend_to_sums(x, q, edges, v, 0.3, m)  # noqa: E731
    with use_backend("torch"):
        expected = with_gradients(call, given)
    found = from_kernels(call, given, ATTENTION | {"bend_rows"})
    assert_close(found, expected)
    again = from_kernels(call, given, ATTENTION | {"bend_rows"}, seed=5)
    assert all(map(torch.equal, again, found))


def test_scores_of_minus_infinity_weigh_nothing():
    ptr = torch.tensor([0, 3, 5, 8])
    score = torch.tensor([-torch.inf, 1, 2, -torch.inf, -torch.inf, 3, torch.nan, 1])
    edges, score = Receivers(ptr, torch.arange(8)), score.unsqueeze(1)
    x = torch.eye(8)
    with use_backend("torch"):
        expected = attend(x, edges, score)
    with compiled.kernels(), use_backend("triton"):
        found = attend(x, edges, score)
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert found[0, 0, 0] == 0
    assert found[1:].isnan().any(-1).all()


@pytest.mark.parametrize("reduce", ["mean", "max"])
def test_nobody_sends(reduce):
    x, nobody = normal(ROWS, 37), torch.zeros(0, dtype=torch.int64)
    for receivers in (0, 3):
        ptr = torch.zeros(receivers + 1, dtype=torch.int64)
        with compiled.kernels(), use_backend("triton"):
            call = lambda x: aggregate(x, Receivers(ptr, nobody), None, reduce)  # noqa: B023, E731
            out, grad = with_gradients(call, [x])
        assert out.equal(torch.zeros(receivers, 37))
        assert grad.equal(torch.zeros_like(x))


def test_float64_is_left_to_torch():
    edges, x = edges_of(), normal(ROWS, 3).double()
    with compiled.kernels(), use_backend("triton"), how.counting() as names:
        found = aggregate(x, edges, reduce="mean")
    with use_backend("torch"):
        assert found.equal(aggregate(x, edges, reduce="mean"))
    assert names == []


def test_forward_is_one_launch_and_one_wait():
    """The wait is for the check of the edges."""
    with compiled.kernels(), use_backend("triton"), Accelerator() as gpu:
        edges, x = edges_of(), normal(ROWS, 37).to("cuda")
        there = Receivers(edges.ptr.to("cuda"), edges.index.to("cuda"))
        aggregate(x, there, reduce="mean")
        with gpu.counting(), how.counting() as names:
            aggregate(x, there, reduce="mean")
        assert names == ["sum_rows"]
        assert len(gpu.syncs) == 1
