"""What a graph is asked for again and again while it is walked: made once, kept."""

import torch
from torch import Tensor

from gttf_sampler import _check, _ops
from gttf_sampler.compact import CompactAdj


def edge_weight(adj: CompactAdj) -> Tensor:
    """`adj.edge_weight`, which must be there."""
    if adj.edge_weight is None:
        cure = "build the CompactAdj with 'edge_weight'"
        _check.fail("bias", "needs edge weights", "a graph without them", cure)
    return adj.edge_weight


def weight_table(adj: CompactAdj) -> Tensor:
    """Cumulative integer weights [m] of each row."""
    weight = edge_weight(adj)
    made: Tensor = adj.cached(
        "weight_table", lambda: _ops.weight_table(weight, adj.rowptr)
    )
    return made


def sorted_col(adj: CompactAdj) -> Tensor:
    """`adj.col` with every row in ascending order."""

    def sort() -> Tensor:
        ordered, by_col = adj.col.sort(stable=True)
        row = _row_of_edge(adj).index_select(0, by_col)
        return ordered.index_select(0, row.sort(stable=True).indices)

    made: Tensor = adj.cached("sorted_col", sort)
    return made


def sorted_time(adj: CompactAdj) -> Tensor:
    """`adj.edge_time`, known to ascend within every row."""
    time = adj.edge_time
    if time is None:
        cure = "build the CompactAdj with 'edge_time' or 'node_time'"
        _check.fail("bias", "needs edge times", "a graph without them", cure)

    def ascends() -> bool:
        row = _row_of_edge(adj)
        return bool(((time[1:] >= time[:-1]) | (row[1:] != row[:-1])).all())

    if not adj.cached("time_ascends", ascends):
        cure = "build the CompactAdj with sort_by_time=True"
        _check.fail("bias", "needs rows sorted by time", "unsorted rows", cure)
    return time


def _row_of_edge(adj: CompactAdj) -> Tensor:
    """The row [m] of every entry of `adj.col`."""
    row = torch.arange(adj.num_rows, dtype=torch.int32, device=adj.device)
    return row.repeat_interleave(adj.degree, output_size=adj.num_edges)
