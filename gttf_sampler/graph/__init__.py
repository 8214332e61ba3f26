"""Graphs: the compact adjacency, and the edge lists it is read from."""

from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.graph.edgelist import EdgeList, read_edge_list, write_embeddings

__all__ = ["CompactAdj", "EdgeList", "read_edge_list", "write_embeddings"]
