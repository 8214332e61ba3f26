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
from gttf_sampler._check import fail, mistyped, shown


def as_lists(num_neighbors: Any) -> Any:
    """`num_neighbors` with lists in place of tensors and arrays."""
    if isinstance(num_neighbors, Mapping):
        return {kind: as_lists(value) for kind, value in num_neighbors.items()}
    if isinstance(num_neighbors, Tensor):
        return ids("num_neighbors", num_neighbors).tolist()
    if isinstance(num_neighbors, np.ndarray):
        return num_neighbors.tolist()
    return num_neighbors


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


def _check(fanouts: Any) -> None:
    """Refuses what is not a list of integers."""
    if not isinstance(fanouts, list | tuple):
        mistyped("num_neighbors", "must hold one list per edge type", shown(fanouts))
    for fanout in fanouts:
        if isinstance(fanout, bool) or not isinstance(fanout, Integral):
            mistyped("num_neighbors", "must hold integers", shown(fanout))
