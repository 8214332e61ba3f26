"""Pairs within a window of a walk: their losses from vectors, their weights.

The pair of a walker at depth j and the one it left at depth i counts by the weight of
the walker, times (window − (j − i) + 1) / window, word2vec's weight of its distance.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def pairs_within(window: int, depth: int) -> list[tuple[int, int]]:
    """The depths (i, j) of all pairs, i < j, in a forest of a depth."""
    return [
        (i, j) for i in range(depth) for j in range(i + 1, min(depth, i + window) + 1)
    ]


def counts(
    weight: Sequence[Tensor], pairs: Sequence[tuple[int, int]], window: int
) -> Tensor:
    """Weights of all pairs, those of (i, j) after each other, by their walkers at j."""
    parts = [weight[j] * ((window - j + i + 1) / window) for i, j in pairs]
    return torch.cat([weight[0].new_zeros(0), *(part.view(-1) for part in parts)])


def path_counts(weight: Sequence[Tensor], window: int) -> Tensor:
    """Weights of all pairs of plain walks, grouped by the depth that they leave."""
    every, depth = torch.cat(list(weight), dim=1), len(weight) - 1
    share = _shares(every, window, depth)
    parts = [every[:, i + 1 : i + 1 + window] for i in range(depth)]
    counted = [(part * share[: part.shape[1]]).view(-1) for part in parts]
    return torch.cat([every.new_zeros(0), *counted])


def masses(weight: Sequence[Tensor], window: int) -> Tensor:
    """Sums of the weights of pairs that leave each walker, depth by depth."""
    found: list[Tensor] = []
    sums: list[Tensor] = []
    shares = _shares(weight[-1], window, len(weight) - 1)  # p and q may be wider
    for i in reversed(range(len(weight) - 1)):
        sums = [weight[i + 1], *sums][:window]
        family = weight[i].shape[1], weight[i + 1].shape[1] // weight[i].shape[1]
        if family[1] > 1:
            sums = [level.unflatten(1, family).sum(-1) for level in sums]
        every = torch.stack(sums).flatten(1)
        found.append(shares[: len(sums)].to(every.dtype) @ every)
    return torch.cat([*found, weight[0].new_zeros(0)][::-1])


def _shares(like: Tensor, window: int, depth: int) -> Tensor:
    """Weights of pairs by distance, made on their device so that nothing is copied."""
    first = torch.arange(
        *(window, window - min(window, depth), -1), dtype=like.dtype, device=like.device
    )
    return first / window


def similarity(
    source: list[Tensor], target: list[Tensor], weight: list[Tensor], window: int
) -> Tensor:
    """The sum of ⟨L_w, R_v⟩ over all pairs, by their weights.

    Sources are of depths 0, 1, …, targets of depths 1, 2, …. The sum is linear in R_v,
    so that walkers are added up from the leaves to the seeds: a level is multiplied at
    the width of the one above.
    """
    total = source[0].new_zeros(())
    sums: list[Tensor] = []
    for i in reversed(range(len(target))):
        sums = [weight[i + 1][:, :, None] * target[i], *sums][:window]
        trees, width, size = source[i].shape
        fanout = target[i].shape[1] // width
        if fanout > 1:
            sums = [level.view(trees, width, fanout, size).sum(2) for level in sums]
        shares = [(window - k) / window for k in range(len(sums))]
        context = sum(s * level for s, level in zip(shares, sums, strict=True))
        total = total + (source[i] * context).sum()
    return total


def logistic(
    source: list[Tensor],
    target: list[Tensor],
    negative: list[Tensor],
    weight: list[Tensor],
    window: int,
    negative_weight: float,
) -> Tensor:
    """Skip-gram with negative sampling: every pair, and the negatives of its first."""
    loss = source[0].new_zeros(())
    for i, (z, others) in enumerate(zip(source, negative, strict=False)):
        here = z[:, :, None]  # [b, width, 1, d]
        mass = z.new_zeros(z.shape[:2])  # of the pairs that have left here
        for k, level in enumerate(target[i : i + window], 1):
            spread = level.shape[1] // z.shape[1]
            count = weight[i + k].view(*z.shape[:2], spread) * (window - k + 1) / window
            score = (here * level.view(*count.shape, z.shape[2])).sum(-1)
            loss = loss - (count * F.logsigmoid(score)).sum()
            mass = mass + count.sum(-1)
        score = (here * others).sum(-1)  # [b, width, num_negatives]
        pushed = (mass * F.softplus(score).sum(-1)).sum()
        loss = loss + negative_weight * pushed
    return loss
