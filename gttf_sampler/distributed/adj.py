"""PartitionedAdj: a relation of a partitioned graph, in the place of a CompactAdj."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.record import Batch, Law, Plan, Rooted
from gttf_sampler._backends.scratch import ScratchPool
from gttf_sampler.distributed.hops import sample_hops
from gttf_sampler.distributed.query import edges_between
from gttf_sampler.distributed.walk import walk
from gttf_sampler.graph import names, tables
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.graph.remote import RemoteRows
from gttf_sampler.random import Key
from gttf_sampler.subgraph import EdgeType

if TYPE_CHECKING:
    from gttf_sampler.distributed.graph import PartitionedGraph


class PartitionedAdj(RemoteRows):
    """A graph whose rows are in several processes, with the batches of one machine.

    >>> import tempfile
    >>> from gttf_sampler import CompactAdj, sample_rooted
    >>> from gttf_sampler.distributed import PartitionedAdj, partition
    >>> star = CompactAdj.from_edge_index([[1, 2, 3, 4], [0, 0, 0, 2]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     facts = partition(star, folder, parts=1)
    ...     adj = PartitionedAdj.open(folder)
    >>> sample_rooted(adj, seeds=[0], fanouts=[-1, -1])
    Subgraph(5 nodes, hops 1 + 3 + 1, 4 edges on cpu)

    `sample_rooted` takes it where it takes a `CompactAdj`, also one per edge type, and
    so does `traverse`. Biases must be such that they can be told as data: weights,
    times and hidden edges can, functions and node2vec need the rows here.

    Attributes:
        graph: of which it is a relation.
        edge_type: which one.
        local: the rows of this process, with columns of the whole graph.
        num_rows, num_cols, num_edges, max_degree, direction: of the whole graph.
    """

    def __init__(self, graph: PartitionedGraph, edge_type: EdgeType) -> None:
        self.graph, self.edge_type = graph, edge_type
        self.local: CompactAdj = graph.part.relations[edge_type].adj
        header = graph.part.header
        entry = next(r for r in header["relations"] if tuple(r["type"]) == edge_type)
        self.num_rows = graph.part.books[edge_type[2]].num_nodes
        self.num_cols = graph.part.books[edge_type[0]].num_nodes
        self.num_edges, self.max_degree = entry["num_edges"], entry["max_degree"]
        self.direction: str = entry["direction"]
        self.scratch = ScratchPool()

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], group: Any = None, **options: Any
    ) -> PartitionedAdj:
        """Opens a graph without types; see `PartitionedGraph.open`, and close that."""
        from gttf_sampler.distributed.graph import PartitionedGraph

        return PartitionedGraph.open(path, group, **options).adj

    def seen_with(self, *, weights: bool, times: bool) -> PartitionedAdj:
        """The same relation, as if edges had no weights or no times unless wanted."""
        local = self.local
        given = {"edge_weight": weights, "edge_time": times}
        unwanted: dict[str, Any] = {
            name: None
            for name, wanted in given.items()
            if not wanted and getattr(local, name) is not None
        }
        if not unwanted:
            return self
        found = copy.copy(self)
        found.local = replace(local, **unwanted).trusted()
        return found

    def edges_between(self, node: Any, neighbor: Any) -> tuple[Tensor, Tensor]:
        """All edges of row node[i] to neighbor[i]; see `CompactAdj.edges_between`.

        Their positions are those in the whole graph.
        """
        here, there = _check.pairs(("node", node), ("neighbor", neighbor), self.device)
        here, there = (x.reshape(-1).to(torch.int64) for x in (here, there))
        _check.within("node", here, self.num_rows)
        _check.within("neighbor", there, self.num_cols)
        return edges_between(self.graph, self.graph.number(self), here, there)

    @property
    def node_id(self) -> names.Array | None:
        """The ids [n] that nodes of the rows have elsewhere; None if they have none."""
        return self.graph.node_id(self.edge_type[2])

    @property
    def edge_weight(self) -> Tensor | None:
        """The weights of the rows that are here; None if edges have none."""
        return self.local.edge_weight

    @property
    def edge_time(self) -> Tensor | None:
        """The times of the rows that are here; None if edges have none."""
        return self.local.edge_time

    def close(self) -> None:
        """Answers the others until all are done, then leaves them."""
        self.graph.close()

    def told_as_data(self, bias: Any, trees: int | None = None) -> Law:
        """The law of a bias; refuses one that has to see the rows."""
        law: Law | None = bias.law(self.local)
        if law is None:
            rule = (
                "must be told as data on a partitioned graph (weights, times, hidden "
                "edges), where others cannot see the rows"
            )
            cure = "open the whole graph as a CompactAdj"
            _check.fail("bias", rule, bias, cure)
        if (
            law.cumulative_weight is not None
            and law.cumulative_weight is not tables.weight_table(self.local)
        ):
            rule = "must be that of EdgeWeightBias().law(adj) on a partitioned graph"
            _check.fail("law.cumulative_weight", rule, law.cumulative_weight)
        if trees is not None:
            _check.law(law._replace(excluded_edges=None), self.local.num_edges, trees)
            _check.law(Law(excluded_edges=law.excluded_edges), self.num_edges, trees)
        return law

    def sample(self, plan: Plan, batch: Batch) -> Rooted:
        """A batch of rooted sampling, wherever the rows are."""
        return sample_hops(self.graph, plan, batch)

    def walk(
        self,
        seeds: Tensor,
        fanouts: Sequence[int],
        bias: Any,
        replace: bool,
        key: Key,
        stays: bool,
    ) -> list[tuple[Tensor, Tensor]]:
        """(edges, nodes) [w, f] of every depth of a forest."""
        weighted = False
        if bias is not None:
            law = self.told_as_data(bias)
            weighted = law.cumulative_weight is not None
            if law != Law(
                cumulative_weight=law.cumulative_weight,
                has_zero_weight=law.has_zero_weight,
            ):
                rule = "must be None or EdgeWeightBias() in 'traverse' on this graph"
                _check.fail("bias", rule, bias, "'sample_rooted' takes it")
        how = weighted, replace, key, stays
        return walk(self.graph, self.graph.number(self), seeds, fanouts, *how)

    def __repr__(self) -> str:
        """Says what a person wants to know first."""
        nodes = f"{self.num_rows:,} nodes"
        if self.num_rows != self.num_cols:
            nodes = f"{self.num_rows:,} × {self.num_cols:,} nodes"
        here = f"{self.local.num_rows:,} rows and {self.local.num_edges:,} of them here"
        return f"PartitionedAdj({nodes}, {self.num_edges:,} edges, {here})"
