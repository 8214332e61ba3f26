"""Spread draws: the error of a gradient against the steps that it took."""

from typing import Any

import torch

from examples.theory.compare import compare
from examples.theory.graphs import crowded, transition
from gttf_sampler import (
    EdgeWeightBias,
    StratifiedBias,
    TransitionFactorizationAcc,
    traverse,
)

SERIES, SEEDS, WIDTH = [1.0, 0.5], 100, 8


def strata(rounds: int) -> list[dict[str, Any]]:
    """Bias and error of the gradient of Proposition 3, by the steps taken per seed.

    Walks by weight. Fanouts [f, 1] with independent draws are f plain walks per seed.
    """
    adj, rows = crowded(), []
    torch.manual_seed(4)
    left, right = (torch.randn(adj.num_rows, WIDTH) / WIDTH for _ in "lr")
    left.requires_grad_()
    seeds = torch.randperm(adj.num_rows)[:SEEDS]
    one = transition(adj)
    series = (SERIES[0] * one + SERIES[1] * one @ one)[seeds]
    wrong = left.detach().double()[seeds] @ right.double().T - series
    exact = wrong @ right.double()
    weight = EdgeWeightBias()
    ways: dict[str, tuple[Any, bool]] = {
        "independent": (weight, True),
        "without replacement": (weight, False),
        "a number per part": (StratifiedBias(weight, systematic=False), True),
        "systematic": (StratifiedBias(weight), True),
    }
    acc = TransitionFactorizationAcc(left, right, SERIES)
    for fanout in (1, 2, 4, 8, 16):
        for name, (bias, replace) in ways.items():
            found, alone = [], {"replace": replace}
            for turn in range(rounds):
                traverse(adj, seeds, [fanout, 1], bias, acc, generator=turn, **alone)
                (slope,) = torch.autograd.grad(acc.result(), left)
                found.append(slope[seeds].double())
            row = {"way": name, "fanout": fanout, "steps": 2 * fanout}
            rows.append({**row, **compare(torch.stack(found), exact)})
    return rows
