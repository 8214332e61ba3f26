"""Predictions for all nodes: exact, layer by layer, or from sampled neighbourhoods."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_pyg._check import NOT_UNIFORM, first_used, function
from gttf_sampler._check import (
    dense,
    device_or_none,
    fail,
    fits,
    mistyped,
    shown,
    size,
)

Layer = Callable[[Tensor, Any], Tensor]
Model = Callable[[Any], Tensor]


@torch.no_grad()
def layerwise_inference(
    layers: Sequence[Layer], x: Tensor, loader: Any, device: Any = None
) -> Tensor:
    """The output of the last layer for every node, [n, d], from all neighbours.

    >>> import torch
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import SimpleConv
    >>> from gttf_pyg import GTTFLoader, layerwise_inference
    >>> data = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    >>> loader = GTTFLoader(data, [-1], batch_size=2)
    >>> conv = SimpleConv()
    >>> layers = [lambda x, batch: conv(x, batch.edge_index)] * 2
    >>> layerwise_inference(layers, torch.tensor([[1.0], [2.0], [4.0]]), loader)
    tensor([[0.], [0.], [1.]])

    A layer is computed for all nodes, batch by batch, before the next one starts: every
    edge is used once per layer, however deep the model is. Between layers the result is
    where `x` is.

    Args:
        layers: functions (features [k, d] of the batch's nodes, batch) → [k, d'].
        x: [n, d], the input of the first layer.
        loader: over all nodes, with `num_neighbors=[-1]`.
        device: where the layers are; by default where `x` is.
    """
    _check_loader(loader)
    if not isinstance(layers, Iterable) or isinstance(layers, Tensor):
        mistyped("layers", "must be a list of functions", shown(layers))
    layers = list(layers)
    for layer in layers:
        function("layers", layer)
    count = loader.node_sampler.num_nodes
    if dense("x", x).dim() == 0 or x.shape[0] != count:
        rule = f"must have one row per node, {count} in all"
        fail("x", rule, f"shape {list(x.shape)}")
    device_or_none("device", device)
    for layer in layers:
        rows, given = _every_node(loader, x.size(0), _on_rows(layer, x, device))
        if not bool(given.all()):
            rule = f"must give all {given.numel()} nodes"
            fail("loader", rule, int(given.sum()))
        x = rows.to(x.device)
    return x


@torch.no_grad()
def sampled_inference(
    model: Model, loader: Any, num_nodes: int, rounds: int = 1
) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation [num_nodes, d] of a model's output on samples.

    With the fanouts of the training, this is how a model sees its own noise; the mean
    of many rounds may still differ from `layerwise_inference`, as layers in between are
    not linear. Nodes that the loader does not give are zero.

    Args:
        model: a function of a batch that gives [k, d], seeds first.
        loader: of the nodes in question.
        num_nodes: of the graph.
        rounds: how often to sample; the deviation of one round is zero.
    """
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        fail("rounds", "must be a positive integer", shown(rounds))
    function("model", model)
    num_nodes = size("num_nodes", num_nodes)
    if not isinstance(loader, Iterable) or isinstance(loader, Tensor | np.ndarray):
        mistyped("loader", "must be a loader", shown(loader))
    known = getattr(getattr(loader, "node_sampler", None), "num_nodes", num_nodes)
    if isinstance(known, int) and known != num_nodes:
        fail("num_nodes", f"must be that of the graph, {known}", num_nodes)
    fits("num_nodes", num_nodes)
    total = square = torch.zeros(())
    for _ in range(rounds):
        out = _every_node(loader, num_nodes, model)[0].double()
        total, square = total + out, square + out.square()
    mean = total / rounds
    variance = (square / rounds - mean.square()).clamp(min=0)
    if rounds > 1:
        variance = variance * rounds / (rounds - 1)
    return mean.float(), variance.sqrt().float()


def _on_rows(layer: Layer, x: Tensor, device: Any) -> Model:
    """A layer as a function of the batch alone, given its input for all nodes."""

    def model(batch: Any) -> Tensor:
        rows = x[batch.n_id.to(x.device)]
        return layer(rows if device is None else rows.to(device), batch)

    return model


def _every_node(loader: Any, num_nodes: int, model: Model) -> tuple[Tensor, Tensor]:
    """The seeds' rows of every batch in their places, and which places [n] have one."""
    out, given = None, torch.zeros(num_nodes, dtype=torch.bool)
    for batch in loader:
        if not hasattr(batch, "batch_size") or not hasattr(batch, "n_id"):
            mistyped("loader", "must give batches of nodes", shown(batch))
        rows = dense("model", model(batch))[: batch.batch_size]
        seeds = batch.n_id[: batch.batch_size]
        if rows.shape[:1] != seeds.shape or int(seeds.max()) >= num_nodes:
            rule = f"must give a row for each of the {num_nodes} nodes"
            told = f"shape {list(rows.shape)} for {len(seeds)} seeds"
            fail("model", rule, f"{told} up to {int(seeds.max())}")
        if out is None:
            out = rows.new_zeros(num_nodes, *rows.shape[1:])
        out[seeds.to(rows.device)] = rows
        given[seeds.to(given.device)] = True
    if out is None:
        fail("loader", "must give at least one batch", "none")
    return out, given


def _check_loader(loader: Any) -> None:
    """Refuses loaders that do not give nodes their full neighbourhoods."""
    sampler = getattr(loader, "node_sampler", None)
    if sampler is None or sampler.is_hetero:
        kind = type(loader).__name__
        what = f"{kind} of links" if sampler is None else f"{kind} of several types"
        fail("loader", "must be of nodes of one type", f"a {what}")
    hops = sampler.num_neighbors.values
    if list(hops) != [-1]:
        fail("loader", "must have num_neighbors=[-1], one full hop", hops)
    if used := first_used(sampler, *NOT_UNIFORM):
        fail("loader", "must show full neighbourhoods", f"one with '{used}'")
