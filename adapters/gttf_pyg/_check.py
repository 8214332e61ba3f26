"""Arguments of samplers: checked in PyG's words, and in the engine's terms."""

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.sampler.base import NumNeighbors

from gttf_pyg._compat import ONLY, EdgeType, row_type
from gttf_sampler import CompactAdj, ExcludeBias
from gttf_sampler._check import (
    as_dense,
    count,
    dense,
    fail,
    finite,
    functions,
    integers,
    mistyped,
    real,
    shown,
    size,
    yes_or_no,
)

DIRECTIONS = ("forward", "backward")
SCHEMES = ("unbiased", "paper")
STRATEGIES = ("uniform", "last")


class MissingError(KeyError, ValueError):
    """A KeyError, as PyG raises it, with the words of a ValueError."""

    __str__ = Exception.__str__  # a KeyError shows its text as Python would write it


def missing(argument: str, name: str, known: Iterable[str]) -> MissingError:
    return MissingError(
        f"'{argument}' must name an attribute of the data (got {name!r}); there are "
        f"{list(known)}"
    )


def known_types(name: str, kinds: Iterable[Any], edge_types: Iterable[Any]) -> None:
    known = list(edge_types)
    for kind in kinds:
        if kind not in known:
            fail(name, f"must use the edge types of the data, {known}", repr(kind))


def ids(name: str, value: Any) -> Tensor:
    """`value`, a tensor of integers [k], as int64.

    PyG casts its seeds: integers of any width will do, and an empty tensor of any kind,
    which `BidirectionalNeighborSampler` makes.
    """
    found = dense(name, value)
    if not (is_integer(found) or found.numel() == 0) or found.dim() != 1:
        got = f"{str(found.dtype)[6:]} {list(found.shape)}"
        mistyped(name, "must be a tensor of integers [k]", got)
    return found.to(torch.int64)


def is_integer(value: Tensor) -> bool:
    """True if a tensor holds integers, of whichever width, and no truth values."""
    return str(value.dtype).startswith(("torch.int", "torch.uint"))


def as_pairs(name: str, value: Any) -> Tensor:
    """`value` as pairs of nodes [2, k]; an `EdgeIndex` stays one."""
    found = integers(name, value, rank=None)
    if found.dim() != 2 or found.shape[0] != 2:
        fail(name, "must have shape [2, k]", f"shape {list(found.shape)}")
    return found


def as_reals(name: str, value: Any) -> Tensor:
    """`value` as a tensor of any shape, of numbers that can be compared."""
    return real(name, as_dense(name, value))


def one_graph(data: Any) -> None:
    """Refuses what is not a graph without types in memory."""
    if not isinstance(data, Data):
        mistyped("data", "must be a Data", type(data).__name__)


def function(name: str, value: Any) -> None:
    functions(name, [value], many=True)


def name_or_none(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, str):
        mistyped(name, "must be the name of an attribute", shown(value))


def weight_names(value: Any) -> None:
    """Refuses what is neither the name of an attribute nor one per edge type."""
    names = value.values() if isinstance(value, Mapping) else [value]
    for name in names:
        if name is not None and not isinstance(name, str):
            rule = "must be the name of an attribute, or one per edge type"
            mistyped("weight_attr", rule, shown(name))


def check_window(time_window: Any, time_attr: str | None) -> None:
    """Refuses a span of time that is none, or that there are no times for."""
    if time_window is None:
        return
    if not finite("time_window", time_window) >= 0:
        fail("time_window", "must be finite and not negative", time_window)
    if time_attr is None:
        fail("time_window", "needs times", time_window, "set 'time_attr'")


# Options with which a sampler does not draw all neighbours alike.
NOT_UNIFORM = (
    *("weight_attr", "time_attr", "bias", "exclude_edges", "max_nodes", "max_edges"),
)


def first_used(sampler: Any, *names: str) -> str | None:
    """The first of some options that a sampler was given; None if it has none of them.

    PyG's own sampler will do: it lacks those that only ours have.
    """
    adjs = getattr(sampler, "adjs", {}).values()
    kind = getattr(sampler, "subgraph_type", None)
    used = {
        "weight_attr": any(adj.edge_weight is not None for adj in adjs),
        "time_attr": sampler.is_temporal,
        "bias": getattr(sampler, "bias", None) is not None,
        "exclude_edges": getattr(sampler, "excludes", False),
        "max_nodes": getattr(sampler, "max_nodes", None) is not None,
        "max_edges": getattr(sampler, "max_edges", None) is not None,
        "subgraph_type": kind is not None and kind.value != "directional",
        "sample_direction": getattr(sampler, "sample_direction", "") == "backward",
        "layerwise": getattr(sampler, "layerwise", False),
        "disjoint": sampler.disjoint,
    }
    return next((name for name in names if used[name]), None)


def as_lists(num_neighbors: Any) -> Any:
    if isinstance(num_neighbors, Mapping):
        return {kind: as_lists(value) for kind, value in num_neighbors.items()}
    if isinstance(num_neighbors, Tensor):
        check = dense if num_neighbors.is_floating_point() else ids
        return check("num_neighbors", num_neighbors).tolist()
    listed = isinstance(num_neighbors, np.ndarray)
    return num_neighbors.tolist() if listed else num_neighbors


def fanouts_of(
    num_neighbors: NumNeighbors, edge_types: list[Any] | None, backward: bool
) -> dict[EdgeType, list[int]]:
    """The fanouts of every relation, by the key that its rows have.

    PyG checks that every edge type has some, all of one length; `edge_types` is None
    in homogeneous data.
    """
    values = num_neighbors.values
    lists = list | tuple if edge_types is None else list | tuple | dict
    if not isinstance(values, lists):
        per_type = "" if edge_types is None else ", or one per edge type"
        rule = f"must be a list of integers{per_type}"
        mistyped("num_neighbors", rule, shown(values))
    for fanouts in values.values() if isinstance(values, dict) else [values]:
        _check_fanouts(fanouts)
    if edge_types is None:
        return {ONLY: list(values)}
    if isinstance(values, dict):
        known_types("num_neighbors", [kind.to_tuple() for kind in values], edge_types)
    values = num_neighbors.get_values(edge_types)
    return {row_type(kind, backward): list(value) for kind, value in values.items()}


def shares_of(
    fanouts: dict[EdgeType, list[Any]],
) -> tuple[dict[EdgeType, list[int]], dict[EdgeType, list[float | None]]]:
    """The fanouts, with -1 for fractions of the degree, and those where there are any.

    PyG's issue 9582 asks for them: 0.5 takes half of the neighbours, rounded up.
    """
    whole = {
        kind: [-1 if _is_share(fanout) else fanout for fanout in hops]
        for kind, hops in fanouts.items()
    }
    shares = {
        kind: [fanout if _is_share(fanout) else None for fanout in hops]
        for kind, hops in fanouts.items()
        if any(_is_share(fanout) for fanout in hops)
    }
    return whole, shares


def _is_share(fanout: Any) -> bool:
    return isinstance(fanout, float | np.floating)


def _check_fanouts(fanouts: Any) -> None:
    if not isinstance(fanouts, list | tuple):
        mistyped("num_neighbors", "must hold one list per edge type", shown(fanouts))
    for fanout in fanouts:
        share = _is_share(fanout) and 0 < fanout < 1
        if not share and (isinstance(fanout, bool) or not isinstance(fanout, Integral)):
            rule = "must hold integers, or fractions of the degree in (0, 1)"
            mistyped("num_neighbors", rule, shown(fanout), "-1 takes all neighbours")


def checked_bias(bias: Any, sampler: Any) -> Any:
    typed = isinstance(bias, Mapping)
    if typed and not sampler.is_hetero:
        mistyped("bias", "must be callable in homogeneous data", "a dict")
    if typed:
        known_types("bias", bias, sampler.edge_types)
    for part in bias.values() if typed else [bias]:
        if part is not None and (not callable(part) or isinstance(part, type)):
            mistyped("bias", "must be callable", shown(part))
    return bias


def check_together(sampler: Any) -> None:
    """Refuses strategies and fractions of the degree beside what they exclude."""
    last = sampler.is_temporal and sampler.temporal_strategy == "last"
    if sampler.shares and (sampler.replace or last):
        named = "replace" if sampler.replace else "temporal_strategy"
        rule = f"must hold integers together with {named!r}"
        fail("num_neighbors", rule, sampler.num_neighbors.values)
    other = first_used(sampler, "weight_attr", "bias", "exclude_edges")
    if last and other is not None:
        rule = f"must be 'uniform' together with '{other}'"
        fail("temporal_strategy", rule, "'last'")


def named_edges(
    named: Any, adjs: Mapping[EdgeType, CompactAdj], backward: bool
) -> dict[EdgeType, ExcludeBias]:
    """Per relation, the bias that hides the edges that were named for all batches."""
    if named is None or isinstance(named, bool):
        return {}
    typed = ONLY not in adjs
    if typed != isinstance(named, Mapping):
        rule = "map edge types to edges" if typed else "be edges, not one per edge type"
        mistyped("exclude_edges", f"must {rule} here", type(named))
    parts = named if typed else {ONLY: named}
    known_types("exclude_edges", parts, [row_type(kind, backward) for kind in adjs])
    rows = {row_type(kind, backward): edges for kind, edges in parts.items()}
    return {
        kind: ExcludeBias(_positions(edges, adjs[kind])) for kind, edges in rows.items()
    }


def _positions(edges: Any, adj: CompactAdj) -> Tensor:
    """Positions in `adj.col` of edges that are named by the caller's ids or a mask."""
    size = adj.num_edges
    if not isinstance(edges, Tensor | np.ndarray | list | tuple):
        mistyped("exclude_edges", "must be ids or a mask", shown(edges))
    edges = as_dense("exclude_edges", edges).to(adj.device)
    hidden = torch.zeros(size, dtype=torch.bool, device=adj.device)
    if edges.dtype == torch.bool and edges.shape == hidden.shape:
        hidden = edges
    elif edges.dtype in (torch.int32, torch.int64) and edges.dim() == 1:
        if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < size:
            rule = f"must hold ids of edges, in [0, {size})"
            fail("exclude_edges", rule, f"{int(edges.min())} to {int(edges.max())}")
        hidden[edges.to(torch.int64)] = True
    elif edges.numel():
        rule = f"must be integer ids [k] or a mask [{size}] of edges"
        fail("exclude_edges", rule, f"{str(edges.dtype)[6:]} {list(edges.shape)}")
    if adj.edge_id is not None:
        hidden = hidden[adj.edge_id.to(torch.int64)]
    return hidden.nonzero().view(-1)


def checked_layerwise(layerwise: bool, sampler: Any) -> bool:
    yes_or_no("layerwise", layerwise)
    names = ("disjoint", "time_attr", "subgraph_type", "max_nodes", "max_edges")
    used = first_used(sampler, *names)
    other = None if used is None else f"{used!r}"
    if sampler.is_hetero or sampler.shares:
        other = "heterogeneous data" if sampler.is_hetero else "fractions of the degree"
    if layerwise and other is not None:
        rule = f"must be False together with {other}"
        fail("layerwise", rule, True, "draw once for all layers")
    return bool(layerwise)


def checked_limit(name: str, value: Any) -> int | None:
    """`value`, which must be a number, or None; a batch may have no edges."""
    if value is None:
        return None
    return size(name, value) if name == "max_edges" else count(name, value)
