"""check_unbiased(): compares a model's layers over batches with the whole graph."""

from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any

import dgl
import torch
from torch import Tensor, nn

from gttf_dgl import _check
from gttf_dgl._layers import RATIO, aggregating, rule_of, trouble_of
from gttf_dgl.unbiased import is_cured, scales
from gttf_sampler._check import at_least, finite, functions, shown
from gttf_sampler.verdict import Passes, UnbiasedReport, evaluating, report, without


@torch.no_grad()
def check_unbiased(
    model: nn.Module,
    sampler: Any,
    g: dgl.DGLGraph,
    x: Tensor,
    *,
    forward: Callable[[Any, Any, Tensor], Tensor] | None = None,
    seeds: int = 32,
    rounds: int = 200,
    tolerance: float = 4.0,
    linear: bool = False,
) -> UnbiasedReport:
    """Compares every layer's mean over batches with its value on the whole graph.

    >>> import dgl, torch
    >>> from gttf_dgl import NeighborSampler, check_unbiased, unbiased
    >>> _ = torch.manual_seed(0)
    >>> g, x = dgl.add_self_loop(dgl.rand_graph(100, 1000)), torch.randn(100, 8)
    >>> conv = unbiased(dgl.nn.GraphConv(8, 4))
    >>> one = lambda model, blocks, x: model(blocks[0], x)
    >>> check_unbiased(conv, NeighborSampler([3]), g, x, forward=one).ok
    True

    Each layer is given the inputs that it has on the whole graph, and leaves out its
    own activation, so that it is judged by itself. What cannot be concluded: that a
    model whose layers are right is right in the mean, too. Between layers there is a
    ReLU, and the mean of a ReLU is not the ReLU of the mean; more neighbours make that
    smaller.

    Args:
        model: with layers of DGL that aggregate; in evaluation mode meanwhile.
        sampler: of this package or of DGL, with one block per layer, or one graph.
        g: the whole graph, homogeneous.
        x: [n, d], the features of all nodes.
        forward: a function (model, blocks, features of the input nodes) → output; by
            default `model(blocks, x)`. For the whole graph all blocks are `g`, and if
            the sampler gives one graph instead of blocks, so it does here.
        seeds: how many nodes to look at.
        rounds: how many batches to draw.
        tolerance: how many standard errors to put down to chance.
        linear: leave layers the inputs that they have, and so judge the model as one;
            for models without activations, dropout and the like.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"'model' must be a torch.nn.Module (got {shown(model)})")
    _check.graph(g)
    if len(g.ntypes) > 1 or len(g.etypes) > 1:
        raise ValueError(
            f"'g' must be homogeneous (got {len(g.etypes)} edge types); check one "
            "relation at a time"
        )
    if not isinstance(x, Tensor) or not x.dim() or len(x) != g.num_nodes():
        rule = f"must be a tensor with a row for each of {g.num_nodes()} nodes"
        raise ValueError(f"'x' {rule} (got {shown(x)})")
    at_least(1, "seeds", seeds)
    at_least(8, "rounds", rounds)
    finite("tolerance", tolerance)
    if forward is not None:
        functions("forward", [forward], many=True)
    call = _forward if forward is None else forward
    layers = dict(aggregating(model))
    if not layers:
        raise ValueError("'model' must have layers that aggregate (got none)")
    count = g.num_nodes()
    nodes = torch.linspace(0, count - 1, min(seeds, count)).long().unique()
    nodes = nodes.to(g.device, g.idtype)
    passes = Passes(layers, _ids)
    drawn = []
    inner = "_activation", "activation", "apply_func"
    with evaluating(model), without(layers.values(), *inner), _linear(layers.values()):
        _, _, batch = sampler.sample(g, nodes)
        with passes.whole():
            call(model, [g] * len(batch) if isinstance(batch, list) else g, x)
        exact = [(name, out[nodes.long()]) for name, out in passes.outputs]
        for _ in range(rounds):
            inputs, _, batch = sampler.sample(g, nodes)
            with passes.sampled(replace_inputs=not linear):
                call(model, batch, x[inputs.long()])
            drawn.append([(name, out[: len(nodes)]) for name, out in passes.outputs])
    return report(drawn, exact, layers, _cure, tolerance)


def _forward(model: Any, blocks: Any, x: Tensor) -> Tensor:
    """The output of a model that is called as most are."""
    found: Tensor = model(blocks, x)
    return found


def _ids(named: dict[str, Any]) -> Tensor:
    """The global ids of the nodes that a layer has features of."""
    graph = named["graph"] if "graph" in named else named["g"]
    found: Tensor = graph.srcdata[dgl.NID].long()
    return found


class _First(nn.Module):
    """Gives its first argument."""

    def forward(self, first: Tensor, *rest: Any) -> Tensor:
        """`first`, as it is."""
        return first


@contextmanager
def _linear(layers: Iterable[Any]) -> Any:
    """The layers without what is not linear behind their sums."""
    own = []
    for layer in layers:
        rule = rule_of(layer)
        own += [(layer, name) for name in (() if rule is None else rule.after)]
    parts = [getattr(layer, name) for layer, name in own]
    for layer, name in own:
        setattr(layer, name, _First())
    try:
        yield
    finally:
        for (layer, name), part in zip(own, parts, strict=True):
            setattr(layer, name, part)


def _cure(layer: Any) -> str:
    """The cure for a layer that is off."""
    rule, why = rule_of(layer), trouble_of(layer, "sum")
    if rule is None or why is not None:
        return f"no estimate; {why}"
    if rule.sums(layer) and not scales(layer):
        return "model = gttf_dgl.unbiased(model, scale='sum')"
    if rule.status == RATIO:
        return "more neighbours; the ratio of two estimates is off by its nature"
    if not is_cured(layer):
        return "model = gttf_dgl.unbiased(model)"
    return "a sample per layer (rooted=False), and a block for every step"
