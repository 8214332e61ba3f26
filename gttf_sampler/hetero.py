"""HeteroSubgraph: a Subgraph with several types of nodes and edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._induced import edges_inside
from gttf_sampler.compact import CompactAdj

EdgeType = tuple[str, str, str]


@dataclass(frozen=True, eq=False, repr=False)
class HeteroSubgraph:
    """What `Subgraph` has, per type; types that were never reached are empty.

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
        return replace(
            self,
            row=row,
            col=col,
            edge=edge,
            num_sampled_nodes=None,
            num_sampled_edges=None,
        )

    def __repr__(self) -> str:
        """Says how many nodes and edges of each type were sampled."""
        nodes = ", ".join(f"{name}: {x.numel():,}" for name, x in self.node.items())
        edges = ", ".join(
            f"{'→'.join(name)}: {x.numel():,}" for name, x in self.edge.items()
        )
        return f"HeteroSubgraph(nodes {{{nodes}}}, edges {{{edges}}})"
