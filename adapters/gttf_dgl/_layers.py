"""Layers of DGL that divide by degrees, and what `unbiased` does to them."""

import inspect
from typing import Any

from dgl import nn as layers
from torch import nn

from gttf_dgl._degrees import ARRIVE, BIASED, carries
from gttf_dgl._view import view

# Layers that divide by degrees; GraphConv and SAGEConv only if they were told to.
NORMALISED = (
    layers.GraphConv,
    layers.SGConv,
    layers.TAGConv,
    layers.APPNPConv,
    layers.GCN2Conv,
    layers.ChebConv,
    layers.SAGEConv,
)
SUMMED = (layers.GraphConv, layers.GINConv)


def is_cured(layer: nn.Module) -> bool:
    """Whether `unbiased` has seen a layer."""
    return estimate in layer._forward_pre_hooks.values()


def normalises(layer: Any) -> bool:
    """Whether a layer divides by degrees."""
    if isinstance(layer, layers.GraphConv):
        return bool(layer._norm != "none")
    if isinstance(layer, layers.SAGEConv):
        return bool(layer._aggre_type == "gcn")
    return isinstance(layer, NORMALISED)


def estimate(layer: Any, args: Any, kwargs: Any) -> Any:
    """Gives a layer a view of its graph; a forward pre-hook."""
    names = inspect.signature(type(layer).forward).parameters
    named = {**dict(zip(list(names)[1:], args, strict=False)), **kwargs}
    graph = named["graph"]
    if carries(graph, BIASED):
        raise ValueError(
            "'model' must get uniform draws where it was made unbiased (got a batch of "
            "a sampler with 'prob', 'mask' or 'bias'); leave that out"
        )
    if not carries(graph, ARRIVE):
        if not graph.is_block:
            return None  # not a sample, for all that is known
        raise ValueError(
            "'model' must get blocks with degrees where it was made unbiased (got some "
            "without); take a sampler of gttf_dgl with the whole graph, and call "
            "'unbiased' before its DataLoader starts"
        )
    counts_edges = isinstance(layer, layers.GraphConv | layers.SAGEConv)
    if named.get("edge_weight") is not None and not counts_edges:
        raise ValueError(
            f"'edge_weight' must be None in {type(layer).__name__}, which would divide "
            "by sampled weights (got some); use GraphConv"
        )
    return (), {**named, "graph": view(graph)}
