"""Weights of draws by which a sum over neighbours keeps its expectation."""

import torch
from torch import Tensor


def share(total: Tensor, receiver: Tensor) -> Tensor:
    """The `total` of every node, divided among the edges it has drawn; float [n].

    With `total` = δ this is δ / |S|: a sum over |S| uniform draws, with or without
    replacement, times this number has the expectation of the sum over all δ neighbours.
    A node without draws has its whole total, of which there is nothing to multiply.

    >>> import torch
    >>> share(torch.tensor([4.0, 3.0]), receiver=torch.tensor([0, 0]))
    tensor([2., 3.])

    Args:
        total: float [n], what the neighbours of a node are together.
        receiver: [e], the node that has drawn each edge.
    """
    drawn = torch.zeros_like(total)
    drawn.scatter_add_(0, receiver.long(), total.new_ones(()).expand(receiver.numel()))
    return total / drawn.clamp_(min=1)


class SampledDegreeWarning(UserWarning):
    """Names a layer that divides by degrees of a sample; nothing gives it any more.

    It is kept for filters that name it. `check_unbiased` says which layers do so.
    """


class BiasedLayerWarning(UserWarning):
    """A layer of an unbiased model stays biased, or nobody knows whether it does."""
