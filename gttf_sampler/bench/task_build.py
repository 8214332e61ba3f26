"""`gttf bench build`: unsorted edges to rows that can be sampled."""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import CompactAdj
from gttf_sampler.bench import peers
from gttf_sampler.bench.measure import Peer, Report, Work, compare

ONCE = torch.zeros(1, 1, dtype=torch.int64)  # seeds that nobody looks at


def run(graph: str, rounds: int, seed: int, report: Report) -> dict[str, Any]:
    """The job: the same shuffled edges for everyone."""
    edge_index, nodes = shuffled(CompactAdj.open(graph, mmap=False, verify=False), seed)
    missing = peers.Missing()
    found = builders(edge_index, nodes, missing)
    title = f"{edge_index.shape[1]:,} unsorted edges to rows"
    return {
        "groups": [compare(title, found, ONCE, rounds, report)],
        "left_out": missing,
    }


def builders(edge_index: Tensor, nodes: int, missing: peers.Missing) -> dict[str, Peer]:
    """Who makes rows of edges."""
    found = {
        "gttf CompactAdj": Peer(
            lambda _: [CompactAdj.from_edge_index(edge_index, nodes)],
            lambda adj: _of_rows(adj.rowptr),
        )
    }
    if missing.needs("torch_geometric", "PyG to_csc"):
        to_csc = import_module("torch_geometric.sampler.utils").to_csc
        data = import_module("torch_geometric.data").Data(
            edge_index=edge_index, num_nodes=nodes
        )
        found[peers.label("torch_geometric", "to_csc")] = Peer(
            lambda _: [to_csc(data, device=torch.device("cpu"))],
            lambda made: _of_rows(made[0]),
        )
    if missing.needs("dgl", "DGL graph"):
        found[peers.label("dgl", "graph, csc")] = Peer(
            lambda _: [dgl_rows(edge_index, nodes)],
            lambda made: _of_rows(made.adj_tensors("csc")[0]),
        )
    return found


def dgl_rows(edge_index: Tensor, nodes: int) -> Any:
    """A DGLGraph that has made the rows its samplers read."""
    graph = peers.load("dgl").graph((edge_index[0], edge_index[1]), num_nodes=nodes)
    graph = graph.formats("csc")
    graph.create_formats_()
    return graph


def shuffled(adj: CompactAdj, seed: int) -> tuple[Tensor, int]:
    """The edges [2, m] of a graph in a random order, and its number of nodes."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(adj.num_edges, generator=generator)
    return adj.to_edge_index()[:, order], adj.num_rows


def _of_rows(rowptr: Tensor) -> Work:
    """The edges of all rows, and the rows that have some."""
    return Work(int(rowptr[-1]), int((rowptr.diff() > 0).sum()))
