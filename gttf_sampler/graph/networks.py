"""Graphs of networkx and igraph: what they hold, and how they are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.graph.edgelist import EdgeList
from gttf_sampler.graph.names import Array

if TYPE_CHECKING:
    from gttf_sampler.graph.compact import CompactAdj


def edges_of_networkx(graph: Any, weight: str | None, time: str | None) -> EdgeList:
    """All edges, those of an undirected graph in both directions; nodes as they come.

    A weight that an edge lacks is one, as in networkx; a time must not be missing.
    """
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed")):
        _check.mistyped("graph", "must be a networkx graph", _check.kind_of(graph))
    number = {node: i for i, node in enumerate(graph.nodes)}
    pairs, data = [], []
    for source, target, attributes in graph.edges(data=True):
        pairs.append((number[source], number[target]))
        data.append(attributes)
    columns = [
        None if name is None else _attribute(kind, name, data, default)
        for kind, name, default in (("weight", weight, 1), ("time", time, None))
    ]
    return _directed(pairs, _ids(list(number)), columns, graph.is_directed())


def edges_of_igraph(graph: Any, weight: str | None, time: str | None) -> EdgeList:
    """All edges, those of an undirected graph in both directions; ids are `name`s."""
    if not all(hasattr(graph, name) for name in ("vs", "es", "get_edgelist")):
        _check.mistyped("graph", "must be an igraph Graph", _check.kind_of(graph))
    named = "name" in graph.vs.attributes()
    ids = _ids(list(graph.vs["name"] if named else range(graph.vcount())))
    columns = []
    for kind, name in (("weight", weight), ("time", time)):
        known = graph.es.attributes()
        if name is not None and name not in known:
            _check.fail(kind, f"must be one of the edge attributes {known}", repr(name))
        columns.append(None if name is None else _tensor(kind, graph.es[name]))
    return _directed(graph.get_edgelist(), ids, columns, graph.is_directed())


def networkx_of(adj: CompactAdj) -> Any:
    """A networkx DiGraph of the rows, a MultiDiGraph if edges are parallel."""
    networkx = _check.library("networkx", "to_networkx")
    ends = adj.to_edge_index().t().tolist()
    parallel = len(set(map(tuple, ends))) < len(ends)
    graph = networkx.MultiDiGraph() if parallel else networkx.DiGraph()
    ids = names_of(adj)
    graph.add_nodes_from(ids)
    columns = _columns(adj)
    rows = zip(*columns.values(), strict=True) if columns else [()] * len(ends)
    for (source, target), values in zip(ends, rows, strict=True):
        attributes = dict(zip(columns, values, strict=True))
        graph.add_edge(ids[source], ids[target], **attributes)
    return graph


def igraph_of(adj: CompactAdj) -> Any:
    """A directed igraph Graph; ids that are no numbers of nodes are its `name`s."""
    igraph = _check.library("igraph", "to_igraph")
    graph = igraph.Graph(
        n=adj.num_rows, edges=adj.to_edge_index().t().tolist(), directed=True
    )
    if adj.node_id is not None:
        graph.vs["name"] = names_of(adj)
    for name, values in _columns(adj).items():
        graph.es[name] = values
    return graph


def names_of(adj: CompactAdj) -> list[Any]:
    """The id of every node, as Python has them."""
    _check.one_node_set("adj", adj.num_rows, adj.num_cols)
    return list(range(adj.num_rows)) if adj.node_id is None else adj.node_id.tolist()


def _columns(adj: CompactAdj) -> dict[str, list[Any]]:
    """Weights and times in the caller's order of edges."""
    found = {"weight": adj.edge_weight, "time": adj.edge_time}
    return {
        name: adj.in_caller_order(values).tolist()
        for name, values in found.items()
        if values is not None
    }


def _directed(
    pairs: Sequence[Any], ids: Array, columns: list[Tensor | None], directed: bool
) -> EdgeList:
    """An undirected edge counts in both directions, a loop once."""
    ends = torch.tensor(pairs, dtype=torch.int64).view(-1, 2).t().contiguous()
    if directed:
        return EdgeList(ends, ids, columns[0], columns[1])
    back = (ends[0] != ends[1]).nonzero().view(-1)
    ends = torch.cat([ends, ends[:, back].flip(0)], dim=1)
    both = [None if x is None else torch.cat([x, x[back]]) for x in columns]
    return EdgeList(ends, ids, both[0], both[1])


def _attribute(kind: str, name: str, data: list[Any], default: Any) -> Tensor:
    """One attribute of all edges."""
    values = [attributes.get(name, default) for attributes in data]
    if any(value is None for value in values):
        _check.fail(kind, "must be an attribute of every edge", repr(name))
    return _tensor(kind, values)


def _tensor(kind: str, values: Sequence[Any]) -> Tensor:
    """Numbers as a tensor."""
    try:
        found = torch.as_tensor(np.asarray(values))
    except TypeError:
        _check.mistyped(kind, "must hold numbers", _check.shown(values))
    return found


def _ids(nodes: list[Any]) -> Array:
    """Ids as an array: of integers, of words, or of anything that can be hashed."""
    for kind, dtype in ((int, np.int64), (str, np.str_)):
        if all(type(node) is kind for node in nodes):
            return np.array(nodes, dtype=dtype)
    found = np.empty(len(nodes), dtype=object)
    found[:] = nodes
    return found
