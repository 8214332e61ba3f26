"""Reached: the nodes of one type that a batch has come to, with their local ids."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gttf_sampler._backends.record import Batch, Plan
from gttf_sampler._backends.scratch import NodeTable, relabel
from gttf_sampler.backend import fast_backend


class Reached:
    """Nodes in the order of discovery; the position of each is its local id.

    Attributes:
        root: [n], the trees of the nodes, where trees are disjoint.
        hops: how many nodes were new at each hop, seeds first.
    """

    def __init__(
        self, plan: Plan, batch: Batch, kind: int, table: NodeTable | None
    ) -> None:
        seeds, first = batch.seeds[kind], batch.first_root[kind]
        self.size, self.table = plan.sizes[kind], table
        self.hops = [seeds.numel()]
        self.root = torch.arange(first, first + seeds.numel())
        self._node = seeds
        self._fast: Any = None
        fast = getattr(fast_backend(seeds.device), "Numbers", None)
        if table is not None and fast is not None:
            self._fast = fast(seeds, table, self.size, plan.most_edges(batch.seeds))

    @property
    def node(self) -> Tensor:
        """[n], the nodes by their ids in the whole graph."""
        return self._node if self._fast is None else self._fast.nodes()

    def frontier(self) -> tuple[int, Tensor, Tensor]:
        """The first local id of the last hop's new nodes, their ids and their roots."""
        stop = sum(self.hops)
        first = stop - self.hops[-1]
        return first, self.node[first:stop], self.root[first:stop]

    def number(self, reached: Tensor, trees: Tensor) -> Tensor:
        """Local ids of nodes [e] in trees [e], which a hop has reached in this order.

        They are written over `reached` if that saves time.
        """
        before = sum(self.hops)
        if self._fast is not None:
            local: Tensor = self._fast.number(reached)
            self.hops.append(self._fast.count - before)
            return local
        known = self._identity(self._node, self.root)
        local, new = relabel(known, self._identity(reached, trees), self.table)
        self._node = torch.cat([self._node, reached[new]])
        if self.table is None:
            self.root = torch.cat([self.root, trees[new]])
        self.hops.append(self._node.numel() - before)
        return local

    def _identity(self, node: Tensor, root: Tensor) -> Tensor:
        """What makes two nodes the same: the id, and the tree if those are disjoint."""
        return node if self.table is not None else root * self.size + node
