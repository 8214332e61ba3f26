"""ShaDowKHopSampler: all edges between the nodes that a sample has reached."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from dgl import DGLGraph

from gttf_dgl import _check
from gttf_dgl._blocks import graph_of
from gttf_dgl._check import Nodes
from gttf_dgl._source import Source, named_edges
from gttf_dgl.subgraph_sampler import GTTFSubgraphSampler
from gttf_sampler import HeteroSubgraph, random


class ShaDowKHopSampler(GTTFSubgraphSampler):
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
        """The graph of one batch."""
        root = random.new_key(self._keys.next(), source.device, random.BATCH)
        nodes = seeds
        for layer, fanouts in enumerate(hops):
            drawn = source.draw(nodes, [fanouts], int(random.fold(root, layer)))
            nodes = {name: drawn.node[name] for name in seeds}
        return graph_of(source, _induced(source, nodes), None)


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
