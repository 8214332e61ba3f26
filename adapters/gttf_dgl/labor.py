"""LaborSampler and sample_labors: neighbours that the nodes of a batch share."""

from __future__ import annotations

from typing import Any

import torch
from dgl import DGLGraph
from dgl import dataloading as theirs
from dgl.heterograph import DGLBlock
from torch import Tensor

from gttf_dgl import _check
from gttf_dgl._blocks import block_of, frontier_of
from gttf_dgl._check import EdgeType, Nodes
from gttf_dgl._source import Choice, Source
from gttf_dgl.sampler import GTTFSampler, one_hop
from gttf_sampler import HeteroSubgraph, LABORBias, random
from gttf_sampler._check import integers
from gttf_sampler.bias import Variates

COLUMN = "edge_weights"


class LaborSampler(GTTFSampler, theirs.LaborSampler):
    """Samples blocks whose nodes share neighbours, in place of DGL's LaborSampler.

    >>> import dgl, torch
    >>> from gttf_dgl import LaborSampler
    >>> g = dgl.graph(([1, 2, 3, 1, 2, 3], [0, 0, 0, 4, 4, 4]))
    >>> input_nodes, _, (block,) = LaborSampler([1]).sample(g, torch.tensor([0, 4]))
    >>> block.in_degrees(0) == block.in_degrees(1)  # both take the same
    True

    Every node has one random number per layer, for all edge types, and a neighbour is
    taken where that is small enough (Balin and Çatalyürek, 2023; `LABORBias`). Batches
    reach fewer nodes for the same variance. A node takes `fanout` neighbours in the
    mean, not exactly. Follows `torch.manual_seed`, see `GTTFSampler`.

    With `prob` or `importance_sampling`, `block.edata["edge_weights"]` are to multiply
    messages before their mean is taken.

    Args:
        fanouts: see `GTTFSampler`, like all that is not named here.
        importance_sampling: rounds that favour neighbours of many nodes; negative ones
            go on while they help.
        layer_dependency: whether all layers use the same random numbers.
        batch_dependency: over how many batches the numbers change into others; at most
            0 keeps them for all batches.
    """

    def __init__(
        self,
        fanouts: Any,
        edge_dir: str = "in",
        prob: str | None = None,
        importance_sampling: int = 0,
        layer_dependency: bool = False,
        batch_dependency: int = 1,
        prefetch_node_feats: Any = None,
        prefetch_labels: Any = None,
        prefetch_edge_feats: Any = None,
        output_device: Any = None,
        *,
        mask: str | None = None,
        generator: Any = None,
        seed: int | None = None,
        thread_workers: bool | None = None,
    ) -> None:
        super().__init__(
            fanouts,
            edge_dir,
            prob,
            mask,
            prefetch_node_feats=prefetch_node_feats,
            prefetch_labels=prefetch_labels,
            prefetch_edge_feats=prefetch_edge_feats,
            output_device=output_device,
            generator=generator,
            seed=seed,
            thread_workers=thread_workers,
        )
        name = "importance_sampling"
        self.importance_sampling = _check.integer(name, importance_sampling)
        self.layer_dependency = _check.yes_or_no("layer_dependency", layer_dependency)
        self.batch_dependency = _check.integer("batch_dependency", batch_dependency)
        self._lasting = random.draw(None) if self.batch_dependency <= 0 else 0

    def set_seed(self, random_seed: int | None = None) -> None:
        """Has the next batches follow this number; None has them follow torch again.

        Samplers with the same number, for parts of one batch, share its variates.
        """
        self.use_keys(None, random_seed, self.thread_workers)
        if self.batch_dependency <= 0:
            self._lasting = random.draw(None)

    def _batch_key(self, device: torch.device) -> Variates:
        """The numbers of the next batch."""
        if self.batch_dependency == 1:
            return Variates.of(self.next_key())
        if self.batch_dependency <= 0:
            given = self.seed
            return Variates.of(self._lasting if given is None else given)
        epoch, number = self.next_in_epoch()
        return Variates.of_run(epoch, number, self.batch_dependency)

    def _layer(
        self, source: Source, frontier: Nodes, fanouts: list[int], root: Any, layer: int
    ) -> tuple[HeteroSubgraph, DGLBlock]:
        """One hop and its block, with edge weights where those are not all alike."""
        variates = root.part(0 if self.layer_dependency else layer)
        rounds = self.importance_sampling
        drawn, weights = draw_shared(source, frontier, fanouts, rounds, variates)
        sizes = {name: ids.numel() for name, ids in frontier.items()}
        block = block_of(source, drawn, sizes)
        # how likely an edge was is not for degrees to tell, as `unbiased` would ask
        block.origin.uniform = False
        for kind, weight in weights.items():
            block.edges[kind].data[COLUMN] = weight
        return drawn, block


def sample_labors(
    g: DGLGraph,
    nodes: Any,
    fanout: Any,
    edge_dir: str = "in",
    prob: str | None = None,
    importance_sampling: int = 0,
    random_seed: Any = None,
    seed2_contribution: float = 0,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    exclude_edges: Any = None,
    output_device: Any = None,
) -> tuple[DGLGraph, list[Tensor]]:
    """Samples edges of some nodes that share neighbours, as `dgl.sampling` does.

    >>> import dgl
    >>> g = dgl.graph(([1, 2, 3, 4], [0, 0, 0, 2]))
    >>> frontier, weights = sample_labors(g, [2, 0], -1)
    >>> frontier.in_degrees().tolist(), [len(weight) for weight in weights]
    ([3, 0, 1, 0, 0], [0])

    Args:
        g: the graph.
        nodes: see `sample_neighbors`, like all that is not named here.
        fanout: edges per node and edge type in the mean, -1 for all.
        edge_dir: "in" or "out".
        prob: name of edge data to draw in proportion to.
        importance_sampling: see `LaborSampler`.
        random_seed: a number, or two of them to be in between; None follows torch.
        seed2_contribution: how far in between, from 0 to below 1.
        copy_ndata: whether the graph has the node data of `g`.
        copy_edata: whether it has the edge data of its edges.
        exclude_edges: ids of edges that are as if they were not there.
        output_device: where the results go.

    Returns:
        The graph, and per edge type what `LaborSampler` calls edge weights; empty where
        all are alike.
    """
    choice = Choice(edge_dir, prob)
    source, seeds, fanouts = one_hop(g, nodes, fanout, choice, exclude_edges)
    rounds = _check.integer("importance_sampling", importance_sampling)
    device = _check.device_or_none("output_device", output_device)
    variates = _given_variates(random_seed, seed2_contribution)
    drawn, found = draw_shared(source, seeds, fanouts, rounds, variates)
    none = torch.empty(0, device=g.device)
    weights = [found.get(kind, none) for kind in source.adjs]
    frontier = frontier_of(source, drawn, copy_ndata, copy_edata)
    if device is None:
        return frontier, weights
    return frontier.to(device), [weight.to(device) for weight in weights]


def _given_variates(seed: Any, share: Any) -> Variates:
    """Those of DGL's `random_seed` and `seed2_contribution`."""
    rule = "must be a number from 0 to below 1"
    if isinstance(share, bool) or not isinstance(share, int | float):
        _check.mistyped("seed2_contribution", rule, type(share).__name__)
    if not 0 <= share < 1:
        _check.fail("seed2_contribution", rule, share)
    if seed is None:
        return Variates.of(random.draw(None))
    plain = seed.asnumpy() if hasattr(seed, "asnumpy") else _check.several(seed)
    keys = integers("random_seed", plain).tolist()
    if len(keys) != 1 + (share > 0):
        rule = "must be one number, or two where 'seed2_contribution' is above 0"
        _check.fail("random_seed", rule, keys)
    return Variates.of(keys[0], keys[-1], float(share))


def draw_shared(
    source: Source,
    frontier: Nodes,
    fanouts: list[int],
    importance: int,
    variates: Variates,
) -> tuple[HeteroSubgraph, dict[EdgeType, Tensor]]:
    """One hop of every edge type, and edge weights where they are not all alike.

    Relations share the numbers of a node type, which are independent of other types'.
    """
    inner, g = source.biases(), source.g
    biases = {}
    for kind, fanout in zip(source.adjs, fanouts, strict=True):
        own = variates.part(g.get_ntype_id(kind[0])).numbers
        weights = inner.get(kind)
        biases[kind] = LABORBias(fanout, weights, importance=importance, variate=own)
    drawn = source.draw(frontier, [[-1] * len(fanouts)], variates.key, biases)
    found = {}
    for plain, kind in zip(g.canonical_etypes, source.adjs, strict=True):
        data = g.edges[plain].data
        heavy = source.choice.prob in data
        if not heavy and importance == 0:
            continue
        weight = biases[kind].factors_drawn(source.device)
        if heavy:
            own = data[source.choice.prob].view(-1)
            own = own.index_select(0, drawn.edge[kind].to(own.device))
            weight = weight * own.to(weight.device, weight.dtype)
        found[kind] = _with_mean_one(weight, drawn.col[kind]).float()
    return drawn, found


def _with_mean_one(weight: Tensor, col: Tensor) -> Tensor:
    """Weights [e] in proportion, whose mean over the edges of a receiver is one."""
    if not col.numel():
        return weight
    none = torch.zeros(int(col.max()) + 1, dtype=weight.dtype, device=weight.device)
    total = none.scatter_add(0, col, weight)
    count = none.scatter_add(0, col, torch.ones_like(weight))
    return weight * (count / total).index_select(0, col)
