"""Proposition 6: where learning on samples ends, if the objective is convex."""

from typing import Any

import torch
from torch import Tensor

from examples.theory.convolution import output
from examples.theory.graphs import Graph

FANOUTS = (1, 2, 3, 5, 10, 20)


def minimizers(graph: Graph, rounds: int) -> list[dict[str, Any]]:
    """Distances in % of sampled gradients' zeros from θ* = argmin ‖Â X θ - y‖².

    With H = Å X of a batch of all nodes, the gradient is Hᵀ (H θ - y) in the mean. With
    two samples it is H₁ᵀ (H₂ θ - y): no sample is multiplied by itself.
    """
    torch.manual_seed(8)
    every = torch.arange(graph.adj.num_rows)
    whole = output(graph, every, [-1]).double()
    target = whole @ torch.randn(whole.shape[1], dtype=torch.float64)
    target += torch.randn(len(every), dtype=torch.float64)
    exact, rows = torch.linalg.lstsq(whole, target[:, None]).solution, []
    for fanout in FANOUTS:
        for scheme in ("unbiased", "paper"):
            samples = [
                output(graph, every, [fanout], scheme=scheme, generator=turn).double()
                for turn in range(2 * rounds)
            ]
            first, second = samples[:rounds], samples[rounds:]
            ways = {f"{scheme}, one sample": zip(first, first, strict=True)}
            if scheme == "unbiased":
                ways[f"{scheme}, two samples"] = zip(first, second, strict=True)
            for way, pairs in ways.items():
                found = _solution(list(pairs), target)
                off = float((found - exact).norm() / exact.norm())
                rows.append({"way": way, "fanout": fanout, "off": 100 * off})
    return rows


def _solution(pairs: list[tuple[Tensor, Tensor]], target: Tensor) -> Tensor:
    """θ [d, 1] where Σ H₁ᵀ (H₂ θ - y) + H₂ᵀ (H₁ θ - y) vanishes."""
    square = torch.stack([one.T @ two + two.T @ one for one, two in pairs]).mean(0)
    sides = [(one + two).T @ target[:, None] for one, two in pairs]
    return torch.linalg.solve(square, torch.stack(sides).mean(0))
