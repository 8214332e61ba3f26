"""Source: the rows of a DGLGraph that batches are drawn from; to_compact()."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from operator import mul
from typing import Any, NamedTuple

import torch
from dgl import DGLGraph
from torch import Tensor

from gttf_dgl import _check
from gttf_dgl._check import EdgeType, Nodes
from gttf_dgl._compat import structure_of
from gttf_sampler import (
    BiasFn,
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    HeteroSubgraph,
    random,
)
from gttf_sampler._backends.streams import streams_of
from gttf_sampler._check import integers
from gttf_sampler.distributed import PartitionedAdj
from gttf_sampler.graph.tables import kept_of
from gttf_sampler.rooted import RootedSampler

# "turned" are the rows of "out", taken as edges into a node of the reversed graph
FORMATS = {"in": "csc", "out": "csr", "turned": "csr"}


def to_compact(
    g: DGLGraph,
    etype: str | EdgeType | None = None,
    *,
    direction: str = "in",
    prob: str | None = None,
    mask: str | None = None,
) -> CompactAdj:
    """The `CompactAdj` of one edge type of a DGLGraph, on DGL's own arrays.

    >>> import dgl
    >>> from gttf_dgl import to_compact
    >>> g = dgl.graph(([0, 2, 3], [1, 1, 2]))
    >>> adj = to_compact(g)
    >>> adj.neighbor(1, 0).item(), adj.neighbor(1, 1).item()
    (0, 2)
    >>> to_compact(g) is adj
    True

    `adj.edge_id` are DGL's edge ids. The result is kept as long as the structure of the
    graph lives, and made anew if edges were added or removed, or the edge data changed.
    Call it before a DataLoader forks workers, and they find it ready.

    Args:
        g: the graph, on any device.
        etype: the edge type; not needed if there is one only.
        direction: "in" for message passing, "out" for walks.
        prob: name of edge data that become the edge weights.
        mask: the same for boolean data: one where it is true.
    """
    _check.graph(g)
    _check.one_of("direction", direction, _check.EDGE_DIRS)
    if etype is None and len(g.canonical_etypes) != 1:
        rule = "must name one of the edge types of the graph"
        _check.fail_like_dgl("etype", rule, None)
    kind = g.canonical_etypes[0] if etype is None else etype
    kind = _check.edge_type("etype", g, kind)
    if (prob is not None or mask is not None) and kind not in kinds_with(g, prob, mask):
        got = repr(prob or mask)
        _check.fail("mask" if prob is None else "prob", f"must be data of {kind}", got)
    return rows(g, kind, direction, prob, mask)


def rows(
    g: DGLGraph,
    kind: EdgeType,
    direction: str,
    prob: str | None = None,
    mask: str | None = None,
) -> CompactAdj:
    """The rows of a canonical edge type, with weights where it has the named data.

    They are kept with the structure of the graph, which DGL replaces when edges or
    nodes are added or removed in place, and made anew when the data have changed.
    """
    kept = kept_of(structure_of(g))
    adj = kept.get((kind, direction), lambda: _make_rows(g, kind, direction))
    argument, name = ("mask", mask) if prob is None else ("prob", prob)
    if name is None or name not in g.edges[kind].data:
        return adj
    data = g.edges[kind].data[name]

    def weigh() -> CompactAdj:
        weight = _check.weights(argument, name, data, boolean=prob is None)
        if adj.edge_id is not None:
            weight = weight.index_select(0, adj.edge_id)
        return replace(adj, edge_weight=weight.to(adj.device)).trusted()

    return kept.get((kind, direction, argument, name), weigh, data)


def _make_rows(g: DGLGraph, kind: EdgeType, direction: str) -> CompactAdj:
    """DGL's arrays as they are; sorted anew if the graph is kept from having them."""
    allowed = {form for forms in g.formats().values() for form in forms}
    way = "out" if direction == "out" else "in"
    if FORMATS[direction] in allowed:
        indptr, indices, eids = g.adj_tensors(FORMATS[direction], kind)
        num_cols = g.num_nodes(kind[0] if direction == "in" else kind[2])
        edge_id = eids if len(eids) else None
        # DGL has checked these arrays; checking again would be O(m) in every worker
        return CompactAdj(indptr.long(), indices, num_cols, way, edge_id).trusted()
    if "coo" in allowed:
        ends = torch.stack(g.edges(order="eid", etype=kind))
    else:
        ends = rows(g, kind, "in" if direction != "in" else "out").to_edge_index()
    sizes = g.num_nodes(kind[0]), g.num_nodes(kind[2])
    if direction == "turned":
        ends, sizes = ends.flip(0), sizes[::-1]
    return CompactAdj.from_edge_index(ends, sizes, direction=way)


def kinds_with(g: DGLGraph, prob: str | None, mask: str | None) -> list[EdgeType]:
    """The edge types that have the named data; there must be one at least."""
    argument, name = ("mask", mask) if prob is None else ("prob", prob)
    if name is None:
        return []
    _check.one_column(prob, mask)
    kinds = [kind for kind in g.canonical_etypes if name in g.edges[kind].data]
    if not kinds:
        known = {key for kind in g.canonical_etypes for key in g.edges[kind].data}
        rule = "must be the name of edge data of the graph"
        _check.fail(argument, rule, repr(name), f"there are {sorted(known)}")
    return kinds


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
    prob: str | None = None
    mask: str | None = None
    replace: bool = False
    bias: BiasFn | Mapping[Any, BiasFn] | None = None

    def checked(self, rooted: bool = False) -> Choice:
        """This choice, after checks of what the caller passed."""
        _check.one_of("edge_dir", self.edge_dir, _check.EDGE_DIRS)
        _check.one_column(self.prob, self.mask)
        _check.bias(self.bias, rooted, self.prob)
        return self._replace(replace=_check.yes_or_no("replace", self.replace))

    @property
    def uniform(self) -> bool:
        """True if every neighbour is as likely as any other."""
        return self.prob is None and self.mask is None and self.bias is None


class Rows(dict[EdgeType, CompactAdj]):
    """The rows of every edge type, with the samplers that were made of them."""

    @cached_property
    def remote(self) -> bool:
        """True if rows are in other processes."""
        return any(isinstance(adj, PartitionedAdj) for adj in self.values())

    def sampler(self, hops: Sequence[Sequence[int]], replace: bool) -> RootedSampler:
        """A sampler; `hops` has the fanouts of every edge type for each hop."""

        def make() -> RootedSampler:
            each = dict(zip(self, map(list, zip(*hops, strict=True)), strict=True))
            return RootedSampler(self, each, replace=replace)

        return kept_of(self).get(("rooted", replace, str(hops)), make)


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
        edge_dir, prob, mask = choice.edge_dir, choice.prob, choice.mask
        device = _drawn_on(g, seeds)
        column = mask if prob is None else prob
        data = [g.edges[kind].data[column] for kind in kinds_with(g, prob, mask)]

        def make() -> Rows:
            way = "in" if edge_dir == "in" else "turned"
            adjs = {kind: rows(g, kind, way, prob, mask) for kind in g.canonical_etypes}
            if device != g.device:
                adjs = {kind: adj.uva(device) for kind, adj in adjs.items()}
            return Rows({_turned(kind, edge_dir): adj for kind, adj in adjs.items()})

        place = "rows", edge_dir, prob, mask, device
        adjs = kept_of(structure_of(g)).get(place, make, *data)
        hidden = {}
        for kind, eids in _excluded(g, exclude_eids, name, device).items():
            kind = _turned(kind, edge_dir)
            hidden[kind] = _positions(adjs[kind], eids)
        return cls(g, choice, adjs, hidden, device)

    def draw(
        self,
        seeds: Nodes,
        hops: Sequence[list[int]],
        generator: random.Randomness,
        bias: Mapping[EdgeType, BiasFn] | None = None,
    ) -> HeteroSubgraph:
        """Samples; `hops` has the fanouts of every edge type for each hop.

        Edges are named by DGL's ids. A `bias` stands in the place of `biases`.
        """
        rooted = self.adjs.sampler(hops, self.choice.replace)
        reached = {name: seeds[name] for name in seeds if name in rooted.number}
        own = self.biases() if bias is None else bias
        sound = self.device.type == "cpu"  # as `_check.seeds` has seen to
        drawn: Any = rooted.sample(reached, own, generator, validated=sound)
        for name, ids in seeds.items():
            if name not in reached:  # no edge has an end there
                drawn.node[name] = ids
                drawn.num_sampled_nodes[name] = [len(ids)] + [0] * len(hops)
        found: HeteroSubgraph = drawn
        return found

    def biases(self) -> dict[EdgeType, BiasFn]:
        """The product of all that was asked for, per edge type."""
        g, own = self.g, self.choice.bias
        if isinstance(own, Mapping):
            own = {_check.edge_type("bias", g, kind): x for kind, x in own.items()}
        biases: dict[EdgeType, BiasFn] = {}
        for kind, (turned, adj) in zip(
            g.canonical_etypes, self.adjs.items(), strict=True
        ):
            parts: list[Any] = []
            if adj.edge_weight is not None:
                parts.append(EdgeWeightBias())
            if turned in self.excluded:
                parts.append(ExcludeBias(self.excluded[turned]))
            part = own.get(kind) if isinstance(own, Mapping) else own
            if part is not None:
                parts.append(part)
            if parts:
                biases[turned] = reduce(mul, parts)
        return biases


def named_edges(
    adjs: Mapping[EdgeType, CompactAdj], edges: Mapping[EdgeType, Tensor]
) -> dict[EdgeType, Tensor]:
    """DGL's ids of positions in the rows, per edge type."""
    return {kind: adj.original_edge(edges[kind]) for kind, adj in adjs.items()}


def devices_of(seeds: Any) -> list[torch.device]:
    """The devices of seeds, a tensor or one per node type."""
    parts = seeds.values() if isinstance(seeds, Mapping) else [seeds]
    return [part.device for part in parts if isinstance(part, Tensor)]


def _drawn_on(g: DGLGraph, seeds: Any) -> torch.device:
    """The device on which a batch of `seeds` is drawn.

    With `use_uva=True` DGL's loader pins the graph and hands over ids of the device.
    """
    own: torch.device = g.device
    there = {*devices_of(seeds)} - {own}
    if len(there) != 1 or own.type != "cpu" or not g.is_pinned():
        return own
    (device,) = there
    return own if streams_of(device) is None else device


def _turned(kind: EdgeType, edge_dir: str) -> EdgeType:
    """The type of the edges of a batch: messages run from neighbour to seed."""
    return kind if edge_dir == "in" else (kind[2], kind[1], kind[0])


def _excluded(
    g: DGLGraph, eids: Any, name: str, device: torch.device
) -> dict[EdgeType, Tensor]:
    """DGL's `exclude_eids`, a tensor or a mapping, as ids per edge type.

    As DGL does, it passes over ids that the graph lacks: `reverse_id` makes such ids.
    """
    if eids is None:
        return {}
    if not isinstance(eids, Mapping):
        if len(g.canonical_etypes) > 1:
            rule = "must map edge types to ids, as there are several types"
            _check.fail_like_dgl(name, rule, type(eids).__name__)
        eids = {g.canonical_etypes[0]: eids}
    found = {}
    for kind, part in eids.items():
        kind = _check.edge_type(name, g, kind)
        named = integers(name, part).to(device=device, dtype=torch.int64)
        named = named[(named >= 0) & (named < g.num_edges(kind))]
        if named.numel():
            found[kind] = named
    return found


def _positions(adj: CompactAdj, eids: Tensor) -> Tensor:
    """The positions in `adj.col` of the edges with DGL's ids."""
    edge_id = adj.edge_id
    if edge_id is None:
        return eids

    def invert() -> Tensor:
        place = torch.arange(edge_id.numel(), device=edge_id.device).to(edge_id.dtype)
        return torch.empty_like(place).index_copy_(0, edge_id.long(), place)

    return adj.cached("place_of_edge", invert).index_select(0, eids).long()
