"""Embeddings: half of the edges are hidden and found again; the paper's Table 2.

|B| = |V|, window 5, fanout 3 at the first depths, Adam whose rate falls: appendix A.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from examples.reproduce.config import Method
from examples.reproduce.data import Graph
from examples.reproduce.train import Report, run
from gttf_sampler import CompactAdj
from gttf_sampler.embedding import (
    DeepWalk,
    Node2Vec,
    WatchYourStep,
    link_auc,
    split_links,
)


def model_of(name: str, adj: CompactAdj, method: Method, fanouts: list[int]) -> Any:
    """A fresh model of the engine, plain torch modules that serve both hosts."""
    size, negatives = method.hidden, int(method.options["negatives"])
    if name == "deepwalk":
        return DeepWalk(adj, size, len(fanouts), fanouts, negatives)
    if name == "node2vec":
        p, q = method.options["p"], method.options["q"]
        return Node2Vec(adj, size, len(fanouts), fanouts, negatives, p=p, q=q)
    return WatchYourStep(adj, size, fanouts, negatives)


def fit(
    name: str, data: Graph, method: Method, way: str, seed: int, report: Report
) -> dict[str, Any]:
    """Trains on what is left of the graph; returns 100 × ROC-AUC of what was hidden."""
    torch.manual_seed(seed)
    split = split_links(data.edge_index, data.num_nodes, hide=0.5)
    adj = CompactAdj.from_edge_index(split.train, split.num_nodes, direction="out")
    fanouts = list(method.fanouts) if way == "gttf" else [1] * len(method.fanouts)
    model = model_of(name, adj, method, fanouts)
    optimizer = torch.optim.Adam(model.parameters(), lr=method.lr)
    decay = torch.optim.lr_scheduler.StepLR(optimizer, max(1, method.epochs // 4), 0.2)
    loader = model.loader(batch_size=data.num_nodes, shuffle=True)

    def losses() -> Iterator[tuple[Tensor, int]]:
        for forest in loader:
            yield model.loss(forest), data.num_nodes
        decay.step()

    def look(loss: float) -> dict[str, float]:
        score = 100 * link_auc(model.score, split)
        return {"test": score, "val": score}  # shown only: nothing is chosen by it

    last, costs = run(method, optimizer, losses, look, report, None)
    return {"test": last["test"], "best epoch": last["best epoch"], **costs}
