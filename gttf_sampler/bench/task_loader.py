"""`gttf bench loader`: what a training loop iterates over, with features."""

from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from gttf_sampler import CompactAdj, gather_rows, sample_rooted
from gttf_sampler.bench import peers
from gttf_sampler.bench.measure import CPU, Peer, Report, Work, compare, draw_seeds

CLASSES = 47
AHEAD = 2  # batches that a loader on a device makes ahead


def run(
    graph: str,
    fanouts: list[int],
    batch: int,
    batches: int,
    rounds: int,
    seed: int,
    features: int,
    workers: int,
    report: Report,
    device: str = "cpu",
) -> dict[str, Any]:
    """The job: PyG's loaders against each other, and DGL's; ours if there are none."""
    adj = CompactAdj.open(graph, mmap=False, verify=False)
    seeds = draw_seeds(adj.num_rows, batches, batch, seed)
    x, y = made_features(adj.num_rows, features, seed)
    missing = peers.Missing()
    options = {"batch_size": seeds.shape[1], "num_workers": workers}
    where = torch.device(device)
    groups = []
    if missing.needs("torch_geometric", "PyG NeighborLoader"):
        loaders = pyg_loaders(adj, x, y, fanouts, seeds, options, missing, where)
        entries = {
            n: Peer(_over(it), of_data, device=where) for n, it in loaders.items()
        }
        groups.append(compare("PyG loaders", entries, seeds, rounds, report))
        del loaders, entries
    if missing.needs_dgl_on(where, "DGL DataLoader"):
        loaders = dgl_loaders(adj, x, y, fanouts, seeds, options, where)
        entries = {
            n: Peer(_over(it), of_blocks, device=where) for n, it in loaders.items()
        }
        groups.append(compare("DGL loaders", entries, seeds, rounds, report))
    if not groups:
        loaders = plain_loaders(
            adj.to(where), x.to(where), y.to(where), fanouts, seeds.to(where), workers
        )
        entries = {
            n: Peer(_over(it), of_data, device=where) for n, it in loaders.items()
        }
        groups.append(compare("plain torch", entries, seeds, rounds, report))
    return {"groups": groups, "left_out": missing}


def made_features(nodes: int, features: int, seed: int) -> tuple[Tensor, Tensor]:
    """Random features [n, d] and labels [n]; what they are does not change the time."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(nodes, features, generator=generator)
    return x, torch.randint(CLASSES, (nodes,), generator=generator)


def pyg_loaders(
    adj: CompactAdj,
    x: Tensor,
    y: Tensor,
    fanouts: list[int],
    seeds: Tensor,
    options: dict[str, Any],
    missing: Any,
    device: torch.device = CPU,
) -> dict[str, Any]:
    """GTTFLoader, and NeighborLoader if it can run.

    On a device, ours has its features there, pinned, or read in place; PyG's samples
    on the CPU, and what it has gathered is pinned and copied.
    """
    data = peers.pyg_data(adj, x=x, y=y)
    common = {"num_neighbors": fanouts, "input_nodes": seeds.reshape(-1), **options}
    ours = import_module("gttf_pyg").GTTFLoader
    if device.type == "cpu":
        found = {"gttf_pyg.GTTFLoader": ours(data, **common)}
    else:
        how = {**common, "device": device, "prefetch": AHEAD, "num_workers": 0}
        there = peers.pyg_data(adj, x=x.to(device), y=y.to(device))
        found = {
            f"gttf_pyg.GTTFLoader, features on {device}": ours(there, **how),
            "gttf_pyg.GTTFLoader, features pinned": ours(data, **how),
            "gttf_pyg.GTTFLoader, features by UVA": ours(data, **how, uva=True),
        }
    if missing.needs_pyg_backend("NeighborLoader"):
        loader = import_module("torch_geometric.loader")
        name = peers.pyg_label("NeighborLoader") + peers.on_cpu(device)
        found[name] = Copied.of(loader.NeighborLoader, data, common, device)
    return found


class Copied:
    """A loader of the CPU whose batches are then copied to a device."""

    def __init__(self, loader: Any, device: torch.device) -> None:
        self.loader, self.device = loader, device
        self.node_sampler = getattr(loader, "node_sampler", None)

    @classmethod
    def of(cls, kind: Any, data: Any, how: dict[str, Any], device: Any) -> Any:
        """A loader of class `kind`, as it is if `device` is the CPU."""
        if device.type == "cpu":
            return kind(data, **how)
        how = {**how, "pin_memory": torch.cuda.is_available()}
        return cls(kind(data, **how), device)

    def __iter__(self) -> Any:
        return (batch.to(self.device, non_blocking=True) for batch in self.loader)


def dgl_loaders(
    adj: CompactAdj,
    x: Tensor,
    y: Tensor,
    fanouts: list[int],
    seeds: Tensor,
    options: dict[str, Any],
    device: torch.device = CPU,
) -> dict[str, Any]:
    """DGL's DataLoader with either sampler; on a device, all of the graph is there."""
    graph = peers.dgl_graph(adj)
    graph.ndata["feat"], graph.ndata["label"] = x, y
    if device.type != "cpu":
        graph, seeds = graph.to(device), seeds.to(device)
        options = {**options, "num_workers": 0}
    loading, marks = import_module("dgl.dataloading"), (["feat"], ["label"])
    classes = {
        "gttf_dgl.GTTFSampler": import_module("gttf_dgl").GTTFSampler,
        peers.label("dgl", "NeighborSampler"): loading.NeighborSampler,
    }
    found = {}
    for name, sampler in classes.items():
        wanted = dict(
            zip(("prefetch_node_feats", "prefetch_labels"), marks, strict=True)
        )
        made = sampler(fanouts[::-1], **wanted)
        found[name] = loading.DataLoader(graph, seeds.reshape(-1), made, **options)
    return found


def plain_loaders(
    adj: CompactAdj,
    x: Tensor,
    y: Tensor,
    fanouts: list[int],
    seeds: Tensor,
    workers: int = 0,
) -> dict[str, Any]:
    """What needs torch alone: torch's DataLoader over batches of seeds."""
    workers = workers if adj.device.type == "cpu" else 0
    sampler = SimpleNamespace(sample=partial(sample_rooted, adj, fanouts=fanouts))

    def batch(part: Any) -> Any:
        sub = sampler.sample(part)
        return SimpleNamespace(
            x=gather_rows(x, sub.node),
            y=y[part],
            edge_index=sub.edge_index,
            batch_size=len(part),
            num_sampled_nodes=sub.num_sampled_nodes,
            num_sampled_edges=sub.num_sampled_edges,
        )

    rows: Any = seeds  # [batches, b], so that an entry is the seeds of a batch
    how: dict[str, Any] = {"batch_size": None, "num_workers": workers}
    loader: Any = DataLoader(rows, collate_fn=batch, **how)
    loader.plain_sampler = sampler
    return {"gttf sample_rooted, gather_rows": loader}


def _over(loader: Any) -> Any:
    """A loader that has its seeds already."""
    return lambda seeds: loader


def of_data(batch: Any) -> Work:
    """What a batch of PyG holds; its features must have arrived with it."""
    return Work(batch.edge_index.shape[1], batch.x.shape[0])


def of_blocks(made: Any) -> Work:
    """What the blocks of DGL hold; their features must have arrived with them."""
    blocks = made[2]
    rows = blocks[0].srcdata["feat"].shape[0]
    return Work(sum(block.num_edges() for block in blocks), rows)
