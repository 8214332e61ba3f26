"""Samples whose edges are chosen after the draw: induced, reversed, or limited."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

from gttf_pyg._batch import from_subgraph
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
    if isinstance(found, Subgraph):
        (only,) = adjs
        one = found.induced(adjs[only])
        ends = one.col, one.edge
        kept = _admitted(biases.get(only), adjs[only], one.node, one.batch, ends)
        one = replace(one, row=one.row[kept], col=one.col[kept], edge=one.edge[kept])
        return from_subgraph(one, adjs, backward)
    every = found.induced({**adjs, **loose})
    row, col, edge = dict(every.row), dict(every.col), dict(every.edge)
    for kind, adj in adjs.items():
        node = every.node[kind[2]]
        tree = None if every.batch is None else every.batch[kind[2]]
        ends = col[kind], edge[kind]
        kept = _admitted(biases.get(kind), adj, node, tree, ends)
        row[kind], col[kind], edge[kind] = (
            part[kind][kept] for part in (row, col, edge)
        )
    every = replace(every, row=row, col=col, edge=edge)
    return from_subgraph(every, adjs, backward)


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
    typed = seed if isinstance(seed, Mapping) else {"": seed}
    seeds = {name: ids.numel() for name, ids in typed.items()}
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
    """A sample, of one type or many, as dictionaries."""

    def __init__(self, out: Any, seeds: Mapping[str, int]) -> None:
        self.given, self.typed = out, not isinstance(out, SamplerOutput)
        self.node = self._named(out.node, "")
        self.ends = {
            kind: (row, self._named(out.col, ONLY)[kind])
            for kind, row in self._named(out.row, ONLY).items()
        }
        self.seeds = {name: seeds.get(name, 0) for name in self.node}
        self.kept = {name: node.numel() for name, node in self.node.items()}
        self.nodes = self._hops(out.num_sampled_nodes, self.kept, "")
        sizes = {kind: row.numel() for kind, (row, _) in self.ends.items()}
        self.edges = self._hops(out.num_sampled_edges, sizes, ONLY)
        self.chosen = {
            kind: torch.arange(row.numel(), device=row.device)
            for kind, (row, _) in self.ends.items()
        }

    def _named(self, value: Any, key: Any) -> dict[Any, Any]:
        return dict(value) if self.typed else {key: value}

    def _hops(self, counts: Any, sizes: Any, key: Any) -> dict[Any, list[int]]:
        """Per type how many there are in every hop; one hop where nobody knows."""
        if counts is not None:
            return {kind: list(hops) for kind, hops in self._named(counts, key).items()}
        if key == ONLY:
            return {kind: [size] for kind, size in sizes.items()}
        return {
            kind: [self.seeds[kind], n - self.seeds[kind]] for kind, n in sizes.items()
        }

    def cut_nodes(self, most: int) -> None:
        """Keeps the first nodes, hop by hop and type by type."""
        left = most - sum(self.seeds.values())
        kept = dict(self.seeds)
        depth = max((len(hops) for hops in self.nodes.values()), default=0)
        for hop in range(1, depth):
            for kind, hops in self.nodes.items():
                taken = min(left, hops[hop] if hop < len(hops) else 0)
                kept[kind] += taken
                left -= taken
        self._keep(kept)

    def cut_edges(self, most: int) -> None:
        """Keeps the first edges, hop by hop and type by type, and what they reach."""
        left = most
        firsts: dict[Any, list[Tensor]] = {kind: [] for kind in self.ends}
        bounds = {
            kind: list(accumulate(hops, initial=0)) for kind, hops in self.edges.items()
        }
        depth = max((len(hops) for hops in self.edges.values()), default=0)
        for hop in range(depth):
            for kind, bound in bounds.items():
                at = self.chosen[kind]
                low, high = bound[hop : hop + 2] if hop + 1 < len(bound) else (0, 0)
                own = at[(at >= low) & (at < high)][:left]
                firsts[kind].append(own)
                left -= own.numel()
        self.chosen = {kind: torch.cat(parts) for kind, parts in firsts.items()}
        if self.given.num_sampled_edges is None:
            return  # all edges between nodes: they say nothing of who was found how
        kept = dict(self.seeds)
        for kind, (row, col) in self.ends.items():
            for name, part in ((kind[0], row), (kind[2], col)):
                used = part[self.chosen[kind]]
                if used.numel():
                    kept[name] = max(kept[name], int(used.max()) + 1)
        self._keep({name: min(kept[name], self.kept[name]) for name in kept})

    def _keep(self, kept: dict[str, int]) -> None:
        """Leaves out nodes from some number on, and their edges."""
        self.kept = kept
        for kind, (row, col) in self.ends.items():
            at = self.chosen[kind]
            inside = (row[at] < kept[kind[0]]) & (col[at] < kept[kind[2]])
            self.chosen[kind] = at[inside]

    def out(self) -> Any:
        made = copy.copy(self.given)
        made.node = self._plain({k: x[: self.kept[k]] for k, x in self.node.items()})
        for name in ("row", "col", "edge"):
            parts = self._named(getattr(self.given, name), ONLY)
            made_of = {k: x[self.chosen[k]] for k, x in parts.items() if x is not None}
            setattr(made, name, self._plain(made_of))
        if self.given.batch is not None:
            batch = self._named(self.given.batch, "")
            made.batch = self._plain({k: x[: self.kept[k]] for k, x in batch.items()})
        if self.given.num_sampled_nodes is not None:
            counts = {}
            for kind, hops in self.nodes.items():
                ends = accumulate(hops, initial=0)
                least = pairwise(min(end, self.kept[kind]) for end in ends)
                counts[kind] = [end - start for start, end in least]
            made.num_sampled_nodes = self._plain(counts)
        if self.given.num_sampled_edges is not None:
            counts = {k: self._counted(k, hops) for k, hops in self.edges.items()}
            made.num_sampled_edges = self._plain(counts)
        return made

    def _plain(self, parts: dict[Any, Any]) -> Any:
        return parts if self.typed else next(iter(parts.values()), None)

    def _counted(self, kind: Any, hops: list[int]) -> list[int]:
        chosen = self.chosen[kind]
        bounds = torch.tensor(list(accumulate(hops, initial=0)), device=chosen.device)
        return torch.searchsorted(chosen, bounds).diff().tolist()
