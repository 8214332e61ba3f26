"""unbiased(): layers that are right in the mean over sampled blocks and graphs."""

import warnings
from typing import TypeVar

from torch import nn

from gttf_dgl import _check
from gttf_dgl._degrees import Wanted
from gttf_dgl._layers import Estimate, normalises, rule_of, trouble_of
from gttf_sampler._check import shown
from gttf_sampler.estimate import BiasedLayerWarning

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
        model: a layer of DGL, or any module that contains some. What is done to which
            layer is in the table of docs/normalise.md; layers without an estimate, and
            a user's own, are named in a `BiasedLayerWarning`. Weights stay as they are:
            `edge_weight` is for GraphConv, whose degrees count edges.
        scale: "sum" also multiplies sums of messages (GINConv, GINEConv, RelGraphConv,
            GraphConv(norm="none") and others that add) by δ / |S|, the share that was
            sampled.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"'model' must be a torch.nn.Module (got {shown(model)})")
    if scale is not None:
        _check.one_of("scale", scale, SCALES)
    left: dict[str, str] = {}
    for layer in model.modules():
        if normalises(layer) and getattr(layer, "_cached", False):
            raise ValueError(
                "'model' must not cache its features, as every batch has others (got "
                f"{type(layer).__name__}(cached=True)); make it with cached=False"
            )
        why = trouble_of(layer, scale)
        if why is not None:
            left[type(layer).__name__] = why
    for layer in model.modules():
        if rule_of(layer) is None:
            continue
        hooks = layer._forward_pre_hooks.values()
        found = next((hook for hook in hooks if isinstance(hook, Estimate)), None)
        if found is None:
            found = Estimate(None)
            layer.register_forward_pre_hook(found, with_kwargs=True)
        found.scale = scale or found.scale
    Wanted.answer = True
    if left:
        named = "; ".join(f"{kind} ({why})" for kind, why in left.items())
        warnings.warn(
            f"'unbiased' cannot vouch for {named}; 'check_unbiased' says by how much "
            "they are off",
            BiasedLayerWarning,
            stacklevel=2,
        )
    return model
