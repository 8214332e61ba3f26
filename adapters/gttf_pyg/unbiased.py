"""unbiased, check_unbiased: layers that are right in the mean over sampled batches."""

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import ClusterGCNConv, MeanAggregation, MessagePassing

from gttf_pyg._compat import forward_pre_hooks
from gttf_pyg._propagate import (
    JoinedPropagate,
    MatrixPropagate,
    PatchedPropagate,
    WeightedPropagate,
    check_drawn_by,
    counted,
    refuse_weights,
)
from gttf_pyg._sampled import CORRECTED, SampledEdgeIndex
from gttf_pyg._table import (
    Rule,
    leaves,
    rule_of,
    sums,
    trouble_of,
)
from gttf_sampler._check import fail, mistyped, shown
from gttf_sampler._check import model as check_model
from gttf_sampler._compat import Shadows, hook_of
from gttf_sampler.estimate import (
    RATIO,
    REFUSED,
    Passes,
    Trial,
    UnbiasedReport,
    checked_model,
    evaluating,
    replaced,
    warn_of_biased,
)

Model = TypeVar("Model", bound=nn.Module)

EDGE_ARGUMENTS = ("edge_weight", "edge_attr", "edge_type")


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
    class stay, copies and pickles keep the hooks, and edges that no `NeighborLoader` or
    `LinkNeighborLoader` of this package has sampled, such as those of the whole graph,
    are computed as ever, as are those of batches from before there was such a model.

    Args:
        model: a layer or a model of PyG, or any module that contains some. What is done
            to which layer is in the table of docs/normalise.md; layers without an
            estimate, and a user's own, are named in a `BiasedLayerWarning`.
        scale: "sum" also multiplies sums of messages (GINConv, GraphConv, SAGEConv with
            aggr="sum", and others that add) by δ / |S|, the share that was sampled.
    """
    checked_model(model, scale)
    _check_layers(model, scale)
    layers = [part for part in model.modules() if isinstance(part, MessagePassing)]
    for layer in layers:
        correction = correction_of(layer)
        if correction is None:
            correction = DegreeCorrection(None)
            layer.register_forward_pre_hook(correction.before, with_kwargs=True)
            layer.register_forward_hook(correction.after, always_call=True)
        if scale is not None:
            correction.scale = scale
    known = restart in forward_pre_hooks(model)
    if not (known or isinstance(model, MessagePassing)):
        model.register_forward_pre_hook(restart, with_kwargs=True)
    return model


def restart(model: nn.Module, args: Any, kwargs: Any) -> None:
    """Starts a forward pass at the last hop; a forward pre-hook of the model."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, SampledEdgeIndex):
            value.sample.step = 0


def _check_layers(model: nn.Module, scale: str | None) -> None:
    """Refuses layers that would be wrong in spite of all; names those that stay so."""
    left: dict[str, str] = {}
    for layer in model.modules():
        kind = type(layer).__name__
        rule = rule_of(layer)
        reads = rule and (rule.matrix is not None or rule.loops(layer) is not None)
        if reads and getattr(layer, "cached", False):
            must = "must not cache its edges, as every batch has others"
            fail("model", must, f"{kind}(cached=True)", "make it with cached=False")
        if isinstance(layer, ClusterGCNConv) and not layer.add_self_loops:
            must = f"must add self-loops in {kind}, which PyG computes in no other way"
            fail("model", must, "add_self_loops=False")
        why = trouble_of(layer, scale)
        if rule is not None and rule.status == REFUSED and rule.trouble(layer):
            must = "must have layers with an estimate"
            fail("model", must, f"a {kind}, which has none", str(why))
        if why is not None:
            left[kind] = why
    warn_of_biased(left, 3)


class DegreeCorrection:
    """The forward hooks of one layer; they do nothing unless its edges were sampled.

    While the layer runs, its `propagate` is patched: it estimates the messages of all
    edges, as the layer's row in the table says. PyG's own hooks of `propagate` would
    do, but PyG leaves them out under `torch.compile`.

    Args:
        scale: "sum" multiplies sums of messages by δ / |S|; None leaves them.
    """

    def __init__(self, scale: str | None) -> None:
        self.scale = scale
        CORRECTED.add(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Registers copies and unpickled ones as well."""
        self.scale = state["scale"]
        CORRECTED.add(self)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def before(self, layer: Any, args: Any, kwargs: Any) -> Any:
        """Prepares a layer for edges that were sampled; a forward pre-hook."""
        named = dict(zip(parameters(layer.__class__), args, strict=False)) | kwargs
        edges = named.get("edge_index")
        rule = rule_of(layer)
        if not isinstance(edges, SampledEdgeIndex):
            return self._several(layer, rule, named)
        if not edges.as_drawn:
            return None
        if rule is not None:
            check_draws(layer, edges)
        if rule is not None and rule.matrix is not None:
            if named.get("return_attention_weights") is not None:
                name, cure = "return_attention_weights", "ask for it on the whole graph"
                where = f"in an unbiased {type(layer).__name__} on a sampled batch"
                fail(name, f"must be None {where}", "a bool", cure)
            MatrixPropagate(layer, rule, named)
            # the layer's own normalisation finds nothing to do
            named["edge_index"] = edges.plain[:, :0]
            if named.get("edge_weight") is not None:
                named["edge_weight"] = named["edge_weight"][:0]
            return (), named
        first, count = edges.sample.hop(edges.shape[1])
        for name in EDGE_ARGUMENTS:
            value = named.get(name)
            if isinstance(value, Tensor) and edges.sample.hops is not None:
                named[name] = value[first : first + count]
        part = named["edge_index"] = edges.plain[:, first : first + count]
        if rule is None or not self.concerned(layer, rule, edges):
            return (), named
        check_drawn_by(edges)
        patched = WeightedPropagate(layer, rule, edges, first, part)
        most = rule.degree(layer)
        if most is not None:
            named["edge_index"] = counted(edges, most)
        if rule.relations:
            patched.per_type = _per_type(layer, edges, first, named)
        patched.enter(self.scale)
        return (), named

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def after(self, layer: Any, args: Any, out: Any) -> None:
        """Restores `propagate`; a forward hook, called after errors as well."""
        found = Shadows.seen(layer, "propagate")
        if isinstance(found, PatchedPropagate) and not found.fused:
            found.shadows.restore()

    def concerned(self, layer: Any, rule: Rule, edges: SampledEdgeIndex | None) -> bool:
        """True if messages must be weighed; else they are right as they are."""
        sample = None if edges is None else edges.sample
        layerwise = sample is not None and sample.hops is not None
        return bool(
            (self.scale == "sum" and sums(layer))
            or rule.loops(layer) is not None
            or rule.degree(layer) is not None
            or rule.relations
            or (sample is not None and sample.per_edge)
            or "symnorm" in getattr(layer, "aggregators", ())
            or hasattr(layer.aggr_module, "scaler")
            or (layer.explain and layerwise)
        )

    def _several(self, layer: Any, rule: Rule | None, named: dict[str, Any]) -> None:
        """Prepares a layer for edges in several tensors, if some were sampled."""
        given = [*named.values()]
        for value in named.values():
            given += value.values() if isinstance(value, dict) else ()
        drawn = [edges for edges in given if isinstance(edges, SampledEdgeIndex)]
        for edges in drawn:
            joined = rule is not None and rule.joined
            if edges.sample.drawn_by is not None or (
                edges.sample.factor is not None and not joined
            ):
                refuse_weights(layer, edges.sample, "several tensors of edges")
        if rule is not None and rule.joined and drawn:
            for edges in drawn:
                check_draws(layer, edges)
            relations = named["edge_index_dict"].values()
            if all(isinstance(edges, SampledEdgeIndex) for edges in relations):
                JoinedPropagate(layer, [*relations])


def correction_of(layer: Any) -> DegreeCorrection | None:
    """The hooks that `unbiased` has given a layer, or None."""
    return hook_of(layer, DegreeCorrection)


@cache
def parameters(kind: Any) -> list[str]:
    """The names of what a layer's `forward` takes."""
    return list(inspect.signature(kind.forward).parameters)[1:]


def check_draws(layer: Any, edges: SampledEdgeIndex) -> None:
    """Refuses draws that have no estimate, and a layer that goes against them."""
    sample = edges.sample
    if sample.refusal is not None:
        raise ValueError(sample.refusal)
    flow = "source_to_target" if sample.receiver == 1 else "target_to_source"
    if layer.flow != flow:
        rule = f"must be {flow!r}, the way neighbours were drawn"
        fail("flow", rule, f"a {type(layer).__name__} with {layer.flow!r}")


def _per_type(
    layer: Any, edges: SampledEdgeIndex, first: int, named: dict[str, Any]
) -> Tensor | None:
    """[n, types]: the counts that means over each type divide by, or None."""
    kind, sample = named.get("edge_type"), edges.sample
    if layer.num_relations > 1 and sample.per_edge:
        refuse_weights(layer, sample, "its edges by type")
    averages = any(isinstance(part, MeanAggregation) for part in leaves(layer))
    if not averages or not isinstance(kind, Tensor):
        return None
    found = sample.of_types(kind, first, layer.num_relations)
    if found is None:
        rule = "must be an attribute of the loader's data, which knows it for all edges"
        fail("edge_type", rule, f"other types; there are {sample.types}")
    return found


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
    check_model(model)
    if not callable(loader) or not hasattr(loader, "node_sampler"):
        mistyped("loader", "must be a loader of nodes", shown(loader))
    if getattr(loader.node_sampler, "is_hetero", False):
        cure = "check the layers one relation at a time"
        fail("loader", "must be of nodes of one type", "heterogeneous data", cure)
    trial = Trial(seeds, rounds, tolerance, linear).checked(forward)
    call = forward or (lambda model, batch: model(batch.x, batch.edge_index))
    data = loader.data if data is None else data
    if not isinstance(data, Data):
        mistyped("data", "must be a Data", shown(data))
    layers = {n: m for n, m in model.named_modules() if isinstance(m, MessagePassing)}
    if not layers:
        fail("model", "must have message passing layers", "none")
    index = trial.positions(len(loader.dataset)).tolist()
    batch = loader(index)
    nodes = batch.n_id[: batch.batch_size]
    rules = {name: rule_of(layer) for name, layer in layers.items()}
    outer = {name for name, rule in rules.items() if rule is None or rule.output}
    inner = {n: "propagate" for n, rule in rules.items() if not (rule and rule.output)}
    passes = Passes(layers, lambda named: batch.n_id, inner, outer)
    own = [m for m in layers.values() if hasattr(m, "act") and not _acts_on_messages(m)]
    layerwise = getattr(loader.node_sampler, "layerwise", False)
    advice = partial(_advice, layerwise, _around(model))

    def one_batch() -> None:
        nonlocal batch
        batch = loader(index)
        call(model, batch)

    with evaluating(model), replaced((layer, "act", None) for layer in own):
        every = partial(call, model, data)
        return trial.report(passes, every, one_batch, nodes, advice)


def _acts_on_messages(layer: Any) -> bool:
    """True if a layer has its activation within the sum, where it must stay."""
    code = getattr(type(layer).message, "__code__", None)
    return code is not None and "act" in code.co_names


def _around(model: nn.Module) -> dict[nn.Module, str]:
    """Of layers within one that has no estimate, such as DirGNNConv, the reason."""
    found: dict[nn.Module, str] = {}
    for outer in model.modules():
        why = trouble_of(outer, "sum")
        if why is not None and not isinstance(outer, MessagePassing):
            found |= dict.fromkeys(outer.modules(), why)
    return found


def _advice(layerwise: bool, around: dict[nn.Module, str], layer: Any) -> str:
    own, rule = correction_of(layer), rule_of(layer)
    why = around.get(layer) or trouble_of(layer, "sum")
    if why is not None:
        return f"no estimate; {why}"
    if sums(layer) and (own is None or own.scale is None):
        return "model = gttf_pyg.unbiased(model, scale='sum')"
    if own is None:
        return "model = gttf_pyg.unbiased(model)"
    if rule is not None and (rule.status == RATIO or rule.normalised(layer)):
        return "more neighbours; the ratio of two estimates is off by its nature"
    if not layerwise:
        return "a loader with layerwise=True, and a hop for every step"
    return "a hop of the loader for every step of the model"
