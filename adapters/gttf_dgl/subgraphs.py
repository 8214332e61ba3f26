"""Samplers of one graph for all layers: GTTFSubgraphSampler, ShaDow and SAINT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from dgl import NID, DGLGraph
from dgl import dataloading as theirs
from torch import Tensor

from gttf_dgl import _check
from gttf_dgl._blocks import graph_of, output_device
from gttf_dgl._check import Nodes
from gttf_dgl._compat import (
    set_edge_lazy_features,
    set_node_lazy_features,
    structure_of,
)
from gttf_dgl._source import Choice, Source, named_edges
from gttf_dgl.sampler import KeyedSampler, NeighborChoice
from gttf_dgl.sampling import random_walk
from gttf_sampler import BiasFn, HeteroSubgraph, Subgraph, random
from gttf_sampler.graph.tables import kept_of
from gttf_sampler.rooted.sample import WeightedDraw, draw_ids

MODES = ("node", "edge", "walk")


class GTTFSubgraphSampler(NeighborChoice, theirs.Sampler):
    """Samples one graph that all layers of a deep model share; the paper's Ã.

    >>> import dgl, torch
    >>> from gttf_dgl import GTTFSubgraphSampler
    >>> g = dgl.graph(([1, 2, 3, 4], [0, 0, 0, 2]))
    >>> sampler = GTTFSubgraphSampler([1, -1])
    >>> input_nodes, output_nodes, batch = sampler.sample(g, torch.tensor([0]))
    >>> input_nodes[0], batch.num_edges()
    (tensor(0), 4)

    A node is expanded once, when first reached. The seeds are the first nodes of the
    graph (of each type), in their order. Returns what `ShaDowKHopSampler` returns, but
    holds the sampled edges only, not all edges between the sampled nodes.

    Args:
        fanouts: as in `GTTFSampler`, farthest hop first; one entry per hop, however
            many layers the model has.
        replace: see `GTTFSampler`, like all that is not named here.
        prefetch_node_feats: node data that all nodes will have.
        prefetch_edge_feats: edge data that all edges will have.
        prefetch_labels: node data, too; the seeds' labels are the first rows.
        normalize: weights in `edata["norm"]`, for an unbiased `GraphConv`.
    """

    def __init__(
        self,
        fanouts: Any,
        replace: bool = False,
        prob: str | None = None,
        prefetch_node_feats: Any = None,
        prefetch_edge_feats: Any = None,
        output_device: Any = None,
        *,
        prefetch_labels: Any = None,
        edge_dir: str = "in",
        mask: str | None = None,
        bias: BiasFn | Mapping[Any, BiasFn] | None = None,
        generator: Any = None,
        seed: int | None = None,
        normalize: str | None = None,
        thread_workers: bool | None = None,
    ) -> None:
        choice = Choice(edge_dir, prob, mask, replace, bias).checked(rooted=True)
        self.choose(fanouts, choice, normalize, prefetch_edge_feats)
        columns = _check.columns
        self.prefetch_node_feats = columns("prefetch_node_feats", prefetch_node_feats)
        self.prefetch_labels = columns("prefetch_labels", prefetch_labels)
        self.prefetch_edge_feats = columns("prefetch_edge_feats", prefetch_edge_feats)
        self.output_device = _check.device_or_none("output_device", output_device)
        self.use_keys(generator, seed, thread_workers)

    def sample(
        self, g: DGLGraph, seed_nodes: Any, exclude_eids: Any = None
    ) -> tuple[Any, Any, DGLGraph]:
        """(input_nodes, output_nodes, graph): all ids, the seeds, the sample."""
        source = self.source_of(g, seed_nodes, exclude_eids)
        seeds = _check.seeds(g, seed_nodes, device=source.device)
        batch = self._batch(source, seeds, self.hops_of(g))
        device = output_device(self.output_device, seed_nodes, g)
        if device != source.device:
            batch = batch.to(device)
        input_nodes = batch.ndata[NID]
        set_node_lazy_features(batch, self.prefetch_node_feats)
        set_node_lazy_features(batch, self.prefetch_labels)
        if self.edge_dir == "in" or len(batch.ntypes) == 1:  # see `GTTFSampler`
            set_edge_lazy_features(batch, self.prefetch_edge_feats)
        return input_nodes, seed_nodes, batch

    def _batch(self, source: Source, seeds: Nodes, hops: list[list[int]]) -> DGLGraph:
        drawn = source.draw(seeds, hops, self.next_key())
        return graph_of(source, drawn, self.normalize)


class ShaDowKHopSampler(GTTFSubgraphSampler, theirs.ShaDowKHopSampler):
    """Samples neighbourhoods and returns the graph that their nodes induce.

    >>> import dgl, torch
    >>> from gttf_dgl import ShaDowKHopSampler
    >>> g = dgl.graph(([1, 2, 3, 2, 0], [0, 0, 0, 1, 1]))
    >>> input_nodes, _, batch = ShaDowKHopSampler([-1]).sample(g, torch.tensor([0]))
    >>> batch.ndata[dgl.NID].tolist(), batch.num_edges()
    ([0, 1, 2, 3], 5)

    Takes the arguments of `dgl.dataloading.ShaDowKHopSampler` and gives what that gives
    (Zeng et al., 2021): all nodes reached so far draw anew for every hop, the seeds
    come first, and excluded edges are in no graph. `GTTFSubgraphSampler`, whose
    arguments it has, keeps the sampled edges only.
    """

    def __init__(self, fanouts: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("normalize") is not None:
            rule = "must not be given where all edges between the nodes are there"
            _check.fail("normalize", rule, repr(kwargs["normalize"]))
        super().__init__(fanouts, *args, **kwargs)

    def _batch(self, source: Source, seeds: Nodes, hops: list[list[int]]) -> DGLGraph:
        root = random.new_key(self.next_key(), source.device, random.BATCH)
        nodes = seeds
        for layer, fanouts in enumerate(hops):
            drawn = source.draw(nodes, [fanouts], int(random.fold(root, layer)))
            nodes = {name: drawn.node[name] for name in seeds}
        return graph_of(source, _induced(source, nodes))


def _induced(source: Source, nodes: Nodes) -> HeteroSubgraph:
    """All edges between the nodes, but the excluded ones, by DGL's ids."""
    none = torch.empty(0, dtype=torch.int64, device=source.device)
    blank = dict.fromkeys(source.adjs, none)
    known = {name for kind in source.adjs for name in (kind[0], kind[2])}
    reached = {name: ids for name, ids in nodes.items() if name in known}
    whole = HeteroSubgraph(reached, blank, blank, blank, None, None, None)
    whole = whole.induced(source.adjs)
    for kind, hidden in source.excluded.items():
        kept = ~torch.isin(whole.edge[kind], hidden)
        for part in (whole.row, whole.col, whole.edge):
            part[kind] = part[kind][kept]
    edge = named_edges(source.adjs, whole.edge)
    return replace(whole, node={**nodes, **whole.node}, edge=edge)


def from_subgraph(
    g: DGLGraph, subgraph: Subgraph | HeteroSubgraph, *, edge_dir: str = "in"
) -> DGLGraph:
    """The DGLGraph of a sample from `to_compact(g)`, with the data of `g`.

    >>> import dgl
    >>> from gttf_dgl import from_subgraph, to_compact
    >>> from gttf_sampler import sample_rooted
    >>> g = dgl.graph(([1, 2, 3, 4], [0, 0, 0, 2]))
    >>> batch = from_subgraph(g, sample_rooted(to_compact(g), [2, 0], [-1]))
    >>> batch.ndata[dgl.NID].tolist(), batch.edata[dgl.EID].tolist()
    ([2, 0, 4, 1, 3], [3, 0, 1, 2])

    Args:
        g: the graph that was sampled from.
        subgraph: the sample; a `HeteroSubgraph` must have all edge types of `g`.
        edge_dir: "out" if the rows were those of `direction="out"`.
    """
    _check.one_of("edge_dir", edge_dir, _check.EDGE_DIRS)
    source = Source.of(g, Choice(edge_dir))
    if isinstance(subgraph, Subgraph):
        if not _check.one_type(g):
            rule = "must be a HeteroSubgraph, as there are several types"
            _check.mistyped("subgraph", rule, type(subgraph).__name__)
        kind, one = g.canonical_etypes[0], subgraph
        ends = {kind: one.row}, {kind: one.col}
        node, edge = {kind[0]: one.node}, {kind: one.edge}
        subgraph = HeteroSubgraph(node, *ends, edge, None, None, None)
    elif not isinstance(subgraph, HeteroSubgraph):
        rule = "must be a Subgraph or a HeteroSubgraph"
        _check.mistyped("subgraph", rule, type(subgraph).__name__)
    missing = [kind for kind in source.adjs if kind not in subgraph.edge]
    if missing:
        rule = f"must have all edge types of the graph, also {missing[0]}"
        _check.fail("subgraph", rule, list(subgraph.edge))
    for name, ids in subgraph.node.items():
        _check.ids("subgraph.node", ids, g.num_nodes(name), g.device)
    for kind in source.adjs:
        for ids, end in ((subgraph.row[kind], kind[0]), (subgraph.col[kind], kind[2])):
            size = len(subgraph.node.get(end, ()))
            _check.ids("subgraph.row and .col", ids, size, g.device, "its nodes")
    subgraph = replace(subgraph, edge=named_edges(source.adjs, subgraph.edge))
    return graph_of(source, subgraph)


class SAINTSampler(KeyedSampler, theirs.SAINTSampler):
    """Samples a graph of some nodes with all edges between them, in place of DGL's.

    >>> import dgl, torch
    >>> from gttf_dgl import SAINTSampler
    >>> g, turns = dgl.rand_graph(100, 1000), torch.arange(10)
    >>> loader = dgl.dataloading.DataLoader(g, turns, SAINTSampler("node", 30))
    >>> len(loader), all(graph.num_nodes() <= 30 for graph in loader)
    (10, True)

    GraphSAINT (Zeng et al., 2020). "node" draws nodes in proportion to the edges that
    leave them; "edge" draws edges in proportion to 1/δ of both their ends, and takes
    the ends; "walk" takes what walks from nodes drawn uniformly have visited. Draws are
    with replacement and follow `torch.manual_seed`, see `GTTFSampler`.

    Args:
        mode: "node", "edge" or "walk".
        budget: how many nodes or edges are drawn; (walks, steps) for "walk".
        cache: for scripts that pass it; what is made of a graph is kept with it.
        prefetch_ndata: node data that the graph will have.
        prefetch_edata: edge data that it will have.
        output_device: see `GTTFSampler`, like what follows.
    """

    def __init__(
        self,
        mode: str,
        budget: Any,
        cache: bool = True,
        prefetch_ndata: Any = None,
        prefetch_edata: Any = None,
        output_device: Any = "cpu",
        *,
        generator: Any = None,
        seed: int | None = None,
        thread_workers: bool | None = None,
    ) -> None:
        if mode not in MODES:
            _check.fail_like_dgl("mode", f"must be one of {MODES}", repr(mode))
        self.mode, self.budget = mode, _budget(mode, budget)
        self.cache = _check.yes_or_no("cache", cache)
        columns = _check.columns
        self.prefetch_ndata = columns("prefetch_ndata", prefetch_ndata) or []
        self.prefetch_edata = columns("prefetch_edata", prefetch_edata) or []
        self.output_device = _check.device_or_none("output_device", output_device)
        self.use_keys(generator, seed, thread_workers)

    def sample(self, g: DGLGraph, indices: Any) -> DGLGraph:
        """The graph of one batch; `indices` only say how many batches there are."""
        _check.homogeneous(g)
        _check.prefetched(g, self)
        what = "edge" if self.mode == "edge" else "node"
        if self.budget[0] and not getattr(g, f"num_{what}s")():  # DGL raises as well
            rule = f"must have at least one {what} to draw from"
            _check.fail_like_dgl("g", rule, "none")
        nodes = getattr(self, f"{self.mode}_sampler")(g).to(g.idtype)
        device = self.output_device
        batch = g.subgraph(nodes, relabel_nodes=True, output_device=device)
        set_node_lazy_features(batch, self.prefetch_ndata)
        set_edge_lazy_features(batch, self.prefetch_edata)
        return batch

    def node_sampler(self, g: DGLGraph) -> Tensor:
        """Ids of nodes, each once and ascending, drawn in proportion."""
        return self._drawn(g, "node")

    def edge_sampler(self, g: DGLGraph) -> Tensor:
        """Ids of the ends of edges that were drawn in proportion."""
        edges = self._drawn(g, "edge").to(g.idtype)
        ends: Tensor = torch.cat(g.find_edges(edges)).unique()
        return ends

    def walk_sampler(self, g: DGLGraph) -> Tensor:
        """Ids of nodes on walks from nodes drawn uniformly, ascending."""
        key, (walks, steps) = self.next_key(), self.budget
        if not g.num_nodes():
            return torch.empty(0, dtype=torch.int64, device=g.device)
        own = random.new_key(key, g.device, random.BATCH)
        start = draw_ids(walks, g.num_nodes(), own, g.device)
        traces = random_walk(g, start, length=steps, generator=int(own))[0]
        visited: Tensor = traces[traces >= 0].unique()
        return visited

    def _drawn(self, g: DGLGraph, mode: str) -> Tensor:
        """Ids of nodes or edges, each once and ascending, drawn in proportion."""
        (count,) = self.budget

        def make() -> WeightedDraw:
            weight = g.out_degrees().double().clamp(min=1)
            if mode == "edge":
                sender, receiver = (end.long() for end in g.edges(order="eid"))
                arrive = g.in_degrees().double().clamp(min=1)
                weight = 1 / arrive[receiver] + 1 / weight[sender]
            return WeightedDraw(weight, count)

        kept = kept_of(structure_of(g))
        return kept.get(("saint", mode, count), make)(self.next_key())


def _budget(mode: str, value: Any) -> tuple[int, ...]:
    """One number, or two for walks."""
    if mode != "walk":
        return (_check.length("budget", value),)
    if not isinstance(value, tuple | list) or len(value) != 2:
        _check.fail("budget", "must be (walks, steps) for walks", value)
    return tuple(_check.length("budget", part) for part in value)
