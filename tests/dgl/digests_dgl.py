"""The calls of `digests` that need DGL."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dgl
import torch

import digests
import gttf_dgl
from digests import NODES, InParts, numbers, seeds
from gttf_dgl import (
    DataLoader,
    GTTFSampler,
    GTTFSubgraphSampler,
    LaborSampler,
    PartitionedLoader,
    PinSAGESampler,
    RandomWalkNeighborSampler,
    SAINTSampler,
    ShaDowKHopSampler,
    node2vec_random_walk,
    ppr_graph,
    random_walk,
    sample_labors,
    sample_neighbors,
)
from gttf_sampler import FractionBias
from gttf_sampler.distributed import PartitionedGraph

KINDS = [("a", "r", "a"), ("a", "to", "b"), ("b", "of", "a")]


def graph() -> Any:
    """The graph as DGL has it, whose size `enlarged` changes."""
    given = numbers(digests.SIZE)
    g = dgl.graph(tuple(given["edges"]), num_nodes=NODES * digests.SIZE)
    g.edata["w"], g.edata["m"] = given["weight"], given["time"] > 30
    return g


def several() -> Any:
    """Three relations between two types of nodes."""
    parts = numbers(digests.SIZE)["edges"].chunk(3, dim=1)
    ends = {kind: tuple(part) for kind, part in zip(KINDS, parts, strict=True)}
    return dgl.heterograph(ends, dict.fromkeys("ab", NODES * digests.SIZE))


def parts(found: Any) -> list[Any]:
    """The parts that blocks or a graph were drawn of."""
    blocks = found if isinstance(found, list) else [found]
    return [
        [block.edges[kind].data[dgl.EID] for kind in block.canonical_etypes]
        + [block.srcnodes[name].data[dgl.NID] for name in block.srctypes]
        + [
            block.edges[kind].data["edge_weights"]
            for kind in block.canonical_etypes
            if "edge_weights" in block.edges[kind].data
        ]
        for block in blocks
    ]


def fanouts_of(given: Any) -> Any:
    """The fanouts for the size of the graph: a large layer is one that threads share.

    Layers are drawn one by one, and each must have edges enough.
    """
    return given if digests.SIZE == 1 else [2 * fanout for fanout in given]


def loader(
    make: Any,
    roots: Any,
    sampler: Any,
    workers: int = 0,
    kind: Any = DataLoader,
    **options: Any,
) -> Callable[[], Any]:
    """Two epochs of a DataLoader, by default ours."""

    def call() -> Any:
        torch.manual_seed(31)
        how = {**options, "fanouts": fanouts_of(options["fanouts"])}
        made = kind(
            make(),
            roots(),
            sampler(seed=32, **how),
            batch_size=16 if digests.SIZE == 1 else 4000,
            num_workers=workers,
        )
        epochs = [[(parts(batch), ids) for _, ids, batch in made] for _ in range(2)]
        # DGL's workers take turns with their batches: sorted, that makes no difference
        return [sorted(epoch, key=lambda batch: str(batch[1])) for epoch in epochs]

    return call


def blocks(fanouts: Any, **options: Any) -> Any:
    """Batches of blocks."""
    return loader(graph, seeds, GTTFSampler, fanouts=fanouts, **options)


def typed(fanouts: Any, **options: Any) -> Any:
    """Batches of blocks of several types."""

    def roots() -> Any:
        return {"a": seeds(), "b": seeds()[:7]}

    return loader(several, roots, GTTFSampler, fanouts=fanouts, **options)


def walks() -> Any:
    """Walks of both kinds, with and without restarts."""
    g = graph()
    return [
        random_walk(g, seeds(), length=6, return_eids=True, generator=33),
        random_walk(g, seeds(), length=6, prob="w", generator=34),
        random_walk(g, seeds(), length=6, restart_prob=0.25, generator=35),
        node2vec_random_walk(g, seeds(), 0.5, 2.0, 6, generator=36),
    ]


def ours() -> Any:
    """Two epochs of our own DataLoader."""
    torch.manual_seed(37)
    made = DataLoader(graph(), seeds(), GTTFSampler([4, 5]), batch_size=16)
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
    return parts(ShaDowKHopSampler([3, 2]).sample(graph(), seeds())[2])


def pinsage() -> Any:
    """Neighbours by how often walks meet them."""
    g, visits = several(), {"generator": 40}
    return [
        PinSAGESampler(g, "a", "b", 2, 0.2, 10, 3, **visits)(seeds()).edges(),
        RandomWalkNeighborSampler(graph(), 2, 0.2, 10, 3, **visits)(seeds()).edges(),
    ]


def nearest(**options: Any) -> Callable[[], Any]:
    """The graph of those nearest by personalised PageRank."""

    def call() -> Any:
        near = ppr_graph(graph(), 4, walks=8, generator=25, **options)
        return *near.edges(), near.edata["weight"]

    return call


def in_parts(**options: Any) -> InParts:
    """Batches of a graph in parts."""

    def cut(folder: Path, count: int) -> None:
        gttf_dgl.partition(graph(), folder, count)

    def draw(found: PartitionedGraph) -> Any:
        torch.manual_seed(45)
        how = {"batch_size": 16 if digests.SIZE == 1 else 4000, **options}
        made = PartitionedLoader(found, fanouts_of([4, 5]), seeds(), **how)
        return [[parts(batch), ids] for _, ids, batch in made]

    return InParts(cut, draw)


def shared() -> Any:
    """DGL's function that draws what nodes share, in between two seeds."""
    drawn = [
        sample_labors(graph(), seeds(), 4, random_seed=46),
        sample_labors(graph(), seeds(), 4, prob="w", random_seed=46),
        sample_labors(graph(), seeds(), 4, importance_sampling=1, random_seed=46),
        sample_labors(
            graph(), seeds(), 4, random_seed=[46, 47], seed2_contribution=0.25
        ),
    ]
    return [(found.edata[dgl.EID], weights) for found, weights in drawn]


def functions() -> Any:
    """DGL's functions that draw."""
    torch.manual_seed(41)
    g = graph()
    drawn = [
        sample_neighbors(g, seeds(), 4),
        sample_neighbors(g, seeds(), 4, prob="w", replace=True),
        sample_labors(g, seeds(), 4, random_seed=42)[0],
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
    "dgl subgraph": loader(graph, seeds, GTTFSubgraphSampler, fanouts=[3, 3]),
    "dgl walks": walks,
    "dgl DataLoader": ours,
    "dgl foreign loader": blocks([4, 5], kind=dgl.dataloading.DataLoader),
    "dgl functions": functions,
    "dgl edges": edges(exclude="self"),
    "dgl LABOR": loader(graph, seeds, LaborSampler, fanouts=[4, 3]),
    "dgl LABOR weighted": loader(graph, seeds, LaborSampler, fanouts=[4, 3], prob="w"),
    "dgl PinSAGE": pinsage,
    "dgl SAINT node": saint("node", 60),
    "dgl SAINT edge": saint("edge", 60),
    "dgl SAINT walk": saint("walk", (10, 4)),
    "dgl ShaDow": shadow,
    "dgl LABOR of a run": loader(
        *(graph, seeds, LaborSampler),
        **{"fanouts": [4, 3], "batch_dependency": 3, "layer_dependency": True},
    ),
    "dgl LABOR lasting": loader(
        graph, seeds, LaborSampler, fanouts=[4, 3], batch_dependency=0
    ),
    "dgl LABOR importance": loader(
        graph, seeds, LaborSampler, fanouts=[4, 3], importance_sampling=1
    ),
    "dgl sample_labors": shared,
    "dgl fraction": blocks([-1, -1], bias=FractionBias([0.4])),
    "dgl typed out": typed([3, 2], edge_dir="out", replace=True),
    "dgl typed each": typed([dict.fromkeys(KINDS, 1), 2]),
    "dgl PPR": nearest(prob="w"),
    "dgl parts": in_parts(),
    "dgl parts rooted": in_parts(rooted=True, seed=48),
}
# Made with a graph and a batch that threads share, too.
LARGE = (
    *("dgl", "dgl replaced", "dgl weighted", "dgl rooted", "dgl typed", "dgl walks"),
    *("dgl LABOR", "dgl ShaDow", "dgl subgraph", "dgl parts"),
)
