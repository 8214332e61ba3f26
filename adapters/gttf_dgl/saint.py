"""SAINTSampler: graphs induced by nodes that edges, walks or degrees have chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from dgl import DGLGraph
from dgl.dataloading import Sampler
from torch import Tensor

from gttf_dgl import _check
from gttf_dgl._compat import set_edge_lazy_features, set_node_lazy_features
from gttf_dgl._keys import KeyedSampler
from gttf_dgl.walks import random_walk
from gttf_sampler import CompactAdj, EdgeWeightBias, random
from gttf_sampler.graph.kept import kept_of
from gttf_sampler.rooted import RootedSampler

MODES = ("node", "edge", "walk")
LOT = ("drawn", "from", "lot")


class SAINTSampler(KeyedSampler, Sampler):
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
        output_device: where it goes.
        generator: a torch.Generator, of which one number is taken now, or an integer.
        seed: the same for an integer.
        thread_workers: whether a thread stands in for workers; see `DataLoader`.
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
        super().__init__()
        if mode not in MODES:
            _check.fail_like_dgl("mode", f"must be one of {MODES}", repr(mode))
        self.mode, self.budget = mode, _budget(mode, budget)
        _check.yes_or_no("cache", cache)
        self.cache = cache
        columns = _check.columns
        self.prefetch_ndata = columns("prefetch_ndata", prefetch_ndata) or []
        self.prefetch_edata = columns("prefetch_edata", prefetch_edata) or []
        self.output_device = _check.device_or_none("output_device", output_device)
        self.use_keys(generator, seed, thread_workers)

    def sample(self, g: DGLGraph, indices: Any) -> DGLGraph:
        """The graph of one batch; `indices` only say how many batches there are."""
        _check.graph(g)
        if len(g.ntypes) > 1 or len(g.canonical_etypes) > 1:
            rule = "must have one node type and one edge type"
            _check.fail_like_dgl("g", rule, f"{g.ntypes} and {g.canonical_etypes}")
        _check.prefetched(g, self)
        what = "edge" if self.mode == "edge" else "node"
        if self.budget[0] and not getattr(g, f"num_{what}s")():  # DGL raises as well
            rule = f"must have at least one {what} to draw from"
            _check.fail_like_dgl("g", rule, "none")
        key = self._keys.next()
        nodes = getattr(self, f"_by_{self.mode}")(g, key).to(g.idtype)
        device = self.output_device
        batch = g.subgraph(nodes, relabel_nodes=True, output_device=device)
        set_node_lazy_features(batch, self.prefetch_ndata)
        set_edge_lazy_features(batch, self.prefetch_edata)
        return batch

    def _by_node(self, g: DGLGraph, key: int) -> Tensor:
        """Ids of nodes, ascending."""
        return _drawn(g, "node", self.budget[0], key, _node_weights)

    def _by_edge(self, g: DGLGraph, key: int) -> Tensor:
        """Ids of the ends of edges, ascending."""
        edges = _drawn(g, "edge", self.budget[0], key, _edge_weights)
        ends: Tensor = torch.cat(g.find_edges(edges.to(g.idtype))).unique()
        return ends

    def _by_walk(self, g: DGLGraph, key: int) -> Tensor:
        """Ids of nodes on walks, ascending."""
        walks, steps = self.budget
        if not g.num_nodes():
            return torch.empty(0, dtype=torch.int64, device=g.device)
        own = random.new_key(key, g.device, random.BATCH)
        place = torch.arange(walks, device=g.device)
        size = torch.full_like(place, g.num_nodes())
        start = random.below(random.bits(random.stream(own, place), 0), size)
        traces = random_walk(g, start, length=steps, generator=int(own))[0]
        visited: Tensor = traces[traces >= 0].unique()
        return visited


def _budget(mode: str, value: Any) -> tuple[int, ...]:
    """One number, or two for walks."""
    if mode != "walk":
        return (_check.length("budget", value),)
    if not isinstance(value, tuple | list) or len(value) != 2:
        _check.fail("budget", "must be (walks, steps) for walks", value)
    return tuple(_check.length("budget", part) for part in value)


def _drawn(
    g: DGLGraph, name: str, count: int, key: int, weigh: Callable[[DGLGraph], Tensor]
) -> Tensor:
    """Ids [k], each once and ascending, of `count` draws in proportion to weights.

    One row that leads to everything, and rooted sampling from it.
    """

    def make() -> RootedSampler:
        weight = weigh(g)
        ends = torch.tensor([0, weight.numel()], device=g.device)
        every = torch.arange(weight.numel(), device=g.device)
        lot = {LOT: CompactAdj.from_csr(ends, every, len(every), edge_weight=weight)}
        return RootedSampler(lot, [count], replace=True)

    sampler = kept_of(g._graph).get(("saint", name, count), make)
    seeds = {"lot": torch.zeros(1, dtype=torch.int64, device=g.device)}
    drawn: Any = sampler(seeds, bias={LOT: EdgeWeightBias()}, generator=key)
    found: Tensor = drawn.node["drawn"].sort().values
    return found


def _node_weights(g: DGLGraph) -> Tensor:
    """The edges that leave each node, one at least."""
    leave: Tensor = g.out_degrees().double().clamp(min=1)
    return leave


def _edge_weights(g: DGLGraph) -> Tensor:
    """1/δ of both ends of every edge, by its id."""
    sender, receiver = (end.long() for end in g.edges(order="eid"))
    leave, arrive = (
        degrees.double().clamp(min=1) for degrees in (g.out_degrees(), g.in_degrees())
    )
    weight: Tensor = 1 / arrive[receiver] + 1 / leave[sender]
    return weight
