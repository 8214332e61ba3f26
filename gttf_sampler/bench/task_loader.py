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
from gttf_sampler.bench.measure import Peer, Report, Work, compare, draw_seeds

CLASSES = 47


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
) -> dict[str, Any]:
    """The job: PyG's loaders against each other, and DGL's; ours if there are none."""
    adj = CompactAdj.open(graph, mmap=False, verify=False)
    seeds = draw_seeds(adj.num_rows, batches, batch, seed)
    x, y = made_features(adj.num_rows, features, seed)
    missing = peers.Missing()
    options = {"batch_size": seeds.shape[1], "num_workers": workers}
    groups = []
    if missing.needs("torch_geometric", "PyG NeighborLoader"):
        loaders = pyg_loaders(adj, x, y, fanouts, seeds, options, missing)
        entries = {n: Peer(_over(it), of_data) for n, it in loaders.items()}
        groups.append(compare("PyG loaders", entries, seeds, rounds, report))
        del loaders, entries
    if missing.needs("dgl", "DGL DataLoader"):
        loaders = dgl_loaders(adj, x, y, fanouts, seeds, options)
        entries = {n: Peer(_over(it), of_blocks) for n, it in loaders.items()}
        groups.append(compare("DGL loaders", entries, seeds, rounds, report))
    if not groups:
        loaders = plain_loaders(adj, x, y, fanouts, seeds, {"num_workers": workers})
        entries = {n: Peer(_over(it), of_data) for n, it in loaders.items()}
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
) -> dict[str, Any]:
    """GTTFLoader, and NeighborLoader if it can run."""
    data = peers.pyg_data(adj, x=x, y=y)
    common = {"num_neighbors": fanouts, "input_nodes": seeds.reshape(-1), **options}
    found = {
        "gttf_pyg.GTTFLoader": import_module("gttf_pyg").GTTFLoader(data, **common)
    }
    if missing.needs_pyg_backend("NeighborLoader"):
        loader = import_module("torch_geometric.loader")
        name = peers.pyg_label("NeighborLoader")
        found[name] = loader.NeighborLoader(data, **common)
    return found


def dgl_loaders(
    adj: CompactAdj,
    x: Tensor,
    y: Tensor,
    fanouts: list[int],
    seeds: Tensor,
    options: dict[str, Any],
) -> dict[str, Any]:
    """DGL's DataLoader with either sampler."""
    graph = peers.dgl_graph(adj)
    graph.ndata["feat"], graph.ndata["label"] = x, y
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
    options: dict[str, Any],
) -> dict[str, Any]:
    """What needs torch alone: torch's DataLoader over batches of seeds."""
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
    loader: Any = DataLoader(rows, batch_size=None, collate_fn=batch, **options)
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
