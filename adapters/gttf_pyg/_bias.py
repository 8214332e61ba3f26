"""Fanouts and biases of a sampler, from the arguments of PyG's and from a batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import reduce
from numbers import Integral
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import EdgeSamplerInput
from torch_geometric.sampler.base import NumNeighbors

from gttf_pyg._check import first_used, ids, known_types
from gttf_pyg._compat import row_type
from gttf_pyg._rows import ONLY, EdgeType
from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    FractionBias,
    TemporalBias,
)
from gttf_sampler._check import as_dense, dense, fail, mistyped, shown

if TYPE_CHECKING:
    from gttf_pyg.sampler import GTTFSampler


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
    """True if a fanout is a share of the neighbours, not a number of them."""
    return isinstance(fanout, float | np.floating)


def _check_fanouts(fanouts: Any) -> None:
    """Refuses what is not a list of integers, or of fractions."""
    if not isinstance(fanouts, list | tuple):
        mistyped("num_neighbors", "must hold one list per edge type", shown(fanouts))
    for fanout in fanouts:
        share = _is_share(fanout) and 0 < fanout < 1
        if not share and (isinstance(fanout, bool) or not isinstance(fanout, Integral)):
            rule = "must hold integers, or fractions of the degree in (0, 1)"
            mistyped("num_neighbors", rule, shown(fanout), "-1 takes all neighbours")


def checked_bias(bias: Any, sampler: GTTFSampler) -> Any:
    """`bias`, which must be callable, or be so for some edge types."""
    typed = isinstance(bias, Mapping)
    if typed and not sampler.is_hetero:
        mistyped("bias", "must be callable in homogeneous data", "a dict")
    if typed:
        known_types("bias", bias, sampler.edge_types)
    for part in bias.values() if typed else [bias]:
        if part is not None and (not callable(part) or isinstance(part, type)):
            mistyped("bias", "must be callable", shown(part))
    return bias


def check_together(sampler: GTTFSampler) -> None:
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


@dataclass
class BatchBias:
    """The biases of one batch, relation by relation; None where draws are uniform.

    Attributes:
        sampler: with all that holds for every batch.
        seed_time: [b], the times of the seeds, if there are times.
        hidden: per relation, positions in `adj.col` that this batch must not see.
    """

    sampler: GTTFSampler
    seed_time: Tensor | None
    hidden: Mapping[EdgeType, Tensor]
    _timed: dict[bool, TemporalBias] = field(default_factory=dict)

    def all_of(self, kind: EdgeType) -> Any:
        """The bias of a relation: that of the options times the user's."""
        sampler, bias = self.sampler, self.of_options(kind)
        own = sampler.bias
        if isinstance(own, Mapping):
            own = own.get(row_type(kind, sampler.sample_direction == "backward"))
        if own is not None:
            bias = own if bias is None else bias * own
        if kind not in sampler.shares:
            return bias
        return FractionBias(sampler.shares[kind], bias, disjoint=sampler.disjoint)

    def of_options(self, kind: EdgeType) -> Any:
        """The bias of a relation by its times, weights and hidden edges."""
        adj, hidden = self.sampler.adjs[kind], self.hidden.get(kind)
        parts: list[Any] = []
        weighted = adj.edge_weight is not None
        if self.seed_time is not None and adj.edge_time is not None:
            parts.append(self._temporal(self.seed_time, weighted))
        elif weighted:
            parts.append(EdgeWeightBias())
        if hidden is not None and hidden.numel():
            parts.append(ExcludeBias(hidden))
        if kind in self.sampler.always_hidden:
            parts.append(self.sampler.always_hidden[kind])
        if len(parts) < 2:
            return parts[0] if parts else None
        return reduce(mul, parts)

    def _temporal(self, time: Tensor, weighted: bool) -> TemporalBias:
        """The bias by times, made and checked once for all relations."""
        if weighted not in self._timed:
            sampler = self.sampler
            how: Any = {"strategy": sampler.temporal_strategy, "weighted": weighted}
            made = TemporalBias(time, window=sampler.time_window, **how)
            self._timed[weighted] = made
        return self._timed[weighted]


def named_edges(
    named: Any, adjs: Mapping[EdgeType, CompactAdj], backward: bool
) -> dict[EdgeType, ExcludeBias]:
    """Per relation, the bias that hides the edges that were named for all batches.

    Args:
        named: ids or a mask of edges, or such per edge type; True names none.
        adjs: the rows of every relation.
        backward: whether they are those of the reversed graph.
    """
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


def seed_edges(
    inputs: EdgeSamplerInput, adjs: Mapping[EdgeType, CompactAdj], backward: bool
) -> dict[EdgeType, Tensor]:
    """Per relation, the positions in `adj.col` of the seed edges and their reverses.

    All parallel copies are found. The reverse of `rel` is `rev_rel`, as everywhere in
    PyG, or the only relation that leads back.
    """
    src, dst = inputs.row, inputs.col
    if backward:  # rows are those of the reversed graph
        src, dst = dst, src
    kind: Any = inputs.input_type
    if kind is None:
        return {ONLY: _both_ways(adjs[ONLY], src, dst)}
    kind = row_type(kind, backward)
    if kind[0] == kind[2]:
        both = [kind, _named_reverse(kind, adjs)]
        return {rel: _both_ways(adjs[rel], src, dst) for rel in both if rel in adjs}
    found = {}
    if kind in adjs:  # else pairs are asked about that the graph does not hold
        found[kind] = adjs[kind].edges_between(dst, src)[1]
    back = reverse_of(kind, adjs)
    if back is not None:
        found[back] = adjs[back].edges_between(src, dst)[1]
    return found


def reverse_of(kind: EdgeType, edge_types: Collection[EdgeType]) -> EdgeType | None:
    """The relation that holds the reverse edges of `kind`; None if there is none."""
    src, rel, dst = kind
    named = _named_reverse(kind, edge_types)
    if named is not None:
        return named
    others = [other for other in edge_types if (other[2], other[0]) == (src, dst)]
    if len(others) > 1:
        rule = f"must know which relation holds the reverse of {kind}"
        fail("exclude_edges", rule, others, f"call it 'rev_{rel}'")
    return others[0] if others else None


def _named_reverse(kind: EdgeType, edge_types: Collection[EdgeType]) -> EdgeType | None:
    """The relation whose name says that it is the reverse of `kind`."""
    src, rel, dst = kind
    for name in (f"rev_{rel}", rel.removeprefix("rev_")):
        if name != rel and (dst, name, src) in edge_types:
            return dst, name, src
    return None


def _both_ways(adj: CompactAdj, src: Tensor, dst: Tensor) -> Tensor:
    """The positions of the edges between the pairs, in either direction."""
    here, there = torch.cat([dst, src]), torch.cat([src, dst])
    return adj.edges_between(here, there)[1]
