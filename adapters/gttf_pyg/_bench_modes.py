"""PyG's loaders and samplers of `gttf bench`, beside ours, and the rows of `modes`."""

from functools import partial
from typing import Any

import torch
import torch_geometric
from torch import Tensor
from torch_geometric import typing as pyg_typing
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import LinkNeighborLoader, NeighborLoader
from torch_geometric.sampler import NeighborSampler, NodeSamplerInput

import gttf_pyg
from gttf_sampler.bench.graphs import LINKS, SEED_TYPE, SPAN, Typed, seed_times
from gttf_sampler.bench.hosts import LoaderSetting, Mode, ModeGraph
from gttf_sampler.bench.machine import Missing, first_line
from gttf_sampler.bench.measure import Mapped, Work

LABEL = f"PyG {torch_geometric.__version__}"
NO_BACKEND = (
    "neither pyg-lib nor torch-sparse can be imported, and it needs one; pyg-lib: "
    "install it from its own wheel index or source (it is not on PyPI); torch-sparse: "
    "install it with: pip install --no-build-isolation torch-sparse (it compiles)"
)
# what PyG says of a mode that its backend does not have, or has without its kernel
REFUSALS = (ImportError, ValueError, RuntimeError, AttributeError)
AHEAD = 2  # batches that a loader on a device makes ahead
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


def data_of(setting: LoaderSetting, place: torch.device | None = None) -> Any:
    """PyG's Data or HeteroData with what the mode needs; features at `place`."""
    adj, mode = setting.adj, setting.mode
    if isinstance(adj, Typed):
        data: Any = HeteroData()
        for kind, rows in setting.x.items():
            data[kind].x = rows.to(place)
        for relation, ends in adj.edges.items():
            data[relation].edge_index = ends
        for kind, time in adj.times.items() if mode.time else ():
            data[kind].time = time
    else:
        edges = adj.cached("edge_index", adj.to_edge_index)
        data = Data(setting.x.to(place), edges, num_nodes=adj.num_rows)
        generator = torch.Generator().manual_seed(setting.seed)
        if mode.time is not None:
            count = adj.num_rows if mode.time == "node_time" else adj.num_edges
            data[mode.time] = torch.randint(SPAN, (count,), generator=generator)
        if "weight_attr" in mode.options:
            weight = torch.rand(adj.num_edges, generator=generator) + 0.1
            data[mode.options["weight_attr"]] = weight
    if setting.y is not None:
        seeds = data[SEED_TYPE] if isinstance(adj, Typed) else data
        seeds.y = setting.y.to(place)
    return data


def loaders(setting: LoaderSetting, missing: Missing) -> dict[str, Any]:
    """Ours first, then PyG's own if it can run and its backend has this mode.

    On a device, ours has its features there, pinned, or read in place; PyG's samples
    on the CPU, and what it has gathered is pinned and copied.
    """
    device, mode, data = setting.device, setting.mode, data_of(setting)
    ours, theirs = CLASSES_OF[mode.kind]
    make = partial(_sampler if mode.kind == "sampler" else _loader, setting)
    name, found = f"gttf_pyg.{ours.__name__}", dict[str, Any]()
    ahead = {} if mode.kind == "sampler" else {"prefetch": AHEAD}
    if device.type == "cpu":
        found[name] = make(ours, data)
    elif mode.name:
        found[name] = make(ours, data, device=device, **ahead)
    else:
        there, make_here = data_of(setting, device), partial(make, ours, device=device)
        found[f"{name}, features on {device}"] = make_here(there, **ahead)
        found[f"{name}, features pinned"] = make_here(data, **ahead)
        found[f"{name}, features by UVA"] = make_here(data, uva=True, **ahead)
    if backend() is None:
        missing.add(f"{LABEL} {theirs.__name__}", NO_BACKEND)
        return found
    name = label(theirs, device)
    try:
        tried = make(theirs, data)
        next(iter(tried))
    except REFUSALS as error:
        missing.add(f"{name}, {mode.work}", first_line(error))
        return found
    return {**found, name: tried}


def _loader(setting: LoaderSetting, kind: Any, data: Any, **more: Any) -> Any:
    """A loader of class `kind`; batches of PyG's own are copied to the device."""
    mode, seeds, device = setting.mode, setting.seeds, setting.device
    typed, flat = isinstance(setting.adj, Typed), seeds.reshape(-1)
    how: dict[str, Any] = {"num_neighbors": setting.fanouts, **mode.options, **more}
    how |= {"batch_size": seeds.shape[1], "num_workers": setting.workers}
    if mode.kind == "links":
        ends = (data[LINKS] if typed else data).edge_index[:, flat]
        how["edge_label_index"] = (LINKS, ends) if typed else ends
    else:
        how["input_nodes"] = (SEED_TYPE, flat) if typed else flat
    if mode.time is not None:
        how["time_attr"] = mode.time
        how["input_time"] = seed_times(seeds.shape, setting.seed).reshape(-1)
    if device.type == "cpu" or more:
        return kind(data, **how)
    loader = kind(data, **how, pin_memory=torch.cuda.is_available())
    return Mapped(lambda batch: batch.to(device, non_blocking=True), loader)


def _sampler(setting: LoaderSetting, kind: Any, data: Any, **more: Any) -> Any:
    """A sampler of class `kind`, called with the seeds of one batch at a time."""
    mode, seeds = setting.mode, setting.seeds
    sampler = kind(data, setting.fanouts, time_attr=mode.time, **mode.options, **more)
    of_type = SEED_TYPE if isinstance(setting.adj, Typed) else None
    times: Any = [None] * len(seeds)
    if mode.time is not None:
        times = seed_times(seeds.shape, setting.seed)

    def draw(nodes: Tensor, when: Tensor | None) -> Any:
        asked = NodeSamplerInput(None, nodes, when, of_type)
        return sampler.sample_from_nodes(asked)

    return Mapped(draw, seeds, times)


def work_of(made: Any) -> Work:
    """The edges and nodes of a batch, whose features must have arrived with it.

    Of what a sampler has found, which has no features, the same in all types.
    """
    if isinstance(made, Data):
        return Work(made.edge_index.shape[1], made.x.shape[0])
    if isinstance(made, HeteroData):
        edges = sum(store.edge_index.shape[1] for store in made.edge_stores)
        return Work(edges, sum(store.x.shape[0] for store in made.node_stores))
    rows, nodes = (
        part.values() if isinstance(part, dict) else [part]
        for part in (made.row, made.node)
    )
    return Work(sum(row.numel() for row in rows), sum(ids.numel() for ids in nodes))


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
