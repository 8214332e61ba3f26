"""NegativeSampling: negatives among given nodes, and never a true edge."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric import sampler as theirs

from gttf_pyg._check import as_pairs, ids
from gttf_sampler._check import as_dense, fail


class NegativeSampling(theirs.NegativeSampling):
    """PyG's `NegativeSampling`, among given nodes and without true edges.

    >>> import torch
    >>> NegativeSampling("triplet", dst_nodes=torch.tensor([3, 4]), avoid_edges=True)
    NegativeSampling('triplet', 1)

    For `neg_sampling` of our loaders and samplers; PyG's issue 9152 asks for it. Of all
    that is allowed, every node, or pair of nodes, is as likely as its weights say.

    Args:
        mode: and everything up to `dst_weight`: see PyG's class of this name.
        src_nodes: which nodes may be sources of negatives, ids or a mask; None for all.
        dst_nodes: the same for their targets.
        avoid_edges: True draws no pair that is an edge of the graph, or a positive of
            the batch; pairs [2, k] are avoided as well.
    """

    def __init__(
        self,
        mode: Any,
        amount: float = 1,
        src_weight: Tensor | None = None,
        dst_weight: Tensor | None = None,
        *,
        src_nodes: Any = None,
        dst_nodes: Any = None,
        avoid_edges: Any = False,
    ) -> None:
        super().__init__(mode, amount, src_weight, dst_weight)
        self.src_nodes = _named("src_nodes", src_nodes)
        self.dst_nodes = _named("dst_nodes", dst_nodes)
        pairs = None
        if not isinstance(avoid_edges, bool):
            pairs = as_pairs("avoid_edges", as_dense("avoid_edges", avoid_edges)).long()
        self.avoid_edges, self.pairs = avoid_edges is not False, pairs
        if self.is_triplet() and self.src_nodes is not None:
            rule = "must be None for triplets, whose sources are the seeds'"
            fail("src_nodes", rule, f"{self.src_nodes.numel()} nodes")

    def __repr__(self) -> str:
        """The mode and the amount."""
        return f"NegativeSampling({self.mode.value!r}, {self.amount})"


def _named(name: str, nodes: Any) -> Tensor | None:
    """Nodes by their ids, from ids or a mask."""
    if nodes is None:
        return None
    found: Tensor = as_dense(name, nodes)
    if found.dtype == torch.bool and found.dim() == 1:
        found = found.nonzero().view(-1)
    found = ids(name, found).cpu().unique()
    if found.numel() == 0:
        fail(name, "must hold a node", "none")
    return found
