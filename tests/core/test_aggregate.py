"""aggregate and attend against a dense reference, their gradients and their bits."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from gttf_sampler import use_backend
from gttf_sampler.aggregate import (
    REDUCTIONS,
    Receivers,
    aggregate,
    aggregate_and_own,
    attend,
    attend_to_sums,
    receivers_of,
    row_products,
)

BACKENDS = ("numba", "torch")


def edges_of(rows=7, receivers=5, edges=12, seed=0):
    """Senders and receivers, the last of whom gets nothing."""
    generator = torch.Generator().manual_seed(seed)
    sender = torch.randint(rows, (edges,), generator=generator)
    return sender, torch.randint(receivers - 1, (edges,), generator=generator)


def doubles(*shape, seed=1):
    generator = torch.Generator().manual_seed(seed)
    made = torch.randn(*shape, dtype=torch.float64, generator=generator)
    return made.requires_grad_()


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_aggregate_gradients(backend, reduce):
    edges, x, weight = receivers_of(*edges_of(), 5), doubles(7, 3), doubles(12, seed=2)
    own = torch.tensor([3, 3, 0, 1, 6])
    assert gradcheck(lambda x: aggregate(x, edges, None, reduce), (x,))
    assert gradcheck(lambda x, w: aggregate(x, edges, w, reduce), (x, weight))
    both = lambda x, w: aggregate_and_own(x, edges, own, w, reduce)  # noqa: E731
    assert gradcheck(both, (x, weight))


@pytest.mark.parametrize("shape", [(7, 3), (7, 2, 3)])
def test_attend_gradients(backend, shape):
    edges, x = receivers_of(*edges_of(), 5), doubles(*shape)
    score, mask = doubles(12, 2, seed=2), doubles(12, 2, seed=3)
    assert gradcheck(lambda x, s: attend(x, edges, s), (x, score))
    assert gradcheck(lambda x, s, m: attend(x, edges, s, m), (x, score, mask))


@pytest.mark.parametrize("width", [1, 3, 21])
def test_attend_to_sums_gradients(backend, width):
    edges = receivers_of(*edges_of(), 5)
    x, query, vector = (
        doubles(*shape, 2, width, seed=len(shape) + 1) for shape in ((7,), (5,), ())
    )
    mask = doubles(12, 2, seed=4)
    given = x, query, vector, mask
    call = lambda x, q, v, m: attend_to_sums(x, q, edges, v, 0.3, m)  # noqa: E731
    assert gradcheck(call, given)
    assert gradcheck(lambda v: call(x.detach(), query.detach(), v, None), (vector,))


@settings(deadline=None, max_examples=40)
@given(
    edges=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=30),
    heads=st.integers(1, 4),
    width=st.integers(1, 45) | st.sampled_from([64, 150]),
    dtype=st.sampled_from(
        [torch.float32, torch.float64, torch.bfloat16, torch.float16]
    ),
    slope=st.sampled_from([0.0, 0.2, 1.5]),
    dropped=st.booleans(),
    gaps=st.booleans(),
    backend=st.sampled_from(BACKENDS),
)
def test_attend_to_sums_dense(
    edges, heads, width, dtype, slope, dropped, gaps, backend
):
    """The same as scores written out, gradients included."""
    if backend == "numba":
        pytest.importorskip("numba", reason="numba is optional")
    sender, receiver = torch.tensor(edges, dtype=torch.long).view(-1, 2).unbind(1)
    receivers = receivers_of(sender, receiver, 5)
    generator = torch.Generator().manual_seed(len(edges))
    made = torch.randn(12, heads, width, generator=generator).to(dtype)
    x, query, vector = made[:6], made[6:11], made[11]
    mask = torch.rand(len(edges), heads, generator=generator) if dropped else None
    given = [v.clone().requires_grad_() for v in (x, query, vector)]
    exact = [v.detach().double().requires_grad_() for v in given]
    x, query, vector = given
    if gaps:
        x = x.transpose(1, 2).contiguous().transpose(1, 2)
    with use_backend(backend):
        out = attend_to_sums(x, query, receivers, vector, slope, mask)
        out.square().sum().backward()
    at = receivers.index, torch.repeat_interleave(receivers.ptr.diff())
    pair = torch.nn.functional.leaky_relu(exact[0][at[0]] + exact[1][at[1]], slope)
    score = (pair * exact[2]).sum(-1)
    factor = None if mask is None else mask.double()
    if mask is not None and receivers.edge is not None:
        factor = factor[receivers.edge]
    wanted = attend(exact[0], Receivers(receivers.ptr, at[0]), score, factor)
    wanted.square().sum().backward()
    narrow = {torch.bfloat16: 5e-2, torch.float16: 1e-2}
    close = {**narrow, torch.float32: 1e-3}.get(dtype, 1e-10)
    torch.testing.assert_close(out.double(), wanted, rtol=close, atol=close)
    for one, near in zip(given, exact, strict=True):
        scale = max(1.0, float(near.grad.abs().max()))
        found = one.grad.double() / scale
        torch.testing.assert_close(found, near.grad / scale, rtol=close, atol=close)


def dense(x, sender, receiver, weight, reduce, count):
    """`aggregate` edge by edge, in float64."""
    found = torch.zeros(count, x.shape[1], dtype=torch.float64)
    for i in range(count):
        at = receiver == i
        rows = x.double()[sender[at].long()] * weight[at].double().unsqueeze(1)
        if len(rows):
            how = {"max": torch.amax, "min": torch.amin}.get(reduce)
            how = how or getattr(torch, reduce)
            found[i] = how(rows, dim=0)
    return found


@settings(deadline=None, max_examples=60)
@given(
    edges=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=30),
    width=st.integers(1, 45) | st.sampled_from([100, 389, 602]),
    reduce=st.sampled_from(REDUCTIONS),
    dtype=st.sampled_from(
        [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int8]
    ),
    ids=st.sampled_from([torch.int32, torch.int64]),
    weighted=st.booleans(),
    gaps=st.booleans(),
    backend=st.sampled_from(BACKENDS),
)
def test_aggregate_dense(edges, width, reduce, dtype, ids, weighted, gaps, backend):
    """Multi-edges, self-loops, empty receivers and graphs, any width, strided rows."""
    if backend == "numba":
        pytest.importorskip("numba", reason="numba is optional")
    sender, receiver = torch.tensor(edges, dtype=ids).view(-1, 2).unbind(1)
    x = torch.randn(6, 2 * width, generator=torch.Generator().manual_seed(0))
    scale = torch.linspace(0.01, 0.02, 6) if dtype == torch.int8 else None
    x = (x * 40 if dtype == torch.int8 else x).to(dtype)
    x = x[:, ::2] if gaps else x[:, width:]
    weight = torch.linspace(0.5, 2, len(edges)) if weighted else None
    how = {"reduce": reduce, "scale": scale}
    with use_backend(backend):
        found = aggregate(x, receivers_of(sender, receiver, 5), weight, **how)
        wide = torch.zeros(5, width + 3, dtype=found.dtype)
        receivers = receivers_of(sender, receiver, 5)
        aggregate(x, receivers, weight, **how, out=wide[:, 2:-1])
    exact = torch.ones(len(edges)) if weight is None else weight
    rows = x.double() if scale is None else x.double() * scale.double().unsqueeze(1)
    exact = dense(rows, sender, receiver, exact, reduce, 5)
    narrow = {torch.bfloat16: 1e-2, torch.float16: 2e-3}
    close = {**narrow, torch.float64: 1e-12}.get(dtype, 1e-5)
    torch.testing.assert_close(found.double(), exact, rtol=close, atol=close)
    assert torch.equal(wide[:, 2:-1], found)
    assert not wide[:, [0, 1, -1]].any()


NARROW = (torch.float16, torch.bfloat16, torch.int8)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_narrow_rows_are_read_as_they_are(monkeypatch, reduce, dtype):
    """Every number there is, and the bits of rows that were widened first."""
    numba = pytest.importorskip("gttf_sampler._backends.numba.aggregate")
    monkeypatch.setattr(numba, "reference", None)
    kind, size = (torch.int8, 8) if dtype == torch.int8 else (torch.int16, 16)
    x = torch.arange(-(1 << size - 1), 1 << size - 1).to(kind).view(-1, 32).view(dtype)
    every = torch.arange(len(x))
    wide, own = torch.empty(2, *x.shape)
    edges = Receivers(torch.arange(len(x) + 1), every)
    aggregate(x, edges, None, reduce, own)
    torch.testing.assert_close(own, x.float(), rtol=0, atol=0, equal_nan=True)
    pairs = Receivers(edges.ptr[::2].contiguous(), every.flip(0))
    for weight in (None, torch.linspace(1, 2, len(x))):
        own, wide = torch.empty(2, len(x) // 2, 32)
        aggregate(x, pairs, weight, reduce, own)
        aggregate(x.float(), pairs, weight, reduce, wide)
        torch.testing.assert_close(own, wide, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_scale_of_rows_has_a_gradient(backend, reduce):
    edges, x = receivers_of(*edges_of(), 5), torch.arange(21).view(7, 3).to(torch.int8)
    scale, weight = torch.rand(7, requires_grad=True), torch.rand(12) + 0.5
    out = aggregate(x, edges, weight, reduce, scale=scale)
    assert out.dtype == torch.float32
    out.square().sum().backward()
    exact = scale.detach().clone().requires_grad_()
    rows = x.float() * exact.unsqueeze(1)
    aggregate(rows, edges, weight, reduce).square().sum().backward()
    torch.testing.assert_close(scale.grad, exact.grad)


@pytest.mark.parametrize("reduce", [*REDUCTIONS, "attend", "attend_to_sums"])
def test_bits_do_not_depend_on_threads(reduce):
    """And numba differs from torch by rounding alone, gradients included."""
    pytest.importorskip("numba", reason="numba is optional")
    generator = torch.Generator().manual_seed(0)
    sender = torch.randint(500, (9000,), generator=generator)
    receiver = (torch.rand(9000, generator=generator) ** 3 * 700).long()
    edges = receivers_of(sender, receiver, 800)
    values = torch.randn(500, 70, generator=generator)
    weight = torch.rand(9000, generator=generator) + 0.5
    score = torch.randn(9000, 5, generator=generator)

    def step():
        x, w, s = (v.clone().requires_grad_() for v in (values, weight, score))
        if reduce == "attend_to_sums":
            heads, query, by = x.view(500, 2, 35), values.new_ones(800, 2, 35), x[:2]
            out = attend_to_sums(heads, query, edges, by.reshape(2, -1)[:, :35])
            out.square().sum().backward()
            return out.detach(), x.grad
        if reduce == "attend":
            out = attend(x, edges, s)
            out.square().sum().backward()
            return out.detach(), x.grad, s.grad
        out = aggregate(x, edges, w, reduce)
        out.square().sum().backward()
        return out.detach(), x.grad, w.grad

    before = torch.get_num_threads()
    found = {}
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found[threads] = step()
    finally:
        torch.set_num_threads(before)
    with use_backend("torch"):
        reference = step()
    for one, two, five, near in zip(*found.values(), reference, strict=True):
        assert torch.equal(one, two)
        assert torch.equal(one, five)
        torch.testing.assert_close(one, near, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("count", [0, 1, 5000])
@pytest.mark.parametrize("columns", [1, 3, 4])
def test_row_products(backend, count, columns):
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(7, (count,), generator=generator)
    x, matrix = doubles(7, 21).detach(), doubles(21, columns, seed=2)
    assert gradcheck(lambda m: row_products(x, index[:9], m), (matrix,))
    by = torch.rand(count, columns, generator=generator).double()
    wanted = x[index] @ matrix
    theirs = torch.autograd.grad((wanted * by).sum(), matrix)
    for dtype, near in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        rows, map_ = x.to(dtype), matrix.detach().to(dtype).requires_grad_()
        bits, before = [], torch.get_num_threads()
        for threads in (1, 2, 5):
            try:
                torch.set_num_threads(threads)
                found = row_products(rows, index, map_)
                ours = torch.autograd.grad((found * by).sum(), map_)
            finally:
                torch.set_num_threads(before)
            bits.append((found.detach(), *ours))
        size = wanted.detach().abs().max() if count else 1
        assert not count or (bits[0][0] - wanted).abs().max() <= near * size
        torch.testing.assert_close(bits[0][1].double(), *theirs, rtol=near, atol=1e-3)
        if backend == "numba":
            for other in bits[1:]:
                assert all(map(torch.equal, other, bits[0]))


def test_row_products_narrow(backend):
    x, index = torch.randn(7, 21).bfloat16(), torch.tensor([6, 0, 3])
    matrix = torch.randn(21, 4)
    found = row_products(x, index, matrix)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, x.float()[index] @ matrix)


def test_result_can_be_changed_in_place(backend):
    """Memory that is used again is no view to autograd."""
    x = torch.randn(10, 600, requires_grad=True)
    edges = receivers_of(torch.arange(800) % 10, torch.arange(800) // 4, 200)
    aggregate(x, edges).add_(1).square().sum().backward()
    exact = x.detach().clone().requires_grad_()
    (aggregate(exact, edges) + 1).square().sum().backward()
    assert x.grad.equal(exact.grad)


def test_columns_have_names_of_their_own():
    """Kernels from the disk cache would otherwise share the machine code of one."""
    module = pytest.importorskip("gttf_sampler._backends.numba.aggregate")
    found = [
        f.py_func.__qualname__
        for n, f in vars(module).items()
        if "_columns" in n and n != "_columns"
    ]
    assert len(found) == len(set(found)) >= 3


def test_validate():
    edges, x = receivers_of(*edges_of(), 5), torch.ones(7, 3)
    with pytest.raises(ValueError, match="'x' must be floats"):
        aggregate(x.long(), edges)
    with pytest.raises(ValueError, match="'scale' must be None for floats"):
        aggregate(x, edges, scale=torch.ones(7))
    with pytest.raises(ValueError, match=r"'scale' must be \[7\], one per row"):
        aggregate(x.to(torch.int8), edges, scale=torch.ones(12))
    with pytest.raises(ValueError, match="'reduce' must be one of"):
        aggregate(x, edges, reduce="median")
    with pytest.raises(ValueError, match=r"'weight' must be \[12\], one per edge"):
        aggregate(x, edges, torch.ones(3))
    with pytest.raises(ValueError, match="'receivers' must lead to 2 rows"):
        aggregate(x[:2], edges)
    with pytest.raises(ValueError, match="'receivers' must lead to 7 rows"):
        aggregate(x, Receivers(torch.tensor([0, 5, 3, 12]), edges.index))
    with pytest.raises(ValueError, match="'receivers' must have int64"):
        aggregate(x, Receivers(edges.ptr.int(), edges.index))
    for edge in (torch.arange(3), torch.arange(12).int()):
        with pytest.raises(ValueError, match=r"must have int64 \[12\] in 'edge'"):
            aggregate(x, Receivers(edges.ptr, edges.index, edge), torch.ones(12))
    for edge in (torch.arange(12) - 1, torch.arange(12) + 1):
        wrong = Receivers(edges.ptr, edges.index, edge)
        with pytest.raises(ValueError, match="must have numbers of the 12 edges"):
            aggregate(x, wrong, torch.ones(12))
        with pytest.raises(ValueError, match="must have numbers of the 12 edges"):
            attend(x, wrong, torch.ones(12, 1))
    with pytest.raises(ValueError, match="'out' must be None where a gradient"):
        aggregate(x.requires_grad_(), edges, out=torch.ones(5, 3))
    with pytest.raises(ValueError, match=r"'score' must be \[12, heads\]"):
        attend(x, edges, torch.ones(12))
    rows, vector = x.unsqueeze(1), torch.ones(1, 3)
    with pytest.raises(ValueError, match=r"'query' must be \[5, 1, 3\]"):
        attend_to_sums(rows, rows, edges, vector)
    with pytest.raises(ValueError, match=r"'vector' must be \[1, 3\]"):
        attend_to_sums(rows, rows[:5], edges, vector[0])
    with pytest.raises(ValueError, match=r"'mask' must be \[12, 1\]"):
        attend_to_sums(rows, rows[:5], edges, vector, mask=torch.ones(12))
    with pytest.raises(ValueError, match=r"'x' must be floats \[n, heads, f\]"):
        attend_to_sums(x, rows[:5], edges, vector)
    with pytest.raises(ValueError, match="'index' must hold ids below"):
        row_products(rows[:, 0], torch.tensor([7]), torch.ones(3, 1))
    for matrix in (torch.ones(3), torch.ones(2, 1), torch.ones(3, 1).double()):
        with pytest.raises(ValueError, match=r"'matrix' must be torch.float32 .3, m"):
            row_products(rows[:, 0], torch.tensor([6]), matrix)
    with pytest.raises(ValueError, match="'own' must have one entry per receivers"):
        aggregate_and_own(x, edges, torch.tensor([0]))
    with pytest.raises(ValueError, match="'x' must have a row for each of 5"):
        aggregate_and_own(x[:4], Receivers(torch.zeros(6).long(), edges.index[:0]))
