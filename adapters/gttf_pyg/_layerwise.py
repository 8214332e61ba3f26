"""One sample per layer, in one subgraph: every layer draws its neighbours anew."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gttf_sampler import BiasFn, CompactAdj, Subgraph, random, sample_rooted


def sample_layers(
    adj: CompactAdj,
    seeds: Tensor,
    fanouts: Sequence[int],
    bias: BiasFn | None,
    replace: bool,
    key: int,
) -> Subgraph:
    """The samples of all layers, that of the last layer first, in one subgraph.

    Hop h has edges into all nodes that the hops before it have reached, where a sample
    that layers share has edges into new nodes only. The draws of two layers are
    independent, so that products of their matrices keep their expectation.
    """
    root = random.new_key(key, adj.device, random.BATCH)
    node, parts = seeds.to(adj.device), []
    nodes, edges = [node.numel()], []
    for layer, fanout in enumerate(fanouts):
        drawn = sample_rooted(
            adj,
            node,
            [fanout],
            bias=bias,
            replace=replace,
            generator=int(random.fold(root, layer)),
        )
        node = drawn.node
        parts.append((drawn.row, drawn.col, drawn.edge))
        nodes.append(node.numel() - sum(nodes))
        edges.append(drawn.num_edges)
    row, col, edge = map(torch.cat, zip(*parts, strict=True))
    return Subgraph(
        node, row, col, edge, num_sampled_nodes=nodes, num_sampled_edges=edges
    )
