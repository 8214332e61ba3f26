"""Subgraph, HeteroSubgraph: sampled nodes and edges with local ids, for a model.

The padded ones have static shapes: what a CUDA graph replays and what a compiler has
seen once must not change them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops
from gttf_sampler.estimate import share
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.graph.tables import edges_inside

EdgeType = tuple[str, str, str]

T = TypeVar("T", "Subgraph", "HeteroSubgraph")
SCHEMES = ("unbiased", "paper", "sampled")


class GCNWeight(NamedTuple):
    """The entries of a normalised adjacency with self-loops.

    Attributes:
        edge: [e], one per edge of the subgraph.
        loop: [n], one per node: the weight of its self-loop.
    """

    edge: Tensor
    loop: Tensor


class _Drawable:
    """The protocol of subgraphs that can be drawn."""

    def draw(self, adj: Any = None) -> Any:
        """A matplotlib figure: hops in columns, types in colours, late edges dark.

        Args:
            adj: what was sampled from, per edge type if there are types, for the names
                of nodes and the times of edges.
        """
        from gttf_sampler.plot import subgraph

        return subgraph.draw(self, adj)

    def html(self, adj: Any = None, title: str = "") -> str:
        """The figure as one page that needs no other file, to zoom, drag and hover.

        Args:
            adj: as for `draw`.
            title: above the picture.
        """
        from gttf_sampler.plot import subgraph

        return subgraph.page(self, adj, title)


def _with_edges(found: T, row: Any, col: Any, edge: Any) -> T:
    """The nodes of a subgraph with other edges, which belong to no hop."""
    hops: Any = {"num_sampled_nodes": None, "num_sampled_edges": None}
    return replace(found, row=row, col=col, edge=edge, **hops)


@dataclass(frozen=True, eq=False, repr=False)
class Subgraph(_Drawable):
    """The rooted adjacency Ã of a batch, relabelled to 0 … n-1.

    Nodes are the seeds as given, then the others in the order of their discovery; edges
    are grouped by hop, and `col` never decreases.

    Attributes:
        node: int64 [n], global ids.
        row: int64 [e], the local id of the node an edge brings messages from.
        col: int64 [e], the local id of the node it brings them to.
        edge: int64 [e], the position of the edge in `adj.col`; `adj.original_edge`
            turns it into a position in the caller's edge_index.
        batch: int64 [n], the number of the seed whose tree a node belongs to; None if
            the trees share nodes.
        num_sampled_nodes: new nodes per hop, seeds first; None if edges were added.
        num_sampled_edges: edges per hop; None if edges were added.
    """

    node: Tensor
    row: Tensor
    col: Tensor
    edge: Tensor
    batch: Tensor | None = None
    num_sampled_nodes: list[int] | None = None
    num_sampled_edges: list[int] | None = None

    @property
    def num_nodes(self) -> int:
        """The number of nodes, repeated seeds included."""
        return self.node.numel()

    @property
    def num_edges(self) -> int:
        """The number of edges."""
        return self.edge.numel()

    @property
    def edge_index(self) -> Tensor:
        """int64 [2, e]: `row` above `col`."""
        return torch.stack([self.row, self.col])

    def bidirectional(self) -> Subgraph:
        """Adds the reverse of every edge; each pair once, sorted by (col, row).

        Both directions carry the position of the edge that was sampled.
        """
        row, col, at = ops.both_ways(self.row, self.col, self.num_nodes)
        return _with_edges(self, row, col, ops.take(self.edge, at))

    def induced(self, adj: CompactAdj) -> Subgraph:
        """All edges of `adj` between the nodes, sorted by `col`; within a tree only.

        Of a repeated seed every copy receives, and the first one sends.
        """
        _check.of_type("adj", adj, CompactAdj)
        _check.one_node_set("adj", adj.num_rows, adj.num_cols)
        _check.sampled_from(self.node, adj.num_rows)
        nodes = self.node, self.batch
        return _with_edges(self, *edges_inside(adj, nodes, nodes))

    def gcn_weight(
        self,
        adj: CompactAdj,
        scheme: str = "unbiased",
        factor: Tensor | None = None,
    ) -> GCNWeight:
        """The weights of D'^-½ (A + I) D'^-½ as seen through the sample, eq. (3).

        "unbiased" gives a self-loop 1 / (δ+1) and each of the |S| sampled neighbours
        δ / ((δ+1) |S|), times √(δ'ᵤ / δ'ᵥ): its expectation is the full matrix.
        "paper" gives all of them 1 / (|S|+1), as printed; its self-loops are too heavy
        wherever |S| < δ. "sampled" uses the degrees of the sample alone.

        Holds for uniform draws, or with a `factor` [e] of how many edges each one
        stands for, as of `LABORBias`; and for nodes whose neighbours were sampled:
        those of the last hop have none and are not meant to receive.
        """
        _check.one_of("scheme", scheme, SCHEMES)
        _check.of_type("adj", adj, CompactAdj)
        _check.one_node_set("adj", adj.num_rows, adj.num_cols)
        _check.sampled_from(self.node, adj.num_rows)
        sampled = torch.zeros(self.num_nodes, device=self.node.device)
        if scheme != "unbiased":
            ones = sampled.new_ones(()).expand(self.num_edges)
            sampled.scatter_add_(0, self.col, ones)  # |S| of every node
        if scheme == "sampled":
            scale = (sampled + 1).rsqrt()
            edge = ops.take(scale, self.row) * ops.take(scale, self.col)
            return GCNWeight(edge, scale.square())
        degree = adj.row_range(self.node)[1].to(sampled.dtype)
        if scheme == "unbiased":
            loop = 1 / (degree + 1)
            mean = loop if factor is not None else share(degree, self.col) * loop
        else:
            loop = mean = 1 / (sampled + 1)
        root = (degree + 1).sqrt()
        edge = ops.take(mean * root, self.col) / ops.take(root, self.row)
        if scheme == "unbiased" and factor is not None:
            edge = edge * _check.differentiable(
                "factor", factor, self.num_edges, "edge"
            )
        return GCNWeight(edge, loop)

    def to_sparse(self, weight: GCNWeight | Tensor | None = None) -> Tensor:
        """A sparse [n, n] matrix, receivers down and senders across.

        Entries are the sum of the weights of parallel edges, or their number; a
        `GCNWeight` puts its loops on the diagonal.
        """
        row, col = self.row, self.col
        if isinstance(weight, GCNWeight):
            loops = torch.arange(self.num_nodes, device=self.node.device)
            row, col = torch.cat([row, loops]), torch.cat([col, loops])
            _check.length("weight", weight.edge, self.num_edges, "edge")
            _check.length("weight", weight.loop, self.num_nodes, "node")
            value = torch.cat(weight)
        elif weight is None:
            value = torch.ones(self.num_edges, device=self.node.device)
        else:
            value = _check.differentiable("weight", weight, self.num_edges, "edge")
        size = (self.num_nodes, self.num_nodes)
        return torch.sparse_coo_tensor(
            torch.stack([col, row]),
            value,
            size,
            check_invariants=False,
            device=row.device,
        ).coalesce()

    def __repr__(self) -> str:
        hops = ""
        if self.num_sampled_nodes is not None:
            hops = f", hops {' + '.join(map(str, self.num_sampled_nodes))}"
        trees = "" if self.batch is None else ", disjoint"
        return (
            f"Subgraph({self.num_nodes:,} nodes{hops}, {self.num_edges:,} edges{trees} "
            f"on {self.node.device})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class HeteroSubgraph(_Drawable):
    """A `Subgraph` with types; types that were never reached are empty.

    Attributes:
        node: per node type int64 [n], global ids.
        row: per edge type int64 [e], local ids in the source type.
        col: per edge type int64 [e], local ids in the target type.
        edge: per edge type int64 [e], positions in that relation's `adj.col`.
        batch: per node type int64 [n], the number of the seed whose tree a node belongs
            to, counted over all types; None if the trees share nodes.
        num_sampled_nodes: per node type, new nodes per hop, seeds first; None if edges
            were added.
        num_sampled_edges: per edge type, edges per hop; None if edges were added.
    """

    node: dict[str, Tensor]
    row: dict[EdgeType, Tensor]
    col: dict[EdgeType, Tensor]
    edge: dict[EdgeType, Tensor]
    batch: dict[str, Tensor] | None
    num_sampled_nodes: dict[str, list[int]] | None
    num_sampled_edges: dict[EdgeType, list[int]] | None

    def induced(self, adjs: Mapping[EdgeType, CompactAdj]) -> HeteroSubgraph:
        """All edges of `adjs` between the nodes, sorted by `col`; within a tree only.

        Of a repeated seed every copy receives, and the first one sends.
        """
        _check.mapping("adjs", adjs)
        sizes = _check.node_types(adjs)
        if set(adjs) != set(self.edge):
            rule = "must hold the edge types that were sampled"
            _check.fail("adjs", rule, list(adjs))
        for name, node in self.node.items():
            _check.sampled_from(node, sizes[name])
        tree = self.batch or dict.fromkeys(self.node)
        nodes = {name: (node, tree[name]) for name, node in self.node.items()}
        found = {
            kind: edges_inside(adj, nodes[kind[2]], nodes[kind[0]])
            for kind, adj in adjs.items()
        }
        row, col, edge = ({k: f[part] for k, f in found.items()} for part in range(3))
        return _with_edges(self, row, col, edge)

    def __repr__(self) -> str:
        nodes = ", ".join(f"{name}: {x.numel():,}" for name, x in self.node.items())
        edges = ", ".join(
            f"{'→'.join(name)}: {x.numel():,}" for name, x in self.edge.items()
        )
        return f"HeteroSubgraph(nodes {{{nodes}}}, edges {{{edges}}})"


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
        nodes = ", ".join(f"{name}: {x.numel() - 1:,}" for name, x in self.node.items())
        edges = ", ".join(
            f"{'→'.join(name)}: {x.numel():,}" for name, x in self.edge.items()
        )
        return f"PaddedHeteroSubgraph(room for {{{nodes}}} nodes, {{{edges}}} edges)"


def _mask(values: Tensor, counts: Tensor) -> Tensor:
    """True for places among the first ones, of which there are so many."""
    return torch.arange(values.numel(), device=values.device) < counts.sum()
