"""The calls of `digests` that need DGL."""

from collections.abc import Callable
from typing import Any

import dgl
import torch

from digests import GIVEN, NODES, SEEDS
from gttf_dgl import (
    GTTFSampler,
    GTTFSubgraphSampler,
    node2vec_random_walk,
    random_walk,
)


def graph() -> Any:
    """The graph as DGL has it."""
    g = dgl.graph(tuple(GIVEN["edges"]), num_nodes=NODES)
    g.edata["w"], g.edata["m"] = GIVEN["weight"], GIVEN["time"] > 30
    return g


def several() -> Any:
    """Three relations between two types of nodes."""
    kinds = [("a", "r", "a"), ("a", "to", "b"), ("b", "of", "a")]
    parts = GIVEN["edges"].chunk(3, dim=1)
    ends = {kind: tuple(part) for kind, part in zip(kinds, parts, strict=True)}
    return dgl.heterograph(ends, {"a": NODES, "b": NODES})


def parts(found: Any) -> list[Any]:
    """What blocks or a graph were drawn of."""
    blocks = found if isinstance(found, list) else [found]
    return [
        [block.edges[kind].data[dgl.EID] for kind in block.canonical_etypes]
        + [block.srcnodes[name].data[dgl.NID] for name in block.srctypes]
        for block in blocks
    ]


def loader(make: Any, seeds: Any, sampler: Any, workers: int = 0, **options: Any):
    """Two epochs of DGL's own DataLoader."""

    def call() -> Any:
        torch.manual_seed(31)
        made = dgl.dataloading.DataLoader(
            *(make(), seeds, sampler(seed=32, **options)),
            batch_size=16,
            num_workers=workers,
        )
        epochs = [[(parts(batch), ids) for _, ids, batch in made] for _ in range(2)]
        # DGL's workers take turns with their batches: sorted, that makes no difference
        return [sorted(epoch, key=lambda batch: str(batch[1])) for epoch in epochs]

    return call


def blocks(fanouts: Any, **options: Any) -> Any:
    """Batches of blocks."""
    return loader(graph, SEEDS, GTTFSampler, fanouts=fanouts, **options)


def typed(fanouts: Any, **options: Any) -> Any:
    """Batches of blocks of several types."""
    seeds = {"a": SEEDS, "b": SEEDS[:7]}
    return loader(several, seeds, GTTFSampler, fanouts=fanouts, **options)


def walks() -> Any:
    """Walks of both kinds, with and without restarts."""
    g = graph()
    return [
        random_walk(g, SEEDS, length=6, return_eids=True, generator=33),
        random_walk(g, SEEDS, length=6, prob="w", generator=34),
        random_walk(g, SEEDS, length=6, restart_prob=0.25, generator=35),
        node2vec_random_walk(g, SEEDS, 0.5, 2.0, 6, generator=36),
    ]


CALLS: dict[str, Callable[[], Any]] = {
    "dgl": blocks([4, 5]),
    "dgl workers": blocks([4, 5], workers=2),
    "dgl replaced": blocks([4, 5], replace=True),
    "dgl weighted": blocks([4, 5], prob="w"),
    "dgl masked": blocks([4, 5], mask="m"),
    "dgl out": blocks([4, 5], edge_dir="out"),
    "dgl rooted": blocks([4, 5], rooted=True),
    "dgl typed": typed([3, 2]),
    "dgl typed rooted": typed([3, 2], rooted=True),
    "dgl subgraph": loader(graph, SEEDS, GTTFSubgraphSampler, fanouts=[3, 3]),
    "dgl walks": walks,
}
