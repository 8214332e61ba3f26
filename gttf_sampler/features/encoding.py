"""Rows in fewer bytes than they are read as: half precision, or int8 and a scale.

| stored | bytes per number | error of a number x |
|---|---|---|
| float16 | 2 | at most 2⁻¹¹ · abs(x), and 2⁻²⁵ below 6.1e-5; up to 65,504 |
| bfloat16 | 2 | at most 2⁻⁸ · abs(x) |
| int8 | 1, and 4 per row | at most m / 254, where m is the largest abs(x) of its row |
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check

NUMPY = {  # by name: which of them torch has is told elsewhere
    getattr(torch, name): kind
    for name, kind in (
        *(("bool", "|b1"), ("uint8", "|u1"), ("int8", "|i1")),
        *(("uint16", "<u2"), ("int16", "<i2"), ("uint32", "<u4"), ("int32", "<i4")),
        *(("uint64", "<u8"), ("int64", "<i8"), ("float16", "<f2")),
        ("bfloat16", "<u2"),  # numpy has no such numbers; their bits, it has
        *(("float32", "<f4"), ("float64", "<f8")),
        *(("complex64", "<c8"), ("complex128", "<c16")),
    )
    if hasattr(torch, name)
}
NAMES = {dtype: str(dtype).removeprefix("torch.") for dtype in NUMPY}
SAME = "same"
ENCODINGS = ("float16", "bfloat16", "int8")
SCALE = 4  # bytes in front of a row of int8
LARGEST = 127

Array = np.ndarray[Any, Any]


def row_dtype(stored: str, dtype: torch.dtype, shape: tuple[int, ...]) -> np.dtype[Any]:
    """The numpy dtype of a row on disk."""
    if stored == "int8":
        return np.dtype([("scale", "<f4"), ("values", "|i1", shape)])
    kind = dtype if stored == SAME else getattr(torch, stored)
    return np.dtype((NUMPY[kind], shape))


def check_stored(stored: Any, dtype: torch.dtype) -> str:
    """`stored`, which must be a way to store numbers of `dtype`."""
    if stored is None:
        return SAME
    if isinstance(stored, torch.dtype):
        stored = NAMES.get(stored, str(stored))
    if stored == NAMES[dtype]:
        return SAME
    _check.one_of("stored", stored, ENCODINGS)
    if not dtype.is_floating_point:
        _check.fail("stored", "must be None unless values are floats", NAMES[dtype])
    return str(stored)


def encode(values: Tensor, stored: str) -> Array:
    """The bytes of rows [k, ...], end to end."""
    if stored == "int8":
        return _to_int8(values)
    if stored != SAME:
        short = values.to(getattr(torch, stored))
        if not torch.equal(short.isfinite(), values.isfinite()):
            rule = f"must be stored as a dtype that reaches {float(values.abs().max())}"
            _check.fail("stored", rule, repr(stored), "take 'bfloat16' or 'int8'")
        values = short
    flat = values.contiguous().view(-1)
    flat = flat.as_strided(flat.shape, (1,))  # one number may have any stride
    found: Array = flat.view(torch.uint8).numpy()
    return found


def _to_int8(values: Tensor) -> Array:
    """Rows as their scale, and numbers that are multiples of it."""
    count = values.shape[0]
    flat = values.reshape(count, values.shape[1:].numel()).to(torch.float64)
    if not bool(flat.isfinite().all()):
        _check.fail("values", "must be finite to be stored as 'int8'", "others, too")
    top = flat.abs().amax(1) if flat.shape[1] else flat.new_zeros(count)
    scale = (top / LARGEST).to(torch.float32)
    if not bool(scale.isfinite().all()):
        rule = "must be below 4e40 to be stored as 'int8'"
        _check.fail("values", rule, float(top.max()))
    step = scale.double()[:, None]
    whole = (flat / step.where(step > 0, 1)).round().clamp(-LARGEST, LARGEST)
    found = np.empty((count, SCALE + flat.shape[1]), np.uint8)
    found[:, :SCALE] = scale.numpy().astype("<f4").view(np.uint8).reshape(count, SCALE)
    found[:, SCALE:] = whole.to(torch.int8).numpy().view(np.uint8)
    return found.reshape(-1)


def decode(raw: Tensor, stored: str, out: Tensor) -> Tensor:
    """Bytes [k, stride] as rows, written to `out` [k, ...]."""
    flat = out.view(out.shape[0], -1)
    if stored == "int8":
        scale = raw[:, :SCALE].flatten().view(torch.float32)[:, None]
        if flat.dtype == torch.float64:  # whose numbers may be too large for float32
            scale = scale.double()
        torch.mul(raw[:, SCALE:].view(torch.int8), scale, out=flat)
    else:
        flat.copy_(raw.view(getattr(torch, stored)))
    return out


def as_rows(name: str, values: Any) -> Tensor:
    """`values` as a tensor with rows, of a dtype that files can hold."""
    rows = _check.as_dense(name, values)
    if rows.dim() == 0:
        _check.fail(name, "must have rows", "shape []")
    if rows.dtype not in NUMPY:
        _check.mistyped(name, "must have a dtype that files can hold", rows.dtype)
    return rows.cpu()
