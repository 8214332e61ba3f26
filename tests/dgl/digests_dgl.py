"""The calls of `digests` that need DGL."""

from collections.abc import Callable
from typing import Any

import dgl
import torch

from digests import GIVEN, NODES, SEEDS
from gttf_dgl import (
    DataLoader,
    GTTFSampler,
    GTTFSubgraphSampler,
    LaborSampler,
    PinSAGESampler,
    RandomWalkNeighborSampler,
    SAINTSampler,
    ShaDowKHopSampler,
    node2vec_random_walk,
    random_walk,
    sample_labors,
    sample_neighbors,
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
    """The parts that blocks or a graph were drawn of."""
    blocks = found if isinstance(found, list) else [found]
    return [
        [block.edges[kind].data[dgl.EID] for kind in block.canonical_etypes]
        + [block.srcnodes[name].data[dgl.NID] for name in block.srctypes]
        for block in blocks
    ]


def loader(
    make: Any,
    seeds: Any,
    sampler: Any,
    workers: int = 0,
    kind: Any = DataLoader,
    **options: Any,
) -> Callable[[], Any]:
    """Two epochs of a DataLoader, by default ours."""

    def call() -> Any:
        torch.manual_seed(31)
        made = kind(
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


def ours() -> Any:
    """Two epochs of our own DataLoader."""
    torch.manual_seed(37)
    made = DataLoader(graph(), SEEDS, GTTFSampler([4, 5]), batch_size=16)
    return [[(parts(batch), ids) for _, ids, batch in made] for _ in range(2)]


def saint(mode: str, budget: Any) -> Callable[[], Any]:
    """Subgraphs of GraphSAINT."""

    def call() -> Any:
        torch.manual_seed(38)
        return [parts(SAINTSampler(mode, budget).sample(graph(), 0)) for _ in range(3)]

    return call


def shadow() -> Any:
    """All edges among the nodes that were sampled."""
    torch.manual_seed(39)
    return parts(ShaDowKHopSampler([3, 2]).sample(graph(), SEEDS)[2])


def pinsage() -> Any:
    """Neighbours by how often walks meet them."""
    g, visits = several(), {"generator": 40}
    return [
        PinSAGESampler(g, "a", "b", 2, 0.2, 10, 3, **visits)(SEEDS).edges(),
        RandomWalkNeighborSampler(graph(), 2, 0.2, 10, 3, **visits)(SEEDS).edges(),
    ]


def functions() -> Any:
    """DGL's functions that draw."""
    torch.manual_seed(41)
    g = graph()
    drawn = [
        sample_neighbors(g, SEEDS, 4),
        sample_neighbors(g, SEEDS, 4, prob="w", replace=True),
        sample_labors(g, SEEDS, 4, random_seed=42)[0],
    ]
    return [found.edata[dgl.EID] for found in drawn]


def edges(**options: Any) -> Callable[[], Any]:
    """Batches around edges, with negatives."""

    def call() -> Any:
        torch.manual_seed(43)
        draw = dgl.dataloading.as_edge_prediction_sampler(
            GTTFSampler([3, 3], seed=44), **options
        )
        made = DataLoader(graph(), torch.arange(48), draw, batch_size=16)
        return [[parts(batch[-1]), batch[0]] for batch in made]

    return call


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
    "dgl DataLoader": ours,
    "dgl foreign loader": blocks([4, 5], kind=dgl.dataloading.DataLoader),
    "dgl functions": functions,
    "dgl edges": edges(exclude="self"),
    "dgl LABOR": loader(graph, SEEDS, LaborSampler, fanouts=[4, 3]),
    "dgl LABOR weighted": loader(graph, SEEDS, LaborSampler, fanouts=[4, 3], prob="w"),
    "dgl PinSAGE": pinsage,
    "dgl SAINT node": saint("node", 60),
    "dgl SAINT edge": saint("edge", 60),
    "dgl SAINT walk": saint("walk", (10, 4)),
    "dgl ShaDow": shadow,
}
