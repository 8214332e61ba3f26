"""Propositions 3 and 4: the bias of every objective's gradient."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from examples.theory.compare import compare
from examples.theory.graphs import SMALL, of_rows, transition
from gttf_sampler import DeepWalkAcc, TransitionFactorizationAcc, WYSAcc, traverse
from gttf_sampler.objectives import NegativeSampler

N, D, C, H = len(SMALL), 2, 2, 3
SERIES = [0.5, -1.0, 2.0]
COPIES = 100
NOT_LINEAR = "Watch Your Step, as printed"


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
    return {
        "DeepWalk, as printed": (DeepWalkAcc(z, C, 1), printed, [z]),
        "DeepWalk, logistic": (DeepWalkAcc(z, C, 1, **walks), logistic, [z]),
        "Watch Your Step": (WYSAcc(left, right, context, 4), watch, three),
        NOT_LINEAR: (
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


def bias(rounds: int) -> list[dict[str, Any]]:
    """Bias of the gradient of every objective, for plain walks and for trees."""
    adj, seeds, rows = of_rows(SMALL), torch.arange(N).repeat(COPIES), []
    torch.manual_seed(0)
    for fanouts in ([1, 1, 1], [3, 2, 1]):
        for name, (acc, exact, parameters) in objectives().items():
            target = _flat(torch.autograd.grad(exact, parameters, retain_graph=True))
            found = []
            for turn in range(rounds):
                traverse(adj, seeds, fanouts, accumulate=acc, generator=turn)
                loss = acc.result() / COPIES
                found.append(_flat(torch.autograd.grad(loss, parameters)))
            row = {"objective": name, "fanouts": fanouts}
            rows.append({**row, **compare(torch.stack(found), target)})
    return rows


def _flat(parts: tuple[Tensor, ...]) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts])
