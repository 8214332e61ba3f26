"""unbiased(): layers that normalise by degree, right on sampled blocks and graphs."""

from typing import Any, TypeVar

from torch import nn

from gttf_dgl import _check
from gttf_dgl._degrees import Wanted
from gttf_dgl._layers import SUMMED, estimate, is_cured, normalises
from gttf_sampler._check import shown

Model = TypeVar("Model", bound=nn.Module)

SCALES = ("sum",)


def unbiased(model: Model, scale: str | None = None) -> Model:
    """`model`, whose layers now use the degrees of the whole graph on sampled batches.

    >>> import dgl, torch
    >>> from gttf_dgl import NeighborSampler, unbiased
    >>> g = dgl.add_self_loop(dgl.rand_graph(100, 1000))
    >>> conv = unbiased(dgl.nn.GraphConv(8, 4))
    >>> _, seeds, (block,) = NeighborSampler([-1]).sample(g, torch.arange(10))
    >>> x = torch.randn(100, 8)
    >>> torch.allclose(conv(block, x[block.srcdata[dgl.NID]]), conv(g, x)[:10])
    True

    A GraphConv divides by degrees. In a sampled block nodes have too few neighbours, so
    that every layer is off, and test scores with it. Here the expectation of a layer
    over batches is what it computes on the whole graph, and, if all neighbours are
    taken, so is its value. Call it before the DataLoader starts: from then on the
    samplers of this package put degrees into their blocks.

    The model is changed in place, by hooks on its layers: parameters, `state_dict` and
    class stay, and graphs that no sampler of this package has drawn are computed as
    ever.

    Args:
        model: a layer of DGL, or any module that contains some: GraphConv, SGConv,
            TAGConv, APPNPConv, GCN2Conv, ChebConv, SAGEConv("gcn"). Others stay as they
            are, and so do weights: `edge_weight` is for GraphConv, whose degrees count
            edges.
        scale: "sum" also multiplies the sums of GINConv and GraphConv(norm="none") by
            δ / |S|, the share that was sampled.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"'model' must be a torch.nn.Module (got {shown(model)})")
    if scale is not None:
        _check.one_of("scale", scale, SCALES)
    found = [part for part in model.modules() if _concerned(part, scale)]
    for layer in found:
        if getattr(layer, "_cached", False):
            raise ValueError(
                "'model' must not cache its features, as every batch has others (got "
                f"{type(layer).__name__}(cached=True)); make it with cached=False"
            )
    for layer in found:
        if not is_cured(layer):
            layer.register_forward_pre_hook(estimate, with_kwargs=True)
    Wanted.answer = True
    return model


def _concerned(layer: Any, scale: str | None) -> bool:
    """Whether a layer is to see estimates."""
    if normalises(layer):
        return True
    summed = getattr(layer, "_aggregator_type", "sum") == "sum"  # of GINConv
    return scale == "sum" and isinstance(layer, SUMMED) and summed
