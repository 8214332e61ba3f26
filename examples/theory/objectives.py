"""Every objective: its estimate, and its exact value on a small graph."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from examples.theory.graphs import SMALL, of_rows, transition
from gttf_sampler import (
    DeepWalkAcc,
    Node2VecAcc,
    TransitionFactorizationAcc,
    WYSAcc,
)
from gttf_sampler.objectives import NegativeSampler

N, D, C, H = len(SMALL), 2, 2, 3
SERIES = [0.5, -1.0, 2.0]
BIASED = ("node2vec, as printed", "Watch Your Step, as printed")


def matrix(rows: int, cols: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    value = torch.randn(rows, cols, generator=generator, dtype=torch.float64)
    return value.requires_grad_()


def objectives() -> dict[str, tuple[Any, Tensor, list[Tensor]]]:
    """Per objective its estimate, its exact value from dense 𝒯ᵏ, its parameters."""
    adj = of_rows(SMALL)
    T = [torch.linalg.matrix_power(transition(adj), k) for k in range(H + 1)]
    z, left, right = (matrix(N, D, seed) for seed in range(3))
    context = torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64, requires_grad=True)
    chance, own, score = NegativeSampler(adj).probability, z @ z.T, left @ right.T
    both = score + score.T  # the score of the printed form
    printed = logistic = watch = inside = torch.zeros((), dtype=torch.float64)
    for i in range(H):
        for k in range(1, min(C, H - i) + 1):
            near = (C - k + 1) / C
            weight = near * T[i].sum(0)[:, None] * T[k]
            printed = printed - (weight * own).sum()
            strangers = (chance * F.softplus(own)).sum(1)
            logistic = logistic - (weight * F.logsigmoid(own)).sum()
            logistic = logistic + near * T[i].sum(0) @ strangers
    printed = printed + (chance * own).sum()  # one negative: the log of its exponential
    for share, power in zip(context.softmax(0), T[1:], strict=True):
        watch = watch - share * (power * F.logsigmoid(score)).sum()
        inside = inside - share * (power * F.logsigmoid(both)).sum()
    watch = watch + F.softplus(score).mean(1).sum()
    inside = inside + F.softplus(both).mean(1).sum()
    series = sum(c * power for c, power in zip(SERIES, T[1:], strict=True))
    factors = (score - series).square().sum() / 2
    three, walks = [left, right, context], {"contrast": "logistic"}
    p, q = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (0.5, 3))
    second = torch.zeros((), dtype=torch.float64)
    for likely, nodes in node2vec_walks(p, q):
        for i in range(H):
            for k in range(1, min(C, H - i) + 1):
                pair = strangers[nodes[i]] - F.logsigmoid(own[nodes[i], nodes[i + k]])
                second = second + likely * (C - k + 1) / C * pair
    return {
        "DeepWalk, as printed": (DeepWalkAcc(z, C, 1), printed, [z]),
        "DeepWalk, logistic": (DeepWalkAcc(z, C, 1, **walks), logistic, [z]),
        "node2vec": (Node2VecAcc(z, C, p, q, 1, **walks), second, [z, p, q]),
        BIASED[0]: (
            Node2VecAcc(z, C, p, q, 1, scheme="paper", **walks),
            second,
            [z, p, q],
        ),
        "Watch Your Step": (WYSAcc(left, right, context, 4), watch, three),
        BIASED[1]: (
            WYSAcc(left, right, context, 1, scheme="paper"),
            inside,
            three,
        ),
        "factorization": (
            TransitionFactorizationAcc(left, right, SERIES),
            factors,
            [left, right],
        ),
    }


def node2vec_walks(p: Tensor, q: Tensor) -> list[tuple[Tensor, list[int]]]:
    """(probability, nodes) of every walk of H steps by node2vec's rule."""
    found = [(torch.ones((), dtype=torch.float64), [u]) for u in range(N)]
    for _ in range(H):
        longer = []
        for chance, nodes in found:
            here = nodes[-1]
            alpha = [_alpha(nodes, v, p, q) for v in SMALL[here]]
            for v, weight in zip(SMALL[here], alpha, strict=True):
                longer.append((chance * weight / sum(alpha), [*nodes, v]))
            if not alpha:
                longer.append((chance, [*nodes, here]))
        found = longer
    return found


def _alpha(nodes: list[int], v: int, p: Tensor, q: Tensor) -> Tensor:
    """The weight of the step from the last of `nodes` to v."""
    if len(nodes) == 1:
        return torch.ones_like(p)
    last = nodes[-2]
    if v == last:
        return 1 / p
    return torch.ones_like(p) if last in SMALL[v] else 1 / q
