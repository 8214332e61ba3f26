"""Source: what the batches of one graph are drawn from, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import mul
from typing import Any, NamedTuple

import torch
from dgl import DGLGraph
from torch import Tensor

from gttf_dgl import _check
from gttf_dgl._check import EdgeType
from gttf_dgl.compact import kinds_with, read_by, weighted_rows
from gttf_sampler import (
    BiasFn,
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    HeteroSubgraph,
    Subgraph,
    random,
)
from gttf_sampler._backends.streams import streams_of
from gttf_sampler.distributed import PartitionedAdj
from gttf_sampler.graph.kept import kept_of
from gttf_sampler.rooted import RootedSampler


class Choice(NamedTuple):
    """The options of a sampler by which it chooses among the neighbours.

    Attributes:
        edge_dir: "in" or "out".
        prob: name of edge data to draw in proportion to, or None.
        mask: name of boolean edge data that admit an edge, or None.
        replace: whether a neighbour may be drawn twice.
        bias: one for all edge types, or per edge type, or None.
    """

    edge_dir: str
    prob: str | None
    mask: str | None
    replace: bool
    bias: BiasFn | Mapping[Any, BiasFn] | None

    @classmethod
    def checked(
        cls, edge_dir: str, prob: Any, mask: Any, replace: Any, bias: Any, rooted: bool
    ) -> Choice:
        """A choice from what the caller passed."""
        _check.one_of("edge_dir", edge_dir, _check.EDGE_DIRS)
        _check.one_column(prob, mask)
        _check.yes_or_no("replace", replace)
        bias = _check.bias(bias, rooted, prob)
        return cls(edge_dir, prob, mask, bool(replace), bias)

    @classmethod
    def of(cls, sampler: Any) -> Choice:
        """The choice of a sampler, by the attributes that it has now."""
        return cls(*(getattr(sampler, name) for name in cls._fields))

    @property
    def uniform(self) -> bool:
        """True if every neighbour is as likely as any other."""
        return self.prob is None and self.mask is None and self.bias is None


class Source(NamedTuple):
    """The rows of every edge type, in the order of the graph's edge types.

    With `edge_dir="out"` all edges are turned round, as `dgl.reverse` does it: type
    (a, r, b) becomes (b, r, a).

    Attributes:
        g: the graph.
        choice: how to choose.
        adjs: per edge type of a batch, where to walk.
        excluded: per edge type, the positions [k] that must not be taken.
        device: where it is drawn: where the graph is, or where the seeds are if that
            device reads a pinned graph.
    """

    g: DGLGraph
    choice: Choice
    adjs: Rows
    excluded: dict[EdgeType, Tensor]
    device: torch.device

    @classmethod
    def of(
        cls,
        g: DGLGraph,
        choice: Choice,
        exclude_eids: Any = None,
        name: str = "exclude_eids",
        seeds: Any = None,
    ) -> Source:
        """The rows of `g`, from the cache where they are known."""
        _check.graph(g)
        device = _drawn_on(g, seeds)
        kinds = kinds_with(g, choice.prob, choice.mask)
        column = choice.mask if choice.prob is None else choice.prob
        data = [g.edges[kind].data[column] for kind in kinds]
        place = "rows", choice.edge_dir, choice.prob, choice.mask, device

        def make() -> Rows:
            return _rows(g, choice, kinds, device)

        adjs = kept_of(g._graph).get(place, make, *data)
        hidden = {}
        for kind, eids in _excluded(g, exclude_eids, name, device).items():
            kind = _turned(kind, choice.edge_dir)
            hidden[kind] = _positions(adjs[kind], eids)
        return cls(g, choice, adjs, hidden, device)

    @property
    def remote(self) -> bool:
        """True if rows are in other processes."""
        return any(isinstance(adj, PartitionedAdj) for adj in self.adjs.values())

    def draw(
        self,
        seeds: dict[str, Tensor],
        hops: Sequence[list[int]],
        generator: random.Randomness,
        bias: Mapping[EdgeType, BiasFn] | None = None,
    ) -> HeteroSubgraph:
        """Samples; `hops` has the fanouts of every edge type for each hop.

        Edges are named by DGL's ids. A `bias` stands in the place of `biases`.
        """
        rooted = self._rooted(hops)
        reached = {name: seeds[name] for name in seeds if name in rooted.number}
        own = self.biases() if bias is None else bias
        drawn: Any = rooted.sample(reached, own, generator)
        counts = drawn.num_sampled_nodes
        for name in seeds:
            if name not in rooted.number:  # no edge has an end there
                drawn.node[name] = seeds[name]
                counts[name] = [len(seeds[name])] + [0] * len(hops)
        found: HeteroSubgraph = drawn
        return found

    def _rooted(self, hops: Sequence[list[int]]) -> RootedSampler:
        """The engine's sampler for these rows, kept as long as they are."""
        place = "rooted", self.choice.replace, str(hops)

        def make() -> RootedSampler:
            fanouts = {
                kind: [hop[number] for hop in hops]
                for number, kind in enumerate(self.adjs)
            }
            return RootedSampler(self.adjs, fanouts, replace=self.choice.replace)

        return kept_of(self.adjs).get(place, make)

    def biases(self) -> dict[EdgeType, BiasFn]:
        """The product of all that was asked for, per edge type."""
        own = self.choice.bias
        if isinstance(own, Mapping):
            named = {
                _check.edge_type("bias", self.g, kind): part
                for kind, part in own.items()
            }
        else:
            named = {} if own is None else dict.fromkeys(self.g.canonical_etypes, own)
        biases: dict[EdgeType, BiasFn] = {}
        for kind, (turned, adj) in zip(
            self.g.canonical_etypes, self.adjs.items(), strict=True
        ):
            parts: list[Any] = []
            if adj.edge_weight is not None:
                parts.append(EdgeWeightBias())
            if turned in self.excluded:
                parts.append(ExcludeBias(self.excluded[turned]))
            if kind in named:
                parts.append(named[kind])
            if parts:
                biases[turned] = reduce(mul, parts)
        return biases


class OneHop(NamedTuple):
    """The arguments of a function that samples one hop.

    Attributes:
        source: the rows.
        seeds: ids per node type.
        fanouts: of every edge type.
    """

    source: Source
    seeds: dict[str, Tensor]
    fanouts: list[int]

    @classmethod
    def of(
        cls, g: DGLGraph, nodes: Any, fanout: Any, choice: Choice, exclude_edges: Any
    ) -> OneHop:
        """The arguments as the caller passed them, checked."""
        source = Source.of(g, choice, exclude_edges, "exclude_edges")
        seeds = _check.seeds(g, _check.several_of_each(nodes), "nodes")
        (fanouts,) = _check.fanouts([fanout], "fanout")
        return cls(source, seeds, _check.layer_fanouts(g, fanouts, "fanout"))


def typed(drawn: Subgraph, name: str, kind: EdgeType) -> HeteroSubgraph:
    """A sample of a graph with one node type and one edge type, under their names."""
    return HeteroSubgraph(
        {name: drawn.node},
        {kind: drawn.row},
        {kind: drawn.col},
        {kind: drawn.edge},
        None if drawn.batch is None else {name: drawn.batch},
        {name: drawn.num_sampled_nodes or []},
        {kind: drawn.num_sampled_edges or []},
    )


class Rows(dict[EdgeType, CompactAdj]):
    """The rows of every edge type; a class of its own to be referred to weakly."""


def _drawn_on(g: DGLGraph, seeds: Any) -> torch.device:
    """The device on which a batch of `seeds` is drawn.

    With `use_uva=True` DGL's loader pins the graph and hands over ids of the device.
    """
    parts = seeds.values() if isinstance(seeds, Mapping) else [seeds]
    places = {part.device for part in parts if isinstance(part, Tensor)}
    places.discard(g.device)
    if len(places) != 1 or g.device.type != "cpu" or not g.is_pinned():
        found: torch.device = g.device
        return found
    (device,) = places
    return device if streams_of(device) is not None else g.device


def _rows(
    g: DGLGraph, choice: Choice, heavy: Sequence[EdgeType], device: torch.device
) -> Rows:
    """The rows of every edge type, with weights where the data are named."""
    adjs, direction = Rows(), "in" if choice.edge_dir == "in" else "turned"
    for kind in g.canonical_etypes:
        named = (choice.prob, choice.mask) if kind in heavy else (None, None)
        adj = weighted_rows(g, kind, direction, *named)
        if device != g.device:
            adj = read_by(adj, device)
        adjs[_turned(kind, choice.edge_dir)] = adj
    return adjs


def named_edges(
    adjs: Mapping[EdgeType, CompactAdj], edges: Mapping[EdgeType, Tensor]
) -> dict[EdgeType, Tensor]:
    """DGL's ids of positions in the rows, per edge type."""
    return {kind: adj.original_edge(edges[kind]) for kind, adj in adjs.items()}


def _turned(kind: EdgeType, edge_dir: str) -> EdgeType:
    """The type of the edges of a batch: messages run from neighbour to seed."""
    source, relation, target = kind
    return kind if edge_dir == "in" else (target, relation, source)


def _excluded(
    g: DGLGraph, eids: Any, name: str, device: torch.device
) -> dict[EdgeType, Tensor]:
    """DGL's `exclude_eids`, a tensor or a mapping, as ids per edge type."""
    if eids is None:
        return {}
    if not isinstance(eids, Mapping):
        if len(g.canonical_etypes) > 1:
            rule = "must map edge types to ids, as there are several types"
            _check.fail_like_dgl(name, rule, type(eids).__name__)
        eids = {g.canonical_etypes[0]: eids}
    named = {_check.edge_type(name, g, kind): ids for kind, ids in eids.items()}
    checked = {
        kind: _check.some_ids(name, ids, g.num_edges(kind), device)
        for kind, ids in named.items()
    }
    return {kind: ids for kind, ids in checked.items() if ids.numel()}


def _positions(adj: CompactAdj, eids: Tensor) -> Tensor:
    """The positions in `adj.col` of the edges with DGL's ids."""
    edge_id = adj.edge_id
    if edge_id is None:
        return eids

    def invert() -> Tensor:
        place = torch.arange(edge_id.numel(), device=edge_id.device).to(edge_id.dtype)
        return torch.empty_like(place).index_copy_(0, edge_id.long(), place)

    return adj.cached("place_of_edge", invert).index_select(0, eids).long()
