"""HeteroSubgraph: a Subgraph with several types of nodes and edges."""

from dataclasses import dataclass

from torch import Tensor

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
        num_sampled_nodes: per node type, new nodes per hop, seeds first.
        num_sampled_edges: per edge type, edges per hop.
    """

    node: dict[str, Tensor]
    row: dict[EdgeType, Tensor]
    col: dict[EdgeType, Tensor]
    edge: dict[EdgeType, Tensor]
    batch: dict[str, Tensor] | None
    num_sampled_nodes: dict[str, list[int]]
    num_sampled_edges: dict[EdgeType, list[int]]

    def __repr__(self) -> str:
        """Says how many nodes and edges of each type were sampled."""
        nodes = ", ".join(f"{name}: {x.numel():,}" for name, x in self.node.items())
        edges = ", ".join(
            f"{'→'.join(name)}: {x.numel():,}" for name, x in self.edge.items()
        )
        return f"HeteroSubgraph(nodes {{{nodes}}}, edges {{{edges}}})"
