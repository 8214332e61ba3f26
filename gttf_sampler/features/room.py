"""Memory that rows are read into, and places in it."""

from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.memory import empty_rows


def room_for(shape: torch.Size, dtype: torch.dtype, pinned: bool) -> Tensor:
    """Memory for rows, used before where that is worth it."""
    size = shape.numel() * dtype.itemsize
    _check.fits("ids", size)
    if pinned:  # torch keeps such memory by itself
        return torch.empty(shape, dtype=dtype, device="cpu", pin_memory=True)
    return empty_rows(shape, dtype)


def check_room(out: Any, shape: torch.Size, dtype: torch.dtype) -> None:
    """Refuses memory that rows cannot be written to as they are."""
    found = _check.dense("out", out)
    if found.dtype != dtype:
        _check.mistyped("out", f"must have dtype {dtype}", found.dtype)
    if found.shape != shape:
        _check.fail("out", f"must have shape {list(shape)}", list(found.shape))
    if found.device.type != "cpu" or not found.is_contiguous():
        _check.fail("out", "must be contiguous on the CPU", found.device)
    if found.requires_grad:
        _check.fail("out", "must not require a gradient", True)


def check_index(name: str, value: Any) -> Tensor:
    """`value`, int64 [k] on the CPU, end to end as kernels read it by its address."""
    found = _check.tensor(name, _check.dense(name, value))
    if found.dtype != torch.int64 or found.device.type != "cpu":
        got = f"{found.dtype} on {found.device}"
        _check.mistyped(name, "must have dtype int64, on the CPU", got)
    return found.contiguous()


def check_places(place: Any, count: int, out: Any) -> Tensor:
    """`place` as rows of `out`, different ones, one for each of `count` ids."""
    if out is None:
        _check.fail("place", "must come with 'out', whose rows it names", "None")
    rows = _check.dense("out", out)
    size = rows.shape[0] if rows.dim() else 0
    found = _check.length("place", check_index("place", place), count, "id")
    _check.within("place", found, size, "rows of 'out'")
    named = torch.zeros(size, dtype=torch.bool).index_fill_(0, found, True)
    if int(named.sum()) != count:
        _check.fail("place", "must name a row of 'out' once", "a repeated one")
    return found
