"""Samples whose edges are chosen after the draw: induced, reversed, or limited."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate, pairwise, zip_longest
from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

from gttf_pyg._batch import by_type, from_subgraph
from gttf_pyg._compat import ONLY, EdgeType
from gttf_sampler import CompactAdj, HeteroSubgraph, Neighborhood, Subgraph
from gttf_sampler._check import fail


def to_bidirectional(out: Any, keep_orig_edges: bool) -> Any:
    """`out` with the reverse of every edge.

    Differs from PyG: where several edges connect two nodes, an edge has the id of the
    first one that was sampled in its own direction, and not of any of them.
    """
    if not isinstance(out, SamplerOutput):
        return out.to_bidirectional(keep_orig_edges=keep_orig_edges)
    both = Subgraph(out.node, out.row, out.col, out.edge).bidirectional()
    result = copy.copy(out)
    result.row, result.col, result.edge = both.row, both.col, both.edge
    if keep_orig_edges:
        result.orig_row, result.orig_col = out.row, out.col
    else:
        result.num_sampled_nodes = result.num_sampled_edges = None
    return result


def induced(
    found: Subgraph | HeteroSubgraph,
    adjs: Mapping[EdgeType, CompactAdj],
    loose: Mapping[EdgeType, CompactAdj],
    biases: Mapping[EdgeType, Any],
    backward: bool,
) -> SamplerOutput | HeteroSamplerOutput:
    """All edges among the nodes of a sample that its biases admit, if it has some."""
    typed = isinstance(found, HeteroSubgraph)
    graph: Any = {**adjs, **loose} if typed else adjs[ONLY]
    every: Any = found.induced(graph)
    names = ("row", "col", "edge")
    parts = {name: {**by_type(getattr(every, name), ONLY)} for name in names}
    nodes, trees = by_type(every.node, ""), by_type(every.batch, "")
    for kind, adj in adjs.items():
        ends = parts["col"][kind], parts["edge"][kind]
        node, tree = nodes[kind[2]], trees.get(kind[2])  # None unless disjoint
        kept = _admitted(biases.get(kind), adj, node, tree, ends)
        for part in parts.values():
            part[kind] = part[kind][kept]
    given = parts if typed else {name: part[ONLY] for name, part in parts.items()}
    return from_subgraph(replace(every, **given), adjs, backward)


def _admitted(
    bias: Any,
    adj: CompactAdj,
    node: Tensor,
    tree: Tensor | None,
    ends: tuple[Tensor, Tensor],
) -> Tensor:
    """A mask [e] of the edges, (receiver, position), that their nodes [n] may draw."""
    col, edge = ends
    if bias is None:
        return torch.ones_like(edge, dtype=torch.bool)
    every = torch.arange(node.numel() + 1, device=node.device)
    root = every[:-1] if tree is None else tree
    hood = Neighborhood(
        adj=adj,
        walker=col,
        neighbor=adj.col[edge].long(),
        edge=edge,
        ptr=torch.searchsorted(col, every),
        root=root,
    )
    weight: Tensor = bias(node.new_empty(node.numel(), 0), node, hood)
    return weight > 0


def limited(out: Any, seed: Any, max_nodes: int | None, max_edges: int | None) -> Any:
    """`out` without the nodes and edges that are too many.

    Nodes come hop by hop in the order of their discovery, and edges in that of draws:
    what is left is what a sampler would have found that stopped there. Seeds, ids or
    ids per node type, stay.
    """
    seeds = {name: ids.numel() for name, ids in by_type(seed, "").items()}
    total = sum(seeds.values())
    if max_nodes is not None and total > max_nodes:
        rule = f"must leave room for the seeds of a batch, {total}"
        fail("max_nodes", rule, max_nodes, "make batches smaller")
    parts = _Parts(out, seeds)
    if max_nodes is not None:
        parts.cut_nodes(max_nodes)
    if max_edges is not None:
        parts.cut_edges(max_edges)
    return parts.out()


class _Parts:
    """A sample, of one type or many, as dictionaries.

    Attributes:
        kept: how many of its first nodes are left, per type.
        chosen: positions of the edges that are left, ascending, per relation.
    """

    def __init__(self, out: Any, seeds: Mapping[str, int]) -> None:
        self.given = out
        self.node = by_type(out.node, "")
        self.row, self.col = by_type(out.row, ONLY), by_type(out.col, ONLY)
        self.seeds = {name: seeds.get(name, 0) for name in self.node}
        self.kept = {name: node.numel() for name, node in self.node.items()}
        self.chosen = {
            kind: torch.arange(row.numel(), device=row.device)
            for kind, row in self.row.items()
        }
        # how many there are in every hop; one hop where nobody knows
        self.nodes, self.edges = out.num_sampled_nodes, out.num_sampled_edges
        if self.nodes is None:
            self.nodes = {k: [s, self.kept[k] - s] for k, s in self.seeds.items()}
        if self.edges is None:
            self.edges = {kind: [row.numel()] for kind, row in self.row.items()}
        self.nodes, self.edges = by_type(self.nodes, ""), by_type(self.edges, ONLY)

    def cut_nodes(self, most: int) -> None:
        """Keeps the first nodes, hop by hop and type by type."""
        later = {name: hops[1:] for name, hops in self.nodes.items()}
        more = _first(later, most - sum(self.seeds.values()))
        self._keep({name: count + more[name] for name, count in self.seeds.items()})

    def cut_edges(self, most: int) -> None:
        """Keeps the first edges, hop by hop and type by type, and what they reach."""
        first = _first({kind: self._counted(kind) for kind in self.edges}, most)
        self.chosen = {kind: at[: first[kind]] for kind, at in self.chosen.items()}
        if self.given.num_sampled_edges is None:
            return  # all edges between nodes: they say nothing of who was found how
        kept = dict(self.seeds)
        for kind, at in self.chosen.items():
            for name, ends in ((kind[0], self.row), (kind[2], self.col)):
                if at.numel():
                    kept[name] = max(kept[name], int(ends[kind][at].max()) + 1)
        self._keep({name: min(kept[name], self.kept[name]) for name in kept})

    def _keep(self, kept: dict[str, int]) -> None:
        """Leaves out nodes from some number on, and their edges."""
        self.kept = kept
        for kind, at in self.chosen.items():
            row, col = self.row[kind][at], self.col[kind][at]
            inside = (row < kept[kind[0]]) & (col < kept[kind[2]])
            self.chosen[kind] = at[inside]

    def out(self) -> Any:
        made = copy.copy(self.given)
        for key, names, change in (
            ("", ("node", "batch"), lambda kind, x: x[: self.kept[kind]]),
            (ONLY, ("row", "col", "edge"), lambda kind, x: x[self.chosen[kind]]),
            ("", ("num_sampled_nodes",), self._first_hops),
            (ONLY, ("num_sampled_edges",), lambda kind, hops: self._counted(kind)),
        ):
            for name in names:
                value = getattr(made, name)
                if isinstance(value, Mapping):
                    value = {kind: change(kind, part) for kind, part in value.items()}
                elif value is not None:
                    value = change(key, value)
                setattr(made, name, value)
        return made

    def _first_hops(self, kind: Any, hops: list[int]) -> list[int]:
        """The nodes that are left of every hop."""
        ends = [min(end, self.kept[kind]) for end in accumulate(hops, initial=0)]
        return [end - start for start, end in pairwise(ends)]

    def _counted(self, kind: Any) -> list[int]:
        """The edges that are left of every hop."""
        chosen, hops = self.chosen[kind], self.edges[kind]
        bounds = torch.tensor(list(accumulate(hops, initial=0)), device=chosen.device)
        return torch.searchsorted(chosen, bounds).diff().tolist()


def _first(hops: Mapping[Any, list[int]], most: int) -> dict[Any, int]:
    """Per type, how many are among the first `most`, hop by hop and type by type."""
    kept = dict.fromkeys(hops, 0)
    for counts in zip_longest(*hops.values(), fillvalue=0):
        for kind, count in zip(hops, counts, strict=True):
            kept[kind] += min(count, most)
            most -= min(count, most)
    return kept
