"""From a list of edges to the arrays of a CompactAdj, in linear time."""

from typing import Any, NamedTuple

from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._backends import ops


class Rows(NamedTuple):
    """The arrays of a CompactAdj; see there."""

    rowptr: Tensor
    col: Tensor
    edge_id: Tensor | None
    edge_weight: Tensor | None
    edge_time: Tensor | None


def endpoints(edge_index: Any, direction: str) -> tuple[Tensor, Tensor]:
    """(row, col) [m]: the node where a walker stands and the one it may go to."""
    edge_index = _check.integers("edge_index", edge_index, rank=2)
    if edge_index.shape[0] != 2:
        cure = "transpose it: edge_index.t()" if edge_index.shape[1] == 2 else ""
        shape = list(edge_index.shape)
        _check.fail("edge_index", "must have shape [2, m]", shape, cure)
    source, target = edge_index[0], edge_index[1]
    return (target, source) if direction == "in" else (source, target)


def sizes(row: Tensor, col: Tensor, num_nodes: Any, direction: str) -> tuple[int, int]:
    """(num_rows, num_cols), from `num_nodes` or from the largest ids."""
    if num_nodes is None:
        largest = [int(ids.max()) if ids.numel() else -1 for ids in (row, col)]
        return max(largest) + 1, max(largest) + 1
    if isinstance(num_nodes, tuple):
        if len(num_nodes) != 2:
            rule = "must be one number, or (sources, targets)"
            _check.fail("num_nodes", rule, num_nodes)
        sources, targets = (_check.nodes("num_nodes", size) for size in num_nodes)
        return (targets, sources) if direction == "in" else (sources, targets)
    size = _check.nodes("num_nodes", num_nodes)
    return size, size


def weights(value: Any, col: Tensor) -> Tensor | None:
    """Checked weights beside the entries of `col`, if there are any."""
    if value is None:
        return None
    return _check.weights("edge_weight", value, col.numel()).to(col.device)


def times(edge_time: Any, node_time: Any, col: Tensor, num_cols: int) -> Tensor | None:
    """Checked times beside the entries of `col`, if there are any."""
    if node_time is not None:
        if edge_time is not None:
            _check.fail("node_time", "excludes 'edge_time'", "both")
        time = _check.times("node_time", node_time, num_cols, "node")
        return time.to(col.device).index_select(0, col)
    if edge_time is None:
        return None
    return _check.times("edge_time", edge_time, col.numel(), "edge").to(col.device)


def rows_from_edges(
    row: Tensor,
    col: Tensor,
    num_rows: int,
    num_cols: int,
    weight: Tensor | None,
    time: Tensor | None,
    sort_by_time: bool,
) -> Rows:
    """Sorts the edges by row, stably, and inside a row by time if asked to."""
    earlier, given = None, col
    if _check.yes_or_no("sort_by_time", sort_by_time) and time is not None:
        earlier = time.sort(stable=True).indices
        row, col = row.index_select(0, earlier), col.index_select(0, earlier)
    rowptr, col, order = ops.group_by_row(row, col, num_rows, num_cols)
    if earlier is not None:
        order = earlier if order is None else earlier.index_select(0, order)
        sorted_already = bool((order[1:] > order[:-1]).all())
        order = None if sorted_already else order.to(ops.id_dtype(order.numel()))
    if col.data_ptr() == given.data_ptr():  # the caller may change it later
        col = col.clone()
    return Rows(rowptr, col, order, _ordered(weight, order), _ordered(time, order))


def _ordered(values: Tensor | None, order: Tensor | None) -> Tensor | None:
    """A copy of the values in the order of the rows."""
    if values is None:
        return None
    return values.clone() if order is None else values.index_select(0, order)
