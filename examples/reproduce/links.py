"""Embeddings: half of the edges are hidden and found again; the paper's Table 2.

Walks that do not branch, and walks that do, are as many, in as many steps, and have as
many negatives: a tree with f leaves takes the place of f walks, so that batches have f
times fewer seeds, and epochs are f times fewer. DeepWalk and node2vec have two vectors
of a node, word2vec's contrast, and uniform negatives.
"""

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from examples.reproduce.config import Method
from examples.reproduce.data import Graph
from examples.reproduce.train import Report, thinned
from gttf_sampler import CompactAdj
from gttf_sampler.embedding import (
    DeepWalk,
    LinkSplit,
    Node2Vec,
    WatchYourStep,
    link_auc,
    mean_rank,
    split_links,
)

HIDE = 0.5  # of the edges, for the test
# LiveJournal as PyTorch-BigGraph has it, whose rivals are drawn by their degrees, ours
# uniformly: a quarter is hidden, and so many edges are ranked among so many rivals.
HIDDEN, RANKED = {"livejournal": 0.25}, {"livejournal": (10_000, 10_000)}
SKIP_GRAM = {"contrast": "logistic", "halves": True, "negative_power": 0.0}
MODELS: dict[str, Callable[..., Any]] = {
    "deepwalk": partial(DeepWalk, **SKIP_GRAM),
    "node2vec": partial(Node2Vec, **SKIP_GRAM),
    "wys": WatchYourStep,
}
FITTED = ("batch",)  # options that are not the model's


def halved(data: Graph, seed: int) -> LinkSplit:
    """Splits edges to train on from those hidden from everything that chooses."""
    hide = HIDDEN.get(data.name, HIDE)
    return split_links(data.edge_index, data.num_nodes, hide, generator=seed)


def train(
    name: str,
    split: LinkSplit,
    method: Method,
    way: str,
    seed: int,
    report: Report = lambda epoch, point: None,
) -> tuple[Any, dict[str, Any]]:
    """A model of the training edges of a split, and what its training has cost."""
    branching = tuple(method.fanouts) if way == "gttf" else (1,) * len(method.fanouts)
    leaves = math.prod(branching)
    nodes = split.num_nodes
    batch = min(nodes, int(method.options["batch"]))
    size, epochs = max(1, batch // leaves), max(1, round(method.epochs / leaves))
    torch.manual_seed(seed)
    adj = CompactAdj.from_edge_index(split.train, nodes, direction="out")
    options: dict[str, Any] = {
        name: value for name, value in method.options.items() if name not in FITTED
    }
    if name == "wys":  # of a seed, where the others have them per node of a walk
        options["num_negatives"] *= leaves
    model = MODELS[name](adj, method.hidden, fanouts=branching, **options)
    begin = time.process_time()
    history = model.fit(
        epochs,
        lr=method.lr,
        weight_decay=method.weight_decay,
        schedule="linear",
        batch_size=size,
        generator=seed,
        progress=lambda share, loss, pairs: report(
            round(share * epochs), {"val": math.nan}
        ),
    )
    spent = time.process_time() - begin
    curve = [{"epoch": i + 1, "loss": e.loss} for i, e in enumerate(history)]
    return model, {
        "epochs": epochs,
        "train seconds": spent,
        "ms per step": 1000 * spent / (epochs * -(-nodes // size)),
        "nodes per step": size,
        "pairs": sum(epoch.pairs for epoch in history),
        "curve": thinned(curve, 20),
    }


def fit(
    name: str, data: Graph, method: Method, way: str, seed: int, report: Report
) -> dict[str, Any]:
    """Trains on some of the edges; returns the score of the others, read once."""
    split = halved(data, seed)
    model, costs = train(name, split, method, way, seed, report)
    score = score_of(model, split, data.name)
    return {"test": score, "best epoch": costs["epochs"], **costs}


def score_of(model: Any, split: LinkSplit, dataset: str) -> float:
    """100 × ROC-AUC of the hidden edges, or their mean rank where RANKED says so."""
    if dataset not in RANKED:
        return 100 * link_auc(model.score, split)
    edges, rivals = RANKED[dataset]
    few = split._replace(positive=split.positive[:, :edges])  # in random order
    return mean_rank(model.score, few, rivals, generator=0)
