"""Proposition 5: layers of a GCN on a sample, by three ways to weigh it."""

from typing import Any

import torch
from torch import Tensor

from examples.theory.compare import compare
from examples.theory.graphs import STAR, Graph, of_rows
from gttf_sampler import sample_rooted

SCHEMES = ("unbiased", "paper", "sampled")
FANOUTS = (1, 2, 3, 5, 10, 20)
SEEDS, LAYERS = 200, 2


def star() -> list[dict[str, Any]]:
    """E of the weight of the self-loop at the hub of a star with eight leaves: 1/9."""
    adj, rows = of_rows(STAR), []
    for fanout in range(1, 9):
        sub = sample_rooted(adj, [0] * 500, [fanout], disjoint=True, generator=fanout)
        loop = {s: sub.gcn_weight(adj, s).loop[:500].mean().item() for s in SCHEMES}
        rows.append({"fanout": fanout, "exact": 1 / 9, **loop})
    return rows


def output(graph: Graph, seeds: Tensor, fanouts: list[int], **how: Any) -> Tensor:
    """Linear layers on one sample, as many as there are fanouts: [b, d]."""
    scheme = how.pop("scheme", "unbiased")
    sub = sample_rooted(graph.adj, seeds, fanouts, **how)
    matrix = sub.to_sparse(sub.gcn_weight(graph.adj, scheme))
    hidden = graph.x[sub.node]
    for _ in fanouts:
        hidden = matrix @ hidden
    return hidden[: len(seeds)]


def layers(graph: Graph, rounds: int) -> list[dict[str, Any]]:
    """Bias and error of two linear layers that share a sample, by fanout and scheme."""
    torch.manual_seed(3)
    seeds = torch.randperm(graph.adj.num_rows)[:SEEDS]
    exact, rows = output(graph, seeds, [-1] * LAYERS), []
    for fanout in FANOUTS:
        ways = [(scheme, False) for scheme in SCHEMES] + [("unbiased", True)]
        for scheme, replace in ways:
            how = {"scheme": scheme, "replace": replace}
            samples = [
                output(graph, seeds, [fanout] * LAYERS, generator=turn, **how)
                for turn in range(rounds)
            ]
            row = {"fanout": fanout, "scheme": scheme, "replace": replace}
            rows.append({**row, **compare(torch.stack(samples), exact)})
    return rows
