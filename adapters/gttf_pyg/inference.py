"""Predictions for all nodes: exact, layer by layer, or from sampled neighbourhoods."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.models.basic_gnn import BasicGNN

from gttf_pyg._batch import is_source, sized
from gttf_pyg._check import NOT_UNIFORM, first_used, function
from gttf_pyg._compat import sparse_values
from gttf_pyg._fuse import whole
from gttf_pyg._lazy import LazyRows, Origin, Use
from gttf_pyg._rows import ONLY
from gttf_pyg._trim import Trimmer
from gttf_pyg.fused import fused, hooks_of
from gttf_pyg.sampler import GTTFSampler
from gttf_sampler._check import (
    dense,
    device_or_none,
    fail,
    fits,
    mistyped,
    shown,
    size,
)
from gttf_sampler.aggregate import FLOATS

Layer = Callable[[Tensor, Any], Tensor]
Model = Callable[[Any], Tensor]


@torch.no_grad()
def inference(
    model: nn.Module, data: Any, edge_attrs: Sequence[str] = (), progress: bool = False
) -> Any:
    """The output of a model for all nodes, from all neighbours, without batches.

    >>> import torch
    >>> from torch_geometric.datasets import KarateClub
    >>> from torch_geometric.nn import GraphSAGE
    >>> from gttf_pyg import inference
    >>> data = KarateClub()[0]
    >>> model = GraphSAGE(data.num_features, 16, num_layers=2, out_channels=4).eval()
    >>> out = inference(model, data)
    >>> torch.allclose(out, model(data.x, data.edge_index), atol=1e-5)
    True

    Every layer is computed for all nodes before the next one starts, in the way that
    `fused` computes it on a batch: rows are added up where they lie, so that nothing is
    as large as the edges. Dropout is off; layers that cannot be fused are computed as
    ever.

    Args:
        model: called with (x, edge_index), or with dictionaries of them by type.
        data: a `Data` or `HeteroData` with `x` and `edge_index`, or `adj_t`, whose
            values are the model's `edge_weight`. Features in a `FeatureFile` are read
            in blocks where they go through a linear map first.
        edge_attrs: the names of attributes of edges that the model takes as well.
        progress: whether to show a bar, with a step per layer.
    """
    if not isinstance(model, nn.Module):
        mistyped("model", "must be a torch.nn.Module", shown(model))
    if not isinstance(data, Data | HeteroData):
        mistyped("data", "must be a Data or a HeteroData", shown(data))
    if hooks_of(model, Trimmer) is None:
        model = fused(deepcopy(model), trim=False)
    typed, data = isinstance(data, HeteroData), sized(data)
    edges, more = {}, {name: {} for name in edge_attrs}  # type: Any, Any
    weights = {}
    for kind, adj in GTTFSampler(data, [-1]).adjs.items():
        store = data[kind] if typed else data
        edges[kind] = whole(adj)
        for name, values in more.items():
            value, order = store[name], adj.edge_id
            values[kind] = value if order is None else value[order.long()]
        value = None if "edge_weight" in more else sparse_values(store)
        if value is not None:
            weights[kind] = _weight(model, f"edge_weight{'_dict' * typed}", value)
    if weights:
        more["edge_weight"] = weights
    x = {kind: _features(rows) for kind, rows in data.x_dict.items()} if typed else {}
    given = (x, edges) if typed else (_features(data.x), edges[ONLY])
    named = {
        f"{name}_dict" if typed else name: values if typed else values[ONLY]
        for name, values in more.items()
    }
    was_training = [part for part in model.modules() if part.training]
    with _shown(model, progress):
        try:
            return model.eval()(*given, **named)
        finally:
            for part in was_training:
                part.training = True


def _weight(model: nn.Module, name: str, value: Tensor) -> Tensor:
    """The values of a sparse matrix, if a model takes them as weights."""
    if value.dim() != 1 or name not in signature(model.forward).parameters:
        rule = f"must have values in adj_t only for a model that takes '{name}' [e]"
        cure = "remove them by adj_t.set_value(None)"
        fail("data", rule, f"{list(value.shape)} for {type(model).__name__}", cure)
    return value


def _features(rows: Any) -> Any:
    """Features as a tensor; that of a `RowSource` is fetched when a layer asks."""
    if not is_source(rows):
        return rows
    every = torch.arange(len(rows))
    if len(rows.shape) != 2 or rows.dtype not in FLOATS or not len(rows):
        return rows.rows(every)
    return LazyRows(Origin(rows, every, rows.dtype, Use()), len(rows))


def by_loader(
    model: Any,
    loader: Any,
    device: Any = None,
    embedding_device: Any = "cpu",
    progress_bar: bool = False,
    cache: bool = False,
) -> Any:
    """PyG's `BasicGNN.inference(loader, …)`, without the loader where that is as good.

    So it is for a loader of ours of full neighbourhoods of all nodes of a `Data`; any
    other is left to PyG, and so are models with a step of their own. Differs from PyG:
    every `jk` is computed, not only "last".
    """
    kind, at = type(model), torch.device("cpu" if device is None else device)
    own = kind.inference_per_layer is not BasicGNN.inference_per_layer
    if own or model.training or at.type != "cpu" or not _shows_all(loader):
        how = device, embedding_device, progress_bar, cache
        return kind.inference(model, loader, *how)
    return inference(model, loader.data, progress=progress_bar).to(embedding_device)


def _shows_all(loader: Any) -> bool:
    """True for a loader of the full neighbourhoods of all nodes, in their order."""
    data: Any = getattr(loader, "data", None)
    sampler = getattr(loader, "node_sampler", None)
    if type(data) is not Data or not isinstance(sampler, GTTFSampler):
        return False
    if sparse_values(data) is not None:  # which PyG gives to layers that take them
        return False
    nodes = loader.input_data.node
    every = torch.arange(data.num_nodes)
    ordered = nodes is None or torch.equal(nodes, every.to(nodes.device))
    full = list(sampler.num_neighbors.values) == [-1]
    plain = loader.transform is None and first_used(sampler, *NOT_UNIFORM) is None
    places = [adj.device for adj in sampler.adjs.values()]
    places += [] if is_source(data.x) else [data.x.device]
    return ordered and full and plain and {at.type for at in places} == {"cpu"}


@contextmanager
def _shown(model: nn.Module, progress: bool) -> Iterator[None]:
    """A bar that goes on with every layer that passes messages."""
    layers = [part for part in model.modules() if isinstance(part, MessagePassing)]
    if not progress:
        yield
        return
    with import_module("tqdm").tqdm(total=len(layers), desc="Inference") as bar:
        hooks = [
            layer.register_forward_hook(lambda *about: bar.update(1) and None)
            for layer in layers
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


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
