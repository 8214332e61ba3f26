"""Graphs: the compact adjacency, and the files that it is read from and written to."""

from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.graph.edgelist import EdgeList
from gttf_sampler.graph.io import (
    read_edge_list,
    read_edges,
    read_graph,
    write_embeddings,
    write_graph,
)

__all__ = [
    "CompactAdj",
    "EdgeList",
    "read_edge_list",
    "read_edges",
    "read_graph",
    "write_embeddings",
    "write_graph",
]
