"""Invariants of every result, whatever it was made from."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import CompactAdj, HeteroSubgraph, Subgraph, WalkForest


class Broken(Exception):  # noqa: N818
    """A result that cannot be right."""


def hold(fact: Any, told: str) -> None:
    """Raises `Broken` unless the fact is one."""
    if not bool(fact):
        raise Broken(told)


def check_edges(
    adj: CompactAdj, here: Tensor, there: Tensor, row: Tensor, col: Tensor, edge: Tensor
) -> None:
    """Edges of a sample are edges of the graph between the nodes they name."""
    hold(row.shape == col.shape == edge.shape, "columns of different lengths")
    if edge.numel():
        owner = torch.searchsorted(adj.rowptr, edge, right=True) - 1
        hold(torch.equal(here[col], owner), "an edge that its node does not have")
        hold(torch.equal(there[row], adj.col[edge].long()), "an edge leads elsewhere")


def check(found: Any) -> None:
    """Checks the invariants of a result."""
    if isinstance(found, CompactAdj | WalkForest) and _is_empty(found):
        repr(found)  # on "meta", where there are no numbers to check
    elif isinstance(found, WalkForest):
        _check_forest(found)
    elif isinstance(found, CompactAdj):
        try:
            found.validate()
        except (TypeError, ValueError) as error:
            raise Broken(f"a graph that is not sound: {error}") from error
        repr(found)
    elif isinstance(found, Subgraph) and found.num_sampled_edges is not None:
        hold(sum(found.num_sampled_nodes or []) == found.num_nodes, "nodes of hops")
        hold(sum(found.num_sampled_edges) == found.num_edges, "edges of hops")
        repr(found)
    elif isinstance(found, HeteroSubgraph):
        for name, hops in (found.num_sampled_nodes or {}).items():
            hold(sum(hops) == found.node[name].numel(), "nodes of hops")
        repr(found)
    elif isinstance(found, Tensor) and found.layout is torch.strided:
        found.clone()  # it can be read
    elif isinstance(found, Mapping):
        for part in found.values():
            check(part)


def _is_empty(found: CompactAdj | WalkForest) -> bool:
    """True if a graph, or the one a forest grew on, has been moved to "meta"."""
    adj = found.adj if isinstance(found, WalkForest) else found
    return isinstance(adj.col, Tensor) and adj.col.is_meta


def _check_forest(forest: WalkForest) -> None:
    """Every step is along an edge, or stays where there is none, or ends the walk."""
    adj, width = forest.adj, 1
    hold(len(forest.nodes) == len(forest.edges) == len(forest.fanouts) + 1, "depths")
    for k, fanout in enumerate(forest.fanouts, 1):
        width *= fanout
        hold(forest.nodes[k].shape == (len(forest.nodes[0]), width), "widths")
        before = forest.nodes[k - 1].repeat_interleave(fanout, dim=1)
        node, edge = forest.nodes[k], forest.edges[k]
        taken = edge >= 0
        hold(torch.equal(node[taken], adj.col[edge[taken]].long()), "edges lead away")
        owner = torch.searchsorted(adj.rowptr, edge[taken], right=True) - 1
        hold(torch.equal(before[taken], owner), "an edge that its node does not have")
        stayed = (node >= 0) & ~taken
        hold(torch.equal(node[stayed], before[stayed]), "a step without an edge")
        hold(not adj.degree[node[stayed]].any(), "stayed where there are edges")
    repr(forest)
