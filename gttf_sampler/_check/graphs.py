"""Checks of graphs and traversals, and of what the functions in them return."""

import operator
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor

from gttf_sampler._check.values import (
    MAX_STEPS,
    dense,
    fail,
    fits,
    integer,
    integers,
    kind_of,
    length,
    mistyped,
    positions,
    real,
    shown,
    tensor,
    within,
)
from gttf_sampler._compat import assert_async, is_compiling

T = TypeVar("T")
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


def seeds(
    value: Any,
    upper: int,
    device: torch.device,
    name: str = "seeds",
    *,
    sound: bool = False,
) -> Tensor:
    """`value` as int64 node ids [b] on `device`, every one below `upper`.

    Ids that are on an accelerator already are checked there without waiting for it, so
    that a forest needs no host synchronisation; so are those that a compiler sees. If
    they are said to be `sound`, they are not checked there at all. The CPU, where it
    costs little and compiled code relies on it, always looks.
    """
    result = integers(name, value)
    if result.device.type == "cpu" and not is_compiling():
        within(name, result, upper)
    elif result.numel() and not sound:
        wide = result.to(torch.int64)  # bounds of more than 2³¹ nodes, too
        if upper == 0:  # known here
            fail(name, "must be empty where there are no nodes", f"{len(wide)} ids")
        inside = (wide.clamp(0, upper - 1) == wide).all()
        assert_async(inside, f"'{name}' must hold ids in [0, {upper})")
    return result.to(device=device, dtype=torch.int64, copy=True)


def fanouts(
    value: Any, *, allow_all: bool, seeds: int = 1, name: str = "fanouts"
) -> list[int]:
    """`value` as a list of fanouts; `allow_all` admits 0 and -1 (all neighbours)."""
    cure = "" if allow_all else "'sample_rooted' takes -1 and 0"
    if isinstance(value, Tensor):
        value = real(name, tensor(name, value)).tolist()
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        mistyped(name, "must be a list of integers", shown(value))
    if _is_long(value):
        fail(name, f"must not have more than {MAX_STEPS} entries", shown(value))
    entries: list[int] = []
    for fanout in value:
        try:
            entries.append(integer(name, fanout))
        except TypeError:
            mistyped(name, "must be a list of integers", shown(value))
    if allow_all:
        return [max(fanout, -1) for fanout in entries]
    if any(fanout < 1 for fanout in entries):
        fail(name, "must hold positive integers", entries, cure)
    widths = accumulate(entries, operator.mul, initial=max(1, seeds))
    fits(name, 16 * sum(widths))  # a node and an edge each
    return entries


def _is_long(value: Sequence[Any]) -> bool:
    """True if there are too many entries to look at, as in `range(10**30)`."""
    try:
        return len(value) > MAX_STEPS
    except OverflowError:
        return True


def typed_fanouts(value: Any, edge_types: list[Any]) -> dict[Any, list[int]]:
    """`value` as one list of fanouts per edge type, all of one length."""
    if not isinstance(value, Mapping):
        return dict.fromkeys(edge_types, fanouts(value, allow_all=True))
    known_types("fanouts", value, edge_types, "edge types")
    missing = [kind for kind in edge_types if kind not in value]
    if missing:
        fail("fanouts", "must name every edge type", f"none for {missing[0]}")
    hops = {
        kind: fanouts(value[kind], allow_all=True, name=f"fanouts[{', '.join(kind)}]")
        for kind in edge_types
    }
    lengths = {len(entry) for entry in hops.values()}
    if len(lengths) > 1:
        fail("fanouts", "must have one length for all edge types", sorted(lengths))
    return hops


def bias_weights(value: Any, entries: int, name: str = "bias") -> Tensor:
    """Checks what a BiasFn returned: one weight per entry of the neighbourhood."""
    if not isinstance(value, Tensor):
        mistyped(name, "must return a tensor", kind_of(value))
    dense(name, value)
    if value.shape != (entries,):
        rule = f"must return one weight per neighbour, shape [{entries}]"
        fail(name, rule, f"shape {list(value.shape)}")
    if value.dtype is torch.bool:  # a mask is a bias, too
        return value.to(torch.float32)
    if value.device.type == "cpu":
        return weights(name, value, entries)
    sound = (value.detach().double() >= 0).logical_and_(value.isfinite()).all()
    assert_async(sound, f"'{name}' must return finite weights >= 0")
    return value.detach()


def drawn_edges(value: Any, walkers: int, fanout: int, edges: int) -> Tensor:
    """Checks what a bias drew by itself: positions of edges, or -1."""
    if not isinstance(value, Tensor):
        mistyped("bias", "must draw a tensor", kind_of(value))
    dense("bias", value)
    if value.shape != (walkers, fanout):
        rule = f"must draw positions of shape [{walkers}, {fanout}]"
        fail("bias", rule, f"shape {list(value.shape)}")
    return positions("bias", value, edges)


def traversed(forest: T | None) -> T:
    """`forest`, which must be there before there can be a result."""
    if forest is None:
        cure = "pass it to 'traverse' as 'accumulate' first"
        fail("result", "needs a traversal", "none", cure)
    return forest


def law(value: Any, edges: int, trees: int) -> None:
    """Refuses a law whose arrays do not fit the graph and the seeds.

    Compiled code reads them by their addresses. On accelerators, where it does not,
    the host does not wait for an answer.
    """
    sizes = {"time": edges, "time_max": trees, "time_min": trees}
    for name, size in sizes.items():
        array = getattr(value, name)
        if array is not None:
            of = "edge" if name == "time" else "seed"
            length(f"law.{name}", dense(f"law.{name}", array), size, of)
    if (value.time is None) != (value.time_max is None):
        fail("law.time_max", "must be given where 'law.time' is, and only there", value)
    if value.excluded_edges is None:
        return
    hidden = integers("law.excluded_edges", value.excluded_edges)
    if hidden.numel() and value.cumulative_weight is not None:
        fail(
            "law.excluded_edges",
            "must not be given beside 'law.cumulative_weight'",
            hidden,
        )
    if hidden.device.type == "cpu":
        within("law.excluded_edges", hidden, edges, "edges")
        if not bool((hidden[1:] > hidden[:-1]).all()):
            fail("law.excluded_edges", "must ascend", hidden, "sort it")
