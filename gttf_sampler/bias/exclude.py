"""ExcludeBias: some edges are as if they were not there."""

from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends.record import Law
from gttf_sampler.bias.base import Bias
from gttf_sampler.draw import Neighborhood
from gttf_sampler.graph.compact import CompactAdj


class ExcludeBias(Bias):
    """Uniform over the neighbours, as if the given edges had been taken out.

    >>> from gttf_sampler import CompactAdj, ExcludeBias, sample_rooted
    >>> adj = CompactAdj.from_edge_index([[1, 2, 3], [0, 0, 0]])
    >>> which, edge = adj.edges_between([0], [2])  # the edge 2 → 0
    >>> sample_rooted(adj, [0], [2], bias=ExcludeBias(edge)).node.tolist()
    [0, 1, 3]

    They are left out before anything is drawn, so that a node still gets its full
    fanout: what a link predictor needs to hide the edges it is asked about.

    Args:
        edge: [k], positions in `adj.col`, in any order; `adj.edges_between` finds them.
    """

    takes_whole_rows = True

    def __init__(self, edge: Any) -> None:
        edge = _check.integers("edge", edge).to(torch.int64)
        self.edge: Tensor = edge.unique()  # sorted
        self._ends = self.edge[[0, -1]].cpu() if self.edge.numel() else self.edge[:0]

    def begin(self, adj: CompactAdj, seeds: Tensor) -> None:
        """Checks that the positions are positions in this graph."""
        _check.within("edge", self._ends, adj.num_edges, "edges")  # without waiting

    def __call__(
        self, path: Tensor, node: Tensor, neighborhood: Neighborhood
    ) -> Tensor:
        """Zero for the excluded edges, one for the others."""
        edge = neighborhood.edge
        own = self.edge.to(edge.device)
        first = torch.searchsorted(own, edge)
        found = torch.searchsorted(own, edge, right=True) > first
        return (~found).to(torch.float64)

    def law(self, adj: CompactAdj) -> Law:
        """The edges that are not there; they are stepped over in O(log k)."""
        return Law(excluded_edges=self.edge)

    def __repr__(self) -> str:
        """How much it hides."""
        return f"ExcludeBias({self.edge.numel()} edges)"
