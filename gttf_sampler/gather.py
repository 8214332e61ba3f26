"""gather_rows(): the features of a batch, in memory that was used before."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._backends.memory import empty_rows
from gttf_sampler._backends.torch.gather import Move, Moves
from gttf_sampler._compat import is_compiling


def gather_rows(values: Tensor, index: Tensor) -> Tensor:
    """`values[index]`: the rows [k, ...] of `values` [n, ...] at `index` [k].

    >>> import torch
    >>> from gttf_sampler import gather_rows
    >>> gather_rows(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([2, 0])).tolist()
    [[3.0], [1.0]]

    Most of the time of a large `index_select` goes into new pages, which the system
    clears one by one. Here a batch is written where an earlier one was, as soon as
    nobody holds that one or a view of it any more. On a CUDA device, whose memory torch
    uses again anyway, one kernel gathers all columns. What needs a gradient, or is on
    another device, is left to torch.
    """
    return gather_columns([(values, index)])[0]


def gather_columns(
    columns: Sequence[tuple[Tensor, Tensor]],
    memory: Callable[[int], Tensor] | None = None,
) -> list[Tensor]:
    """`gather_rows` of many (values, index) at once, which takes less time.

    Args:
        columns: what to gather from, and which rows.
        memory: says where so many bytes go, as uint8 [size]; for ordinary numbers in
            the memory of the CPU alone, see `gathers_into`.

    >>> from gttf_sampler.gather import gather_columns
    >>> x, y, nodes = torch.eye(2), torch.tensor([5, 6]), torch.tensor([1])
    >>> gather_columns([(x, nodes), (y, nodes)])
    [tensor([[0., 1.]]), tensor([6])]
    """
    found: list[Tensor] = []
    moves: dict[torch.device, list[Move]] = {}
    for values, index in columns:
        if type(values) is not Tensor or type(index) is not Tensor:
            _check_rows(values, index)
        plain = index.dtype == torch.int64 and index.dim() == 1 and _plain(index)
        device = values.device
        plain = plain and device == index.device and _plain(values)
        if not plain or not values.numel():
            found.append(_indexed(values, index))
            continue
        shape = index.numel(), *values.shape[1:]
        if memory is not None and device.type == "cpu":
            size = row_bytes(values) * index.numel()
            out = memory(size).view(values.dtype).view(shape)
        elif device.type != "cpu":
            out = torch.empty(shape, dtype=values.dtype, device=device)
        else:
            out = empty_rows(shape, values.dtype)
        found.append(out)
        moves.setdefault(device, []).append(Move([values.detach()], index, out))
    try:
        for device, columns_there in moves.items():
            ops.gather(Moves(device, columns_there))
    except (IndexError, RuntimeError):
        for values, index in columns:
            _check_rows(values, index)  # only now: a check reads all of the index
        raise
    return found


def row_bytes(values: Tensor) -> int:
    """Bytes of one row of `values` [n, ...]."""
    return values.element_size() * math.prod(values.shape[1:])


def gathers_into(values: Any) -> bool:
    """True if rows of `values` can be gathered into memory that is given."""
    here = type(values) is Tensor and values.device.type == "cpu"
    return here and _plain(values) and values.numel() > 0


def _indexed(values: Tensor, index: Tensor) -> Tensor:
    """`values[index]` by torch itself."""
    if values.is_meta or index.is_meta or values.dim() == 0:  # torch takes them all
        _check_rows(values, index)
    try:
        return values[index] if index.dim() != 1 else values.index_select(0, index)
    except (IndexError, RuntimeError, NotImplementedError):
        _check_rows(values, index)
        raise


def _check_rows(values: Any, index: Any) -> None:
    """Refuses what has no rows, and positions that they do not have."""
    if _check.dense("values", values).dim() == 0:
        _check.fail("values", "must have rows", "shape []")
    if _check.dense("index", index).dtype not in _check.INTEGERS:
        _check.mistyped("index", "must have dtype int32 or int64", index.dtype)
    _check.within("index", index, values.shape[0], "rows")


def _plain(values: Tensor) -> bool:
    """True for ordinary numbers, end to end in memory that kernels read."""
    kind = values.device.type
    known = kind == "cpu" or (kind == "cuda" and not is_compiling())
    if not known or values.layout is not torch.strided:
        return False
    if values.is_nested or values.is_quantized or values.dim() == 0:
        return False
    tracked = values.requires_grad and torch.is_grad_enabled()
    odd = tracked or values.is_conj() or values.is_neg()
    return not odd and values.is_contiguous()
