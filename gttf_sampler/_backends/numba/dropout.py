"""Dropout by a counter-based mask, compiled."""

import numpy as np
import torch
from numba import int32, uint64
from torch import Tensor

from gttf_sampler._backends.memory import empty_rows
from gttf_sampler._backends.numba.rng import GOLDEN, bits, compiled, mix, word
from gttf_sampler._backends.threads import parallel
from gttf_sampler._backends.torch import dropout as reference
from gttf_sampler.random import Key

_ONE, _FIVE = np.uint64(1), np.uint64(5)


@compiled
def drop_kernel(lo, hi, x, out, key, least, factor):
    """Drops numbers of the rows lo to hi of `x` [rows, columns]."""
    for row in range(uint64(lo), uint64(hi)):
        stream = mix(key + row * GOLDEN)
        for column in range(uint64(x.shape[1])):
            half = bits(stream, column >> _ONE) >> ((column & _ONE) << _FIVE)
            value = x[row, column] * factor
            out[row, column] = value if int32(half) >= least else x.dtype.type(0)


def drop(x: Tensor, key: Key, p: float) -> Tensor:
    """Dropout of any floats; see `torch.dropout`."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    if not x.numel() or not x.dim():
        return reference.drop(x, key, p)
    rows = x.detach().to(wide).reshape(-1, x.shape[-1]).contiguous()
    out = empty_rows(x.shape, wide)
    kernel, number = drop_kernel, rows.numpy().dtype.type
    args = rows.numpy(), out.view(rows.shape).numpy(), word(key)
    how = np.int32(reference.least_kept(p)), number(reference.factor(p))
    parallel(kernel, len(rows), x.numel(), *args, *how)
    return out.to(x.dtype)
