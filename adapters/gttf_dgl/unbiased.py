"""unbiased(): layers that are right in the mean over sampled blocks and graphs."""

from __future__ import annotations

import inspect
import warnings
from functools import partial
from typing import Any, TypeVar

import torch
from dgl import DGLGraph
from torch import Tensor, nn

from gttf_dgl import _check
from gttf_dgl._blocks import (
    ARRIVE,
    BIASED,
    DRAWABLE,
    LEAVE,
    Wanted,
    carries,
    column,
)
from gttf_dgl._compat import AGGREGATORS, DGLBlock, PNAConvTower, rebuilt
from gttf_dgl._layers import normalises, rule_of, trouble_of
from gttf_sampler._check import shown
from gttf_sampler.estimate import BiasedLayerWarning, share

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
        found = _estimate_of(layer)
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


def is_cured(layer: nn.Module) -> bool:
    """True if `unbiased` has seen a layer."""
    return _estimate_of(layer) is not None


def scales(layer: nn.Module) -> bool:
    """True if `unbiased` has been told to scale the sums of a layer."""
    found = _estimate_of(layer)
    return found is not None and found.scale == "sum"


def _estimate_of(layer: nn.Module) -> Estimate | None:
    """The hook of a layer that `unbiased` has seen, or None."""
    hooks = layer._forward_pre_hooks.values()
    return next((hook for hook in hooks if isinstance(hook, Estimate)), None)


class Estimate:
    """Gives a layer a view of its graph; a forward pre-hook.

    Args:
        scale: "sum" multiplies sums of messages by δ / |S|; None leaves them.
    """

    def __init__(self, scale: str | None) -> None:
        self.scale = scale

    def __call__(self, layer: Any, args: Any, kwargs: Any) -> Any:
        """The arguments of the layer, with another graph."""
        names = inspect.signature(type(layer).forward).parameters
        named = {**dict(zip(list(names)[1:], args, strict=False)), **kwargs}
        place = "graph" if "graph" in named else "g"
        graph: Any = named.get(place)
        rule = rule_of(layer)
        if rule is None or not hasattr(graph, "canonical_etypes"):
            return None
        if carries(graph, BIASED):
            raise ValueError(
                "'model' must get uniform draws where it was made unbiased (got a "
                "batch of a sampler with 'prob', 'mask' or 'bias'); leave that out"
            )
        summed = self.scale == "sum" and rule.sums(layer)
        if not (rule.degrees(layer) or summed) or isinstance(graph, Estimated):
            return None
        if not carries(graph, ARRIVE):
            if not graph.is_block:
                return None  # not a sample, for all that is known
            raise ValueError(
                "'model' must get blocks with degrees where it was made unbiased (got "
                "some without); take a sampler of gttf_dgl with the whole graph, and "
                "call 'unbiased' before its DataLoader starts"
            )
        if named.get("edge_weight") is not None and not rule.weighted:
            raise ValueError(
                f"'edge_weight' must be None in {type(layer).__name__}, which would "
                "divide by sampled weights (got some); use GraphConv"
            )
        kind = EstimatedBlock if graph.is_block else EstimatedGraph
        return (), {**named, place: rebuilt(kind, graph)}


class Estimated:
    """Overrides of a DGLGraph: degrees of the whole graph, sums that estimate its sums.

    DGL's layers divide by `in_degrees` and `out_degrees`, and add up messages in
    `update_all`. Of δ messages |S| are there, drawn uniformly: their sum times δ / |S|
    has the expectation of the sum of all.
    """

    def in_degrees(self: Any, *args: Any, **kwargs: Any) -> Tensor:
        """The in-degrees of the whole graph."""
        found: Tensor = self.dstdata[column(ARRIVE, self.canonical_etypes[0])]
        return found

    def out_degrees(self: Any, *args: Any, **kwargs: Any) -> Tensor:
        """The out-degrees of the whole graph."""
        found: Tensor = self.srcdata[column(LEAVE, self.canonical_etypes[0])]
        return found

    def update_all(
        self: Any, message_func: Any, reduce_func: Any, *args: Any, **kwargs: Any
    ) -> None:
        """As ever; sums are scaled, and towers of PNAConv read these degrees."""
        name = getattr(reduce_func, "name", None)  # of DGL's own functions
        if name is None:
            # DGL sorts nodes by the number of their messages, not by these degrees
            plain = rebuilt(DGLBlock if self.is_block else DGLGraph, self)
            reduce_func = self._reducer(reduce_func)
            plain.update_all(message_func, reduce_func, *args, **kwargs)
            return
        super().update_all(message_func, reduce_func, *args, **kwargs)  # type: ignore[misc]
        if name != "sum":
            return
        out = self.dstdata[reduce_func.out_field]
        total = self.dstdata[column(DRAWABLE, self.canonical_etypes[0])]
        each = share(total.to(out.dtype), self.edges()[1])
        scaled = out * each.view(-1, *[1] * (out.dim() - 1))
        self.dstdata[reduce_func.out_field] = scaled

    def _reducer(self: Any, own: Any) -> Any:
        """A function in the place of one that is not DGL's, with these degrees."""
        kind = self.canonical_etypes[0]
        tower = getattr(own, "__self__", None)
        if isinstance(tower, PNAConvTower):
            return partial(_reduce_tower, tower, column(ARRIVE, kind))
        return partial(_reduce_sum, own, column(DRAWABLE, kind))


def _reduce_sum(own: Any, drawable: str, nodes: Any) -> dict[str, Tensor]:
    """The sums of a layer's own function, scaled."""
    found = own(nodes)
    draws = next(iter(nodes.mailbox.values())).size(1)
    each = nodes.data[drawable] / draws
    return {k: x * each.view(-1, *[1] * (x.dim() - 1)).to(x) for k, x in found.items()}


def _reduce_tower(tower: Any, arrive: str, nodes: Any) -> dict[str, Tensor]:
    """The output of a PNAConv tower, with degrees of the graph.

    Sums are scaled; other aggregators are those of the sample.
    """
    messages = nodes.mailbox["msg"]  # [n, draws, d]
    degree = nodes.data[arrive].to(messages.dtype).clamp(min=1).view(-1, 1)
    parts = []
    for name in tower.aggregators:
        part = AGGREGATORS[name](messages)
        parts.append(part * degree / messages.size(1) if name == "sum" else part)
    found = torch.cat(parts, dim=1)
    log = (degree + 1).log() / tower.delta
    by = {
        "identity": torch.ones_like(log),
        "amplification": log,
        "attenuation": 1 / log,
    }
    return {"h_neigh": torch.cat([found * by[name] for name in tower.scalers], dim=1)}


class EstimatedGraph(Estimated, DGLGraph):
    """A sampled graph that answers as the whole graph would."""


class EstimatedBlock(Estimated, DGLBlock):
    """A sampled block that answers as the whole graph would."""
