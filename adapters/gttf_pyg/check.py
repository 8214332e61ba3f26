"""check_unbiased(): whether a model's layers are right in the mean over batches."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from gttf_pyg._check import function
from gttf_pyg._table import (
    RATIO,
    Trouble,
    judged_by_messages,
    judged_by_output,
    rule_of,
    sums,
    trouble_of,
)
from gttf_pyg.unbiased import correction_of
from gttf_sampler._check import at_least, fail, finite, mistyped, shown
from gttf_sampler.verdict import Passes, UnbiasedReport, evaluating, report, without


@torch.no_grad()
def check_unbiased(
    model: nn.Module,
    loader: Any,
    data: Any = None,
    *,
    forward: Callable[[Any, Any], Tensor] | None = None,
    seeds: int = 32,
    rounds: int = 200,
    tolerance: float = 4.0,
    linear: bool = False,
) -> UnbiasedReport:
    """Compares every layer's mean over batches with its value on the whole graph.

    >>> import torch
    >>> from torch_geometric.datasets import KarateClub
    >>> from torch_geometric.nn import GCN
    >>> from gttf_pyg import NeighborLoader, check_unbiased, unbiased
    >>> data, _ = KarateClub()[0], torch.manual_seed(0)
    >>> loader = NeighborLoader(data, num_neighbors=[3, 3], seed=0)
    >>> model = unbiased(GCN(data.num_features, 16, num_layers=2))
    >>> check_unbiased(model, loader).ok
    True

    Each layer is given the inputs that it has on the whole graph, and what it adds up
    over neighbours is compared, step by step, so that it is judged by itself. What
    cannot be concluded: that a model whose layers are right is right in the mean, too.
    Between layers there is a ReLU, and the mean of a ReLU is not the ReLU of the mean;
    more neighbours make that smaller. Attention is a ratio, and off by its nature.

    Args:
        model: of message passing layers; it is put into evaluation mode meanwhile.
        loader: any loader of nodes in homogeneous data, of this package or of PyG.
        data: the whole graph; by default that of the loader.
        forward: a function (model, batch) → output; by default
            `model(batch.x, batch.edge_index)`. The whole graph is a batch, too.
        seeds: how many of the loader's nodes to look at.
        rounds: how many batches to draw.
        tolerance: how many standard errors to put down to chance.
        linear: leave layers the inputs that they have, and so judge the model as one;
            for models without activations, dropout and the like.

    Returns:
        A report that prints as a table, and is true if all is well.
    """
    if not isinstance(model, nn.Module):
        mistyped("model", "must be a torch.nn.Module", shown(model))
    if not callable(loader) or not hasattr(loader, "node_sampler"):
        mistyped("loader", "must be a loader of nodes", shown(loader))
    if getattr(loader.node_sampler, "is_hetero", False):
        cure = "check the layers one relation at a time"
        fail("loader", "must be of nodes of one type", "heterogeneous data", cure)
    at_least(1, "seeds", seeds)
    at_least(8, "rounds", rounds)
    finite("tolerance", tolerance)
    if forward is not None:
        function("forward", forward)
    call = _forward if forward is None else forward
    data = loader.data if data is None else data
    if not isinstance(data, Data):
        mistyped("data", "must be a Data", shown(data))
    layers = {n: m for n, m in model.named_modules() if isinstance(m, MessagePassing)}
    if not layers:
        fail("model", "must have message passing layers", "none")
    count = len(loader.dataset)
    index = torch.linspace(0, count - 1, min(seeds, count)).long().unique().tolist()
    batch = loader(index)
    nodes = batch.n_id[: batch.batch_size]
    inner = {n: "propagate" for n, m in layers.items() if judged_by_messages(m)}
    outer = {n for n, m in layers.items() if judged_by_output(m)}
    passes = Passes(layers, lambda named: batch.n_id, inner, outer)
    drawn = []
    acts = [layer for layer in layers.values() if not _acts_on_messages(layer)]
    with evaluating(model), without(acts, "act"):
        with passes.whole():
            call(model, data)
        exact = [(name, out[nodes.to(out.device)]) for name, out in passes.outputs]
        for _ in range(rounds):
            batch = loader(index)
            with passes.sampled(replace_inputs=not linear):
                call(model, batch)
            drawn.append([(n, out[: batch.batch_size]) for n, out in passes.outputs])
    layerwise = getattr(loader.node_sampler, "layerwise", False)
    around = _around(model)
    return report(drawn, exact, layers, partial(_advice, layerwise, around), tolerance)


def _forward(model: Any, batch: Any) -> Tensor:
    """Calls a model with what most of them take."""
    found: Tensor = model(batch.x, batch.edge_index)
    return found


def _acts_on_messages(layer: Any) -> bool:
    """True if a layer has its activation within the sum, where it must stay."""
    code = getattr(type(layer).message, "__code__", None)
    return code is not None and "act" in code.co_names


def _around(model: nn.Module) -> dict[nn.Module, Trouble]:
    """Of layers within one that has no estimate, such as DirGNNConv, its trouble."""
    found: dict[nn.Module, Trouble] = {}
    for outer in model.modules():
        trouble = trouble_of(outer, "sum")
        if trouble is not None and not isinstance(outer, MessagePassing):
            found |= dict.fromkeys(outer.modules(), trouble)
    return found


def _advice(layerwise: bool, around: dict[nn.Module, Trouble], layer: Any) -> str:
    """The call that may help a layer that is off."""
    own, rule = correction_of(layer), rule_of(layer)
    found = around.get(layer) or trouble_of(layer, "sum")
    if found is not None:
        return f"no estimate; {found.why}"
    if sums(layer) and (own is None or own.scale is None):
        return "model = gttf_pyg.unbiased(model, scale='sum')"
    if own is None:
        return "model = gttf_pyg.unbiased(model)"
    if rule is not None and (rule.status == RATIO or rule.normalised(layer)):
        return "more neighbours; the ratio of two estimates is off by its nature"
    if not layerwise:
        return "a loader with layerwise=True, and a hop for every step"
    return "a hop of the loader for every step of the model"
