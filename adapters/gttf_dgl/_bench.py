"""DGL in `gttf bench` and `gttf verify`: its loaders, samplers and models."""

from functools import partial
from typing import Any, NamedTuple

import dgl
import numpy as np
import torch
from dgl.dataloading import DataLoader, NeighborSampler
from torch import Tensor

import gttf_dgl
from gttf_dgl._bench_step import steppers
from gttf_sampler import CompactAdj
from gttf_sampler.bench import graphs
from gttf_sampler.bench.graphs import SEED_TYPE, Typed
from gttf_sampler.bench.hosts import (
    Calls,
    Host,
    LoaderSetting,
    Makers,
    MakeSampler,
    Mode,
    ModeGraph,
)
from gttf_sampler.bench.loader import made_features
from gttf_sampler.bench.machine import Missing, first_line
from gttf_sampler.bench.measure import Peer, Work, draw_seeds, each

LABEL = f"DGL {dgl.__version__}"
SAMPLERS = {
    "gttf_dgl.GTTFSampler": gttf_dgl.GTTFSampler,
    f"{LABEL} NeighborSampler": NeighborSampler,
}
LOADERS = {gttf_dgl.GTTFSampler: gttf_dgl.DataLoader, NeighborSampler: DataLoader}


def graph_of(adj: CompactAdj, layout: str = "csc") -> Any:
    """The rows of a CompactAdj as a DGLGraph with int64 ids.

    With int32 ids DGL 1.1.3 samples far fewer edges than it should, so nobody could
    compare with it.
    """
    none = torch.empty(0, dtype=torch.int64)
    rows = (adj.rowptr, adj.col.to(torch.int64), none)
    return dgl.graph((layout, rows), num_nodes=adj.num_rows).formats(layout)


def lacks(device: torch.device) -> str:
    """The reason for which this DGL has no graphs on `device`; empty if it has."""
    if device.type == "cpu":
        return ""
    try:
        dgl.graph(([0], [0])).to(device)
    except (dgl.DGLError, RuntimeError, AssertionError) as error:
        return f"{LABEL} has no graphs on {device} ({first_line(error)[-120:]})"
    return ""


def loaders(setting: LoaderSetting, missing: Missing) -> dict[str, Any]:
    """Each sampler with its DataLoader; on a device, all of the graph is there."""
    device = setting.device
    if why := lacks(device):
        missing.add("DGL DataLoader", why)
        return {}
    seeds: Any = setting.seeds.to(device).reshape(-1)
    wanted: dict[str, Any] = {"prefetch_node_feats": ["feat"]}
    wanted["prefetch_labels"] = ["label"]
    if isinstance(setting.adj, Typed):
        graph = dgl.heterograph(
            {kind: tuple(ends) for kind, ends in setting.adj.edges.items()},
            setting.adj.nodes,
        ).formats("csc")
        for kind, rows in setting.x.items():
            graph.nodes[kind].data["feat"] = rows
        graph.nodes[SEED_TYPE].data["label"] = setting.y
        wanted["prefetch_node_feats"] = {kind: ["feat"] for kind in graph.ntypes}
        wanted["prefetch_labels"] = {SEED_TYPE: ["label"]}
        seeds = {SEED_TYPE: seeds}
    else:
        graph = graph_of(setting.adj)
        graph.ndata["feat"], graph.ndata["label"] = setting.x, setting.y
    graph = graph.to(device)
    how = {"batch_size": setting.seeds.shape[1]}
    how["num_workers"] = setting.workers if device.type == "cpu" else 0
    return {
        name: LOADERS[kind](graph, seeds, kind(setting.fanouts[::-1], **wanted), **how)
        for name, kind in SAMPLERS.items()
    }


def of_blocks(made: Any) -> Work:
    """The edges and input nodes of blocks, whose features must have arrived."""
    blocks = made[2]
    found = blocks[0].srcdata["feat"]
    rows = found.values() if isinstance(found, dict) else [found]
    return Work(sum(b.num_edges() for b in blocks), sum(len(x) for x in rows))


GRAPHS = {
    "dgl-small": ModeGraph("a small graph", 3_000, 10, 100),
    "dgl-typed": ModeGraph("4 types, 8 relations", 50_000, 2.5, 32, 4),
    "dgl-plain": ModeGraph("one node type", 1_000_000, 20, 100),
}
MODES = (
    Mode("dgl-small", "plain", (10, 10), 1.2, "dgl-small", 64, 200),
    Mode("dgl-typed", "typed", (10, 10), 1.5, "dgl-typed", 512, 40),
    Mode("dgl-plain", "plain", (15, 10), 3, "dgl-plain", 1024),
    Mode(
        "dgl-sampler", "sampler alone", (15, 10), 3, "dgl-plain", 1024, kind="sampler"
    ),
)


class Ground(NamedTuple):
    """A DGLGraph whose nodes have features; seeds are of its first node type."""

    graph: Any

    @property
    def facts(self) -> dict[str, int]:
        """Its nodes and edges."""
        return {"nodes": self.graph.num_nodes(), "edges": self.graph.num_edges()}

    def seeds(self, mode: Mode, batches: int, seed: int) -> Tensor:
        """The seeds of every batch [batches, b]."""
        first = self.graph.ntypes[0]
        return draw_seeds(self.graph.num_nodes(first), batches, mode.batch, seed)

    def peers(self, mode: Mode, seeds: Tensor, seed: int, missing: Missing) -> Makers:
        """Our DataLoader and sampler, and DGL's; or the samplers alone."""
        make = self._sampler if mode.kind == "sampler" else self._loader
        return {
            name: partial(make, mode, seeds, kind) for name, kind in SAMPLERS.items()
        }

    def _loader(self, mode: Mode, seeds: Tensor, kind: Any, workers: int) -> Peer:
        """A DataLoader over all seeds, with a sampler of class `kind`."""
        graph, columns = self.graph, {name: ["feat"] for name in self.graph.ntypes}
        one = len(columns) == 1
        wanted = {"prefetch_node_feats": ["feat"] if one else columns}
        sampler = kind(list(mode.fanouts[::-1]), **wanted)  # counted from the far side
        nodes = seeds.reshape(-1).to(graph.device)
        chosen = nodes if one else {graph.ntypes[0]: nodes}
        how = {"batch_size": seeds.shape[1], "num_workers": workers}
        loader = LOADERS[kind](graph, chosen, sampler, **how)
        return Peer(lambda seeds: loader, of_blocks, device=graph.device)

    def _sampler(self, mode: Mode, seeds: Tensor, kind: Any, workers: int) -> Peer:
        """A sampler of class `kind`, called with the seeds of one batch at a time."""
        graph, sampler = self.graph, kind(list(mode.fanouts[::-1]))
        run = each(lambda part: sampler.sample(graph, part), graph.device)
        return Peer(run, _of_sample, device=graph.device)


def ground(name: str, scale: float, seed: int, device: torch.device) -> Ground:
    """Makes the graph of some modes."""
    if why := lacks(device):
        raise NotImplementedError(why)
    wanted = GRAPHS[name]
    nodes = graphs.sized(wanted.nodes, scale)
    if wanted.types == 1:
        graph = graph_of(graphs.plain(nodes, wanted.degree, seed))
    else:
        edges = round(nodes * wanted.degree)
        graph = ring_of_types(wanted.types, nodes, edges, seed)
    for kind in graph.ntypes:
        x, _ = made_features(graph.num_nodes(kind), wanted.features, seed)
        graph.nodes[kind].data["feat"] = x
    return Ground(graph.to(device))


def ring_of_types(types: int, nodes: int, edges: int, seed: int) -> Any:
    """Types that refer to the next one and the one after it, all of the same size."""
    random = np.random.Generator(np.random.PCG64([seed, 4]))
    names = [f"type{i}" for i in range(types)]
    found = {}
    for place, source in enumerate(names):
        for step in (1, 2):
            target = names[(place + step) % types]
            ends = (
                random.integers(nodes, size=edges),
                graphs.skewed(random, nodes, edges),
            )
            kind = (source, f"step{step}", target)
            found[kind] = tuple(map(torch.from_numpy, ends))
    return dgl.heterograph(found, dict.fromkeys(names, nodes)).formats("csc")


def _of_sample(made: Any) -> Work:
    """The edges and input nodes of blocks without features."""
    return Work(sum(block.num_edges() for block in made[2]), len(made[0]))


def _memory(kind: Any) -> MakeSampler:
    """A sampler over a DGLGraph that has made the rows its samplers read."""

    def make(edges: Tensor, nodes: int, fanouts: list[int], seeds: Tensor) -> Any:
        graph = dgl.graph((edges[0], edges[1]), num_nodes=nodes).formats("csc")
        graph.create_formats_()
        sampler = kind(fanouts[::-1])
        return lambda: [sampler.sample(graph, part) for part in seeds.split(1024)]

    return make


def walkers(
    adj: CompactAdj, length: int, law: tuple[float, float], missing: Missing
) -> dict[str, Peer]:
    """DGL's own walks, which are padded with -1."""
    graph = graph_of(adj, "csr")

    def uniform(seeds: Tensor) -> Any:
        return dgl.sampling.random_walk(graph, seeds, length=length)[0]

    def second(seeds: Tensor) -> Any:
        return dgl.sampling.node2vec_random_walk(graph, seeds, *law, length)

    def steps(made: Any) -> Work:
        return Work(int((made[:, 1:] >= 0).sum()), made.shape[0])

    plain = law == (1.0, 1.0)
    name = "random_walk" if plain else "node2vec_random_walk"
    return {f"{LABEL} {name}": Peer(each(uniform if plain else second), steps)}


def checks(
    rows: CompactAdj, seeds: Tensor, device: torch.device, missing: Missing
) -> Calls:
    """Graphs of DGL on the device, and pinned ones that it reads in place."""
    if why := lacks(device):
        missing.add("gttf_dgl", why)
        return {}
    calls: Calls = {
        "DGL, on the CPU": partial(_batches, rows, seeds),
        "DGL, graph on the device": partial(_batches, rows, seeds, device),
    }
    if device.type == "cuda":
        calls["DGL, graph by UVA"] = partial(_batches, rows, seeds, device, uva=True)
    return calls


def _batches(
    rows: CompactAdj,
    seeds: Tensor,
    device: torch.device | None = None,
    uva: bool = False,
) -> list[Tensor]:
    """The ids and features of some batches."""
    graph, n = graph_of(rows), rows.num_rows
    graph.ndata["x"] = torch.arange(n * 3.0).view(n, 3)
    sampler = gttf_dgl.GTTFSampler([4, 5], seed=3)
    if device is not None:
        seeds, graph = seeds.to(device), graph if uva else graph.to(device)
    if uva:
        graph.create_formats_()
        graph.pin_memory_()
    found: list[Tensor] = []
    for part in seeds.split(16):
        nodes, _, blocks = sampler.sample(graph, part)
        found += [nodes.cpu(), blocks[0].srcdata["x"].cpu()]
        found += [block.edata[dgl.EID].cpu() for block in blocks]
    return found


HOST = Host(
    name="DGL",
    loaders=loaders,
    work=of_blocks,
    steppers=steppers,
    graphs=GRAPHS,
    modes=MODES,
    ground=ground,
    samplers={name: _memory(kind) for name, kind in SAMPLERS.items()},
    walkers=walkers,
    checks=checks,
)
