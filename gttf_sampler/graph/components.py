"""Connected components and spanning forests, by rounds of tensor operations."""

import torch
from torch import Tensor


def components(edge: Tensor, num_nodes: int) -> Tensor:
    """The component [n] of every node, named by its smallest node; edges [2, m]."""
    label = torch.arange(num_nodes, device=edge.device)
    while True:
        ends = label[edge]
        low, high = ends.amin(0), ends.amax(0)
        if bool((low == high).all()):
            return label
        label = label.scatter_reduce(0, high, low, "amin")
        label = _roots(label)


def spanning_forest(edge: Tensor, rank: Tensor, num_nodes: int) -> Tensor:
    """Which edges [2, m] form the spanning forest of the smallest ranks, bool [m].

    Borůvka's method: every component takes its edge of the smallest rank to another
    one; as ranks differ, no cycle can close. O(m log n), log n rounds at most.
    """
    label = torch.arange(num_nodes, device=edge.device)
    taken = torch.zeros_like(rank, dtype=torch.bool)
    if not rank.numel():
        return taken
    position = rank.argsort()  # of the edge that has a rank
    none = rank.numel()
    while True:
        left, right = label[edge]
        between = left != right
        if not bool(between.any()):
            return taken
        best = torch.full_like(label, none)
        for end in (left, right):
            best = best.scatter_reduce(0, end[between], rank[between], "amin")
        root = (best < none).nonzero().view(-1)
        chosen = position[best[root]]
        taken[chosen] = True
        other = left[chosen] + right[chosen] - root  # the component at the other end
        target = label.clone()
        target[root] = other
        # Two components that chose each other: the smaller one is the root.
        both = (target[other] == root) & (root < other)
        target[root[both]] = root[both]
        label = _roots(target)[label]


def _roots(parent: Tensor) -> Tensor:
    """Where the parents of parents end [n]; there are no cycles."""
    while True:
        above = parent[parent]
        if torch.equal(above, parent):
            return parent
        parent = above
