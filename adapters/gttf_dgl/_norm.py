"""Edge weights that make a sampled sum an unbiased estimate of the full one."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gttf_dgl import _check
from gttf_sampler import CompactAdj

NORMS = ("both", "right", "left", "none")
COLUMN = "norm"


def edge_norm(
    norm: str,
    adj: CompactAdj,
    excluded: Tensor | None,
    senders: Tensor,
    receivers: Tensor,
    row: Tensor,
    col: Tensor,
) -> Tensor:
    """float32 [e]: what `GraphConv(norm=norm)` multiplies messages by, times δ / |S|.

    Of the δ edges of a receiver, |S| were sampled uniformly, so each stands for δ / |S|
    of them. Degrees are those of the whole graph, at least one as in GraphConv; of the
    excluded edges nothing is estimated.
    """
    start, degree = adj.row_range(receivers)
    admitted = degree
    if excluded is not None:
        ordered = excluded.unique()
        before = (torch.searchsorted(ordered, x) for x in (start, start + degree))
        low, high = before
        admitted = degree - (high - low)
    sampled = torch.bincount(col, minlength=receivers.numel())
    share = admitted.float() / sampled.clamp(min=1)
    degree = degree.clamp(min=1).float()
    if norm == "both":
        share = share * degree.rsqrt()
    elif norm == "right":
        share = share / degree
    weight = share.index_select(0, col)
    if norm in ("both", "left"):
        sent = _out_degree(adj).index_select(0, senders).clamp(min=1).float()
        sent = sent.rsqrt() if norm == "both" else sent.reciprocal()
        weight = weight * sent.index_select(0, row)
    return weight


def check(norm: str | None, uniform: bool, prefetched: Any) -> str | None:
    """`norm`, which asks for uniform draws and a column of its own."""
    if norm is None:
        return None
    _check.one_of("normalize", norm, NORMS)
    if not uniform:
        rule = "needs uniform draws, without 'prob', 'mask' and 'bias'"
        _check.fail("normalize", rule, repr(norm))
    groups = prefetched.values() if isinstance(prefetched, Mapping) else [prefetched]
    if any(COLUMN in (names or ()) for names in groups):
        rule = f"must not be given where edge data named '{COLUMN}' are prefetched"
        _check.fail("normalize", rule, repr(norm), "name them otherwise")
    return norm


def _out_degree(adj: CompactAdj) -> Tensor:
    """How many rows name each node, [num_cols]."""
    found: Tensor = adj.cached(
        "out_degree", lambda: torch.bincount(adj.col, minlength=adj.num_cols)
    )
    return found
