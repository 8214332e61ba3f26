"""fused(): DGL's layers on the kernels of `gttf_sampler.aggregate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from dgl.nn import HeteroGraphConv
from torch import nn

from gttf_dgl import _check
from gttf_dgl._hooks import FusedHetero, FusedLayer
from gttf_dgl._layers import aggregating, fusion_of, not_fused
from gttf_sampler._compat import hook_of
from gttf_sampler.dropout import replace_dropout
from gttf_sampler.linear import replace_linear

Model = TypeVar("Model", bound=nn.Module)


def fused(model: Model) -> Model:
    """`model`, whose layers now add up their neighbours in one pass over their rows.

    >>> import dgl, torch
    >>> from gttf_dgl import NeighborSampler, fused
    >>> g, x = dgl.rand_graph(100, 1000), torch.randn(100, 8)
    >>> conv = dgl.nn.SAGEConv(8, 4, "mean")
    >>> _, seeds, (block,) = NeighborSampler([5]).sample(g, torch.arange(10))
    >>> own = x[block.srcdata[dgl.NID]]
    >>> expected = conv(block, own)
    >>> torch.allclose(fused(conv)(block, own), expected, atol=1e-5)
    True

    GraphConv, SAGEConv (but "lstm"), GINConv, GATConv, GATv2Conv and RelGraphConv are
    fused, and HeteroGraphConv with its layers, on blocks and graphs on the CPU;
    `fused_layers` says which and why. All else runs as before, as do edge weights of
    many dimensions and calls that ask for attention.

    The model is changed in place, by hooks on its layers as in `unbiased`, with which
    it can be combined in any order: parameters, `state_dict` and class stay. Modules
    of `torch.nn.Dropout` draw other random numbers, in a tenth of the time.

    Args:
        model: a layer of DGL, or any module that contains some.
    """
    _check.model(model)
    for layer in model.modules():
        kind: Any = FusedHetero if isinstance(layer, HeteroGraphConv) else FusedLayer
        known = kind is FusedHetero or not_fused(layer) is None
        if known and hook_of(layer, kind) is None:
            hooks = kind()
            layer.register_forward_pre_hook(hooks.before, with_kwargs=True)
            layer.register_forward_hook(hooks.after, always_call=True)
    replace_dropout(model)
    replace_linear(model, (nn.Linear,))
    return model


@dataclass(frozen=True)
class FusedLayers:
    """The layers of a model that aggregate, and what `fused` does with each.

    Attributes:
        layers: (name, class, verdict) of each: "fused" and how, or why not.
    """

    layers: tuple[tuple[str, str, str], ...]

    def __str__(self) -> str:
        """A line per layer."""
        if not self.layers:
            return "no layer aggregates"
        sizes = [max(len(row[column]) for row in self.layers) for column in (0, 1)]
        return "\n".join(
            f"{name:{sizes[0]}}  {kind:{sizes[1]}}  {verdict}".rstrip()
            for name, kind, verdict in self.layers
        )


def fused_layers(model: nn.Module) -> FusedLayers:
    """The layers of a model that aggregate: fused and how, or left as they are and why.

    >>> import dgl, torch
    >>> from gttf_dgl import fused, fused_layers
    >>> layers = [dgl.nn.SAGEConv(8, 8, "mean"), dgl.nn.DotGatConv(8, 8, 2)]
    >>> print(fused_layers(fused(torch.nn.Sequential(*layers))))
    0  SAGEConv    fused: sums of rows, before or after its matrix
    1  DotGatConv  left as it is: 'fused' does not know this layer
    """
    _check.model(model)
    rows = []
    for name, layer in aggregating(model):
        why, fusion = not_fused(layer), fusion_of(layer)
        if why is None and hook_of(layer, FusedLayer) is None:
            why = "call 'fused' first"
        verdict = f"left as it is: {why}"
        if why is None and fusion is not None:
            verdict = f"fused: {fusion.words(layer)}"
        rows.append((name or "(model)", type(layer).__name__, verdict))
    return FusedLayers(tuple(rows))
