"""Sums over neighbours: shared random numbers, and draws by attention."""

from typing import Any

import torch
from torch import Tensor

from examples.theory.compare import compare
from examples.theory.graphs import crowded
from gttf_sampler import AttentionBias, LABORBias, StratifiedBias, sample_rooted

SEEDS, WIDTH = 400, 8


def labor(rounds: int) -> list[dict[str, Any]]:
    """Error of the mean of neighbours of 400 nodes, against how many nodes it asked."""
    adj, rows = crowded(), []
    torch.manual_seed(5)
    x, seeds = torch.randn(adj.num_rows, WIDTH), torch.randperm(adj.num_rows)[:SEEDS]
    degree = adj.degree[seeds].clamp(min=1)[:, None]
    whole = sample_rooted(adj, seeds, [-1])
    exact = _sums(whole, x, torch.ones(whole.num_edges), SEEDS) / degree
    ways = {"each row its own draws": None, "LABOR-0": 0, "LABOR-1": 1, "LABOR-*": -1}
    for fanout in (2, 4, 8, 12, 16, 20):
        for name, importance in ways.items():
            nodes, errors = [], []
            for turn in range(rounds):
                bias = None
                if importance is not None:
                    bias = LABORBias(fanout, importance=importance)
                fanouts = [fanout] if bias is None else [-1]
                sub = sample_rooted(adj, seeds, fanouts, bias=bias, generator=turn)
                if bias is None:
                    taken = torch.bincount(sub.col, minlength=SEEDS).clamp(min=1)
                    factor = (degree[:, 0] / taken)[sub.col]
                else:
                    factor = bias.factor(sub)
                found = _sums(sub, x, factor.float(), SEEDS) / degree
                nodes.append(sub.num_nodes - SEEDS)
                errors.append((found - exact).square().sum() / exact.square().sum())
            rows.append({"way": name, "fanout": fanout, "nodes": sum(nodes) / rounds})
            rows[-1]["variance"] = float(sum(errors) / rounds)
    return rows


def attention(rounds: int) -> list[dict[str, Any]]:
    """Error of Σ a m over all neighbours, a of a wide range, by the number of draws."""
    adj, rows = crowded(), []
    torch.manual_seed(6)
    x, seeds = torch.randn(adj.num_rows, WIDTH), torch.randperm(adj.num_rows)[:SEEDS]
    key = torch.randn(adj.num_rows, 4) / 2**0.5

    def score(node: Tensor, neighbor: Tensor) -> Tensor:
        return (key[node] * key[neighbor]).sum(1).exp()

    bias = AttentionBias(score)

    def summed(sub: Any, factor: Tensor) -> Tensor:
        a = score(sub.node[sub.col], sub.node[sub.row])
        return _sums(sub, x, a * factor.float(), SEEDS)

    whole = sample_rooted(adj, seeds, [-1])
    exact = summed(whole, torch.ones(whole.num_edges))
    ways = {
        "uniform draws": None,
        "by attention, √a alone": bias,
        "by attention, weighed back": bias,
        "the same, stratified": StratifiedBias(bias),
    }
    for fanout in (1, 2, 4, 8, 16):
        for name, by in ways.items():
            found = []
            for turn in range(rounds):
                how = {"bias": by, "replace": True, "generator": turn}
                sub = sample_rooted(adj, seeds, [fanout], **how)
                count = adj.degree[sub.node[sub.col]] / fanout
                if name.endswith("alone"):  # as the paper has it
                    a = score(sub.node[sub.col], sub.node[sub.row])
                    factor = count / a.sqrt()
                else:
                    factor = count if by is None else bias.factor(adj, sub)
                found.append(summed(sub, factor))
            row = {"way": name, "draws": fanout}
            rows.append({**row, **compare(torch.stack(found), exact)})
    return rows


def _sums(sub: Any, x: Tensor, weight: Tensor, seeds: int) -> Tensor:
    """Σ weight · x of the edges into every seed, [b, d]."""
    out = torch.zeros(sub.num_nodes, x.shape[1])
    sent = weight[:, None] * x[sub.node[sub.row]]
    return out.index_add_(0, sub.col, sent)[:seeds]
