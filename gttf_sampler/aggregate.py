"""aggregate(): what each receiver gets of its senders, read where the rows lie.

A layer of a graph network adds up rows of features along sampled edges. Those edges are
sorted by receiver already, which is a CSR, so that no row needs to be copied to its
edge first: one pass reads the rows of a receiver's senders and keeps their sum in
registers. Gradients go the same way along the transposed CSR. The order of summation is
that of the edges, whatever the number of threads.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._backends.memory import empty_rows

REDUCTIONS = ("sum", "mean", "max", "min")
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
TOGETHER = 1024  # rows whose share of a matrix's gradient is added up at once


@dataclass(frozen=True, slots=True)
class Receivers:
    """Edges grouped by who receives: a CSR.

    Attributes:
        ptr: int64 [r + 1]; receiver i has the edges `ptr[i]` to `ptr[i + 1]`.
        index: int64 [e], the row that sends.
        edge: int64 [e], where each edge stands in weights and scores; None for the same
            place as here.
    """

    ptr: Tensor
    index: Tensor
    edge: Tensor | None = None

    @property
    def num_receivers(self) -> int:
        """The number of receivers, r."""
        return self.ptr.numel() - 1


def receivers_of(sender: Tensor, receiver: Tensor, num_receivers: int) -> Receivers:
    """Edges sender → receiver by who receives; sorted, stably, where they are not.

    >>> receivers_of(torch.tensor([5, 6, 7]), torch.tensor([0, 0, 2]), 3)
    Receivers(ptr=tensor([0, 2, 2, 3]), index=tensor([5, 6, 7]), edge=None)

    Args:
        sender: [e], the row that sends.
        receiver: [e], who receives it.
        num_receivers: r.
    """
    sender = _check.integers("sender", sender)
    receiver = _check.integers("receiver", receiver)
    _check.length("receiver", receiver, sender.numel(), "sender")
    count = _check.size("num_receivers", num_receivers)
    _check.within("receiver", receiver, count, "receivers")
    rows = int(sender.max()) + 1 if sender.numel() else 0
    ptr, index, edge = ops.group_by_row(receiver, sender, count, rows)
    return Receivers(ptr, index.long(), None if edge is None else edge.long())


def aggregate(
    x: Tensor,
    receivers: Receivers,
    weight: Tensor | None = None,
    reduce: str = "sum",
    out: Tensor | None = None,
    scale: Tensor | None = None,
) -> Tensor:
    """Reduces the rows that each receiver is sent: [r, f].

    >>> from gttf_sampler.aggregate import aggregate, receivers_of
    >>> edges = receivers_of(torch.tensor([0, 1, 2]), torch.tensor([0, 0, 2]), 3)
    >>> aggregate(torch.tensor([[1.0], [2.0], [4.0]]), edges, reduce="mean").tolist()
    [[1.5], [0.0], [4.0]]

    Args:
        x: [n, f], any floats or int8, read in place; float16, bfloat16 and int8 are
            added up as float32.
        receivers: who sends what to whom.
        weight: [e], what each row is multiplied by; None for 1.
        reduce: "sum", "mean", "max" or "min". A mean divides by the number of edges. An
            extreme sends its gradient to the first row that has it.
        out: [r, f], where to write: any rows whose numbers stand side by side, such as
            columns of a wider tensor. Without gradients alone.
        scale: [n], floats that the rows of an int8 `x` are multiplied by, as a
            `FeatureFile` has one per row.

    Returns:
        [r, f] of the dtype of `x` (or `out`), float32 for int8; 0 where nobody sends.
        It has gradients of `x`, `weight` and `scale`.
    """
    edges, weight = _checked(x, receivers, weight, reduce, (*FLOATS, torch.int8))
    if scale is not None:
        by = _scale_of(x, scale).index_select(0, edges.index)
        weight = by if weight is None else by * weight
    if out is None:
        return _Aggregate.apply(x, weight, edges, reduce, None)  # type: ignore[no-untyped-call,no-any-return]
    _check_out(out, (edges.num_receivers, x.shape[1]), x, weight)
    wide = _wide(x.dtype)
    direct = out.dtype == wide and (out.shape[1] < 2 or out.stride(1) == 1)
    made = out if direct else out.new_empty(out.shape, dtype=wide)
    _reduce(x, weight, edges, reduce, made, None)
    return made if direct else out.copy_(made)


def aggregate_and_own(
    x: Tensor,
    receivers: Receivers,
    own: Tensor | None = None,
    weight: Tensor | None = None,
    reduce: str = "sum",
) -> Tensor:
    """[aggregate | x[own]], side by side without a copy: [r, 2f].

    One product of these rows with [W | W'] gives a layer that multiplies neighbours and
    the receiver by matrices of their own.

    Args:
        x: [n, f].
        receivers: who sends what to whom.
        own: int64 [r], the row of each receiver; None for the first r rows.
        weight: [e]; see `aggregate`.
        reduce: see `aggregate`.
    """
    edges, weight = _checked(x, receivers, weight, reduce)
    if own is None:
        if x.shape[0] < edges.num_receivers:
            rule = f"must have a row for each of {edges.num_receivers} receivers"
            _check.fail("x", rule, f"shape {list(x.shape)}")
        own = torch.arange(edges.num_receivers, device=x.device)
    else:
        own = _check.within("own", _check.integers("own", own), x.shape[0], "rows")
        _check.length("own", own, edges.num_receivers, "receivers")
    return _Aggregate.apply(x, weight, edges, reduce, own)  # type: ignore[no-untyped-call,no-any-return]


def attend(
    x: Tensor, receivers: Receivers, score: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Sums of rows weighted by the softmax of scores, per receiver: [r, heads, f].

    >>> from gttf_sampler.aggregate import attend, receivers_of
    >>> edges = receivers_of(torch.tensor([0, 1]), torch.tensor([0, 0]), 1)
    >>> attend(torch.tensor([[1.0], [3.0]]), edges, torch.zeros(2, 1)).tolist()
    [[[2.0]]]

    Args:
        x: [n, heads, f], or [n, f] that all heads share: what a linear map of the rows
            would be summed to, it can as well be applied to afterwards.
        receivers: who sends what to whom.
        score: [e, heads]; its softmax goes over the edges of a receiver.
        mask: [e, heads], multiplied with the softmax: dropout, or weights.

    Returns:
        [r, heads, f] of the dtype of `x`, with gradients of all three.
    """
    _check.dense("x", x)
    if x.dim() not in (2, 3) or x.dtype not in FLOATS:
        _check.fail("x", "must be floats [n, f] or [n, heads, f]", _what(x))
    edges, _ = _checked(x.flatten(1), receivers, None, "sum")
    heads = score.shape[1:] if x.dim() == 2 else x.shape[1:2]
    shape = len(edges.index), *heads
    for name, value in (("score", score), ("mask", mask)):
        if value is None:
            continue
        if _check.dense(name, value).shape != shape or value.dim() != 2:
            _check.fail(
                name, f"must be [{shape[0]}, heads] as 'x' has them", _what(value)
            )
    score, mask = _ordered(score, edges), _ordered(mask, edges)
    return _Attend.apply(x, score, mask, edges)  # type: ignore[no-untyped-call,no-any-return]


def attend_to_sums(
    x: Tensor,
    query: Tensor,
    receivers: Receivers,
    vector: Tensor,
    slope: float = 0.2,
    mask: Tensor | None = None,
) -> Tensor:
    """`attend` by scores ⟨leaky ReLU of a sender's row + a query, vector⟩, as GATv2.

    Rows of pairs are never written, forward or backward.

    Args:
        x: [n, heads, f].
        query: [r, heads, f], what is added for each receiver.
        receivers: who sends what to whom.
        vector: [heads, f].
        slope: of the leaky ReLU below 0.
        mask: [e, heads]; see `attend`.

    Returns:
        [r, heads, f] of the dtype of `x`, with gradients of all four.
    """
    _check.dense("x", x)
    if x.dim() != 3 or x.dtype not in FLOATS:
        _check.fail("x", "must be floats [n, heads, f]", _what(x))
    edges, _ = _checked(x.flatten(1), receivers, None, "sum")
    shapes = (
        ("query", query, (edges.num_receivers, *x.shape[1:])),
        ("vector", vector, tuple(x.shape[1:])),
        ("mask", mask, (len(edges.index), x.shape[1])),
    )
    for name, value, shape in shapes:
        if value is not None and _check.dense(name, value).shape != shape:
            _check.fail(name, f"must be {list(shape)}", _what(value))
    mask = _ordered(mask, edges)
    return _AttendToSums.apply(x, query, vector, mask, edges, slope)  # type: ignore[no-untyped-call,no-any-return]


def row_products(x: Tensor, index: Tensor, matrix: Tensor) -> Tensor:
    """`x[index] @ matrix`: [k, m], for few columns, of rows read where they lie.

    >>> from gttf_sampler.aggregate import row_products
    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> row_products(x, torch.tensor([1, 1, 0]), torch.tensor([[1.0], [10.0]])).tolist()
    [[43.0], [43.0], [21.0]]

    Args:
        x: [n, f], any floats; it gets no gradient.
        index: int64 [k], rows of `x`.
        matrix: [f, m], float64 if `x` is, else float32.

    Returns:
        [k, m] of the dtype of the matrix, with its gradient.
    """
    if _check.dense("x", x).dim() != 2 or x.dtype not in FLOATS:
        _check.fail("x", "must be floats [n, f]", _what(x))
    index = _check.within("index", _check.integers("index", index), len(x), "rows")
    rule = f"must be {_wide(x.dtype)} [{x.shape[1]}, m]"
    known = _check.dense("matrix", matrix).dtype == _wide(x.dtype)
    if not known or matrix.dim() != 2 or len(matrix) != x.shape[1]:
        _check.fail("matrix", rule, _what(matrix))
    return _RowProducts.apply(matrix, x, index.long())  # type: ignore[no-untyped-call,no-any-return]


class _RowProducts(Function):
    """Forward and backward of `row_products`, some rows in a row by one thread."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, x: Tensor, index: Tensor) -> Tensor:
        count, rows = len(index), -(-len(index) // TOGETHER)
        ends = torch.arange(rows + 1, device=index.device) * TOGETHER
        ptr = ends.clamp(max=count)
        out = matrix.new_empty(count, matrix.shape[1])
        ops.edge_dot(x, ptr, index, matrix.t().contiguous().expand(rows, -1, -1), out)
        ctx.save_for_backward(x, ptr, index)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        x, ptr, index = ctx.saved_tensors
        shape = ptr.numel() - 1, grad.shape[1], x.shape[1]
        parts = _rows(shape, grad.dtype, grad.device)
        ops.segment_sum(x, ptr, index, grad.contiguous(), False, parts)
        return parts.sum(0).t(), None, None


class _Aggregate(Function):
    """Forward and backward of `aggregate`, with the receivers' own rows or without."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        edges: Receivers,
        reduce: str,
        own: Tensor | None,
    ) -> Tensor:
        size = x.shape[1]
        rows, wide = edges.num_receivers, _wide(x.dtype)
        found = _rows((rows, size if own is None else 2 * size), wide, x.device)
        extreme = reduce in ("max", "min")
        tracked = extreme and any(ctx.needs_input_grad[:2])
        small = torch.int32 if len(edges.index) < 1 << 31 else torch.int64
        best = _rows((rows, size), small, x.device) if tracked else None
        _reduce(x, weight, edges, reduce, found[:, :size], best)
        if own is not None:
            found[:, size:] = x.index_select(0, own)
        kept = x if weight is not None and ctx.needs_input_grad[1] else None
        ctx.save_for_backward(kept, weight, edges.ptr, edges.index, best, own)
        ctx.about = x.shape, x.dtype, reduce
        return found.to(x.dtype if x.is_floating_point() else wide)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        x, weight, ptr, index, best, own = ctx.saved_tensors
        (count, size), dtype, reduce = ctx.about
        grad, beside = grad[:, :size], grad[:, size:]
        of_x = of_weight = None
        if ctx.needs_input_grad[0]:
            of_x = _rows((count, size), _wide(dtype), grad.device)
            if best is not None:
                ops.scatter_best(grad, best, ptr, index, weight, of_x.zero_())
            else:
                back = _transposed(ptr, index, count)
                by = _shares(ptr, weight, reduce, of_x.dtype)
                by = None if by is None else _taken(by, back).unsqueeze(1)
                to = of_x.unsqueeze(1)
                ops.segment_sum(grad, back.ptr, back.index, by, False, to)
            if own is not None:
                of_x.index_add_(0, own, beside.to(of_x.dtype))
            of_x = of_x.to(dtype)
        if ctx.needs_input_grad[1]:
            of_weight = _weight_gradient(x, weight, ptr, index, best, grad, reduce)
        return of_x, of_weight, None, None, None


class _Attend(Function):
    """Forward and backward of `attend`."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, score: Tensor, mask: Tensor | None, edges: Receivers
    ) -> Tensor:
        wide = _wide(x.dtype)
        share = ops.segment_softmax(score.to(wide), edges.ptr)
        by = share if mask is None else share * mask
        out = _rows((edges.num_receivers, by.shape[1], x.shape[-1]), wide, x.device)
        ops.segment_sum(x, edges.ptr, edges.index, by, False, out)
        ctx.save_for_backward(x, share, mask, edges.ptr, edges.index)
        ctx.dtype = score.dtype
        return out.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        x, share, mask, ptr, index = ctx.saved_tensors
        of_x = of_score = of_mask = None
        if ctx.needs_input_grad[0]:
            by = share if mask is None else share * mask
            of_x = _rows(x.shape, share.dtype, x.device)
            _heads_back(grad, ptr, index, by, of_x)
            of_x = of_x.to(x.dtype)
        if any(ctx.needs_input_grad[1:3]):
            of_score, of_mask = _score_gradient(x, share, mask, ptr, index, grad)
            of_score = of_score.to(ctx.dtype)
        return of_x, of_score, of_mask, None


class _AttendToSums(Function):
    """Forward and backward of `attend_to_sums`."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        query: Tensor,
        vector: Tensor,
        mask: Tensor | None,
        edges: Receivers,
        slope: float,
    ) -> Tensor:
        wide, at = _wide(x.dtype), (edges.ptr, edges.index)
        ctx.dtypes = x.dtype, query.dtype, vector.dtype
        query, vector = query.to(wide), vector.to(wide)
        score = _rows((len(edges.index), x.shape[1]), wide, x.device)
        ops.additive_score(x, *at, query, vector, slope, score)
        share = ops.segment_softmax(score, edges.ptr)
        by = share if mask is None else share * mask
        out = _rows(query.shape, wide, x.device)
        ops.segment_sum(x, *at, by, False, out)
        ctx.save_for_backward(x, query, vector, share, mask, *at)
        ctx.slope = slope
        return out.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        x, query, vector, share, mask, ptr, index = ctx.saved_tensors
        of_score, of_mask = _score_gradient(x, share, mask, ptr, index, grad)
        of_query = torch.zeros_like(query)
        of_vector = ops.additive_gradient(
            x, ptr, index, of_score, query, vector, ctx.slope, of_query
        )
        of_x = None
        if ctx.needs_input_grad[0]:
            back = _transposed(ptr, index, len(x))
            by = _taken(share if mask is None else share * mask, back)
            of_x = _rows(x.shape, share.dtype, x.device)
            at = back.ptr, back.index
            ops.segment_sum(grad, *at, by, False, of_x)
            there = _taken(of_score, back)
            ops.additive_gradient(query, *at, there, x, vector, ctx.slope, of_x)
        first, second, third = ctx.dtypes
        of_x = None if of_x is None else of_x.to(first)
        return (
            *(of_x, of_query.to(second), of_vector.to(third)),
            *(of_mask, None, None),
        )


def _reduce(
    x: Tensor,
    weight: Tensor | None,
    edges: Receivers,
    reduce: str,
    out: Tensor,
    best: Tensor | None,
) -> None:
    """Writes a reduction to `out` [r, f]."""
    if reduce in ("max", "min"):
        at = edges.ptr, edges.index
        ops.segment_best(x, *at, weight, reduce == "max", out, best)
        return
    by = None if weight is None else weight.unsqueeze(1)
    mean = reduce == "mean"
    ops.segment_sum(x, edges.ptr, edges.index, by, mean, out.unsqueeze(1))


def _score_gradient(
    x: Tensor,
    share: Tensor,
    mask: Tensor | None,
    ptr: Tensor,
    index: Tensor,
    grad: Tensor,
) -> tuple[Tensor, Tensor | None]:
    """The gradients [e, heads] of scores and of the mask of their softmax."""
    along = _rows(share.shape, share.dtype, share.device)
    ops.edge_dot(x, ptr, index, grad, along)
    of_mask = None
    if mask is not None:
        of_mask = (along * share).to(mask.dtype)
        along = along * mask
    return ops.softmax_gradient(share, along, ptr), of_mask


def _heads_back(
    grad: Tensor, ptr: Tensor, index: Tensor, by: Tensor, out: Tensor
) -> None:
    """Writes the gradient of rows [n, f] or [n, heads, f] to `out`."""
    back, heads = _transposed(ptr, index, len(out)), by.shape[1]
    by = _taken(by, back)
    if out.dim() == 3:
        ops.segment_sum(grad, back.ptr, back.index, by, False, out)
        return
    # A row is read by all heads: each of its edges leads to as many gradients.
    head = torch.arange(heads, device=by.device)
    there = (back.index.unsqueeze(1) * heads + head).flatten()
    rows, weight = grad.reshape(-1, grad.shape[2]), by.reshape(-1, 1)
    ops.segment_sum(rows, back.ptr * heads, there, weight, False, out.unsqueeze(1))


def _weight_gradient(
    x: Tensor,
    weight: Tensor,
    ptr: Tensor,
    index: Tensor,
    best: Tensor | None,
    grad: Tensor,
    reduce: str,
) -> Tensor:
    """The gradient [e] of the weights of edges."""
    found = weight.new_zeros(len(index), 1, dtype=_wide(x.dtype))
    if best is None:
        ops.edge_dot(x, ptr, index, grad.unsqueeze(1), found)
        share = _shares(ptr, None, reduce, found.dtype)
        found = found if share is None else found * share.unsqueeze(1)
    elif len(index):
        edge = best.clamp(min=0).long()
        value = grad * x.gather(0, index[edge])
        value = value.masked_fill(best < 0, 0).to(found.dtype)
        found.view(-1).index_add_(0, edge.reshape(-1), value.reshape(-1))
    return found.view(-1).to(weight.dtype)


def _shares(
    ptr: Tensor, weight: Tensor | None, reduce: str, dtype: torch.dtype
) -> Tensor | None:
    """The factor [e] of each edge in its receiver's sum; None for 1."""
    if reduce != "mean":
        return weight
    degree = ptr.diff()
    share = degree.to(dtype).reciprocal().repeat_interleave(degree)
    return share if weight is None else share * weight


def _transposed(ptr: Tensor, index: Tensor, rows: int) -> Receivers:
    """The same edges by who sends, in the order of receivers."""
    receiver = torch.repeat_interleave(ptr.diff(), output_size=index.numel())
    back, to, edge = ops.group_by_row(index, receiver, rows, ptr.numel() - 1)
    return Receivers(back, to.long(), None if edge is None else edge.long())


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype that numbers are added up in."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def _rows(shape: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Memory for a result, used before where that is worth it."""
    if device.type == "cpu":
        return empty_rows(shape, dtype)
    return torch.empty(shape, dtype=dtype, device=device)


def _scale_of(x: Tensor, scale: Tensor) -> Tensor:
    """The factors [n] of rows, which must be int8."""
    if x.dtype != torch.int8:
        _check.fail("scale", "must be None for floats", _what(scale))
    if _check.floats("scale", scale).shape != x.shape[:1]:
        _check.fail("scale", f"must be [{len(x)}], one per row of 'x'", _what(scale))
    return scale


def _taken(value: Tensor, edges: Receivers) -> Tensor:
    """Numbers of edges [e, ...] in the order of `edges`."""
    if edges.edge is None:
        return value
    out = _rows(value.shape, value.dtype, value.device)
    return torch.index_select(value, 0, edges.edge, out=out)


def _checked(
    x: Tensor,
    receivers: Receivers,
    weight: Tensor | None,
    reduce: str,
    dtypes: tuple[torch.dtype, ...] = FLOATS,
) -> tuple[Receivers, Tensor | None]:
    """The edges without their order, and their weights in it."""
    if _check.dense("x", x).dim() != 2 or x.dtype not in dtypes:
        _check.fail("x", "must be floats [n, f]", _what(x))
    _check.one_of("reduce", reduce, REDUCTIONS)
    _check.of_type("receivers", receivers, Receivers)
    ptr, index, edge = receivers.ptr, receivers.index, receivers.edge
    for name, value in (("ptr", ptr), ("index", index)):
        if value.dtype != torch.int64 or value.dim() != 1 or value.device != x.device:
            rule = f"must have int64 [k] in '{name}' where 'x' is"
            _check.fail("receivers", rule, f"{_what(value)} on {value.device}")
    if edge is not None:
        alike = edge.dtype == torch.int64 and edge.shape == index.shape
        if not alike or edge.device != x.device:
            rule = f"must have int64 [{len(index)}] in 'edge' where 'x' is"
            _check.fail("receivers", rule, f"{_what(edge)} on {edge.device}")
    ptr, index = ptr.contiguous(), index.contiguous()
    if not ptr.numel() or not ops.sound(index, ptr, x.shape[0]):
        rule = f"must lead to {x.shape[0]} rows of 'x', with an ascending 'ptr'"
        _check.fail("receivers", rule, "others", "make them with receivers_of")
    if weight is not None and _check.dense("weight", weight).shape != index.shape:
        _check.fail("weight", f"must be [{len(index)}], one per edge", _what(weight))
    edges = Receivers(ptr, index, edge)
    return edges, _ordered(weight, edges)


def _check_out(
    out: Tensor, shape: tuple[int, int], x: Tensor, weight: Tensor | None
) -> None:
    """Refuses memory that does not fit, or that a gradient would be lost in."""
    if _check.dense("out", out).shape != shape:
        _check.fail("out", f"must be {list(shape)}", _what(out))
    tracked = any(v is not None and v.requires_grad for v in (x, weight, out))
    if tracked and torch.is_grad_enabled():
        cure = "use aggregate_and_own, or torch.no_grad()"
        _check.fail("out", "must be None where a gradient is asked for", "one", cure)


def _ordered(value: Any, edges: Receivers) -> Any:
    """Weights or scores in the order of the receivers."""
    if value is None or edges.edge is None:
        return value
    if len(value):
        low, high = map(int, edges.edge.aminmax())
        if low < 0 or high >= len(value):
            rule = f"must have numbers of the {len(value)} edges in 'edge'"
            found = f"{low} to {high}"
            _check.fail("receivers", rule, found, "make them with receivers_of")
    return value[edges.edge]


def _what(value: Tensor) -> str:
    return f"{value.dtype} {list(value.shape)}"
