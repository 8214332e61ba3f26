"""PaddedSubgraph, PaddedHeteroSubgraph: samples of static shapes.

What a CUDA graph replays and what a compiler has seen once must not change its shapes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.subgraph import EdgeType, GCNWeight, HeteroSubgraph, Subgraph


@dataclass(frozen=True, eq=False, repr=False)
class PaddedSubgraph:
    """A `Subgraph` whose arrays are as long as those of any batch of its size.

    Every array starts with what the `Subgraph` of the same draws has. The last node is
    a dummy; edges beyond those that were sampled lead from it to it, so that a message
    passing layer leaves all nodes as they are in the `Subgraph`. Seeds come first and
    there are as many as were given: a loss over `out[:len(seeds)]`, and its gradients,
    are those of the `Subgraph`. Layers that look at all nodes at once, like batch
    normalisation, have to be given `node_mask`.

    Attributes:
        node: int64 [N + 1], global ids; 0 in places that are left.
        row: int64 [E], the local id of the node an edge brings messages from, or N.
        col: int64 [E], the local id of the node it brings them to, or N; never
            decreases.
        edge: int64 [E], the position of the edge in `adj.col`; 0 in places that are
            left.
        batch: int64 [N + 1], the number of the seed whose tree a node belongs to; None
            if the trees share nodes.
        num_sampled_nodes: int64 [hops + 1], new nodes per hop, seeds first.
        num_sampled_edges: int64 [hops], edges per hop.
    """

    node: Tensor
    row: Tensor
    col: Tensor
    edge: Tensor
    batch: Tensor | None
    num_sampled_nodes: Tensor
    num_sampled_edges: Tensor

    @property
    def node_mask(self) -> Tensor:
        """Bool [N + 1]: which nodes were sampled."""
        return _mask(self.node, self.num_sampled_nodes)

    @property
    def edge_mask(self) -> Tensor:
        """Bool [E]: which edges were sampled."""
        return _mask(self.edge, self.num_sampled_edges)

    @property
    def edge_index(self) -> Tensor:
        """int64 [2, E]: `row` above `col`."""
        return torch.stack([self.row, self.col])

    def gcn_weight(self, adj: CompactAdj, scheme: str = "unbiased") -> GCNWeight:
        """`Subgraph.gcn_weight`; what is left in both arrays belongs to the dummy."""
        whole = Subgraph(self.node, self.row, self.col, self.edge)
        return whole.gcn_weight(adj, scheme)

    def unpadded(self) -> Subgraph:
        """The `Subgraph`; waits for the device."""
        nodes, edges = self.num_sampled_nodes.tolist(), self.num_sampled_edges.tolist()
        n, e = sum(nodes), sum(edges)
        return Subgraph(
            *(self.node[:n], self.row[:e], self.col[:e], self.edge[:e]),
            None if self.batch is None else self.batch[:n],
            *(nodes, edges),
        )

    def __repr__(self) -> str:
        """Says how much there is room for; what was sampled only the device knows."""
        trees = "" if self.batch is None else ", disjoint"
        return (
            f"PaddedSubgraph(room for {self.node.numel() - 1:,} nodes and "
            f"{self.edge.numel():,} edges{trees} on {self.node.device})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class PaddedHeteroSubgraph:
    """A `PaddedSubgraph` with types; every node type has a dummy of its own.

    Attributes:
        node: per node type int64 [N + 1], global ids.
        row: per edge type int64 [E], local ids in the source type.
        col: per edge type int64 [E], local ids in the target type.
        edge: per edge type int64 [E], positions in that relation's `adj.col`.
        batch: per node type int64 [N + 1], the number of the seed whose tree a node
            belongs to, counted over all types; None if the trees share nodes.
        num_sampled_nodes: per node type int64 [hops + 1], new nodes per hop.
        num_sampled_edges: per edge type int64 [hops], edges per hop.
    """

    node: dict[str, Tensor]
    row: dict[EdgeType, Tensor]
    col: dict[EdgeType, Tensor]
    edge: dict[EdgeType, Tensor]
    batch: dict[str, Tensor] | None
    num_sampled_nodes: dict[str, Tensor]
    num_sampled_edges: dict[EdgeType, Tensor]

    @property
    def node_mask(self) -> dict[str, Tensor]:
        """Per node type bool [N + 1]: which nodes were sampled."""
        counts = self.num_sampled_nodes
        return {name: _mask(node, counts[name]) for name, node in self.node.items()}

    @property
    def edge_mask(self) -> dict[EdgeType, Tensor]:
        """Per edge type bool [E]: which edges were sampled."""
        counts = self.num_sampled_edges
        return {kind: _mask(edge, counts[kind]) for kind, edge in self.edge.items()}

    def unpadded(self) -> HeteroSubgraph:
        """The `HeteroSubgraph`; waits for the device."""
        nodes = {name: count.tolist() for name, count in self.num_sampled_nodes.items()}
        edges = {kind: count.tolist() for kind, count in self.num_sampled_edges.items()}
        row, col, edge = (
            {kind: values[: sum(edges[kind])] for kind, values in part.items()}
            for part in (self.row, self.col, self.edge)
        )
        node, batch = (
            None
            if part is None
            else {name: values[: sum(nodes[name])] for name, values in part.items()}
            for part in (self.node, self.batch)
        )
        return HeteroSubgraph(node or {}, row, col, edge, batch, nodes, edges)

    def __repr__(self) -> str:
        """Says how many nodes and edges of each type there is room for."""
        nodes = ", ".join(f"{name}: {x.numel() - 1:,}" for name, x in self.node.items())
        edges = ", ".join(
            f"{'→'.join(name)}: {x.numel():,}" for name, x in self.edge.items()
        )
        return f"PaddedHeteroSubgraph(room for {{{nodes}}} nodes, {{{edges}}} edges)"


def _mask(values: Tensor, counts: Tensor) -> Tensor:
    """True for places among the first ones, of which there are so many."""
    return torch.arange(values.numel(), device=values.device) < counts.sum()
