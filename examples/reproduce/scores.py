"""Losses and scores of nodes with one class, and of nodes with several."""

from torch import Tensor
from torch.nn import functional as F


def loss_of(logits: Tensor, y: Tensor) -> Tensor:
    """Cross entropy of classes [b], or of every entry of [b, classes]."""
    if y.dim() == 1:
        return F.cross_entropy(logits, y)
    return F.binary_cross_entropy_with_logits(logits, y.to(logits.dtype))


def micro_f1(logits: Tensor, y: Tensor) -> float:
    """Micro-F1 in [0, 1]: the accuracy, where nodes have one class."""
    if y.dim() == 1:
        return (logits.argmax(1) == y).double().mean().item()
    said, true = logits > 0, y.bool()
    total = int(said.sum()) + int(true.sum())
    return 2 * int((said & true).sum()) / total if total else 1.0
