"""Propositions 1 and 2: the mean and the variance of 𝒯̂ᵏ, and what a step buys."""

from typing import Any

import torch
from torch import Tensor

from examples.theory.graphs import FORK, Graph, of_rows, transition
from gttf_sampler import TransitionAcc, traverse

FANOUTS = (1, 2, 3, 5)
DEPTH = 4
SEEDS = 20


def increments(one: Tensor, k: int) -> Tensor:
    """g_1 … g_k [k, n, n]: what each step adds to the variance p (1 - p) of a walk."""
    power = [torch.linalg.matrix_power(one, j) for j in range(k + 1)]
    between = [power[1] @ p**2 - (power[1] @ p) ** 2 for p in power[k - 1 :: -1]]
    return torch.stack([power[j] @ step for j, step in enumerate(between)])


def estimates(graph: Any, seeds: Tensor, fanouts: list[int], trees: int) -> Tensor:
    """𝒯̂ᵏ, [trees, b, n], from `trees` trees of every seed."""
    acc = TransitionAcc(len(fanouts))
    traverse(graph, seeds.repeat(trees), fanouts, accumulate=acc, generator=7)
    return acc.result().to_dense().double().view(trees, len(seeds), -1)


def convergence(graph: Graph) -> list[dict[str, float]]:
    """Errors of the mean of many trees, which go to zero: there is no bias left."""
    seeds = graph.adj.degree.topk(5).indices
    exact = torch.linalg.matrix_power(transition(graph.adj), 3)[seeds]
    found = estimates(graph.adj, seeds, [3, 3, 3], 4096)
    deviation = (found - exact).square().mean(0).sum().sqrt().item()
    rows = []
    for trees in (1, 4, 16, 64, 256, 1024, 4096):
        error = (found[:trees].mean(0) - exact).square().sum().sqrt().item()
        rows.append(
            {"trees": trees, "error": error, "expected": deviation / trees**0.5}
        )
    return rows


def fork() -> list[dict[str, float]]:
    """Var[𝒯̂²(0, 5)] of FORK, where p = ½: measured, exact, and both bounds."""
    adj, rows = of_rows(FORK), []
    steps = increments(transition(adj), 2)[:, 0, 5]
    for f in range(1, 9):
        found = estimates(adj, torch.tensor([0]), [f, f], 20_000)[:, 0, 5]
        square = (found - 0.5).square()
        rows.append(
            {
                "fanout": f,
                "measured": square.mean().item(),
                "error": square.std().item() / len(square) ** 0.5,
                "exact": float(steps[0] / f + steps[1] / f**2),
                "paper": 1 / (4 * f**2),
                "ours": 1 / (4 * f),
            }
        )
    return rows


def spread(graph: Graph) -> list[dict[str, float]]:
    """Σ_v Var[𝒯̂ᵏ(u, v)], the mean over some u: in between of the two bounds."""
    torch.manual_seed(2)
    seeds, one = torch.randperm(graph.adj.num_rows)[:SEEDS], transition(graph.adj)
    rows = []
    for k in range(1, DEPTH + 1):
        exact = torch.linalg.matrix_power(one, k)[seeds]
        steps = increments(one, k)[:, seeds].sum(2).mean(1)  # [k], Σ over v
        walk = float(steps.sum())
        for f in FANOUTS:
            width = float(f) ** torch.arange(1, k + 1)
            variance = float((steps / width).sum())
            found = estimates(graph.adj, seeds, [f] * k, 100)
            rows.append(
                {
                    "k": k,
                    "fanout": f,
                    "measured": (found - exact).square().sum(2).mean().item(),
                    "exact": variance,
                    "paper": walk / f**k,
                    "ours": walk / f,
                    "cost": variance * float(width.sum()) / (walk * k),
                    "best": float(steps.sqrt().sum()) ** 2 / (walk * k),
                }
            )
    return rows
