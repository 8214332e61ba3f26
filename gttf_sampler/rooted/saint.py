"""walk_subgraph(): what a forest has visited, with all edges in between."""

import torch

from gttf_sampler import _check
from gttf_sampler._backends.scratch import relabel
from gttf_sampler.forest import WalkForest
from gttf_sampler.subgraph import Subgraph


def walk_subgraph(forest: WalkForest) -> Subgraph:
    """The subgraph induced by the nodes of a forest; GraphSAINT's random-walk sampler.

    >>> from gttf_sampler import CompactAdj, traverse
    >>> from gttf_sampler.rooted import walk_subgraph
    >>> ring = CompactAdj.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> walk_subgraph(traverse(ring, [0, 2], fanouts=[1]))
    Subgraph(4 nodes, 4 edges on cpu)

    With fanouts of one, `traverse` gives the walks of Zeng et al. (2020) from its
    roots; any other forest will do as well. Nodes come once each, in the order of their
    discovery: the roots, then depth by depth.
    """
    _check.of_type("forest", forest, WalkForest)
    adj = forest.adj
    visited = torch.cat([level.reshape(-1) for level in forest.nodes])
    with adj.borrow_table(adj.num_rows) as table:
        new = relabel(visited.new_empty(0), visited, table)[1]
    node = visited[new]
    none = node.new_empty(0)
    return Subgraph(node, none, none, none).induced(adj)
