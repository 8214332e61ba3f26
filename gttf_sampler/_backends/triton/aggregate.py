"""Sums, extremes and softmax over the senders of each receiver, in place, on a GPU.

A program has a few receivers and a block of columns: turn by turn it reads the row of
each one's next sender, and what becomes of them stays in registers as float32. Sums
are chains of multiply-adds in the order of the edges, as on the CPU, whatever order
programs run in; no atomic adds anything up, backward neither. What is not float32,
float16 or bfloat16 is left to torch.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gttf_sampler._backends.torch import aggregate as reference
from gttf_sampler._backends.torch.rows import group_by_row
from gttf_sampler._backends.triton.launch import blocks, launch

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
COLUMNS = 128  # of a block, at most
NUMBERS = 512  # of a block: receivers × columns


@triton.jit
def _receivers(ptr, receivers, B):
    """The receivers of a program, where their edges begin, and how many each has."""
    own = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    low = tl.load(ptr + own, mask=own < receivers, other=0)
    return own, low, tl.load(ptr + own + 1, mask=own < receivers, other=0) - low


@triton.jit
def _tile(values, row, column, mask):
    """Rows from `values` on as float32, [B, F]; 0 where masked off."""
    at = values + row[:, None] + column[None, :]
    return tl.load(at, mask=mask, other=0).to(tl.float32)


@triton.jit(do_not_specialize=["receivers"])
def sum_rows(
    x,
    ptr,
    index,
    weight,
    result,
    receivers,
    width,
    steps,
    MEAN: tl.constexpr,
    WEIGHTED: tl.constexpr,
    B: tl.constexpr,
    F: tl.constexpr,
):
    """Weighted sums or means of rows, per receiver and head; see `_Steps`."""
    own, low, count = _receivers(ptr, receivers, B)
    row_step, head_step, weight_step, own_step, own_head = steps
    head = tl.program_id(2).to(tl.int64)
    column = tl.program_id(1) * F + tl.arange(0, F)
    inside = (column < width)[None, :]
    total = tl.zeros([B, F], tl.float32)
    for turn in range(tl.max(count, 0)):
        now = turn < count
        edge = low + turn
        sender = tl.load(index + edge, mask=now, other=0)
        at = sender * row_step + head * head_step
        row = _tile(x, at, column, now[:, None] & inside)
        if WEIGHTED:
            by = tl.load(weight + edge * weight_step + head, mask=now, other=0)
            by = by.to(tl.float32)[:, None] + tl.zeros_like(total)
            total = tl.fma(row, by, total)
        else:
            total += row
    if MEAN:
        share = 1.0 / tl.maximum(count, 1).to(tl.float64)
        total = total * share.to(tl.float32)[:, None]
    to = result + (own * own_step + head * own_head)[:, None] + column[None, :]
    tl.store(to, total, mask=(own < receivers)[:, None] & inside)


@triton.jit(do_not_specialize=["receivers"])
def best_rows(
    x,
    ptr,
    index,
    weight,
    result,
    best,
    receivers,
    width,
    steps,
    LARGEST: tl.constexpr,
    WEIGHTED: tl.constexpr,
    NOTED: tl.constexpr,
    B: tl.constexpr,
    F: tl.constexpr,
):
    """The largest or least weighted rows, and the first edge that has each."""
    own, low, count = _receivers(ptr, receivers, B)
    row_step, _, weight_step, own_step, _ = steps
    column = tl.program_id(1) * F + tl.arange(0, F)
    inside = (column < width)[None, :]
    top = tl.zeros([B, F], tl.float32)
    found = tl.zeros([B, F], tl.int64) - 1
    for turn in range(tl.max(count, 0)):
        now = turn < count
        edge = low + turn
        sender = tl.load(index + edge, mask=now, other=0)
        value = _tile(x, sender * row_step, column, now[:, None] & inside)
        if WEIGHTED:
            by = tl.load(weight + edge * weight_step, mask=now, other=0)
            value = value * by.to(tl.float32)[:, None]
        more = value > top if LARGEST else value < top
        more = more | ((value != value) & (top == top))  # the first NaN wins
        more = now[:, None] & (more | (found < 0))
        top = tl.where(more, value, top)
        found = tl.where(more, edge[:, None], found)
    mask = (own < receivers)[:, None] & inside
    tl.store(result + (own * own_step)[:, None] + column[None, :], top, mask=mask)
    if NOTED:
        tl.store(best + (own * width)[:, None] + column[None, :], found, mask=mask)


@triton.jit(do_not_specialize=["receivers"])
def add_picked(
    grad,
    ptr,
    receiver,
    edge_of,
    best,
    weight,
    result,
    receivers,
    width,
    steps,
    WEIGHTED: tl.constexpr,
    B: tl.constexpr,
    F: tl.constexpr,
):
    """Adds to rows the gradients of the extremes that they are, sender by sender.

    `ptr`, `receiver` and `edge_of` are the edges by who sends; `receivers` counts
    the rows that gradients go to.
    """
    own, low, count = _receivers(ptr, receivers, B)
    row_step, _, weight_step, own_step, _ = steps
    column = tl.program_id(1) * F + tl.arange(0, F)
    mask = (own < receivers)[:, None] & (column < width)[None, :]
    total = _tile(result, own * own_step, column, mask)
    for turn in range(tl.max(count, 0)):
        now = turn < count
        place = low + turn
        to = tl.load(receiver + place, mask=now, other=0)
        edge = tl.load(edge_of + place, mask=now, other=0)
        here = best + (to * width)[:, None] + column[None, :]
        chosen = tl.load(here, mask=mask & now[:, None], other=-1)
        hit = chosen == edge[:, None]
        value = _tile(grad, to * row_step, column, hit)
        if WEIGHTED:
            by = tl.load(weight + edge * weight_step, mask=now, other=0)
            value = value * by.to(tl.float32)[:, None]
        total = tl.where(hit, total + value, total)
    at = result + (own * own_step)[:, None] + column[None, :]
    tl.store(at, total, mask=mask)


@triton.jit(do_not_specialize=["receivers"])
def score_edges(
    x,
    ptr,
    index,
    other,
    vector,
    result,
    receivers,
    width,
    steps,
    slope,
    BENT: tl.constexpr,
    B: tl.constexpr,
    F: tl.constexpr,
):
    """⟨row of the sender, row of the receiver⟩ per edge and head.

    If BENT, ⟨leaky ReLU of the sum of both rows, vector⟩.
    """
    own, low, count = _receivers(ptr, receivers, B)
    row_step, head_step, heads, own_step, own_head = steps
    head = tl.program_id(2).to(tl.int64)
    for turn in range(tl.max(count, 0)):
        now = turn < count
        edge = low + turn
        sender = tl.load(index + edge, mask=now, other=0)
        total = tl.zeros([B, F], tl.float32)
        for first in range(0, width, F):
            column = first + tl.arange(0, F)
            mask = now[:, None] & (column < width)[None, :]
            row = _tile(x, sender * row_step + head * head_step, column, mask)
            mine = _tile(other, own * own_step + head * own_head, column, mask)
            if BENT:
                row += mine
                row = tl.where(row > 0, row, row * slope)
                at = vector + head * width + column
                by = tl.load(at, mask=column < width, other=0).to(tl.float32)
                mine = tl.zeros_like(row) + by[None, :]
            total = tl.fma(row, mine, total)
        tl.store(result + edge * heads + head, tl.sum(total, 1), mask=now)


@triton.jit(do_not_specialize=["receivers"])
def bend_rows(
    x,
    ptr,
    index,
    weight,
    other,
    vector,
    result,
    parts,
    receivers,
    width,
    steps,
    slope,
    B: tl.constexpr,
    F: tl.constexpr,
):
    """Gradients of bent scores: of the receivers' rows, and of the vector in parts.

    Every program writes a row of `parts` of its own, to be added up in order.
    """
    own, low, count = _receivers(ptr, receivers, B)
    row_step, head_step, heads, own_step, own_head = steps
    head = tl.program_id(2).to(tl.int64)
    column = tl.program_id(1) * F + tl.arange(0, F)
    inside = column < width
    mask = (own < receivers)[:, None] & inside[None, :]
    place = own * own_step + head * own_head
    mine = _tile(other, place, column, mask)
    slopes, values = tl.zeros([B, F], tl.float32), tl.zeros([B, F], tl.float32)
    for turn in range(tl.max(count, 0)):
        now = turn < count
        edge = low + turn
        sender = tl.load(index + edge, mask=now, other=0)
        at = sender * row_step + head * head_step
        pair = mine + _tile(x, at, column, mask & now[:, None])
        by = tl.load(weight + edge * heads + head, mask=now, other=0)[:, None]
        rising = pair > 0
        bent = tl.where(rising, pair, pair * slope)
        slopes += tl.where(now[:, None], tl.where(rising, by, by * slope), 0)
        values += tl.where(now[:, None], bent * by, 0)
    to = vector + head * width + column
    factor = tl.load(to, mask=inside, other=0).to(tl.float32)
    before = _tile(result, place, column, mask)
    to = result + place[:, None] + column[None, :]
    tl.store(to, before + slopes * factor[None, :], mask=mask)
    to = parts + (tl.program_id(0).to(tl.int64) * heads + head) * width + column
    tl.store(to, tl.sum(values, 0), mask=inside)


@triton.jit(do_not_specialize=["receivers"])
def soften(ptr, score, result, receivers, heads, B: tl.constexpr, F: tl.constexpr):
    """The softmax of scores over the edges of receivers, largest and sum in one pass.

    The sum is scaled down whenever a larger score comes along.
    """
    _, low, count = _receivers(ptr, receivers, B)
    head = tl.program_id(1) * F + tl.arange(0, F)
    top = tl.zeros([B, F], tl.float32) - float("inf")
    total = tl.zeros([B, F], tl.float32)
    for turn in range(tl.max(count, 0)):
        mask = (turn < count)[:, None] & (head < heads)[None, :]
        at = ((low + turn) * heads)[:, None] + head[None, :]
        value = tl.load(score + at, mask=mask, other=-float("inf"))
        higher = tl.maximum(top, value, propagate_nan=tl.PropagateNan.ALL)
        base = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp(top - base) + tl.exp(value - base)
        top = higher
    base = tl.where(top == -float("inf"), 0.0, top)
    for turn in range(tl.max(count, 0)):
        mask = (turn < count)[:, None] & (head < heads)[None, :]
        at = ((low + turn) * heads)[:, None] + head[None, :]
        value = tl.load(score + at, mask=mask, other=0)
        tl.store(result + at, tl.exp(value - base) / total, mask=mask)


@triton.jit(do_not_specialize=["receivers"])
def soften_back(
    ptr, share, grad, result, receivers, heads, B: tl.constexpr, F: tl.constexpr
):
    """The gradient of scores from that of their softmax."""
    _, low, count = _receivers(ptr, receivers, B)
    head = tl.program_id(1) * F + tl.arange(0, F)
    total = tl.zeros([B, F], tl.float32)
    for turn in range(tl.max(count, 0)):
        mask = (turn < count)[:, None] & (head < heads)[None, :]
        at = ((low + turn) * heads)[:, None] + head[None, :]
        value = tl.load(grad + at, mask=mask, other=0)
        total += tl.load(share + at, mask=mask, other=0) * value
    for turn in range(tl.max(count, 0)):
        mask = (turn < count)[:, None] & (head < heads)[None, :]
        at = ((low + turn) * heads)[:, None] + head[None, :]
        value = tl.load(grad + at, mask=mask, other=0) - total
        own_share = tl.load(share + at, mask=mask, other=0)
        tl.store(result + at, own_share * value, mask=mask)


def sound(index: Tensor, ptr: Tensor, rows: int) -> bool:
    """True if a CSR leads to rows that are there; the host waits once."""
    there = (ptr[0] == 0) & (ptr[-1] == index.numel()) & (ptr.diff() >= 0).all()
    return bool(there & ((index >= 0) & (index < rows)).all())


def segment_sum(
    x: Tensor,
    ptr: Tensor,
    index: Tensor,
    weight: Tensor | None,
    mean: bool,
    out: Tensor,
) -> None:
    """Weighted sums of rows per receiver and head; see `torch.aggregate`."""
    if not _known(x, out):
        reference.segment_sum(x, ptr, index, weight, mean, out)
        return
    x, weight = _side_by_side(x), None if weight is None else _side_by_side(weight)
    weight_step = 0 if weight is None else weight.stride(0)
    launch(
        sum_rows,
        _grid(ptr, out.shape[2], out.shape[1]),
        *(x, ptr, index, index if weight is None else weight, out),
        *(len(ptr) - 1, out.shape[2]),
        (*_steps_of(x), weight_step, *_steps_of(out)),
        MEAN=mean,
        WEIGHTED=weight is not None,
        **_block(out.shape[2]),
    )


def segment_best(
    x: Tensor,
    ptr: Tensor,
    index: Tensor,
    weight: Tensor | None,
    largest: bool,
    out: Tensor,
    best: Tensor | None,
) -> None:
    """The largest or least rows per receiver and column; see `torch.aggregate`."""
    if not _known(x, out):
        reference.segment_best(x, ptr, index, weight, largest, out, best)
        return
    x, step = _side_by_side(x), 0 if weight is None else weight.stride(0)
    launch(
        best_rows,
        _grid(ptr, out.shape[1]),
        *(x, ptr, index, index if weight is None else weight, out),
        *(index if best is None else best, len(ptr) - 1, out.shape[1]),
        (x.stride(0), 0, step, out.stride(0), 0),
        LARGEST=largest,
        WEIGHTED=weight is not None,
        NOTED=best is not None,
        **_block(out.shape[1]),
    )


def scatter_best(
    grad: Tensor,
    best: Tensor,
    ptr: Tensor,
    index: Tensor,
    weight: Tensor | None,
    out: Tensor,
) -> None:
    """Adds the gradient of each extreme to its row; see `torch.aggregate`."""
    if not _known(grad, out):
        reference.scatter_best(grad, best, ptr, index, weight, out)
        return
    grad, step = _side_by_side(grad), 0 if weight is None else weight.stride(0)
    receiver = torch.repeat_interleave(ptr.diff(), output_size=index.numel())
    back, to, edge = group_by_row(index, receiver, len(out), len(ptr) - 1)
    if edge is None:
        edge = torch.arange(index.numel(), device=index.device)
    launch(
        add_picked,
        _grid(back, out.shape[1]),
        *(grad, back, to.long(), edge.long(), best),
        *(index if weight is None else weight, out, len(out), out.shape[1]),
        (grad.stride(0), 0, step, out.stride(0), 0),
        WEIGHTED=weight is not None,
        **_block(out.shape[1]),
    )


def edge_dot(x: Tensor, ptr: Tensor, index: Tensor, grad: Tensor, out: Tensor) -> None:
    """Products of rows and gradients per edge and head; see `torch.aggregate`."""
    if not _known(x, out) or grad.dtype not in FLOATS or not out.is_contiguous():
        reference.edge_dot(x, ptr, index, grad, out)
        return
    _score(x, ptr, index, grad, None, 0.0, out)


def additive_score(
    x: Tensor,
    ptr: Tensor,
    index: Tensor,
    query: Tensor,
    vector: Tensor,
    slope: float,
    out: Tensor,
) -> None:
    """Scores of sums of a row and a query; see `torch.aggregate`."""
    if not _known(x, out) or not out.is_contiguous():
        reference.additive_score(x, ptr, index, query, vector, slope, out)
        return
    _score(x, ptr, index, query, vector.contiguous(), slope, out)


def _score(
    x: Tensor,
    ptr: Tensor,
    index: Tensor,
    other: Tensor,
    vector: Tensor | None,
    slope: float,
    out: Tensor,
) -> None:
    """A number per edge and head, of the rows of both its ends."""
    x, other = _side_by_side(x), _side_by_side(other)
    heads, width = other.shape[1:]
    launch(
        score_edges,
        (_grid(ptr, width)[0], 1, heads),
        *(x, ptr, index, other, other if vector is None else vector, out),
        *(len(ptr) - 1, width, (*_steps_of(x), heads, *_steps_of(other)), slope),
        BENT=vector is not None,
        **_block(width),
    )


def additive_gradient(
    x: Tensor,
    ptr: Tensor,
    index: Tensor,
    grad: Tensor,
    own: Tensor,
    vector: Tensor,
    slope: float,
    out: Tensor,
) -> Tensor:
    """Gradients of `additive_score`; see `torch.aggregate`."""
    known = _known(x, out) and own.dtype in FLOATS and out.is_contiguous()
    if not known or not grad.numel():
        given = x, ptr, index, grad, own, vector, slope, out
        return reference.additive_gradient(*given)
    x, heads, width = _side_by_side(x), *vector.shape
    grid = _grid(ptr, width, heads)
    parts = torch.empty(grid[0], heads, width, device=x.device)
    launch(
        bend_rows,
        grid,
        *(x, ptr, index, grad.contiguous(), own.contiguous(), vector.contiguous()),
        *(out, parts, len(ptr) - 1, width),
        (*_steps_of(x), heads, heads * width, width),
        slope,
        **_block(width),
    )
    return parts.sum(0)


def segment_softmax(score: Tensor, ptr: Tensor) -> Tensor:
    """The softmax over the edges of each receiver; see `torch.aggregate`."""
    if score.dtype != torch.float32:
        return reference.segment_softmax(score, ptr)
    score = score.contiguous()
    out, heads = torch.empty_like(score), score.shape[1]
    if score.numel():
        args = ptr, score, out, len(ptr) - 1, heads
        launch(soften, _grid(ptr, heads), *args, **_block(heads))
    return out


def softmax_gradient(share: Tensor, grad: Tensor, ptr: Tensor) -> Tensor:
    """The gradient of scores, from that of their softmax; see `torch.aggregate`."""
    if share.dtype != torch.float32 or grad.dtype != share.dtype:
        return reference.softmax_gradient(share, grad, ptr)
    share, grad = share.contiguous(), grad.contiguous()
    out, heads = torch.empty_like(share), share.shape[1]
    if share.numel():
        args = ptr, share, grad, out, len(ptr) - 1, heads
        launch(soften_back, _grid(ptr, heads), *args, **_block(heads))
    return out


def _known(x: Tensor, out: Tensor) -> bool:
    """True if kernels compute with these numbers, and write where they are wanted."""
    side_by_side = out.shape[-1] == 1 or out.stride(-1) == 1
    return x.dtype in FLOATS and out.dtype == torch.float32 and side_by_side


def _side_by_side(x: Tensor) -> Tensor:
    """Rows whose numbers are neighbours in memory."""
    x = x.detach()
    return x if x.stride(-1) == 1 and min(x.stride()) >= 0 else x.contiguous()


def _steps_of(x: Tensor) -> tuple[int, int]:
    """Numbers from row to row and from head to head of [n, f] or [n, heads, f]."""
    return x.stride(0), x.stride(1) if x.dim() == 3 else 0


def _block(width: int) -> dict[str, int]:
    """Receivers and columns of a block, for rows of so many columns."""
    columns = min(COLUMNS, max(4, 1 << (width - 1).bit_length()))
    return {"B": NUMBERS // columns, "F": columns}


def _grid(ptr: Tensor, width: int, heads: int = 1) -> tuple[int, int, int]:
    """Programs for all receivers, columns and heads."""
    block: Any = _block(width)
    return blocks(len(ptr) - 1, block["B"]), blocks(width, block["F"]), heads
