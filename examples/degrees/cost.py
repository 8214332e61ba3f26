"""Measures the cost of `unbiased`: a GCN's training step with and without it, in turns.

A made graph of 100,000 nodes and 3 million edges, batches of 1,024 seeds, fanouts
[10, 10], 64 and 256 hidden units; a minute or two. Ends with the ratio of the steps.
"""

import os
import time
import warnings
from statistics import median
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # steady times on a busy machine

import torch
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import gttf_pyg

NODES, EDGES, FEATURES, CLASSES, ROUNDS = 100_000, 3_000_000, 64, 16, 60


def graph() -> Data:
    """A graph with a few hubs: the targets of edges are skewed."""
    torch.manual_seed(0)
    target = (NODES * torch.rand(EDGES).pow(2)).long()
    edge_index = torch.stack([torch.randint(NODES, (EDGES,)), target])
    x, y = torch.randn(NODES, FEATURES), torch.randint(CLASSES, (NODES,))
    return Data(x=x, y=y, edge_index=edge_index)


def step(model: Any, optimizer: Any, loader: Any, seeds: torch.Tensor) -> float:
    """The seconds of one training step, sampling included."""
    begin = time.perf_counter()
    batch = loader(seeds)
    out = model(batch.x, batch.edge_index)[: batch.batch_size]
    loss = F.cross_entropy(out, batch.y[: batch.batch_size])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return time.perf_counter() - begin


def main() -> None:
    warnings.simplefilter("ignore", gttf_pyg.SampledDegreeWarning)  # it is meant
    data = graph()
    loader = gttf_pyg.NeighborLoader(data, [10, 10], batch_size=1024)
    for hidden in (64, 256):
        models = [GCN(FEATURES, hidden, 2, CLASSES) for _ in range(2)]
        gttf_pyg.unbiased(models[1])
        optimizers = [torch.optim.Adam(model.parameters()) for model in models]
        spent: list[list[float]] = [[], []]
        for _ in range(ROUNDS):
            seeds = torch.randint(NODES, (1024,))
            for turn in range(2):
                one = step(models[turn], optimizers[turn], loader, seeds)
                spent[turn].append(one)
        plain, cured = (min(part) * 1e3 for part in spent)
        pairs = [b / a for a, b in zip(*spent, strict=True)]
        print(
            f"{hidden} units: {plain:.1f} ms without, {cured:.1f} ms with; best steps "
            f"{cured / plain - 1:+.1%}, median of pairs {median(pairs) - 1:+.1%}"
        )


if __name__ == "__main__":
    main()
