"""Sums, means, extremes and softmax over the senders of each receiver, by CSR.

A receiver i has the edges `ptr[i]` to `ptr[i + 1]`, and `index` says which row of `x`
each edge reads. Rows of float16 and bfloat16 are added up as float32, the dtype of
`out`. All of it is without gradients: `gttf_sampler.aggregate` has those.

Segments are reduced by torch's `segment_reduce`: `segment_csr` of torch_scatter took
1.2 to 2.9 times as long (docs/benchmarks.md).
"""

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu


def sound(index: Tensor, ptr: Tensor, rows: int) -> bool:
    """True if `ptr` covers `index` in ascending steps and all rows are there."""
    if (
        int(ptr[0]) != 0
        or int(ptr[-1]) != index.numel()
        or bool((ptr.diff() < 0).any())
    ):
        return False
    return not index.numel() or (int(index.min()) >= 0 and int(index.max()) < rows)


def segment_sum(
    x: Tensor,
    ptr: Tensor,
    index: Tensor,
    weight: Tensor | None,
    mean: bool,
    out: Tensor,
) -> None:
    """Weighted sums of rows per receiver and head, divided by their number if `mean`.

    Args:
        x: [n, f], or [n, heads, f].
        ptr: int64 [r + 1].
        index: int64 [e].
        weight: [e, heads]; None for 1.
        mean: of a receiver's edges, whatever they weigh.
        out: [r, heads, f], written.
    """
    x = x if x.dim() == 3 else x.unsqueeze(1)
    message = x.index_select(0, index).to(out.dtype)  # [e, heads or 1, f]
    if weight is not None:
        message = message * weight.to(out.dtype).unsqueeze(-1)
    out.copy_(_reduced(message.expand(-1, *out.shape[1:]), ptr, "sum"))
    if mean:
        out /= ptr.diff().clamp(min=1).view(-1, 1, 1)


def segment_best(
    x: Tensor,
    ptr: Tensor,
    index: Tensor,
    weight: Tensor | None,
    largest: bool,
    out: Tensor,
    best: Tensor | None,
) -> None:
    """The largest or least of the weighted rows, per receiver and column.

    Args:
        x: [n, f].
        ptr: int64 [r + 1].
        index: int64 [e].
        weight: [e]; None for 1.
        largest: the least otherwise.
        out: [r, f], written; 0 where nobody sends.
        best: int32 or int64 [r, f], written: the first edge that has it, or -1.
    """
    message = x.index_select(0, index).to(out.dtype)
    if weight is not None:
        message = message * weight.to(out.dtype).unsqueeze(-1)
    found = _reduced(message, ptr, "max" if largest else "min")
    found.masked_fill_((ptr.diff() == 0).unsqueeze(-1), 0)
    out.copy_(found)
    if best is None:
        return
    degree, edges = ptr.diff(), index.numel()
    there = found.repeat_interleave(degree, 0, output_size=edges)
    hit = (message == there) | (message.isnan() & there.isnan())
    edge = torch.arange(edges, device=x.device).unsqueeze(-1).expand_as(hit)
    first = edge.new_full((max(len(degree), 1), x.shape[1]), edges)
    receiver = torch.arange(len(degree), device=x.device)
    receiver = receiver.repeat_interleave(degree, output_size=edges)
    first.scatter_reduce_(
        0, receiver.unsqueeze(-1).expand_as(hit), edge.where(hit, edges), "amin"
    )
    best.copy_(first[: len(degree)].masked_fill(first[: len(degree)] == edges, -1))


def scatter_best(
    grad: Tensor,
    best: Tensor,
    ptr: Tensor,
    index: Tensor,
    weight: Tensor | None,
    out: Tensor,
) -> None:
    """Adds the gradient of each extreme to the row that had it.

    Args:
        grad: [r, f].
        best: int32 or int64 [r, f], of `segment_best`.
        ptr: int64 [r + 1].
        index: int64 [e].
        weight: [e]; None for 1.
        out: [n, f], added to.
    """
    if not index.numel():
        return
    edge = best.clamp(min=0).long()
    value = grad.to(out.dtype).masked_fill(best < 0, 0)
    if weight is not None:
        value = value * weight.to(out.dtype)[edge]
    out.scatter_add_(0, index[edge], value)


def edge_dot(x: Tensor, ptr: Tensor, index: Tensor, grad: Tensor, out: Tensor) -> None:
    """⟨row of the sender, gradient of the receiver⟩ per edge and head.

    Args:
        x: [n, f], or [n, heads, f].
        ptr: int64 [r + 1].
        index: int64 [e].
        grad: [r, heads, f].
        out: [e, heads], written.
    """
    x = x if x.dim() == 3 else x.unsqueeze(1)
    there = grad.to(out.dtype).repeat_interleave(
        ptr.diff(), 0, output_size=index.numel()
    )
    torch.sum(x.index_select(0, index).to(out.dtype) * there, -1, out=out)


def additive_score(
    x: Tensor,
    ptr: Tensor,
    index: Tensor,
    query: Tensor,
    vector: Tensor,
    slope: float,
    out: Tensor,
) -> None:
    """⟨leaky ReLU of the sum of two rows, vector⟩ per edge and head.

    Args:
        x: [n, heads, f], of senders.
        ptr: int64 [r + 1].
        index: int64 [e].
        query: [r, heads, f], of receivers, in the dtype of `out`.
        vector: [heads, f], in the dtype of `out`.
        slope: of the leaky ReLU.
        out: [e, heads], written.
    """
    pair = _pairs(x.to(out.dtype), ptr, index, query)
    torch.sum(leaky_relu(pair, slope) * vector, -1, out=out)


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
    """The gradient [heads, f] of the vector of `additive_score`, and of a row of pairs.

    The two rows of a pair are alike: transposed edges give the gradient of senders.

    Args:
        x: [n, heads, f], of the one whose number is in `index`.
        ptr: int64 [r + 1].
        index: int64 [e].
        grad: [e, heads], that of the scores.
        own: [r, heads, f], of the one whose edges are in a row.
        vector: [heads, f], in the dtype of `out`.
        slope: of the leaky ReLU.
        out: [r, heads, f], the gradient of `own`, added to.
    """
    pair = _pairs(x.to(out.dtype), ptr, index, own.to(out.dtype))
    total = torch.einsum("eh,ehf->hf", grad, leaky_relu(pair, slope))
    bent = grad.unsqueeze(-1) * torch.where(pair > 0, pair.new_ones(()), slope)
    out += _reduced(bent, ptr, "sum") * vector
    return total


def _pairs(x: Tensor, ptr: Tensor, index: Tensor, own: Tensor) -> Tensor:
    """[e, heads, f], the rows of both ends of each edge, added up."""
    own = own.repeat_interleave(ptr.diff(), 0, output_size=len(index))
    return own + x.index_select(0, index)


def segment_softmax(score: Tensor, ptr: Tensor) -> Tensor:
    """The softmax [e, heads] over the edges of each receiver, of scores [e, heads]."""
    edges = {"output_size": len(score)}
    degree = ptr.diff()
    top = _reduced(score, ptr, "max")
    raised = (score - top.repeat_interleave(degree, 0, **edges)).exp()
    total = _reduced(raised, ptr, "sum")
    return raised / total.repeat_interleave(degree, 0, **edges)


def softmax_gradient(share: Tensor, grad: Tensor, ptr: Tensor) -> Tensor:
    """The gradient [e, heads] of scores, from that of their softmax `share`."""
    total = _reduced(share * grad, ptr, "sum")
    there = total.repeat_interleave(ptr.diff(), 0, output_size=len(share))
    return share * (grad - there)


def _reduced(value: Tensor, ptr: Tensor, how: str) -> Tensor:
    """`value` [e, ...] reduced per receiver: [r, ...]."""
    shape = len(ptr) - 1, *value.shape[1:]
    if not value.numel() or not shape[0]:
        return value.new_zeros(shape)
    flat = value.reshape(len(value), -1)
    return torch.segment_reduce(flat, how, offsets=ptr, unsafe=True).view(shape)
