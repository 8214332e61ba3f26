"""Graphs of any size with planted communities, and some of their edges hidden."""

from typing import NamedTuple

import torch
from torch import Tensor

from gttf_sampler import CompactAdj
from gttf_sampler.embedding import LinkSplit

# LiveJournal: users, and links between them that are counted in both directions
NODES, EDGES = 4_847_571, 68_993_773
COMMUNITY = 100  # nodes of a community
INSIDE = 0.8  # of the edges stay in their community
HIDDEN = 50_000  # edges, at most, to be found again
SMALLEST = 4_000  # nodes
PIECE = 1 << 22  # edges made at a time
FAMILY = 1_000_003  # of keys, apart from those of samplers


class Planted(NamedTuple):
    """A graph to learn from, and edges that it lacks.

    Attributes:
        adj: rows list where to walk to, both directions.
        split: hidden edges and pairs without one; `train` is empty.
    """

    adj: CompactAdj
    split: LinkSplit


def planted(nodes: int, edges: int, seed: int) -> Planted:
    """About `edges` directed edges among `nodes` nodes, both directions of each.

    An end of an edge is node n · r² of the nodes in order, r uniform: few nodes have
    many edges. The other end is one of the same community, or any node. Ids are in
    disguise: communities are not ranges of them.
    """
    each = max(1, edges // 2)
    generator = torch.Generator().manual_seed(seed + FAMILY)
    name = torch.randperm(nodes, generator=generator)
    pieces = [
        _piece(min(PIECE, each - low), nodes, generator)
        for low in range(0, each, PIECE)
    ]
    ends = torch.cat(pieces, dim=1)
    ends = name[ends[:, ends[0] != ends[1]]]
    hidden = min(HIDDEN, ends.shape[1] // 20)
    positive, rest = ends[:, :hidden].clone(), ends[:, hidden:]
    both = torch.cat([rest, rest.flip(0)], dim=1)
    del ends, rest, pieces
    adj = CompactAdj.from_edge_index(both, nodes, direction="out")
    negative = torch.randint(nodes, (2, hidden), generator=generator)
    nothing = torch.empty(2, 0, dtype=torch.int64)
    return Planted(adj, LinkSplit(nothing, positive, negative, nodes))


def _piece(count: int, nodes: int, generator: torch.Generator) -> Tensor:
    """Some edges [2, count]."""
    share = torch.rand(count, generator=generator, dtype=torch.float64)
    source = (share * share * nodes).long().clamp_(max=nodes - 1)
    # the popular ones are spread over all communities
    groups = -(-nodes // COMMUNITY)
    source = (source % groups * COMMUNITY + source // groups).clamp_(max=nodes - 1)
    first = source // COMMUNITY * COMMUNITY
    size = (nodes - first).clamp_(max=COMMUNITY)
    draw = torch.rand(count, generator=generator, dtype=torch.float64)
    near = first + (draw * size).long()
    far = (draw * nodes).long()
    stays = torch.rand(count, generator=generator) < INSIDE
    return torch.stack([source, near.where(stays, far)])


def steps(scale: float) -> list[int]:
    """The numbers of nodes: LiveJournal's times `scale`, a tenth, … some thousand."""
    found = [round(NODES * scale)]
    while found[-1] / 10 >= SMALLEST:
        found.append(found[-1] // 10)
    return found[::-1]


def edges_of(nodes: int) -> int:
    """As many edges as LiveJournal has for so many nodes."""
    return round(EDGES * nodes / NODES)
