"""Weights with which PyG's own normalisation of a sample is the unbiased one."""

import torch
from torch_geometric.data import Data

from gttf_sampler import CompactAdj


class HostWeights:
    """Rewrites `edge_weight` of `GTTFLoader(normalize="unbiased")` for any layer.

    SGConv and others always normalise the weights w' they get, to
    w'ᵤᵥ / √(Σᵤ Σᵥ), Σ being sums over incoming edges. With w'ᵤᵥ = wᵤᵥ √(δ'ᵤ δ'ᵥ) and
    δ' = δ + 1 all sums are δ', as the weights of `Subgraph.gcn_weight` are those of a
    stochastic matrix between √δ'; so wᵤᵥ comes out again. A node that was not expanded
    has its loop alone, which then weighs δ'.
    """

    def __init__(self, adj: CompactAdj) -> None:
        self.degree = adj.degree.float() + 1

    def __call__(self, batch: Data) -> Data:
        row, col = batch.edge_index
        degree = self.degree[batch.n_id]
        weight = batch.edge_weight * (degree[row] * degree[col]).sqrt()
        loop = batch.e_id == -1
        weight[loop] = 0
        rest = torch.zeros_like(degree).scatter_add_(0, col, weight)
        weight[loop] = (degree - rest)[col[loop]]
        batch.edge_weight = weight
        return batch


def close_leaves(batch: Data) -> Data:
    """Gives nodes that were not expanded a loop of weight 1.

    What comes in from the neighbours of such a node is not there, and its loop weighs
    1 / δ' alone: layer by layer it would fade. It matters for models of more layers
    than the sample has hops, as GCNII, and where all nodes are normalised together.
    """
    source, target = batch.edge_index
    incoming = torch.bincount(target, minlength=batch.num_nodes)
    alone = (source == target) & (incoming[target] == 1)
    batch.edge_weight = batch.edge_weight.masked_fill(alone, 1.0)
    return batch
