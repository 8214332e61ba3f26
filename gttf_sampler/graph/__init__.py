"""Graphs: the compact adjacency, and the files that it is read from and written to."""

from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.graph.edgelist import EdgeList, read_edge_list
from gttf_sampler.graph.files import read_edges, read_graph
from gttf_sampler.graph.write import write_embeddings, write_graph

__all__ = [
    "CompactAdj",
    "EdgeList",
    "read_edge_list",
    "read_edges",
    "read_graph",
    "write_embeddings",
    "write_graph",
]
