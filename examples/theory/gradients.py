"""Propositions 3 and 4: the bias of every objective's gradient."""

from typing import Any

import torch
from torch import Tensor

from examples.theory.compare import compare
from examples.theory.graphs import SMALL, of_rows
from examples.theory.objectives import N, objectives
from gttf_sampler import traverse

COPIES = 100


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
