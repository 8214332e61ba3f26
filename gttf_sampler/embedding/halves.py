"""Vectors of two halves: L of nodes that walks leave, R of nodes that they come to."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gttf_sampler.embedding.base import wide


def beside(left: nn.Embedding, right: nn.Embedding, node: Tensor | None) -> Tensor:
    """L beside R [b, d] of some nodes, or of all."""
    if node is None:
        return torch.cat([left.weight, right.weight], dim=-1)
    return torch.cat([left(node), right(node)], dim=-1)


def score_halves(
    left: nn.Embedding, right: nn.Embedding, edge: Tensor, directed: bool = False
) -> Tensor:
    """⟨L_u, R_v⟩ of pairs [2, e], and ⟨L_v, R_u⟩ unless they are directed, [e]."""
    source, target = edge
    score: Tensor = (wide(left(source)) * wide(right(target))).sum(-1)
    if directed:
        return score
    back: Tensor = (wide(left(target)) * wide(right(source))).sum(-1)
    return score + back
