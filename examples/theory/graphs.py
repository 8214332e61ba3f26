"""The graphs that estimates are compared on: made ones, and Cora if it is there."""

from collections.abc import Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from gttf_sampler import CompactAdj

FEATURES = 16
# A dead end (3), a self-loop (2), a multi-edge (1 → 2), a node nobody leads to (4).
SMALL = [[1, 2], [0, 2, 2, 3], [0, 1, 2], [], [3, 0]]
# Half of 0's neighbours always lead to 5, the others never do.
FORK = [[1, 2, 3, 4], [5], [5], [6], [6], [], []]
STAR = [list(range(1, 9)), *([0] for _ in range(8))]


class Graph(NamedTuple):
    """Rows of a graph, with features x [n, 16] of its nodes."""

    name: str
    adj: CompactAdj
    x: Tensor


def of_rows(rows: Sequence[Sequence[int]], weight: Tensor | None = None) -> CompactAdj:
    """The graph whose row u is `rows[u]`."""
    rowptr = [0, *accumulate(len(row) for row in rows)]
    col = list(chain.from_iterable(rows))
    return CompactAdj.from_csr(rowptr, col, direction="out", edge_weight=weight)


def transition(adj: CompactAdj) -> Tensor:
    """𝒯, float64 [n, n], by weight if the graph has any; a dead end stays."""
    n, degree = adj.num_rows, adj.degree
    row = torch.arange(n).repeat_interleave(degree)
    weight = torch.ones(adj.num_edges) if adj.edge_weight is None else adj.edge_weight
    matrix = torch.zeros(n, n, dtype=torch.float64)
    matrix.index_put_((row, adj.col.long()), weight.double(), accumulate=True)
    matrix.diagonal().add_((degree == 0).double())
    return matrix / matrix.sum(1, keepdim=True)


def made(nodes: int = 1000, classes: int = 7) -> Graph:
    """Hubs and communities like those of a citation network; 4 neighbours on average.

    Ends of edges are drawn by a mass with a heavy tail, three of four within a class.
    """
    torch.manual_seed(0)
    y = torch.arange(nodes) % classes
    mass = torch.rand(nodes).pow(-0.6)
    u = torch.multinomial(mass, 3 * nodes, replacement=True)
    other = torch.multinomial(mass, 3 * nodes, replacement=True)
    inside = other - y[other] + y[u]
    keep = (torch.rand(3 * nodes) < 0.75) & (inside < nodes)
    v = inside.where(keep, other)
    pair = torch.stack([torch.minimum(u, v), torch.maximum(u, v)])[:, u != v]
    edge = pair.unique(dim=1)
    x = torch.randn(classes, FEATURES)[y] + torch.randn(nodes, FEATURES)
    both = torch.cat([edge, edge.flip(0)], dim=1)
    return Graph("made", CompactAdj.from_edge_index(both, nodes), x)


def cora(root: str) -> Graph:
    """Cora of `root`/planetoid, as PyG stores it, its features projected to 16."""
    from torch_geometric.datasets import Planetoid

    data = Planetoid(str(Path(root) / "planetoid"), "Cora")[0]
    torch.manual_seed(0)
    adj = CompactAdj.from_edge_index(data.edge_index, data.num_nodes)
    x = data.x @ torch.randn(data.num_features, FEATURES) / FEATURES**0.5
    return Graph("Cora", adj, x)


def crowded(nodes: int = 2000, degree: int = 30) -> CompactAdj:
    """Many neighbours that a batch has in common; weights with a heavy tail."""
    torch.manual_seed(1)
    ends = torch.randint(nodes, (2, nodes * degree))
    weight = torch.randn(nodes * degree).exp()
    return CompactAdj.from_edge_index(ends, nodes, edge_weight=weight)
