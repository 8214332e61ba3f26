"""All edges between nodes that were sampled, whether or not they were sampled, too."""

import torch
from torch import Tensor

from gttf_sampler._backends import ops
from gttf_sampler._backends.scratch import relabel
from gttf_sampler.graph.compact import CompactAdj

Nodes = tuple[Tensor, Tensor | None]  # ids [n], and the tree of each; None if shared


def edges_inside(
    adj: CompactAdj, target: Nodes, source: Nodes
) -> tuple[Tensor, Tensor, Tensor]:
    """(row, col, edge) of the edges from `source` to `target` nodes, sorted by col.

    Within a tree only. Of a repeated source the first one sends.
    """
    (node, tree), (known, known_tree) = target, source
    start, count = adj.row_range(node)
    col, edge = ops.expand(start, count, int(count.sum()))
    neighbor = ops.take(adj.col, edge).to(torch.int64)
    if tree is None or known_tree is None:
        with adj.borrow_table(adj.num_cols) as table:
            row, _ = relabel(known, neighbor, table)
    else:
        tree = tree * adj.num_cols
        known = known + known_tree * adj.num_cols
        row, _ = relabel(known, neighbor + ops.take(tree, col), None)
    inside = (row < known.numel()).nonzero().view(-1)
    return row[inside], col[inside], edge[inside]
