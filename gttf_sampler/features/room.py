"""Memory that rows are read into."""

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
