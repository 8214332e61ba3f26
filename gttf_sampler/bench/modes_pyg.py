"""The loaders and samplers of PyG that `gttf bench modes` compares."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gttf_sampler import CompactAdj
from gttf_sampler.bench import in_memory, peers
from gttf_sampler.bench.in_memory import SPAN, Typed
from gttf_sampler.bench.measure import CPU, Peer, Work, draw_seeds
from gttf_sampler.bench.modes import GRAPHS, Mode
from gttf_sampler.bench.task_loader import AHEAD, Copied, made_features, of_data

MODULE, LEFT_OUT = "torch_geometric", "PyG NeighborLoader"
SEED_TYPE = "user"
LINKS = ("order", "has_item", "item")
# what PyG says of a mode that its backend does not have, or has without its kernel
REFUSALS = (ImportError, ValueError, RuntimeError, AttributeError)

Makers = dict[str, Callable[[int], Peer]]  # name → number of workers → who it is


class Ground(NamedTuple):
    """A graph with features, from which every mode takes what it needs.

    Attributes:
        graph: the rows of one node type, or of many.
        edge_index: [2, m] of one node type, None if there are many.
        features: [n, d] of each node type.
        device: where to sample.
    """

    graph: CompactAdj | Typed
    edge_index: Tensor | None
    features: dict[str, Tensor]
    device: torch.device = CPU

    @property
    def facts(self) -> dict[str, int]:
        """What a table says about it."""
        nodes = sum(len(x) for x in self.features.values())
        return {"nodes": nodes, "edges": self.graph.num_edges}


def can_run(device: torch.device, missing: peers.Missing) -> bool:
    """Whether the host is there; notes its absence."""
    return missing.needs(MODULE, LEFT_OUT)


def ground(name: str, scale: float, seed: int, device: torch.device = CPU) -> Ground:
    """Makes the graph of some modes."""
    wanted = GRAPHS[name]
    if wanted.types == 1:
        nodes = in_memory.sized(wanted.nodes, scale)
        adj = in_memory.plain(nodes, wanted.degree, seed)
        x, _ = made_features(nodes, wanted.features, seed)
        return Ground(adj, adj.to_edge_index(), {"": x}, device)
    typed = in_memory.database(scale, seed, name)
    sizes = typed.nodes.items()
    features = {k: made_features(n, wanted.features, seed)[0] for k, n in sizes}
    return Ground(typed, None, features, device)


def seeds(ground: Ground, mode: Mode, batches: int, seed: int) -> Tensor:
    """The seeds of every batch [batches, b]: nodes, or positions of edges."""
    if mode.kind == "links":
        count = _links(ground)[1].shape[1]
    else:
        typed = isinstance(ground.graph, Typed)
        count = len(ground.features[SEED_TYPE if typed else ""])
    return draw_seeds(count, batches, mode.batch, seed)


def contestants(
    ground: Ground, mode: Mode, seeds: Tensor, seed: int, missing: peers.Missing
) -> Makers:
    """Ours first, then PyG's own if its backend has this mode."""
    data = data_for(ground, mode, seed)
    classes = CLASSES[mode.kind]
    make = _sampler if mode.kind == "sampler" else _loader
    common = partial(make, data, ground, mode, seeds, seed)
    ours = getattr(import_module("gttf_pyg"), classes.ours)
    found: Makers = {f"gttf_pyg.{classes.ours}": partial(common, ours)}
    if not missing.needs_pyg_backend(classes.theirs):
        return found
    name = peers.pyg_label(classes.theirs) + peers.on_cpu(ground.device)
    theirs = getattr(import_module(classes.module), classes.theirs)
    try:
        tried = common(theirs, 0)
        next(iter(tried.run(seeds[:1])))
    except REFUSALS as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        missing.add(f"{name}, {mode.work}", why)
        return found
    # making one sorts all edges, so the one that was tried is kept
    return {**found, name: lambda n: common(theirs, n) if n else tried}


class Classes(NamedTuple):
    """Who samples what: our class in `gttf_pyg`, and PyG's in its module."""

    ours: str
    theirs: str
    module: str


CLASSES = {
    "nodes": Classes("GTTFLoader", "NeighborLoader", "torch_geometric.loader"),
    "links": Classes("GTTFLinkLoader", "LinkNeighborLoader", "torch_geometric.loader"),
    "sampler": Classes("GTTFSampler", "NeighborSampler", "torch_geometric.sampler"),
}


def data_for(ground: Ground, mode: Mode, seed: int) -> Any:
    """PyG's Data or HeteroData, with nothing in it that the mode does not need."""
    kinds = import_module("torch_geometric.data")
    if isinstance(ground.graph, Typed):
        data = kinds.HeteroData()
        for name, x in ground.features.items():
            data[name].x = x
        for kind, ends in ground.graph.edges.items():
            data[kind].edge_index = ends
        for name, time in ground.graph.times.items() if mode.time else ():
            data[name].time = time
        return data
    generator = torch.Generator().manual_seed(seed)
    nodes, edges = ground.graph.num_rows, ground.graph.num_edges
    data = kinds.Data(ground.features[""], ground.edge_index, num_nodes=nodes)
    if mode.time is not None:
        count = nodes if mode.time == "node_time" else edges
        data[mode.time] = torch.randint(SPAN, (count,), generator=generator)
    if "weight_attr" in mode.options:
        weight = torch.rand(edges, generator=generator) + 0.1
        data[mode.options["weight_attr"]] = weight
    return data


def _loader(
    data: Any,
    ground: Ground,
    mode: Mode,
    seeds: Tensor,
    seed: int,
    kind: Any,
    workers: int,
) -> Peer:
    """A loader of class `kind` over all seeds."""
    typed = isinstance(ground.graph, Typed)
    options: dict[str, Any] = {"batch_size": seeds.shape[1], "num_workers": workers}
    if mode.kind == "links":
        relation, ends = _links(ground)
        links = ends[:, seeds.reshape(-1)]
        options["edge_label_index"] = (relation, links) if typed else links
    else:
        nodes = seeds.reshape(-1)
        options["input_nodes"] = (SEED_TYPE, nodes) if typed else nodes
    if mode.time is not None:
        options["time_attr"] = mode.time
        options["input_time"] = in_memory.seed_times(seeds.shape, seed).reshape(-1)
    options |= {"num_neighbors": list(mode.fanouts), **mode.options}
    device = ground.device
    if device.type != "cpu" and kind.__module__.startswith("gttf_pyg"):
        loader = kind(data, **options, device=device, prefetch=AHEAD)
    else:
        loader = Copied.of(kind, data, options, device)
    work = of_hetero_data if typed else of_data
    return Peer(lambda seeds: loader, work, device=device)


def _sampler(
    data: Any,
    ground: Ground,
    mode: Mode,
    seeds: Tensor,
    seed: int,
    kind: Any,
    workers: int,
) -> Peer:
    """A sampler of class `kind`, called with the seeds of one batch after the other."""
    ours = kind.__module__.startswith("gttf_pyg")
    there: dict[str, Any] = {"device": ground.device} if ours else {}
    sampler = kind(
        data, list(mode.fanouts), time_attr=mode.time, **mode.options, **there
    )
    inputs = import_module("torch_geometric.sampler").NodeSamplerInput
    times = in_memory.seed_times(seeds.shape, seed)

    def run(seeds: Tensor) -> Iterator[Any]:
        for nodes, time in zip(seeds, times, strict=False):
            yield sampler.sample_from_nodes(inputs(None, nodes, time, SEED_TYPE))

    return Peer(run, of_output, device=ground.device)


def _links(ground: Ground) -> tuple[in_memory.EdgeType | None, Tensor]:
    """The edges whose ends are seeds of a link loader, and their type."""
    if isinstance(ground.graph, Typed):
        return LINKS, ground.graph.edges[LINKS]
    if ground.edge_index is None:
        raise ValueError("'ground' must have edges (got None)")
    return None, ground.edge_index


def of_hetero_data(batch: Any) -> Work:
    """What a batch of HeteroData holds; its features must have arrived with it."""
    edges = sum(store.edge_index.shape[1] for store in batch.edge_stores)
    return Work(edges, sum(store.x.shape[0] for store in batch.node_stores))


def of_output(made: Any) -> Work:
    """What a sampler has found, in all types."""
    edges = sum(rows.numel() for rows in made.row.values())
    return Work(edges, sum(ids.numel() for ids in made.node.values()))
