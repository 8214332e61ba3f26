"""dropout() by a counter-based mask, in about a tenth of the time of torch's on a CPU.

Whether a number stays depends on a key, its row and its column alone. So threads share
the rows, the backward pass makes the mask again instead of keeping it, and results are
the same for any number of threads and on every backend.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler._compat import is_compiling
from gttf_sampler.random import DROPOUT, Key, Randomness, new_key

SMALL = 1 << 12  # fewer numbers are dropped by torch before a kernel is called


def dropout(x: Tensor, p: float = 0.5, *, generator: Randomness = None) -> Tensor:
    """`x` with every number 0 with probability `p`, and divided by 1 − `p` otherwise.

    >>> import torch
    >>> from gttf_sampler.dropout import dropout
    >>> x = dropout(torch.ones(1000, 100), 0.2, generator=0)
    >>> x.unique(), bool((x == 0).float().mean().sub(0.2).abs() < 0.01)
    (tensor([0.0000, 1.2500]), True)

    `torch.nn.functional.dropout` while training, with other random numbers.

    Args:
        x: floats of any shape; its last dimension are columns, all others rows.
        p: the probability, from 0 to 1.
        generator: a generator or a seed; None for the one of `torch.manual_seed`.
    """
    _check.floats("x", x)
    share = _check.finite("p", p)
    if not 0 <= share <= 1:
        _check.fail("p", "must be a probability from 0 to 1", p)
    if share == 0:
        return x
    key = new_key(_check.randomness(generator), x.device, DROPOUT)
    return _Dropout.apply(x, key, share)  # type: ignore[no-untyped-call,no-any-return]


def replace_dropout(model: nn.Module) -> None:
    """Has the `torch.nn.Dropout` modules of a model call `dropout` on the CPU.

    They keep their class, and may be copied and pickled. Few numbers are left to
    torch, and so is dropout in place.
    """
    for part in model.modules():
        if type(part) is nn.Dropout and "forward" not in vars(part):
            vars(part)["forward"] = partial(_forward, part)


def _forward(module: nn.Dropout, input: Tensor) -> Tensor:
    """`forward` of a module whose dropout is ours."""
    ours = module.training and module.p > 0 and not module.inplace
    if not ours or is_compiling() or not _is_worth_it(input):
        return nn.Dropout.forward(module, input)
    return dropout(input, module.p)


def _is_worth_it(x: Any) -> bool:
    """True for many floats on the CPU."""
    here = isinstance(x, Tensor) and x.device.type == "cpu" and x.is_floating_point()
    return here and x.layout == torch.strided and x.numel() >= SMALL


class _Dropout(Function):
    """The same mask forward and backward, and for gradients of gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, key: Key, p: float) -> Tensor:
        ctx.how = key, p
        return ops.drop(x, key, p)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return _Dropout.apply(grad, *ctx.how), None, None  # type: ignore[no-untyped-call]
