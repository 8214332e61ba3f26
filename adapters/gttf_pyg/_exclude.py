"""The edges that a link loader asks about, found in the graph in order to hide them."""

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import EdgeSamplerInput
from torch_geometric.sampler.utils import reverse_edge_type

from gttf_pyg._rows import ONLY, EdgeType
from gttf_sampler import CompactAdj


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
    kind = reverse_edge_type(kind) if backward else tuple(kind)
    if kind[0] == kind[2]:
        both = {kind: _both_ways(adjs[kind], src, dst)}
        named = _named_reverse(kind, adjs)
        if named is not None:
            both[named] = _both_ways(adjs[named], src, dst)
        return both
    found = {kind: adjs[kind].edges_between(dst, src)[1]}
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
        raise ValueError(
            f"'exclude_edges' must know which relation holds the reverse of {kind} "
            f"(got {others}); call it 'rev_{rel}'"
        )
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
