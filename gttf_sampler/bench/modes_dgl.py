"""The loaders of DGL that `gttf bench modes` compares."""

from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gttf_sampler.bench import in_memory, peers
from gttf_sampler.bench.measure import CPU, Peer, Work, draw_seeds
from gttf_sampler.bench.modes import GRAPHS, Mode
from gttf_sampler.bench.modes_pyg import Makers
from gttf_sampler.bench.task_loader import made_features

MODULE, LEFT_OUT = "dgl", "DGL DataLoader"


class Ground(NamedTuple):
    """A DGLGraph whose nodes have features; seeds are of its first node type."""

    graph: Any

    @property
    def facts(self) -> dict[str, int]:
        """What a table says about it."""
        return {"nodes": self.graph.num_nodes(), "edges": self.graph.num_edges()}


def can_run(device: torch.device, missing: peers.Missing) -> bool:
    """Whether the host is there, with graphs on `device`; notes it if not."""
    return missing.needs_dgl_on(device, LEFT_OUT)


def ground(name: str, scale: float, seed: int, device: torch.device = CPU) -> Ground:
    """Makes the graph of some modes."""
    wanted = GRAPHS[name]
    nodes = in_memory.sized(wanted.nodes, scale)
    if wanted.types == 1:
        graph = peers.dgl_graph(in_memory.plain(nodes, wanted.degree, seed))
    else:
        edges = round(nodes * wanted.degree)
        typed = in_memory.ring_of_types(wanted.types, nodes, edges, seed)
        ends = {kind: tuple(pair) for kind, pair in typed.edges.items()}
        graph = peers.load("dgl").heterograph(ends, num_nodes_dict=typed.nodes)
        graph = graph.formats("csc")
    for kind in graph.ntypes:
        x, _ = made_features(graph.num_nodes(kind), wanted.features, seed)
        graph.nodes[kind].data["feat"] = x
    return Ground(graph if device.type == "cpu" else graph.to(device))


def seeds(ground: Ground, mode: Mode, batches: int, seed: int) -> Tensor:
    """The seeds of every batch [batches, b]."""
    first = ground.graph.ntypes[0]
    return draw_seeds(ground.graph.num_nodes(first), batches, mode.batch, seed)


def contestants(
    ground: Ground, mode: Mode, seeds: Tensor, seed: int, missing: peers.Missing
) -> Makers:
    """DGL's DataLoader with our sampler, and with its own."""
    make = partial(_loader, ground.graph, mode, seeds)
    loading = import_module("dgl.dataloading")
    name = peers.label("dgl", "NeighborSampler")
    return {
        "gttf_dgl.GTTFSampler": partial(make, import_module("gttf_dgl").GTTFSampler),
        name: partial(make, loading.NeighborSampler),
    }


def _loader(graph: Any, mode: Mode, seeds: Tensor, kind: Any, workers: int) -> Peer:
    """A DataLoader over all seeds, with a sampler of class `kind`."""
    columns = {name: ["feat"] for name in graph.ntypes}
    one = len(columns) == 1
    # DGL counts layers from the far side
    sampler = kind(
        list(mode.fanouts[::-1]), prefetch_node_feats=["feat"] if one else columns
    )
    nodes = seeds.reshape(-1).to(graph.device)
    loader = import_module("dgl.dataloading").DataLoader(
        graph,
        nodes if one else {graph.ntypes[0]: nodes},
        sampler,
        batch_size=seeds.shape[1],
        num_workers=workers,
    )
    return Peer(lambda seeds: loader, of_blocks, device=graph.device)


def of_blocks(made: Any) -> Work:
    """What the blocks hold; the features of the first must have arrived with it."""
    blocks = made[2]
    found = blocks[0].srcdata["feat"]
    rows = found.values() if isinstance(found, dict) else [found]
    return Work(sum(b.num_edges() for b in blocks), sum(len(x) for x in rows))
