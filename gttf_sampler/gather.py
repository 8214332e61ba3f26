"""gather_rows(): the features of a batch, in memory that was used before."""

from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._backends.memory import FEATURES

MANY, NUMBER = 1 << 12, 8  # torch takes its time for many rows of a single number


def gather_rows(values: Tensor, index: Tensor) -> Tensor:
    """`values[index]`: the rows [k, ...] of `values` [n, ...] at `index` [k].

    >>> import torch
    >>> from gttf_sampler import gather_rows
    >>> gather_rows(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([2, 0])).tolist()
    [[3.0], [1.0]]

    Most of the time of a large `index_select` goes into new pages, which the system
    clears one by one. Here a batch is written where an earlier one was, as soon as
    nobody holds that one or a view of it any more. What needs a gradient, or is not in
    the memory of the CPU, is left to torch.
    """
    if type(values) is not Tensor or type(index) is not Tensor:
        _check_rows(values, index)
    try:
        if values.nbytes < FEATURES.small and index.dim() == 1:
            return values.index_select(0, index)
        return _gathered(values, index)
    except (IndexError, RuntimeError, NotImplementedError):
        _check_rows(values, index)  # only now: a check reads all of the index
        raise


def _gathered(values: Tensor, index: Tensor) -> Tensor:
    """The rows, in memory that was used before where that is worth it."""
    count = index.numel()
    row = values.nbytes // max(1, values.shape[0])
    size = row * count
    few = size < FEATURES.small and (count < MANY or row > NUMBER)
    if few or index.dim() != 1 or not _plain(values):
        return values[index] if index.dim() != 1 else values.index_select(0, index)
    # lent first: an index out of range must not lose the buffer
    rows = FEATURES.make(size)
    rows = rows.view(values.dtype).view(-1, *values.shape[1:])
    return ops.gather(values.detach(), index, rows)


def _check_rows(values: Any, index: Any) -> None:
    """Refuses what has no rows, and positions that they do not have."""
    if _check.dense("values", values).dim() == 0:
        _check.fail("values", "must have rows", "shape []")
    if _check.dense("index", index).dtype not in _check.INTEGERS:
        _check.mistyped("index", "must have dtype int32 or int64", index.dtype)
    _check.within("index", index, values.shape[0], "rows")


def _plain(values: Tensor) -> bool:
    """Whether the rows are ordinary numbers in the memory of the CPU."""
    tracked = values.requires_grad and torch.is_grad_enabled()
    strided = values.layout is torch.strided and not values.is_quantized
    strided = strided and not values.is_conj() and not values.is_neg()
    return values.device.type == "cpu" and strided and not tracked
