"""GAT that looks where it sends its walkers: the paper's GatBias, for PyG's GATConv.

Walkers go to a neighbour with probability q ∝ √a, a being the attention of the layer
as it is now; what they bring is multiplied by 1 / q, which is the other √a up to a
constant. The softmax of the sample then is, in expectation of numerator and
denominator, the softmax of the whole neighbourhood.
"""

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.nn import GATConv

from examples.reproduce.data import Dataset
from gttf_sampler import AttentionBias, CompactAdj


class Attention:
    """Scores of edges by a GATConv, and the hook that corrects for having used them.

    Args:
        convs: all layers of the model; the first one's attention is what guides.
        data: the graph.
        fanout: draws per node, with replacement.
    """

    def __init__(self, convs: list[GATConv], data: Dataset, fanout: int) -> None:
        self.conv, self.data, self.fanout = convs[0], data, fanout
        self.adj = CompactAdj.from_edge_index(data.edge_index, data.num_nodes)
        self.row = torch.arange(self.adj.num_rows).repeat_interleave(self.adj.degree)
        place = torch.arange(self.adj.num_edges)
        self.place = torch.empty_like(place)  # of the caller's edges in `adj.col`
        self.place[self.adj.original_edge(place)] = place
        self.bias = AttentionBias(self.score)
        self.weight: Tensor | None = None
        self.dropout = self.conv.dropout
        for conv in convs:
            conv.dropout = 0.0  # after the correction instead of before
            conv.register_edge_update_forward_hook(self.correct)

    @torch.no_grad()
    def refresh(self) -> None:
        """Reads the attention of the layer as it is now."""
        conv = self.conv
        x = conv.lin(self.data.features.rows()).view(-1, conv.heads, conv.out_channels)
        self.sends = (x * conv.att_src).sum(-1)  # [n, heads]
        self.receives = (x * conv.att_dst).sum(-1)
        root = self.score(self.row, self.adj.col.long()).sqrt()
        total = torch.zeros(self.adj.num_rows).scatter_add_(0, self.row, root)
        self.chance = root / total[self.row]  # q of every edge, as in `adj.col`

    def score(self, node: Tensor, neighbor: Tensor) -> Tensor:
        """exp of the mean logit of the heads; its normalisation cancels in a row."""
        logit = self.receives[node] + self.sends[neighbor]
        return F.leaky_relu(logit, self.conv.negative_slope).mean(1).clamp(max=30).exp()

    def use(self, e_id: Tensor | None, num_nodes: int = 0) -> None:
        """The edges of the batch to come; None for the whole graph."""
        self.weight = None
        if e_id is not None:
            drawn = 1 / (self.fanout * self.chance[self.place[e_id]])
            # the self-loops, which GATConv appends, are always there
            self.weight = torch.cat([drawn, torch.ones(num_nodes)])

    def correct(self, conv: GATConv, inputs: tuple, alpha: Tensor) -> Tensor:
        """The attention [e, heads] of a sample, as if of the whole neighbourhood."""
        if self.weight is not None:
            col = inputs[0][1]
            alpha = alpha * self.weight[:, None]
            total = alpha.new_zeros(int(col.max()) + 1, alpha.shape[1])
            total = total.index_add(0, col, alpha)
            alpha = alpha / total[col].clamp(min=1e-12)
        return F.dropout(alpha, self.dropout, conv.training)
