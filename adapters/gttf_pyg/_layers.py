"""What `unbiased` does to a layer while it computes a sampled batch."""

import inspect
from functools import cache
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor
from torch_geometric.nn import MeanAggregation, MessagePassing

from gttf_pyg._propagate import (
    Joined,
    Normalised,
    StandIn,
    Weighted,
    check_law,
    counted,
)
from gttf_pyg._sampled import SampledEdgeIndex
from gttf_pyg._table import Rule, leaves, rule_of, sums

EDGE_ARGUMENTS = ("edge_weight", "edge_attr", "edge_type")

# Those that are in use. As long as there is one, batches carry their samples.
CURES: "WeakSet[Cure]" = WeakSet()


class Cure:
    """The hooks of one layer; they do nothing unless its edges were sampled.

    While the layer runs, its `propagate` is a stand-in that uses the estimate of what
    the layer would have made from all edges, as its row in the table says. PyG's own
    hooks of `propagate` would do, but PyG leaves them out under `torch.compile`.

    Args:
        scale: "sum" multiplies sums of messages by δ / |S|; None leaves them.
    """

    def __init__(self, scale: str | None) -> None:
        self.scale = scale
        CURES.add(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Notes copies and what was pickled, too."""
        self.__dict__.update(state)
        CURES.add(self)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def before(self, layer: Any, args: Any, kwargs: Any) -> Any:
        """Prepares a layer for edges that were sampled; a forward pre-hook."""
        named = dict(zip(_parameters(layer.__class__), args, strict=False)) | kwargs
        edges = named.get("edge_index")
        rule = rule_of(layer)
        if not isinstance(edges, SampledEdgeIndex):
            return self._several(layer, rule, named)
        if not edges.as_drawn:
            return None
        if rule is not None and rule.matrix is not None:
            _check(layer, edges)
            _without_attention(layer, named)
            Normalised(layer, rule, named)
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
        if rule is None or not self._concerned(layer, rule, edges):
            return (), named
        _check(layer, edges)
        check_law(edges)
        stand_in = Weighted(layer, rule, edges, first, part)
        most = rule.degree(layer)
        if most is not None:
            named["edge_index"] = counted(edges, most)
        if rule.relations:
            stand_in.per_type = _per_type(layer, edges, first, named)
        stand_in.enter(self.scale)
        return (), named

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def after(self, layer: Any, args: Any, out: Any) -> None:
        """Takes the stand-in away; a forward hook, called after errors as well."""
        found = layer.__dict__.get("propagate")
        if isinstance(found, StandIn):
            found.leave()

    def _concerned(self, layer: Any, rule: Rule, edges: SampledEdgeIndex) -> bool:
        """Whether messages must be weighed, or are right as they are."""
        explained = layer.explain and edges.sample.hops is not None
        return bool(
            (self.scale == "sum" and sums(layer))
            or rule.loops(layer) is not None
            or rule.degree(layer) is not None
            or rule.relations
            or edges.sample.law is not None
            or "symnorm" in getattr(layer, "aggregators", ())
            or hasattr(layer.aggr_module, "scaler")
            or explained
        )

    def _several(self, layer: Any, rule: Rule | None, named: dict[str, Any]) -> None:
        """Prepares a layer for edges in several tensors, if some were sampled."""
        given = [*named.values()]
        for value in named.values():
            given += value.values() if isinstance(value, dict) else ()
        drawn = [edges for edges in given if isinstance(edges, SampledEdgeIndex)]
        for edges in drawn:
            if edges.sample.law is not None:
                raise ValueError(
                    f"'weight_attr' must be None for {type(layer).__name__}, which "
                    f"takes several tensors of edges (got {edges.sample.law!r}); draw "
                    "uniformly"
                )
        if rule is not None and rule.joined and drawn:
            for edges in drawn:
                _check(layer, edges)
            relations = named["edge_index_dict"].values()
            if all(isinstance(edges, SampledEdgeIndex) for edges in relations):
                Joined(layer, [*relations])


def cure_of(layer: Any) -> Cure | None:
    """The hooks that `unbiased` has given a layer, or None."""
    owners = (getattr(f, "__self__", None) for f in layer._forward_pre_hooks.values())
    return next((owner for owner in owners if isinstance(owner, Cure)), None)


def divides_by_degree(layer: Any) -> bool:
    """Whether a layer reads the degrees of its batch."""
    rule = rule_of(layer)
    if rule is None or not isinstance(layer, MessagePassing):
        return False
    reads = rule.degree(layer) is not None or hasattr(layer.aggr_module, "scaler")
    return rule.matrix is not None or reads


@cache
def _parameters(kind: Any) -> list[str]:
    """The names of what a layer's `forward` takes."""
    return list(inspect.signature(kind.forward).parameters)[1:]


def _check(layer: Any, edges: SampledEdgeIndex) -> None:
    """Refuses draws from which there is no unbiased estimate."""
    sample = edges.sample
    if sample.refusal is not None:
        raise ValueError(sample.refusal)
    flow = "source_to_target" if sample.receiver == 1 else "target_to_source"
    if layer.flow != flow:
        raise ValueError(
            f"'flow' must be {flow!r}, the way neighbours were drawn (got a "
            f"{type(layer).__name__} with {layer.flow!r})"
        )


def _without_attention(layer: Any, named: dict[str, Any]) -> None:
    """Refuses to return the weights of edges that the layer does not see."""
    if named.get("return_attention_weights") is not None:
        raise ValueError(
            "'return_attention_weights' must be None in an unbiased "
            f"{type(layer).__name__} on a sampled batch (got a bool); ask for it on "
            "the whole graph"
        )


def _per_type(
    layer: Any, edges: SampledEdgeIndex, first: int, named: dict[str, Any]
) -> Tensor | None:
    """[n, types]: what a layer that averages over each type divides by, or None."""
    kind, sample = named.get("edge_type"), edges.sample
    if layer.num_relations > 1 and sample.law is not None:
        raise ValueError(
            f"'weight_attr' must be None for {type(layer).__name__}, which takes its "
            f"edges by type (got {sample.law!r}); draw uniformly"
        )
    averages = any(isinstance(part, MeanAggregation) for part in leaves(layer))
    if not averages or not isinstance(kind, Tensor):
        return None
    found = sample.of_types(kind, first, layer.num_relations)
    if found is None:
        raise ValueError(
            "'edge_type' must be an attribute of the loader's data, which knows it for "
            f"all edges (got other types; there are {sample.types})"
        )
    return found
