"""Finds edges in rows: those between pairs of nodes, and those inside a set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gttf_sampler._backends import ops
from gttf_sampler._backends.scratch import relabel
from gttf_sampler.graph import tables

if TYPE_CHECKING:
    from gttf_sampler.graph.compact import CompactAdj

Nodes = tuple[Tensor, Tensor | None]  # ids [n], and the tree of each; None if shared


def edges_between(
    adj: CompactAdj, node: Tensor, neighbor: Tensor
) -> tuple[Tensor, Tensor]:
    """Finds all entries of row node[i] that lead to neighbor[i]; see `CompactAdj`."""
    order, ordered = tables.sorted_order(adj), tables.sorted_col(adj)
    start, count = adj.row_range(node)
    low, high = (
        ops.upper_bound(ordered, start, start + count, bound, adj.max_degree)
        for bound in (neighbor - 1, neighbor)
    )
    found = high - low
    which, edge = ops.expand(low, found, int(found.sum()))
    return which, edge if order is None else ops.take_or_none(order, edge)


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
