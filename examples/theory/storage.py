"""Propositions 7 and 8: what a graph takes, and how many walkers a batch has."""

from typing import Any

import torch

from gttf_sampler import CompactAdj, traverse

DEGREE, SEEDS, FANOUTS = 10, 100, [3, 3, 3]


def sizes() -> list[dict[str, Any]]:
    """Bytes of Â and δ against n + m, and the walkers of one batch: b Σ fᵏ."""
    rows = []
    for edges in (1000, 10_000, 100_000, 1_000_000):
        torch.manual_seed(0)
        nodes = edges // DEGREE
        adj = CompactAdj.from_edge_index(torch.randint(nodes, (2, edges)), nodes)
        forest = traverse(adj, torch.randint(nodes, (SEEDS,)), FANOUTS)
        rows.append(
            {
                "edges": edges,
                "bytes": adj.rowptr.nbytes + adj.col.nbytes,
                "per entry": (adj.rowptr.nbytes + adj.col.nbytes) / (nodes + edges),
                "walkers": sum(level.numel() for level in forest.nodes[1:]),
            }
        )
    return rows
