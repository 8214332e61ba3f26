"""PyG's loaders and samplers of `gttf bench modes`, beside ours, and their graphs."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
import torch_geometric
from torch import Tensor
from torch_geometric import typing as pyg_typing
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import LinkNeighborLoader, NeighborLoader
from torch_geometric.sampler import NeighborSampler, NodeSamplerInput

import gttf_pyg
from gttf_sampler import CompactAdj
from gttf_sampler.bench import graphs
from gttf_sampler.bench.graphs import SEED_TYPE, SPAN, Typed, database, seed_times
from gttf_sampler.bench.hosts import LoaderSetting, Makers, Mode, ModeGraph
from gttf_sampler.bench.loader import made_features
from gttf_sampler.bench.machine import Missing, first_line
from gttf_sampler.bench.measure import CPU, Peer, Work, draw_seeds

LABEL = f"PyG {torch_geometric.__version__}"
NO_BACKEND = (
    "neither pyg-lib nor torch-sparse can be imported, and it needs one; pyg-lib: "
    "install it from its own wheel index or source (it is not on PyPI); torch-sparse: "
    "install it with: pip install --no-build-isolation torch-sparse (it compiles)"
)
# what PyG says of a mode that its backend does not have, or has without its kernel
REFUSALS = (ImportError, ValueError, RuntimeError, AttributeError)
AHEAD = 2  # batches that a loader on a device makes ahead
LINKS = ("order", "has_item", "item")
Classes = tuple[type, type]  # ours, and PyG's
CLASSES_OF: dict[str, Classes] = {
    "nodes": (gttf_pyg.GTTFLoader, NeighborLoader),
    "links": (gttf_pyg.GTTFLinkLoader, LinkNeighborLoader),
    "sampler": (gttf_pyg.GTTFSampler, NeighborSampler),
}


def backend() -> str | None:
    if pyg_typing.WITH_PYG_LIB:
        return f"pyg-lib {getattr(pyg_typing.pyg_lib, '__version__', '')}".strip()
    return "torch-sparse" if pyg_typing.WITH_TORCH_SPARSE else None


def label(kind: type, device: torch.device) -> str:
    """A class of PyG with its version, its backend and where it stays."""
    where = "" if device.type == "cpu" else ", on the CPU"
    return f"{LABEL} {kind.__name__} ({backend()}){where}"


class Copied:
    """A loader of the CPU whose batches are then copied to a device."""

    def __init__(self, loader: Any, device: torch.device) -> None:
        self.loader, self.device = loader, device

    def __iter__(self) -> Iterator[Any]:
        return (batch.to(self.device, non_blocking=True) for batch in self.loader)


def copied(kind: Any, data: Any, how: dict[str, Any], device: torch.device) -> Any:
    """A loader of class `kind`, as it is if `device` is the CPU."""
    if device.type == "cpu":
        return kind(data, **how)
    return Copied(kind(data, **how, pin_memory=torch.cuda.is_available()), device)


def data_of(setting: LoaderSetting, place: torch.device | None = None) -> Any:
    """PyG's Data or HeteroData, with features and labels at `place`."""
    adj, x, y = setting.adj, setting.x, setting.y.to(place)
    if not isinstance(adj, Typed):
        edges = adj.to_edge_index()
        return Data(x.to(place), edges, y=y, num_nodes=adj.num_rows)
    data = _typed_data(adj, {kind: rows.to(place) for kind, rows in x.items()})
    data[SEED_TYPE].y = y
    return data


def _typed_data(graph: Typed, features: dict[str, Tensor]) -> Any:
    data = HeteroData()
    for name, x in features.items():
        data[name].x = x
    for kind, ends in graph.edges.items():
        data[kind].edge_index = ends
    return data


def of_batch(batch: Any) -> Work:
    """The edges and nodes of a batch; its features must have arrived with it."""
    if not isinstance(batch, HeteroData):
        return Work(batch.edge_index.shape[1], batch.x.shape[0])
    edges = sum(store.edge_index.shape[1] for store in batch.edge_stores)
    return Work(edges, sum(store.x.shape[0] for store in batch.node_stores))


GRAPHS = {
    "plain": ModeGraph("one node type", 1_000_000, 20, 64),
    "database": ModeGraph("5 tables, 12 relations", 0, 0, 32, 5),
    "relational": ModeGraph("a shop: 4 tables, 8 relations", 0, 0, 32, 4),
    "cora": ModeGraph("as small as Cora", 2_708, 3.9, 1_433),
}
LAST = {"temporal_strategy": "last"}
BINARY = {"neg_sampling": "binary"}
WEIGHTED = {"weight_attr": "edge_weight"}
BOTH_WAYS = {"subgraph_type": "bidirectional"}
ALONE = "sampler alone, typed with times"
plain = partial(Mode, graph="plain", batch=1024)
early = partial(plain, fanouts=(10, 5), reach=3, time="node_time")
typed = partial(Mode, graph="database", batch=512, batches=40, reach=2)
timed = partial(typed, fanouts=(64, 64), time="time")
small = partial(timed, fanouts=(16, 16), batch=128, batches=100)
MODES = (
    plain("plain", "plain", (15, 10), 4),
    plain("disjoint", "disjoint", (10, 5), 3, options={"disjoint": True}),
    early("node-time", "node time, uniform"),
    early("node-time-last", "node time, last", options=LAST),
    early("edge-time", "edge time", time="edge_time"),
    plain("weighted", "weighted", (15, 10), 8, options=WEIGHTED),
    plain("bidirectional", "bidirectional", (15, 10), 4, options=BOTH_WAYS),
    plain("links", "links, binary negatives", (10, 5), 4, kind="links", options=BINARY),
    plain("sampler", "sampler alone", (15, 10), 4, kind="sampler"),
    plain("workers", "plain, 2 workers", (15, 10), 4, batches=60, workers=2),
    typed("typed", "typed", (10, 10)),
    typed("typed-wide", "typed", (64, 64)),
    timed("typed-time", "typed with times, uniform"),
    timed("typed-time-last", "typed with times, last", options=LAST),
    small("typed-time-small", "typed with times", reach=1.5),
    typed(
        *("typed-links", "typed links, binary negatives", (8, 8)),
        kind="links",
        batches=20,
        options=BINARY,
    ),
    timed("typed-workers", "typed with times, 2 workers", workers=2),
    timed("sampler-time", ALONE, reach=3, kind="sampler"),
    small("sampler-time-small", ALONE, reach=3, kind="sampler"),
    Mode(
        *("relational", "a shop's questions, last", (4, 4), 2, "relational", 256, 100),
        time="time",
        options=LAST,
    ),
    Mode("cora", "plain", (10, 10), 1.3, "cora", 64, 200),
)


class Ground(NamedTuple):
    """A made graph with features, from which every mode takes what it needs."""

    graph: CompactAdj | Typed
    edge_index: Tensor | None  # [2, m] of one node type, None if there are many
    features: dict[str, Tensor]  # [n, d] of each node type
    device: torch.device = CPU

    @property
    def facts(self) -> dict[str, int]:
        nodes = sum(len(x) for x in self.features.values())
        return {"nodes": nodes, "edges": self.graph.num_edges}

    @property
    def typed(self) -> bool:
        return self.edge_index is None

    def links(self) -> Tensor:
        """The edges [2, m] whose ends are seeds of a link loader."""
        if isinstance(self.graph, Typed):
            return self.graph.edges[LINKS]
        return self.graph.to_edge_index()

    def seeds(self, mode: Mode, batches: int, seed: int) -> Tensor:
        """The seeds of every batch [batches, b]: nodes, or positions of edges."""
        count = len(self.features[SEED_TYPE if self.typed else ""])
        if mode.kind == "links":
            count = self.links().shape[1]
        return draw_seeds(count, batches, mode.batch, seed)

    def peers(self, mode: Mode, seeds: Tensor, seed: int, missing: Missing) -> Makers:
        """Ours first, then PyG's own if its backend has this mode."""
        data, (ours, theirs) = self.data(mode, seed), CLASSES_OF[mode.kind]
        make = self._sampler if mode.kind == "sampler" else self._loader
        common = partial(make, data, mode, seeds, seed)
        found: Makers = {f"gttf_pyg.{ours.__name__}": partial(common, ours)}
        if backend() is None:
            missing.add(f"{LABEL} {theirs.__name__}", NO_BACKEND)
            return found
        name = label(theirs, self.device)
        try:
            tried = common(theirs, 0)
            next(iter(tried.run(seeds[:1])))
        except REFUSALS as error:
            missing.add(f"{name}, {mode.work}", first_line(error))
            return found
        # making one sorts all edges, so the one that was tried is kept
        return {**found, name: lambda n: common(theirs, n) if n else tried}

    def data(self, mode: Mode, seed: int) -> Any:
        """PyG's Data or HeteroData, with nothing in it that the mode does not need."""
        if isinstance(self.graph, Typed):
            data = _typed_data(self.graph, self.features)
            for name, time_ in self.graph.times.items() if mode.time else ():
                data[name].time = time_
            return data
        generator = torch.Generator().manual_seed(seed)
        nodes, edges = self.graph.num_rows, self.graph.num_edges
        data = Data(self.features[""], self.edge_index, num_nodes=nodes)
        if mode.time is not None:
            count = nodes if mode.time == "node_time" else edges
            span = SPAN
            data[mode.time] = torch.randint(span, (count,), generator=generator)
        if "weight_attr" in mode.options:
            weight = torch.rand(edges, generator=generator) + 0.1
            data[mode.options["weight_attr"]] = weight
        return data

    def _loader(
        self, data: Any, mode: Mode, seeds: Tensor, seed: int, kind: Any, workers: int
    ) -> Peer:
        how: dict[str, Any] = {"batch_size": seeds.shape[1], "num_workers": workers}
        chosen, of_type, key = seeds.reshape(-1), SEED_TYPE, "input_nodes"
        if mode.kind == "links":
            key, of_type = "edge_label_index", LINKS  # type: ignore[assignment]
            chosen = self.links()[:, chosen]
        how[key] = (of_type, chosen) if self.typed else chosen
        if mode.time is not None:
            how["time_attr"] = mode.time
            how["input_time"] = seed_times(seeds.shape, seed).reshape(-1)
        how |= {"num_neighbors": list(mode.fanouts), **mode.options}
        if self.device.type != "cpu" and kind in (
            own for own, _ in CLASSES_OF.values()
        ):
            loader = kind(data, **how, device=self.device, prefetch=AHEAD)
        else:
            loader = copied(kind, data, how, self.device)
        return Peer(lambda seeds: loader, of_batch, device=self.device)

    def _sampler(
        self, data: Any, mode: Mode, seeds: Tensor, seed: int, kind: Any, workers: int
    ) -> Peer:
        """A sampler of class `kind`, called with the seeds of one batch at a time."""
        how: dict[str, Any] = {"time_attr": mode.time, **mode.options}
        if kind is gttf_pyg.GTTFSampler:
            how["device"] = self.device
        sampler = kind(data, list(mode.fanouts), **how)
        times: Any = [None] * len(seeds)
        if mode.time is not None:
            times = seed_times(seeds.shape, seed)
        of_type = SEED_TYPE if self.typed else None

        def run(seeds: Tensor) -> Iterator[Any]:
            for nodes, when in zip(seeds, times, strict=False):
                asked = NodeSamplerInput(None, nodes, when, of_type)
                yield sampler.sample_from_nodes(asked)

        return Peer(run, of_output, device=self.device)


def ground(name: str, scale: float, seed: int, device: torch.device) -> Ground:
    wanted = GRAPHS[name]
    if wanted.types == 1:
        nodes = graphs.sized(wanted.nodes, scale)
        adj = graphs.plain(nodes, wanted.degree, seed)
        x, _ = made_features(nodes, wanted.features, seed)
        return Ground(adj, adj.to_edge_index(), {"": x}, device)
    tables = database(scale, seed, name)
    features = {
        kind: made_features(count, wanted.features, seed)[0]
        for kind, count in tables.nodes.items()
    }
    return Ground(tables, None, features, device)


def of_output(made: Any) -> Work:
    """The edges and nodes that a sampler has found, in all types."""
    rows, nodes = (
        part.values() if isinstance(part, dict) else [part]
        for part in (made.row, made.node)
    )
    return Work(sum(row.numel() for row in rows), sum(ids.numel() for ids in nodes))
