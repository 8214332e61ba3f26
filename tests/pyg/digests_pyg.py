"""The calls of `digests` that need PyG."""

from collections.abc import Callable
from typing import Any

import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import NegativeSampling

from digests import GIVEN, NODES, SEEDS
from gttf_pyg import (
    DeepWalk,
    GTTFLinkLoader,
    GTTFLoader,
    HGTLoader,
    Node2Vec,
    ShaDowKHopSampler,
)
from gttf_pyg.loader import NeighborSampler as OldSampler
from gttf_sampler import LABORBias, StratifiedBias

SEED_TIME = SEEDS % 90 + 10


def data() -> Data:
    """The graph as PyG has it."""
    return Data(
        edge_index=GIVEN["edges"],
        num_nodes=NODES,
        w=GIVEN["weight"],
        time=GIVEN["node_time"],
        edge_time=GIVEN["time"],
    )


def several() -> HeteroData:
    """Three relations between two types of nodes."""
    made = HeteroData()
    for name in "ab":
        made[name].num_nodes = NODES
        made[name].time = GIVEN["node_time"]
    kinds = [("a", "r", "a"), ("a", "to", "b"), ("b", "of", "a")]
    columns = zip(GIVEN["edges"].chunk(3, dim=1), GIVEN["weight"].chunk(3), strict=True)
    for kind, (part, weight) in zip(kinds, columns, strict=True):
        made[kind].edge_index, made[kind].w = part, weight
    return made


def parts(batch: Any) -> list[Any]:
    """The parts that a batch was drawn of."""
    names = ("n_id", "e_id", "edge_index", "batch", "edge_label_index", "input_id")
    stores = batch.stores if isinstance(batch, HeteroData) else [batch]
    return [store[name] for store in stores for name in names if name in store]


def loader(kind: Any, make: Callable[[], Any], *args: Any, **options: Any) -> Any:
    """Two epochs of a loader."""

    def call() -> Any:
        made = kind(make(), *args, batch_size=16, seed=21, shuffle=True, **options)
        return [parts(batch) for _ in range(2) for batch in made]

    return call


def nodes(hops: Any, **options: Any) -> Any:
    """Batches around nodes."""
    return loader(GTTFLoader, data, hops, input_nodes=SEEDS, **options)


def links(hops: Any, **options: Any) -> Any:
    """Batches around edges."""
    ends = GIVEN["edges"][:, :48]
    return loader(GTTFLinkLoader, data, hops, edge_label_index=ends, **options)


def typed(hops: Any, **options: Any) -> Any:
    """Batches of several types."""
    return loader(GTTFLoader, several, hops, input_nodes=("a", SEEDS), **options)


def typed_links(hops: Any, **options: Any) -> Any:
    """Batches of several types around edges."""
    ends = ("a", "to", "b"), GIVEN["edges"][:, 1000:1048]
    return loader(GTTFLinkLoader, several, hops, edge_label_index=ends, **options)


def mixed() -> Any:
    """Batches around nodes of several types."""
    roots = {"a": SEEDS, "b": SEEDS[:9]}
    return loader(GTTFLoader, several, [3, 2], input_nodes=roots)()


def shadow() -> Any:
    """Subgraphs around nodes, one per seed."""
    made = ShaDowKHopSampler(data(), 2, 4, SEEDS, seed=21, batch_size=16)
    return [[batch.edge_index, batch.batch, batch.root_n_id] for batch in made]


def bipartite() -> Any:
    """Layers as PyG's old sampler has them."""
    made = OldSampler(GIVEN["edges"], [4, 3], SEEDS, seed=21, batch_size=16)
    return [
        [n_id, [[a.edge_index, a.e_id] for a in layers]] for _, n_id, layers in made
    ]


def node2vec() -> Any:
    """PyG's model: two epochs of walks and negatives."""
    draw = torch.Generator().manual_seed(22)
    how = {"walks_per_node": 2, "p": 0.5, "q": 2.0, "num_nodes": NODES}
    model = Node2Vec(GIVEN["edges"], 4, 6, 3, generator=draw, **how)
    return [list(model.loader(batch_size=64, shuffle=True)) for _ in range(2)]


def deepwalk() -> Any:
    """Our own: two epochs of forests."""
    model = DeepWalk(GIVEN["edges"], 4, 6, 3, num_nodes=NODES)
    how = {"batch_size": 64, "shuffle": True}
    made = model.loader(generator=torch.Generator().manual_seed(23), **how)
    return [[forest.nodes for forest in made] for _ in range(2)]


TIMES = {"time_attr": "time", "input_time": SEED_TIME}
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
    "pyg edge time": nodes([4, 3], time_attr="edge_time", input_time=SEED_TIME),
    "pyg window": nodes([4, 3], time_window=30, **TIMES),
    "pyg hidden": nodes([4, 3], exclude_edges=torch.arange(0, 3000, 4)),
    "pyg bias": nodes([4, 3], bias=StratifiedBias(), replace=True),
    "pyg LABOR": nodes([-1, -1], bias=LABORBias([4, 3])),
    "pyg layerwise": nodes([4, 3], layerwise=True),
    "pyg max_nodes": nodes([4, 3], max_nodes=60),
    "pyg max_edges": nodes([4, 3], max_edges=50),
    "pyg links": links([4, 3]),
    "pyg binary": links([4, 3], neg_sampling="binary"),
    "pyg triplet": links([4, 3], neg_sampling=NegativeSampling("triplet", 2)),
    "pyg links hidden": links([4, 3], exclude_edges=True),
    "pyg links time": links(
        [4, 3],
        neg_sampling="binary",
        time_attr="time",
        edge_label_time=torch.full((48,), 96),
    ),
    "pyg mixed": mixed,
    "pyg HGT": loader(HGTLoader, several, [20, 10], input_nodes=("a", SEEDS)),
    "pyg ShaDow": shadow,
    "pyg adjs": bipartite,
    "pyg typed": typed([3, 2]),
    "pyg typed weighted": typed([3, 2], weight_attr="w"),
    "pyg typed disjoint": typed([3, 2], disjoint=True),
    "pyg typed time": typed([3, 2], **TIMES),
    "pyg typed latest": typed([3, 2], temporal_strategy="last", **TIMES),
    "pyg typed links": typed_links([3, 2], neg_sampling="binary"),
    "pyg node2vec": node2vec,
    "pyg deepwalk": deepwalk,
}
