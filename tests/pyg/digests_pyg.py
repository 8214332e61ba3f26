"""The calls of `digests` that need PyG."""

from collections.abc import Callable
from pathlib import Path
from types import LambdaType
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import NegativeSampling, NodeSamplerInput

import digests
import gttf_pyg
from digests import NODES, InParts, numbers, seeds
from gttf_pyg import (
    BidirectionalNeighborSampler,
    DeepWalk,
    GraphSAINTEdgeSampler,
    GraphSAINTNodeSampler,
    GraphSAINTRandomWalkSampler,
    GTTFLinkLoader,
    GTTFLoader,
    GTTFSampler,
    HGTLoader,
    Labor,
    Node2Vec,
    PPRNeighbors,
    ShaDowKHopSampler,
    WatchYourStep,
)
from gttf_pyg.loader import NeighborSampler as OldSampler
from gttf_sampler import LABORBias, StratifiedBias
from gttf_sampler.distributed import PartitionedGraph


def given() -> dict[str, Tensor]:
    """The numbers of the graph, whose size `enlarged` changes."""
    return numbers(digests.SIZE)


def seed_time() -> Tensor:
    """A time for every seed."""
    return seeds() % 90 + 10


def small_or_large(small: int, large: int) -> int:
    """A number for the size of the graph."""
    return small if digests.SIZE == 1 else large


def data() -> Data:
    """The graph as PyG has it."""
    found = given()
    return Data(
        edge_index=found["edges"],
        num_nodes=NODES * digests.SIZE,
        w=found["weight"],
        time=found["node_time"],
        edge_time=found["time"],
    )


def several() -> HeteroData:
    """Three relations between two types of nodes."""
    made = HeteroData()
    found = given()
    for name in "ab":
        made[name].num_nodes = NODES * digests.SIZE
        made[name].time = found["node_time"]
    kinds = [("a", "r", "a"), ("a", "to", "b"), ("b", "of", "a")]
    columns = zip(found["edges"].chunk(3, dim=1), found["weight"].chunk(3), strict=True)
    for kind, (part, weight) in zip(kinds, columns, strict=True):
        made[kind].edge_index, made[kind].w = part, weight
    return made


def parts(batch: Any) -> list[Any]:
    """The parts that a batch was drawn of."""
    names = ("n_id", "e_id", "edge_index", "batch", "edge_label_index", "input_id")
    names += ("edge_factor", "edge_weight", "node_norm", "edge_norm")
    stores = batch.stores if isinstance(batch, HeteroData) else [batch]
    return [store[name] for store in stores for name in names if name in store]


def ends_of(count: int) -> Any:
    """The first edges of the graph."""
    return lambda: given()["edges"][:, : count * digests.SIZE]


def backward() -> Any:
    """A sampler that goes along the edges."""
    return GTTFSampler(data(), [4, 3], sample_direction="backward")


def now(value: Any) -> Any:
    """An option; where it depends on the size of the graph, it is a function."""
    return value() if isinstance(value, LambdaType) else value


def loader(kind: Any, make: Callable[[], Any], *args: Any, **options: Any) -> Any:
    """Two epochs of a loader."""

    def call() -> Any:
        how = {name: now(value) for name, value in options.items()}
        how = {"batch_size": small_or_large(16, 4000), "seed": 21, **how}
        made = kind(make(), *args, **{"shuffle": True, **how})
        return [parts(batch) for _ in range(2) for batch in made]

    return call


def nodes(hops: Any, **options: Any) -> Any:
    """Batches around nodes."""
    return loader(GTTFLoader, data, hops, **{"input_nodes": seeds, **options})


def links(hops: Any, **options: Any) -> Any:
    """Batches around edges."""
    how = {"edge_label_index": ends_of(48), **options}
    return loader(GTTFLinkLoader, data, hops, **how)


def typed(hops: Any, **options: Any) -> Any:
    """Batches of several types."""
    how = {"input_nodes": lambda: ("a", seeds())}
    return loader(GTTFLoader, several, hops, **how, **options)


def typed_links(hops: Any, **options: Any) -> Any:
    """Batches of several types around edges."""

    def ends() -> Any:
        size = digests.SIZE
        return ("a", "to", "b"), given()["edges"][:, 1000 * size : 1048 * size]

    return loader(GTTFLinkLoader, several, hops, edge_label_index=ends, **options)


def mixed() -> Any:
    """Batches around nodes of several types."""
    roots = {"a": seeds(), "b": seeds()[:9]}
    return loader(GTTFLoader, several, [3, 2], input_nodes=roots)()


def shadow() -> Any:
    """Subgraphs around nodes, one per seed."""
    size = small_or_large(16, 4000)
    made = ShaDowKHopSampler(data(), 2, 4, seeds(), seed=21, batch_size=size)
    return [[batch.edge_index, batch.batch, batch.root_n_id] for batch in made]


def bipartite() -> Any:
    """Layers as PyG's old sampler has them."""
    made = OldSampler(given()["edges"], [4, 3], seeds(), seed=21, batch_size=16)
    return [
        [n_id, [[a.edge_index, a.e_id] for a in layers]] for _, n_id, layers in made
    ]


def both_ways(**options: Any) -> Callable[[], Any]:
    """Two batches of edges that lead to the nodes, or leave them."""

    def call() -> Any:
        torch.manual_seed(26)
        made = BidirectionalNeighborSampler(data(), [3, 2], **options)
        drawn = [
            made.sample_from_nodes(NodeSamplerInput(None, ids))
            for ids in seeds().chunk(2)
        ]
        return [[out.node, out.row, out.col, out.edge, out.batch] for out in drawn]

    return call


def node2vec() -> Any:
    """PyG's model: two epochs of walks and negatives."""
    draw = torch.Generator().manual_seed(22)
    how = {"walks_per_node": 2, "p": 0.5, "q": 2.0, "num_nodes": NODES * digests.SIZE}
    model = Node2Vec(given()["edges"], 4, 6, 3, generator=draw, **how)
    size = small_or_large(64, 4000)
    return [list(model.loader(batch_size=size, shuffle=True)) for _ in range(2)]


def forests(kind: Any, *shape: int) -> Callable[[], Any]:
    """Our own models: two epochs of forests."""

    def call() -> Any:
        model = kind(given()["edges"], *shape, num_nodes=NODES * digests.SIZE)
        how = {"batch_size": small_or_large(64, 4000), "shuffle": True}
        made = model.loader(generator=torch.Generator().manual_seed(23), **how)
        return [[forest.nodes for forest in made] for _ in range(2)]

    return call


def saint(kind: Any, size: int, **options: Any) -> Callable[[], Any]:
    """Batches of GraphSAINT, and their norms."""

    def call() -> Any:
        given = {"sample_coverage": 2, "log": False, "num_steps": 2, **options}
        made = kind(data(), batch_size=size * digests.SIZE, seed=27, **given)
        return [[batch.edge_index, *parts(batch), batch.w] for batch in made]

    return call


def nearest(**options: Any) -> Callable[[], Any]:
    """Edges to a node from those nearest by personalised PageRank."""

    def call() -> Any:
        near = PPRNeighbors(4, walks=8, generator=25, **options)(data())
        return near.edge_index, near.edge_weight

    return call


def in_parts(kind: Any = GTTFLoader, **options: Any) -> InParts:
    """Batches of a graph in parts."""

    def cut(folder: Path, count: int) -> None:
        gttf_pyg.partition(data(), folder, count)

    def draw(graph: PartitionedGraph) -> Any:
        return loader(kind, lambda: graph, [4, 3], **options)()

    return InParts(cut, draw)


def every(step: int) -> Any:
    """Every so many-th edge, to be hidden."""
    return lambda: torch.arange(0, given()["edges"].shape[1], step)


AVOIDING = gttf_pyg.NegativeSampling(
    "triplet", 2, dst_nodes=torch.arange(0, 200), avoid_edges=True
)
PAIRS = gttf_pyg.NegativeSampling(
    "binary", 2, src_nodes=torch.arange(50, 150), avoid_edges=True
)
RUN = Labor(importance=1, layer_dependency=True, batch_dependency=3)
TIMES = {"time_attr": "time", "input_time": seed_time}
CALLS: dict[str, Callable[[], Any]] = {
    "pyg": nodes([5, 4]),
    "pyg workers": nodes([5, 4], num_workers=2),
    "pyg replaced": nodes([5, 4], replace=True),
    "pyg disjoint": nodes([4, 3], disjoint=True),
    "pyg induced": nodes([4, 3], subgraph_type="induced"),
    "pyg bidirectional": nodes([4, 3], subgraph_type="bidirectional"),
    "pyg weighted": nodes([4, 3], weight_attr="w"),
    "pyg node time": nodes([4, 3], **TIMES),
    "pyg latest": nodes([4, 3], temporal_strategy="last", **TIMES),
    "pyg edge time": nodes([4, 3], time_attr="edge_time", input_time=seed_time),
    "pyg window": nodes([4, 3], time_window=30, **TIMES),
    "pyg hidden": nodes([4, 3], exclude_edges=every(4)),
    "pyg bias": nodes([4, 3], bias=StratifiedBias(), replace=True),
    "pyg LABOR": nodes([-1, -1], bias=LABORBias([4, 3])),
    "pyg layerwise": nodes([4, 3], layerwise=True),
    "pyg max_nodes": nodes([4, 3], max_nodes=lambda: small_or_large(60, 5000)),
    "pyg max_edges": nodes([4, 3], max_edges=50),
    "pyg links": links([4, 3]),
    "pyg binary": links([4, 3], neg_sampling="binary"),
    "pyg triplet": links([4, 3], neg_sampling=NegativeSampling("triplet", 2)),
    "pyg links hidden": links([4, 3], exclude_edges=True),
    "pyg links time": links(
        [4, 3],
        neg_sampling="binary",
        time_attr="time",
        edge_label_time=lambda: torch.full((48 * digests.SIZE,), 96),
    ),
    "pyg mixed": mixed,
    "pyg HGT": loader(HGTLoader, several, [20, 10], input_nodes=lambda: ("a", seeds())),
    "pyg ShaDow": shadow,
    "pyg adjs": bipartite,
    "pyg typed": typed([3, 2]),
    "pyg typed weighted": typed([3, 2], weight_attr="w"),
    "pyg typed disjoint": typed([3, 2], disjoint=True),
    "pyg typed time": typed([3, 2], **TIMES),
    "pyg typed latest": typed([3, 2], temporal_strategy="last", **TIMES),
    "pyg typed links": typed_links([3, 2], neg_sampling="binary"),
    "pyg node2vec": node2vec,
    "pyg deepwalk": forests(DeepWalk, 4, 6, 3),
    "pyg Watch Your Step": forests(WatchYourStep, 4, 5),
    "pyg fraction": nodes([0.5, 0.25]),
    "pyg labor": nodes([4, 3], labor=True),
    "pyg labor weighted": nodes([4, 3], labor=True, weight_attr="w"),
    "pyg labor of a run": nodes([4, 3], labor=RUN),
    "pyg labor layerwise": nodes([4, 3], labor=True, layerwise=True),
    "pyg normalize": nodes([4, 3], normalize="unbiased"),
    "pyg disjoint time": nodes([4, 3], disjoint=True, **TIMES),
    "pyg backward": nodes([4, 3], neighbor_sampler=backward),
    "pyg input_nodes of links": links([4, 3], edge_label_index=None, input_nodes=seeds),
    "pyg avoiding": links([4, 3], neg_sampling=AVOIDING),
    "pyg avoiding pairs": links([4, 3], neg_sampling=PAIRS),
    "pyg both ways": both_ways(),
    "pyg both ways weighted": both_ways(weight_attr="w", disjoint=True),
    "pyg both ways induced": both_ways(subgraph_type="induced"),
    "pyg PPR": nearest(weight_attr="w"),
    "pyg SAINT node": saint(GraphSAINTNodeSampler, 30),
    "pyg SAINT edge": saint(GraphSAINTEdgeSampler, 20),
    "pyg SAINT edge as PyG": saint(GraphSAINTEdgeSampler, 20, scheme="pyg"),
    "pyg SAINT walk": saint(GraphSAINTRandomWalkSampler, 10, walk_length=3),
    "pyg typed induced": typed([3, 2], subgraph_type="induced"),
    "pyg typed bidirectional": typed([3, 2], subgraph_type="bidirectional"),
    "pyg typed max_nodes": typed([3, 2], max_nodes=60),
    "pyg typed max_edges": typed([3, 2], max_edges=50),
    "pyg typed fraction": typed([0.5, 0.25]),
    "pyg typed labor": typed([3, 2], labor=True),
    "pyg typed labor of a run": typed([3, 2], labor=RUN, weight_attr="w"),
    "pyg typed hidden": typed_links([3, 2], exclude_edges=True),
    "pyg typed avoiding": typed_links([3, 2], neg_sampling=AVOIDING),
    "pyg parts": in_parts(input_nodes=seeds),
    "pyg parts of links": in_parts(
        GTTFLinkLoader, edge_label_index=ends_of(48), neg_sampling="binary"
    ),
}
# Made with a graph and a batch that threads share, too.
LARGE = (
    *("pyg", "pyg replaced", "pyg induced"),
    *("pyg hidden", "pyg labor", "pyg layerwise", "pyg binary", "pyg mixed"),
    *("pyg both ways", "pyg SAINT edge", "pyg typed weighted", "pyg typed links"),
    *("pyg node2vec", "pyg deepwalk", "pyg parts", "pyg max_nodes"),
)
