"""DGL in `gttf bench` and `gttf verify`: its loaders, samplers and models."""

from functools import partial
from typing import Any, NamedTuple

import dgl
import torch
from dgl import function
from dgl.dataloading import DataLoader, NeighborSampler
from dgl.nn import GATConv, GATv2Conv, GINConv, GraphConv, HeteroGraphConv, SAGEConv
from torch import Tensor, nn

import gttf_dgl
from gttf_sampler import CompactAdj
from gttf_sampler.bench.graphs import SEED_TYPE, Typed
from gttf_sampler.bench.hosts import (
    Calls,
    Host,
    LoaderSetting,
    MakeSampler,
    Mode,
    ModeGraph,
    StepBatch,
    StepModels,
)
from gttf_sampler.bench.machine import Missing, first_line
from gttf_sampler.bench.measure import Mapped, Peer, Work, each
from gttf_sampler.bench.models import attention, mlp

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
    """Each sampler with its DataLoader, or alone; on a device, all of the graph is."""
    device, adj = setting.device, setting.adj
    if why := lacks(device):
        missing.add("DGL DataLoader", why)
        return {}
    typed = isinstance(adj, Typed)
    if typed:
        edges = {kind: tuple(ends) for kind, ends in adj.edges.items()}
        graph = dgl.heterograph(edges, adj.nodes).formats("csc")
    else:
        graph = graph_of(adj)
    features = setting.x if typed else {graph.ntypes[0]: setting.x}
    first = next(iter(features))  # the type of the seeds
    for kind, rows in features.items():
        graph.nodes[kind].data["feat"] = rows
    columns: Any = {kind: ["feat"] for kind in features} if typed else ["feat"]
    wanted: dict[str, Any] = {"prefetch_node_feats": columns}
    if setting.y is not None:
        graph.nodes[first].data["label"] = setting.y
        wanted["prefetch_labels"] = {first: ["label"]} if typed else ["label"]
    graph, seeds = graph.to(device), setting.seeds.to(device)
    fanouts = setting.fanouts[::-1]  # counted from the far side
    if setting.mode.kind == "sampler":
        return {
            name: Mapped(partial(_sample, kind(fanouts), graph), seeds)
            for name, kind in SAMPLERS.items()
        }
    chosen = {first: seeds.reshape(-1)} if typed else seeds.reshape(-1)
    how = {"batch_size": seeds.shape[1]}
    how["num_workers"] = setting.workers if device.type == "cpu" else 0
    return {
        name: LOADERS[kind](graph, chosen, kind(fanouts, **wanted), **how)
        for name, kind in SAMPLERS.items()
    }


class Sample(NamedTuple):
    """The return value of a sampler, without features."""

    nodes: Tensor
    seeds: Tensor
    blocks: list[Any]


def _sample(sampler: Any, graph: Any, seeds: Tensor) -> Sample:
    return Sample(*sampler.sample(graph, seeds))


def work_of(made: Any) -> Work:
    """The edges and input nodes of blocks, whose features must have arrived."""
    blocks = made[2]
    edges = sum(block.num_edges() for block in blocks)
    if isinstance(made, Sample):
        return Work(edges, len(made.nodes))
    found = blocks[0].srcdata["feat"]
    rows = found.values() if isinstance(found, dict) else [found]
    return Work(edges, sum(map(len, rows)))


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


class MaxConv(nn.Module):
    """The largest of the neighbours, as PyG's SAGEConv has it and DGL's has not."""

    def __init__(self, size: int, out: int) -> None:
        super().__init__()
        self.near, self.own = nn.Linear(size, out), nn.Linear(size, out, bias=False)

    def forward(self, block: Any, x: Tensor) -> Tensor:
        """The rows of the receivers."""
        with block.local_scope():
            block.srcdata["x"] = x
            block.update_all(function.copy_u("x", "m"), function.max("m", "largest"))
            found: Tensor = self.near(block.dstdata["largest"])
            own: Tensor = self.own(x[: block.num_dst_nodes()])
            return found + own


def _fuse(model: Any) -> str:
    """Fuses a model in place; returns why none of its layers could be."""
    layers = gttf_dgl.fused_layers(gttf_dgl.fused(model)).layers
    if any(verdict.startswith("fused") for _, _, verdict in layers):
        return ""
    words = [f"{kind}: {verdict}" for _, kind, verdict in layers]
    return words[0] if words else "DGL has no such layer"


def _read(made: Any) -> StepBatch:
    """The rows, blocks and labels of what the DataLoader gives."""
    blocks, labels = made[2], made[2][-1].dstdata["label"]
    labels = labels[SEED_TYPE] if isinstance(labels, dict) else labels
    return StepBatch(blocks[0].srcdata["feat"], blocks, labels)


ISOLATED = {"allow_zero_in_degree": True}
STEP = StepModels(
    layers={
        "sage": lambda ins, outs, hidden: SAGEConv(ins, outs, "mean"),
        "gcn": lambda ins, outs, hidden: GraphConv(ins, outs, **ISOLATED),
        "gin": lambda *sizes: GINConv(mlp(*sizes), "sum"),
        "max": lambda ins, outs, hidden: MaxConv(ins, outs),
        "gat": attention(GATConv, **ISOLATED),
        "gatv2": attention(GATv2Conv, **ISOLATED),
    },
    typed=HeteroGraphConv,
    call=lambda layer, x, blocks, depth: layer(blocks[depth], x),
    read=_read,
    fuse=_fuse,
)


HOST = Host(
    name="DGL",
    loaders=loaders,
    work=work_of,
    step=STEP,
    graphs=GRAPHS,
    modes=MODES,
    samplers={name: _memory(kind) for name, kind in SAMPLERS.items()},
    walkers=walkers,
    checks=checks,
)
