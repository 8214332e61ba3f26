"""A maximum of nodes or edges per batch: what comes last is left out."""

import copy
from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import SamplerOutput

from gttf_sampler._check import count, fail, size

KEY = ("", "", "")


def checked_limit(name: str, value: Any) -> int | None:
    """`value`, which must be a number, or None; a batch may have no edges."""
    if value is None:
        return None
    return size(name, value) if name == "max_edges" else count(name, value)


def limited(
    out: Any, seeds: Mapping[str, int], max_nodes: int | None, max_edges: int | None
) -> Any:
    """`out` without the nodes and edges that are too many.

    Nodes come hop by hop in the order of their discovery, and edges in that of draws:
    what is left is what a sampler would have found that stopped there. Seeds stay.

    Args:
        out: of a sampler.
        seeds: how many nodes of every type are seeds.
        max_nodes: of all types together.
        max_edges: of all types together.
    """
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
            kind: (row, self._named(out.col, KEY)[kind])
            for kind, row in self._named(out.row, KEY).items()
        }
        self.seeds = {name: seeds.get(name, 0) for name in self.node}
        self.kept = {name: node.numel() for name, node in self.node.items()}
        self.nodes = self._hops(out.num_sampled_nodes, self.kept, "")
        sizes = {kind: row.numel() for kind, (row, _) in self.ends.items()}
        self.edges = self._hops(out.num_sampled_edges, sizes, KEY)
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
        if key == KEY:
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
            names = (kind[0], kind[2]) if self.typed else ("", "")
            for name, part in zip(names, (row, col), strict=True):
                used = part[self.chosen[kind]]
                if used.numel():
                    kept[name] = max(kept[name], int(used.max()) + 1)
        self._keep({name: min(kept[name], self.kept[name]) for name in kept})

    def _keep(self, kept: dict[str, int]) -> None:
        """Leaves out nodes from some number on, and their edges."""
        self.kept = kept
        for kind, (row, col) in self.ends.items():
            by, to = (kind[0], kind[2]) if self.typed else ("", "")
            at = self.chosen[kind]
            self.chosen[kind] = at[(row[at] < kept[by]) & (col[at] < kept[to])]

    def out(self) -> Any:
        """The sample again."""
        made = copy.copy(self.given)
        made.node = self._plain({k: x[: self.kept[k]] for k, x in self.node.items()})
        for name in ("row", "col", "edge"):
            parts = self._named(getattr(self.given, name), KEY)
            made_of = {k: x[self.chosen[k]] for k, x in parts.items() if x is not None}
            setattr(made, name, self._plain(made_of))
        if self.given.batch is not None:
            batch = self._named(self.given.batch, "")
            made.batch = self._plain({k: x[: self.kept[k]] for k, x in batch.items()})
        if self.given.num_sampled_nodes is not None:
            counts = {k: _cut(hops, self.kept[k]) for k, hops in self.nodes.items()}
            made.num_sampled_nodes = self._plain(counts)
        if self.given.num_sampled_edges is not None:
            counts = {k: self._counted(k, hops) for k, hops in self.edges.items()}
            made.num_sampled_edges = self._plain(counts)
        return made

    def _plain(self, parts: dict[Any, Any]) -> Any:
        return parts if self.typed else next(iter(parts.values()), None)

    def _counted(self, kind: Any, hops: list[int]) -> list[int]:
        """Edges per hop that are left."""
        chosen = self.chosen[kind]
        bounds = torch.tensor(list(accumulate(hops, initial=0)), device=chosen.device)
        return torch.searchsorted(chosen, bounds).diff().tolist()


def _cut(hops: list[int], most: int) -> list[int]:
    """Counts of which no more than `most` are left in all."""
    ends = [min(end, most) for end in accumulate(hops, initial=0)]
    return [end - start for start, end in pairwise(ends)]
