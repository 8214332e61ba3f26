"""unbiased() and check_unbiased(): layers that are right in the mean over batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import dgl
import torch
from dgl import DGLGraph
from torch import Tensor, nn

from gttf_dgl import _check
from gttf_dgl._blocks import Degrees
from gttf_dgl._compat import (
    AGGREGATORS,
    DGLBlock,
    PNAConvTower,
    is_cached,
    rebuilt,
)
from gttf_dgl._layers import aggregating, rule_of, trouble_of
from gttf_sampler._check import shown
from gttf_sampler._compat import hook_of
from gttf_sampler.estimate import (
    RATIO,
    Passes,
    Trial,
    UnbiasedReport,
    arguments,
    checked_model,
    evaluating,
    replaced,
    share,
    warn_of_biased,
)

Model = TypeVar("Model", bound=nn.Module)

DEGREE, DRAWABLE = "_gttf_degree", "_gttf_drawable"  # node data for reducers


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
    taken, so is its value. Batches of this package's samplers know the graph that they
    were drawn from, and a layer asks them for degrees.

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
    checked_model(model, scale)
    left: dict[str, str] = {}
    for layer in model.modules():
        rule = rule_of(layer)
        if is_cached(layer) and rule is not None and rule.degrees(layer):
            must = "must not cache its features, as every batch has others"
            got = f"{type(layer).__name__}(cached=True)"
            _check.fail("model", must, got, "make it with cached=False")
        why = trouble_of(layer, scale)
        if why is not None:
            left[type(layer).__name__] = why
    for layer in model.modules():
        if rule_of(layer) is None:
            continue
        found = hook_of(layer, Estimate)
        if found is None:
            found = Estimate(None)
            # before the hook of `fused`, which asks the view of the graph
            layer.register_forward_pre_hook(found, prepend=True, with_kwargs=True)
        found.scale = scale or found.scale
    warn_of_biased(left, 2)
    return model


class Estimate:
    """Gives a layer a view of its graph; a forward pre-hook.

    Args:
        scale: "sum" multiplies sums of messages by δ / |S|; None leaves them.
    """

    def __init__(self, scale: str | None) -> None:
        self.scale = scale

    def __call__(self, layer: Any, args: Any, kwargs: Any) -> Any:
        """The arguments of the layer, with another graph."""
        named = arguments(layer, args, kwargs)
        place = "graph" if "graph" in named else "g"
        graph: Any = named.get(place)
        rule = rule_of(layer)
        if rule is None or not hasattr(graph, "canonical_etypes"):
            return None
        alone = len(graph.canonical_etypes) == 1
        origin = getattr(graph, "origin", None) if alone else None
        if origin is not None and not origin.uniform:
            must = "must get uniform draws where it was made unbiased"
            got = "a batch of a sampler with 'prob', 'mask' or 'bias'"
            _check.fail("model", must, got, "leave that out")
        summed = self.scale == "sum" and rule.sums(layer)
        if not (rule.degrees(layer) or summed) or isinstance(graph, Estimated):
            return None
        if origin is None or not origin.known:
            if not graph.is_block:
                return None  # not a sample, for all that is known
            must = "must get blocks with degrees where it was made unbiased"
            cure = "take a sampler of gttf_dgl with the whole graph"
            _check.fail("model", must, "some without", cure)
        if named.get("edge_weight") is not None and not rule.weighted:
            kind = type(layer).__name__
            must = f"must be None in {kind}, which would divide by sampled weights"
            _check.fail("edge_weight", must, "some", "use GraphConv")
        seen = rebuilt(EstimatedBlock if graph.is_block else EstimatedGraph, graph)
        seen.whole = origin.degrees(graph, graph.canonical_etypes[0])
        return (), {**named, place: seen}


class Estimated:
    """Overrides of a DGLGraph: degrees of the whole graph, sums that estimate its sums.

    DGL's layers divide by `in_degrees` and `out_degrees`, and add up messages in
    `update_all`. Of δ messages |S| are there, drawn uniformly: their sum times δ / |S|
    has the expectation of the sum of all.

    Attributes:
        whole: the degrees of its nodes in the whole graph.
    """

    whole: Degrees

    def __getitem__(self, key: Any) -> Any:
        found: Any = super().__getitem__(key)  # type: ignore[misc]
        found.whole = self.whole
        return found

    def in_degrees(self, *args: Any, **kwargs: Any) -> Tensor:
        """The in-degrees of the whole graph."""
        return self.whole.arrive

    def out_degrees(self, *args: Any, **kwargs: Any) -> Tensor:
        """The out-degrees of the whole graph."""
        return self.whole.leave

    def update_all(
        self: Any, message_func: Any, reduce_func: Any, *args: Any, **kwargs: Any
    ) -> None:
        """Passes messages as DGL does; scales sums, and gives PNAConv these degrees."""
        name = getattr(reduce_func, "name", None)  # of DGL's own functions
        if name is None:
            # DGL sorts nodes by the number of their messages, not by these degrees
            plain = rebuilt(DGLBlock if self.is_block else DGLGraph, self)
            plain.dstdata[DEGREE] = self.whole.arrive
            plain.dstdata[DRAWABLE] = self.whole.drawable
            tower = getattr(reduce_func, "__self__", None)
            if isinstance(tower, PNAConvTower):
                reduce_func = partial(_reduce_tower, tower)
            else:
                reduce_func = partial(_reduce_sum, reduce_func)
            plain.update_all(message_func, reduce_func, *args, **kwargs)
            return
        super().update_all(message_func, reduce_func, *args, **kwargs)  # type: ignore[misc]
        if name != "sum":
            return
        out = self.dstdata[reduce_func.out_field]
        each = share(self.whole.drawable.to(out.dtype), self.edges()[1])
        scaled = out * each.view(-1, *[1] * (out.dim() - 1))
        self.dstdata[reduce_func.out_field] = scaled


def _reduce_sum(own: Any, nodes: Any) -> dict[str, Tensor]:
    """The sums of a layer's own function, scaled."""
    found = own(nodes)
    draws = next(iter(nodes.mailbox.values())).size(1)
    each = nodes.data[DRAWABLE] / draws
    return {k: x * each.view(-1, *[1] * (x.dim() - 1)).to(x) for k, x in found.items()}


def _reduce_tower(tower: Any, nodes: Any) -> dict[str, Tensor]:
    """The output of a PNAConv tower, with degrees of the graph.

    Sums are scaled; other aggregators are those of the sample.
    """
    messages = nodes.mailbox["msg"]  # [n, draws, d]
    degree = nodes.data[DEGREE].to(messages.dtype).clamp(min=1).view(-1, 1)
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
    _check.model(model)
    if not _check.one_type(_check.graph(g)):
        cure = "check one relation at a time"
        _check.fail("g", "must be homogeneous", f"{len(g.etypes)} edge types", cure)
    if not isinstance(x, Tensor) or not x.dim() or len(x) != g.num_nodes():
        rule = f"must be a tensor with a row for each of {g.num_nodes()} nodes"
        _check.fail("x", rule, shown(x))
    trial = Trial(seeds, rounds, tolerance, linear).checked(forward)
    call: Any = forward or (lambda model, blocks, x: model(blocks, x))
    layers = dict(aggregating(model))
    if not layers:
        _check.fail("model", "must have layers that aggregate", "none")
    nodes = trial.positions(g.num_nodes()).to(g.device, g.idtype)
    _, _, first = sampler.sample(g, nodes)
    whole = [g] * len(first) if isinstance(first, list) else g

    def one_batch() -> None:
        inputs, _, batch = sampler.sample(g, nodes)
        call(model, batch, x[inputs.long()])

    with evaluating(model), replaced(_not_linear(layers)):
        every, passes = partial(call, model, whole, x), Passes(layers, _ids)
        return trial.report(passes, every, one_batch, nodes.long(), _cure)


def _ids(named: dict[str, Any]) -> Tensor:
    """The global ids of the nodes that a layer has features of."""
    graph = named["graph"] if "graph" in named else named["g"]
    found: Tensor = graph.srcdata[dgl.NID].long()
    return found


class _First(nn.Module):
    def forward(self, first: Tensor, *rest: Any) -> Tensor:
        return first


def _not_linear(layers: dict[str, Any]) -> Iterator[tuple[Any, str, Any]]:
    """The parts of layers behind their sums that are not linear, and stand-ins."""
    for layer in layers.values():
        for name in ("_activation", "activation", "apply_func"):
            if hasattr(layer, name):
                yield layer, name, None
        rule = rule_of(layer)
        for name in () if rule is None else rule.after:
            yield layer, name, _First()


def _cure(layer: Any) -> str:
    rule, why = rule_of(layer), trouble_of(layer, "sum")
    if rule is None or why is not None:
        return f"no estimate; {why}"
    estimate = hook_of(layer, Estimate)
    if rule.sums(layer) and (estimate is None or estimate.scale != "sum"):
        return "model = gttf_dgl.unbiased(model, scale='sum')"
    if rule.status == RATIO:
        return "more neighbours; the ratio of two estimates is off by its nature"
    if estimate is None:
        return "model = gttf_dgl.unbiased(model)"
    return "a sample per layer (rooted=False), and a block for every step"
