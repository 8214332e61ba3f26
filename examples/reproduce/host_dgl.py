"""The ways to train on DGL: full batch, GTTF, and DGL's own samplers."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dgl
import torch
from dgl.dataloading import DataLoader, NeighborSampler, ShaDowKHopSampler
from torch import Tensor

from examples.reproduce import models_dgl
from examples.reproduce.config import Method
from examples.reproduce.data import Dataset
from examples.reproduce.learner import Learner, Step, batches_of
from gttf_dgl import GTTFSampler, GTTFSubgraphSampler


def missing(way: str) -> str | None:
    """Why a way cannot be gone here, or None."""
    return None


def learner(name: str, method: Method, data: Dataset, way: str, seed: int) -> Learner:
    """A model of DGL and one way to train it."""
    torch.manual_seed(seed)
    if name == "sgc" and way == "full":  # what it propagates never changes
        method = replace(method, options={**method.options, "cached": True})
    dgl.seed(seed)
    shared, ours = name in models_dgl.SHARED, way == "gttf"
    model = models_dgl.MODELS[name](data.features.width, data.num_classes, method)
    graph = whole_graph(data, loops=name != "sage")
    full = models_dgl.closed(graph, None) if shared else [graph] * 2

    def logits(dropout: float = 0.0) -> Tensor:
        return model(full, data.features.rows(dropout=dropout))

    def full_steps() -> Iterator[Step]:
        yield Step(logits(method.dropout)[data.train], data.train, data.num_nodes)

    if way == "full":
        return Learner(model, full_steps, logits)
    sampler = sampler_of(name, method, way, seed)
    loader = DataLoader(graph, data.train, sampler, **batches_of(method, data))
    degree = graph.in_degrees().float()

    def sampled() -> Iterator[Step]:
        for nodes, seeds, batch in loader:
            if shared:
                batch = models_dgl.closed(batch, degree[nodes] if ours else None)
            elif name == "gcn" and not ours:  # as a GraphConv by itself would
                for block in batch:
                    models_dgl.set_norm(block)
            out = model(batch, data.features.rows(nodes, method.dropout))
            yield Step(out[: seeds.numel()], seeds, nodes.numel())

    return Learner(model, sampled, logits)


def whole_graph(data: Dataset, loops: bool) -> dgl.DGLGraph:
    """The graph, with the self-loops that all layers but SAGEConv want as edges."""
    graph = dgl.graph(tuple(data.edge_index), num_nodes=data.num_nodes)
    graph = dgl.add_self_loop(graph) if loops else graph
    models_dgl.set_norm(graph)
    graph.create_formats_()
    return graph


def sampler_of(name: str, method: Method, way: str, seed: int) -> Any:
    """The sampler of a way; a fanout leaves room for the self-loop, an edge here."""
    more = name != "sage"
    fanouts = [fanout + more for fanout in reversed(method.fanouts)]
    if name in models_dgl.SHARED:
        if way == "neighbor":
            return ShaDowKHopSampler(fanouts)
        return GTTFSubgraphSampler(fanouts, seed=seed)
    if way == "neighbor":
        return NeighborSampler(fanouts)
    normalize = "both" if name == "gcn" else None
    return GTTFSampler(fanouts, seed=seed, normalize=normalize)
