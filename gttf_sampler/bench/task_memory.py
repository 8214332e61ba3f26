"""`gttf bench memory`: what a sampler keeps, and what making it takes.

Every subject has a process of its own. It first does everything once on a tiny graph,
so that libraries are loaded and kernels compiled. Then it reads the edges, makes its
sampler, drops what that no longer needs, and samples.
"""

from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import CompactAdj, sample_rooted
from gttf_sampler.bench import peers
from gttf_sampler.bench.measure import Report, draw_seeds
from gttf_sampler.bench.peak import PeakMemory, settled
from gttf_sampler.bench.task_build import dgl_rows, shuffled

TINY = 64  # nodes of the graph that everything is tried on first


def write_edges(graph: str, file: str, seed: int, report: Report) -> dict[str, Any]:
    """The job that writes the input of all subjects: shuffled edges, int64 [2, m]."""
    report("shuffling the edges", 0.0)
    edge_index, nodes = shuffled(CompactAdj.open(graph, mmap=False, verify=False), seed)
    np.save(file, edge_index.numpy())
    return {"nodes": nodes, "edges": edge_index.shape[1]}


def subjects() -> tuple[list[str], peers.Missing]:
    """The subjects that can run here, and those that cannot."""
    missing = peers.Missing()
    found = ["gttf", "gttf_without_ids"]
    if peers.version("torch_geometric"):
        found += ["gttf_pyg", "pyg"]
        if not any(map(peers.version, ("pyg_lib", "torch_sparse"))):
            missing.add("batches of PyG's NeighborLoader", peers.no_backend())
    else:
        missing.add("PyG NeighborLoader", peers.absent("torch_geometric"))
    if peers.version("dgl"):
        found += ["gttf_dgl", "dgl"]
    else:
        missing.add("DGL NeighborSampler", peers.absent("dgl"))
    return found, missing


def measure(
    subject: str,
    file: str,
    nodes: int,
    fanouts: list[int],
    batch: int,
    batches: int,
    seed: int,
    report: Report,
) -> dict[str, Any]:
    """The job of one subject; returns its row."""
    kind = SUBJECTS[subject]
    tiny = torch.randint(
        TINY, (2, 10 * TINY), generator=torch.Generator().manual_seed(0)
    )
    name, sample = kind(tiny, TINY, fanouts, torch.arange(TINY))
    sample()
    del sample, tiny
    seeds = draw_seeds(nodes, batches, batch, seed)
    report(name, 0.1)
    before = settled()
    edge_index = torch.from_numpy(np.load(file))
    edges, size = edge_index.shape[1], edge_index.nbytes
    read = settled()
    with PeakMemory() as making:
        name, sample = kind(edge_index, nodes, fanouts, seeds.view(-1))
        del edge_index  # whoever needs it later has kept it
        held = settled() - before
    report(name, 0.6)
    with PeakMemory() as drawing:
        drawn = sample()  # None where the sampler can be made, but not sample
    return {
        "peer": name,
        "held": held,
        "per_edge": held / edges,
        "making": making.peak - read,
        "sampling": None if drawn is None else drawing.beyond,
        "input": size,
    }


def _gttf(edge_index: Tensor, nodes: int, fanouts: list[int], seeds: Tensor) -> Any:
    adj = CompactAdj.from_edge_index(edge_index, nodes)
    return "gttf CompactAdj", lambda: [
        sample_rooted(adj, part, fanouts) for part in seeds.split(1024)
    ]


def _gttf_without_ids(
    edge_index: Tensor, nodes: int, fanouts: list[int], seeds: Tensor
) -> Any:
    made = CompactAdj.from_edge_index(edge_index, nodes)
    adj = CompactAdj.from_csr(made.rowptr, made.col)
    return "gttf CompactAdj, no edge ids", lambda: [
        sample_rooted(adj, part, fanouts) for part in seeds.split(1024)
    ]


def _pyg(edge_index: Tensor, nodes: int, fanouts: list[int], seeds: Tensor) -> Any:
    loader = import_module("torch_geometric.loader").NeighborLoader
    name = peers.label("torch_geometric", "NeighborLoader")
    made = _loader(loader, edge_index, nodes, fanouts, seeds)
    return name, lambda: list(made) if peers.pyg_backend() else None


def _gttf_pyg(edge_index: Tensor, nodes: int, fanouts: list[int], seeds: Tensor) -> Any:
    made = import_module("gttf_pyg").GTTFLoader
    loader = _loader(made, edge_index, nodes, fanouts, seeds)
    return "gttf_pyg.GTTFLoader", lambda: list(loader)


def _loader(
    kind: Any, edge_index: Tensor, nodes: int, fanouts: list[int], seeds: Tensor
) -> Any:
    """A loader over PyG's Data, which keeps the edges as they were given."""
    data = import_module("torch_geometric.data").Data(
        edge_index=edge_index, num_nodes=nodes
    )
    return kind(data, num_neighbors=fanouts, input_nodes=seeds, batch_size=1024)


def _gttf_dgl(edge_index: Tensor, nodes: int, fanouts: list[int], seeds: Tensor) -> Any:
    sampler = import_module("gttf_dgl").GTTFSampler(fanouts[::-1])
    graph = dgl_rows(edge_index, nodes)
    return "gttf_dgl.GTTFSampler", lambda: [
        sampler.sample(graph, part) for part in seeds.split(1024)
    ]


def _dgl(edge_index: Tensor, nodes: int, fanouts: list[int], seeds: Tensor) -> Any:
    sampler = import_module("dgl.dataloading").NeighborSampler(fanouts[::-1])
    graph = dgl_rows(edge_index, nodes)
    return peers.label("dgl", "NeighborSampler"), lambda: [
        sampler.sample(graph, part) for part in seeds.split(1024)
    ]


SUBJECTS = {
    "gttf": _gttf,
    "gttf_without_ids": _gttf_without_ids,
    "gttf_pyg": _gttf_pyg,
    "pyg": _pyg,
    "gttf_dgl": _gttf_dgl,
    "dgl": _dgl,
}
