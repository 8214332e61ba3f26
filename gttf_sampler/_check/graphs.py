"""Checks of graphs: their arrays, and the types of heterogeneous ones."""

from collections.abc import Mapping
from typing import Any, NoReturn

import torch
from torch import Tensor

from gttf_sampler._check.tensors import integers, length, real, tensor, within
from gttf_sampler._check.words import fail, kind_of, mistyped

MAX_DEGREE = (1 << 31) - 1


def row_pointer(name: str, value: Any, edges: int) -> Tensor:
    """`value` as the int64 row pointer of `edges` edges."""
    result = integers(name, value).to(torch.int64)
    if result.numel() == 0:
        fail(name, "must have one entry more than there are rows", "no entry")
    first, last = int(result[0]), int(result[-1])
    if first != 0:
        fail(name, "must start at 0", first)
    if last != edges:
        fail(name, f"must end at the number of edges {edges}", last)
    degree = result.diff()
    if degree.numel():
        low, high = (int(bound) for bound in degree.aminmax())
        if low < 0:
            fail(name, "must not decrease", f"a step of {low}")
        if high > MAX_DEGREE:
            fail(name, f"must keep every degree at or below {MAX_DEGREE}", high)
    return result


def edge_ids(value: Any, edges: int) -> Tensor:
    """`value` as one position in the caller's edge order per edge."""
    result = length("edge_id", integers("edge_id", value), edges, "edge")
    within("edge_id", result, edges, "edges")
    named = torch.zeros(edges, dtype=torch.bool, device=result.device)
    if not bool(named.index_fill_(0, result.to(torch.int64), True).all()):
        fail("edge_id", "must name every edge once", "a repeated id")
    return result


def weights(name: str, value: Any, edges: int) -> Tensor:
    """`value` as one finite weight >= 0 per edge; integers are fine."""
    result = length(name, real(name, tensor(name, value)), edges, "edge")
    if result.numel():
        low, high = (float(bound) for bound in result.aminmax())
        if low != low:  # aminmax propagates NaN
            fail(name, "must not hold NaN", "NaN")
        if low < 0:
            fail(name, "must not hold negative weights", low)
        if high == float("inf"):
            fail(name, "must hold finite weights", high)
    return result


def times(name: str, value: Any, entries: int | None = None, of: str = "") -> Tensor:
    """`value` as integer or float times without NaN, one per element of `of`."""
    result = real(name, tensor(name, value))
    if entries is not None:
        length(name, result, entries, of)
    if result.is_floating_point() and bool(result.isnan().any()):
        fail(name, "must not hold NaN", "NaN")
    return result


def scipy_matrix(name: str, value: Any) -> None:
    """Refuses what is not a sparse matrix, without importing scipy."""
    whole = hasattr(value, "tocoo") and hasattr(value, "format")
    if not whole or isinstance(value, type):
        mistyped(name, "must be a scipy sparse matrix or array", kind_of(value))
    if len(value.shape) != 2:
        fail(name, "must have 2 dimension(s)", f"shape {list(value.shape)}")


def scipy_rows(name: str, value: Any) -> None:
    """Refuses compressed rows that scipy would follow out of its arrays."""
    if value.format not in ("csr", "csc", "bsr"):
        return
    across, along = value.shape[::-1] if value.format == "csc" else value.shape
    if value.format == "bsr":
        across, along = (
            side // block
            for side, block in zip((across, along), value.blocksize, strict=True)
        )
    rows = row_pointer(f"{name}.indptr", value.indptr, len(value.indices))
    if rows.numel() != across + 1:
        rule = f"must have one entry more than there are rows, {across + 1} in all"
        fail(f"{name}.indptr", rule, rows.numel())
    within(f"{name}.indices", integers(f"{name}.indices", value.indices), along)


def changed() -> NoReturn:
    """Refuses to follow a graph that was edited to lead out of its own arrays."""
    cure = "build it again; its validate() says where"
    fail("adj", "must not be edited in place to lead out of itself", "it was", cure)


def one_device(arrays: Mapping[str, Tensor]) -> None:
    """Refuses arrays of one graph that are in different places."""
    devices = {name: str(array.device) for name, array in arrays.items()}
    if len(set(devices.values())) > 1:
        fail("device", "must be the same for all arrays", devices)


def one_node_set(name: str, num_rows: int, num_cols: int) -> None:
    """Refuses a bipartite graph where nodes must be of one kind."""
    if num_rows != num_cols:
        rule = "must have one set of nodes here"
        cure = "give 'sample_rooted' a mapping of edge types"
        fail(name, rule, f"{num_rows} rows and {num_cols} columns", cure)


def sampled_from(node: Tensor, num_rows: int) -> None:
    """Refuses a graph that cannot be the one the nodes of a subgraph came from."""
    if node.device.type == "cpu" and node.numel() and int(node.max()) >= num_rows:
        rule = "must be the graph that the subgraph was sampled from"
        fail("adj", rule, f"{num_rows} nodes, node {int(node.max())} was sampled")


def mapping(name: str, value: Any) -> None:
    """Refuses what has no keys and values."""
    if not isinstance(value, Mapping):
        mistyped(name, "must be a mapping of edge types", kind_of(value))


def known_types(name: str, value: Any, known: list[Any], of: str) -> None:
    """Refuses keys of a mapping that are not among the `known` types."""
    for key in value:
        if key not in known:
            fail(name, f"must use the {of} of 'adj', {known}", repr(key))


def node_types(adjs: Any) -> dict[str, int]:
    """The node types of all relations and how many nodes each has."""
    sizes: dict[str, int] = {}
    if not adjs:
        fail("adj", "must hold at least one edge type", "none")
    for kind, adj in adjs.items():
        if not isinstance(kind, tuple) or len(kind) != 3:
            rule = "must have keys (source, relation, target)"
            fail("adj", rule, repr(kind))
        if not hasattr(adj, "ensure_sound") or isinstance(adj, type):
            rule = "must map edge types to CompactAdj"
            mistyped("adj", rule, kind_of(adj))
        adj.ensure_sound()
        if adj.direction != "in":
            rule = "must have direction 'in' in a mapping: rows are target nodes"
            fail("adj", rule, f"{adj.direction!r} in {kind}")
        for node_type, count in ((kind[0], adj.num_cols), (kind[2], adj.num_rows)):
            if sizes.setdefault(node_type, count) != count:
                rule = f"must agree on the number of {node_type!r} nodes"
                fail("adj", rule, f"{sizes[node_type]} and {count} in {kind}")
    devices = {str(adj.device) for adj in adjs.values()}
    if len(devices) > 1:
        fail("adj", "must have all relations on one device", sorted(devices))
    return sizes
