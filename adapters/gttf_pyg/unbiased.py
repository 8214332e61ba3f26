"""unbiased(): layers that are right in the mean over sampled batches."""

import warnings
from typing import Any, TypeVar

from torch import nn
from torch_geometric.nn import ClusterGCNConv, MessagePassing

from gttf_pyg._layers import Cure, cure_of
from gttf_pyg._sampled import SampledEdgeIndex
from gttf_pyg._table import REFUSED, Rule, rule_of, trouble_of
from gttf_sampler._check import one_of, shown
from gttf_sampler.estimate import BiasedLayerWarning

Model = TypeVar("Model", bound=nn.Module)

SCALES = ("sum",)


def unbiased(model: Model, scale: str | None = None) -> Model:
    """`model`, whose layers now use the degrees of the whole graph on sampled batches.

    >>> import torch
    >>> from torch_geometric.datasets import KarateClub
    >>> from torch_geometric.nn import GCN
    >>> from gttf_pyg import NeighborLoader, unbiased
    >>> data = KarateClub()[0]
    >>> model = unbiased(GCN(data.num_features, 16, num_layers=2, out_channels=4))
    >>> loader = NeighborLoader(data, num_neighbors=[-1, -1], batch_size=4)
    >>> batch = next(iter(loader))
    >>> seeds = model(batch.x, batch.edge_index)[:4]
    >>> torch.allclose(seeds, model(data.x, data.edge_index)[:4], atol=1e-6)
    True

    A GCN divides by degrees. In a sampled batch nodes have too few neighbours, and
    those of the last hop none, so that every layer is off, and test scores with it.
    Here a layer gets the weights with which its expectation over batches is what it
    computes on the whole graph, and, if all neighbours are taken, its value.

    The model is changed in place, by hooks on its layers: parameters, `state_dict` and
    class stay, copies and pickles keep the hooks, and edges that no loader of this
    package has sampled, such as those of the whole graph, are computed as ever.

    Args:
        model: a layer or a model of PyG, or any module that contains some. What is done
            to which layer is in the table of docs/normalise.md; layers without an
            estimate, and a user's own, are named in a `BiasedLayerWarning`.
        scale: "sum" also multiplies sums of messages (GINConv, GraphConv, SAGEConv with
            aggr="sum", and others that add) by δ / |S|, the share that was sampled.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"'model' must be a torch.nn.Module (got {shown(model)})")
    if scale is not None:
        one_of("scale", scale, SCALES)
    _check(model, scale)
    layers = [part for part in model.modules() if isinstance(part, MessagePassing)]
    for layer in layers:
        cure = cure_of(layer)
        if cure is None:
            cure = Cure(None)
            layer.register_forward_pre_hook(cure.before, with_kwargs=True)
            layer.register_forward_hook(cure.after, always_call=True)
        if scale is not None:
            cure.scale = scale
    known = restart in model._forward_pre_hooks.values()
    if not (known or isinstance(model, MessagePassing)):
        model.register_forward_pre_hook(restart, with_kwargs=True)
    return model


def restart(model: nn.Module, args: Any, kwargs: Any) -> None:
    """Starts a forward pass at the last hop; a forward pre-hook of the model."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, SampledEdgeIndex):
            value.sample.step = 0


def _check(model: nn.Module, scale: str | None) -> None:
    """Refuses layers that would be wrong in spite of all; names those that stay so."""
    left: dict[str, str] = {}
    for layer in model.modules():
        kind = type(layer).__name__
        rule = rule_of(layer)
        if rule is not None:
            _check_arguments(layer, rule, kind)
        found = trouble_of(layer, scale)
        if found is None:
            continue
        if found.status == REFUSED:
            raise ValueError(
                f"'model' must have layers with an estimate (got a {kind}, which has "
                f"none): {found.why}"
            )
        left[kind] = found.why
    if left:
        named = "; ".join(f"{kind} ({why})" for kind, why in left.items())
        warnings.warn(
            f"'unbiased' cannot vouch for {named}; 'check_unbiased' says by how much "
            "they are off",
            BiasedLayerWarning,
            stacklevel=3,
        )


def _check_arguments(layer: Any, rule: Rule, kind: str) -> None:
    """Refuses arguments of a layer with which it cannot be estimated."""
    reads = rule.matrix is not None or rule.loops(layer) is not None
    if getattr(layer, "cached", False) and reads:
        raise ValueError(
            "'model' must not cache its edges, as every batch has others (got "
            f"{kind}(cached=True)); make it with cached=False"
        )
    if isinstance(layer, ClusterGCNConv) and not layer.add_self_loops:
        raise ValueError(
            f"'model' must add self-loops in {kind}, which PyG computes in no other "
            "way (got add_self_loops=False)"
        )
