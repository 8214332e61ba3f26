"""Faster forms of the operations that dominate deep models on sparse graphs."""

import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Matrix(NamedTuple):
    """A sparse matrix and its transpose, both CSR, so that gradients are quick, too."""

    forward: Tensor
    backward: Tensor

    @classmethod
    def of(cls, edge_index: Tensor, weight: Tensor, num_nodes: int) -> "Matrix":
        """The matrix with which rows of edges' sources are summed at their targets."""
        flipped = edge_index.flip(0)
        return cls(*(csr(index, weight, num_nodes) for index in (flipped, edge_index)))


def csr(index: Tensor, weight: Tensor, size: int) -> Tensor:
    """The square CSR matrix with these entries; those at the same place are added."""
    with warnings.catch_warnings():  # torch calls the format a beta, once
        warnings.filterwarnings("ignore", "Sparse CSR")
        shape = (size, size)
        matrix = torch.sparse_coo_tensor(index, weight, shape, check_invariants=False)
        return matrix.coalesce().to_sparse_csr()


class Product(torch.autograd.Function):
    """A sparse matrix times a dense one, torch's own but for its slow gradient."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transpose: Tensor, x: Tensor) -> Tensor:
        ctx.transpose = transpose
        return matrix @ x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor]:  # type: ignore[override]
        return None, None, ctx.transpose @ grad


def dropout(x: Tensor, chance: float, training: bool = True) -> Tensor:
    """Dropout of a dense tensor from 16 random bits per entry, where torch takes more.

    The chance is rounded to a multiple of 2⁻¹⁶, and what is kept is scaled by its own.
    """
    if not training or not chance:
        return x
    bound = round(chance * 2**16)
    words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    kept = words.view(torch.int16)[: x.numel()].view(x.shape) >= bound - 2**15
    return x * kept.to(x.dtype).mul_(2**16 / (2**16 - bound))
