"""linear(): torch's by whichever of its two libraries is the faster one here.

On a CPU torch multiplies float32 by MKL, or OpenBLAS, and keeps oneDNN for narrower
floats. On some processors oneDNN takes half the time, and nothing but a clock says on
which. So the first product of a kind and size is computed by both in turns, and later
ones by the winner.
"""

from collections.abc import Callable
from functools import partial
from math import inf
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

from gttf_sampler._compat import is_compiling, is_watched, onednn_linear

LARGE = 1 << 22  # multiply-adds, fewer are not worth the choice
ROUNDS = 4  # of which the first one warms up
MARGIN = 1.1  # how much faster oneDNN must be
ALIKE = 1e-5  # how far its numbers may be from torch's, of the largest

_Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]
_chosen: dict[tuple[Any, ...], _Product] = {}


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear`, by the faster library, and its gradients.

    The two differ by rounding. With `torch.use_deterministic_algorithms(True)` nothing
    is measured, and torch's own choice is taken.

    Args:
        x: [..., k].
        weight: [n, k].
        bias: [n].
    """
    if not _has_choice(x, weight, bias):
        return functional.linear(x, weight, bias)
    return _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call,no-any-return]


def replace_linear(model: nn.Module, kinds: tuple[type[nn.Module], ...]) -> None:
    """Has the modules of these classes in a model, which are linear, call `linear`.

    They keep their class, parameters and hooks, and may be copied and pickled.
    """
    for part in model.modules():
        if type(part) in kinds and "forward" not in vars(part):
            vars(part)["forward"] = partial(_forward, part)


def _forward(module: Any, input: Tensor) -> Tensor:
    """`forward` of a linear module."""
    return linear(input, module.weight, module.bias)


def _has_choice(x: Any, weight: Any, bias: Any) -> bool:
    """True for products of matrices that both libraries are to be tried for."""
    if is_compiling() or onednn_linear() is None or is_watched():
        return False
    if not all(type(v) in (Tensor, nn.Parameter) for v in (x, weight)):
        return False
    if x.dim() != 2 or weight.dim() != 2 or x.shape[1] != weight.shape[1]:
        return False
    if len(x) * weight.numel() < LARGE or torch.are_deterministic_algorithms_enabled():
        return False
    given = (x, weight) if bias is None else (x, weight, bias)
    known = all(v.dtype == torch.float32 and v.device.type == "cpu" for v in given)
    return known and torch.get_float32_matmul_precision() == "highest"


class _Linear(Function):
    """The product; its gradients are two others, which are chosen for in turn."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        of_x, of_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(x if of_weight else None, weight if of_x else None)
        return _product(x.detach(), weight.detach(), bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x = None if weight is None else linear(grad, weight.t())
        of_weight = None if x is None else linear(grad.t(), x.t())
        of_bias = grad.sum(0) if ctx.needs_input_grad[2] else None
        return of_x, of_weight, of_bias


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The result, by the winner among products of this kind and size."""
    sizes = (size.bit_length() for size in (*x.shape, len(weight)))
    layout = x.stride(1) == 1, weight.stride(1) == 1, bias is None
    kind = *sizes, *layout, torch.get_num_threads()
    if kind not in _chosen:
        _chosen[kind] = _winner(x, weight, bias)
    return _chosen[kind](x, weight, bias)


def _winner(*given: Any) -> _Product:
    """The faster one of both, by the best of some rounds in turns."""
    best: dict[_Product, float] = dict.fromkeys((functional.linear, _onednn), inf)
    made = {}
    for turn in range(ROUNDS):
        for product in best:
            begin = perf_counter()
            try:
                made[product] = product(*given)
            except RuntimeError:  # it has no such product
                return functional.linear
            if turn:
                best[product] = min(best[product], perf_counter() - begin)
    ours, theirs = made[_onednn], made[functional.linear]
    if not (ours - theirs).abs().max() <= ALIKE * theirs.abs().max():
        return functional.linear
    faster = best[_onednn] * MARGIN < best[functional.linear]
    return _onednn if faster else functional.linear


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The product by oneDNN."""
    product: Any = onednn_linear()
    found: Tensor = product(x, weight, bias, "none", [], "")
    return found
