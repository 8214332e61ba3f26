"""sample_budget(): so many nodes of every type, by how well the batch knows them.

HGSampling, Algorithm 1 and 2 of the Heterogeneous Graph Transformer (Hu et al., 2020),
as layer sampling over several types: whoever has been sampled shares one unit among its
neighbours, and what a node was given in all, squared, is how likely it is to be next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check, random
from gttf_sampler._backends import ops
from gttf_sampler.draw import draw_by_mass
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.rooted.sampler import RootedSampler
from gttf_sampler.subgraph import EdgeType, HeteroSubgraph

UNIT = 1 << 40  # shares are integers, whose sums do not depend on their order


@dataclass
class Budget:
    """The budget of the nodes of one type, without those that were sampled.

    Attributes:
        node: [c], ascending.
        given: int64 [c], in parts of a `UNIT`.
    """

    node: Tensor
    given: Tensor

    def add(self, node: Tensor, share: Tensor) -> None:
        """Gives nodes [k], which may repeat, their shares [k]."""
        every = torch.cat([self.node, node])
        self.node, place = every.unique(return_inverse=True)
        given = torch.zeros_like(self.node)
        self.given = given.scatter_add_(0, place, torch.cat([self.given, share]))

    def leave_out(self, node: Tensor) -> None:
        """Takes nodes away that need no budget any more."""
        kept = (~torch.isin(self.node, node)).nonzero().view(-1)
        self.node, self.given = self.node[kept], self.given[kept]

    def draw(self, count: int, key: random.Key) -> Tensor:
        """At most `count` different nodes, in proportion to the squared budget."""
        count = min(count, self.node.numel())
        if count == 0:
            return self.node[:0]
        mass = (self.given.to(torch.float64) / UNIT).square()
        return self.node[draw_by_mass(mass, count, False, key)]


class BudgetSampler:
    """Batches of `sample_budget`, of which a graph needs one sampler.

    Args:
        adjs: see `sample_budget`; so are the others.
        num_samples: nodes per type and step.
        max_neighbors: how many neighbours share a unit.
    """

    def __init__(
        self,
        adjs: Mapping[EdgeType, CompactAdj],
        num_samples: Sequence[int] | Mapping[str, Sequence[int]],
        max_neighbors: int | None = None,
    ) -> None:
        _check.mapping("adjs", adjs)
        self.num_samples = _counts(num_samples, list(_check.node_types(adjs)))
        self.steps = len(next(iter(self.num_samples.values())))
        self.adjs, self.most = dict(adjs), -1
        if max_neighbors is not None:
            self.most = _check.size("max_neighbors", max_neighbors)
            if self.most == 0:
                _check.fail("max_neighbors", "must be positive or None", max_neighbors)
        self._reach = RootedSampler(self.adjs, [self.most])

    def __call__(
        self, seeds: Mapping[str, Any], generator: random.Randomness = None
    ) -> HeteroSubgraph:
        """The batch of some seeds."""
        _check.mapping("seeds", seeds)
        starts, _ = self._reach.starts(seeds, checked=True)
        node = dict(zip(self._reach.node_types, starts, strict=True))
        device = self._reach.plan.device
        none = torch.empty(0, dtype=torch.int64, device=device)
        key = random.new_key(_check.randomness(generator), device, random.ROOTED)
        counts = {name: [part.numel()] for name, part in node.items()}
        budget = {name: Budget(none, none) for name in node}
        new = {name: part.unique() for name, part in node.items()}
        for step in range(self.steps):
            step_key = random.fold(key, step)
            self._share(new, budget, random.fold(step_key, 0))
            for number, name in enumerate(node):
                budget[name].leave_out(node[name])
                own = random.fold(step_key, number + 1)
                drawn = budget[name].draw(self.num_samples[name][step], own)
                new[name], counts[name] = drawn, [*counts[name], drawn.numel()]
                node[name] = torch.cat([node[name], drawn])
        blank = dict.fromkeys(self.adjs, none)
        found = HeteroSubgraph(node, blank, blank, blank, None, counts, None)
        return found.induced(self.adjs)

    def _share(
        self, new: dict[str, Tensor], budget: dict[str, Budget], key: random.Key
    ) -> None:
        """Shares a unit of every new node among its neighbours, per relation."""
        around: Any = self._reach(new, generator=int(key))
        for kind, adj in self.adjs.items():
            by, _, to = kind
            row, col = around.row[kind], around.col[kind]
            degree = adj.row_range(around.node[to])[1]
            if self.most > 0:
                degree = degree.clamp(max=self.most)
            share = UNIT // ops.take(degree, col)
            budget[by].add(ops.take(around.node[by], row), share)


def sample_budget(
    adjs: Mapping[EdgeType, CompactAdj],
    seeds: Mapping[str, Any],
    num_samples: Sequence[int] | Mapping[str, Sequence[int]],
    *,
    max_neighbors: int | None = None,
    generator: random.Randomness = None,
) -> HeteroSubgraph:
    """Seeds, `num_samples` more nodes of every type per step, all edges among them.

    >>> from gttf_sampler import CompactAdj
    >>> from gttf_sampler.rooted import sample_budget
    >>> wrote = CompactAdj.from_edge_index([[0, 1, 2], [0, 0, 1]], (3, 2))
    >>> adjs = {("author", "wrote", "paper"): wrote}
    >>> sample_budget(adjs, {"paper": [0]}, [1], generator=0).node["author"].numel()
    1

    In every step each node that was new in the last one, and each relation that leads
    to it, shares one unit among its neighbours. Of those that were not sampled yet, a
    type draws without replacement, in proportion to the square of what they hold.

    Args:
        adjs: the rows of every relation, by edge type (source, relation, target).
        seeds: int ids per node type.
        num_samples: nodes to draw per step, one list for all node types or one each.
        max_neighbors: let only so many neighbours, drawn at random, share a unit where
            a row has more; None asks all of them.
        generator: a torch.Generator, an integer, or None for torch's default generator.
    """
    sampler = BudgetSampler(adjs, num_samples, max_neighbors)
    return sampler(seeds, generator)


def _counts(given: Any, names: list[str]) -> dict[str, list[int]]:
    """Nodes per step of every type; lists must be of one length."""
    typed = given if isinstance(given, Mapping) else dict.fromkeys(names, given)
    _check.known_types("num_samples", typed, names, "node types")
    found: dict[str, list[int]] = {}
    for name in names:
        counts = typed.get(name)
        if not isinstance(counts, list | tuple | None):
            rule = "must hold lists of integers"
            _check.mistyped("num_samples", rule, _check.shown(counts))
        found[name] = [_check.size("num_samples", n) for n in counts or ()]
    steps = max(map(len, found.values()), default=0)
    for name, counts in found.items():
        if name in typed and len(counts) != steps:
            rule = f"must have as many steps for all node types, {steps}"
            _check.fail("num_samples", rule, f"{len(counts)} for {name!r}")
    return {name: counts or [0] * steps for name, counts in found.items()}
