"""PyG's `num_neighbors` as fanouts of the engine."""

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
from torch import Tensor
from torch_geometric.sampler.base import NumNeighbors

from gttf_pyg._check import ids
from gttf_pyg._compat import reverse_edge_type
from gttf_pyg._rows import ONLY, EdgeType
from gttf_sampler._check import dense, fail, mistyped, shown


def as_lists(num_neighbors: Any) -> Any:
    """`num_neighbors` with lists in place of tensors and arrays."""
    if isinstance(num_neighbors, Mapping):
        return {kind: as_lists(value) for kind, value in num_neighbors.items()}
    if isinstance(num_neighbors, Tensor) and not num_neighbors.is_floating_point():
        return ids("num_neighbors", num_neighbors).tolist()
    if isinstance(num_neighbors, Tensor):
        return dense("num_neighbors", num_neighbors).tolist()
    return (
        num_neighbors.tolist()
        if isinstance(num_neighbors, np.ndarray)
        else num_neighbors
    )


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
        _check(fanouts)
    if edge_types is None:
        return {ONLY: list(values)}
    for kind in values if isinstance(values, dict) else ():
        if (name := kind.to_tuple()) not in edge_types:
            rule = f"must use the edge types of the data, {edge_types}"
            fail("num_neighbors", rule, repr(name))
    named = reverse_edge_type if backward else (lambda kind: kind)
    values = num_neighbors.get_values(edge_types)
    return {named(kind): list(value) for kind, value in values.items()}


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
    """Whether it is a part of the neighbours, and not a number of them."""
    return isinstance(fanout, float | np.floating)


def _check(fanouts: Any) -> None:
    """Refuses what is not a list of integers, or of fractions."""
    if not isinstance(fanouts, list | tuple):
        mistyped("num_neighbors", "must hold one list per edge type", shown(fanouts))
    for fanout in fanouts:
        share = _is_share(fanout) and 0 < fanout < 1
        if not share and (isinstance(fanout, bool) or not isinstance(fanout, Integral)):
            rule = "must hold integers, or fractions of the degree in (0, 1)"
            mistyped("num_neighbors", rule, shown(fanout), "-1 takes all neighbours")
