"""What `unbiased` does to a layer while it computes a sampled batch."""

import inspect
from functools import cache
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor
from torch_geometric.nn import APPNP

from gttf_pyg._operators import Drawn, chebyshev, operator_of
from gttf_pyg._sampled import SampledEdgeIndex
from gttf_sampler._check import shown
from gttf_sampler.estimate import share

EDGE_ARGUMENTS = ("edge_weight", "edge_attr")

# Those that are in use. As long as there is one, batches carry their samples.
CURES: "WeakSet[Cure]" = WeakSet()


class Cure:
    """The hooks of one layer; they do nothing unless its edges were sampled.

    While the layer runs, its `propagate` is a stand-in that uses the estimate of the
    matrix that the layer would have made from all edges. PyG's own hooks of `propagate`
    would do, but PyG leaves them out under `torch.compile`.

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
        if not isinstance(edges, SampledEdgeIndex) or not edges.as_drawn:
            return None
        stand_in: StandIn
        operator = operator_of(layer)
        if operator is not None:
            _check(layer, edges)
            stand_in = Normalised(layer, operator, named)
            # the layer's own normalisation finds nothing to do
            named["edge_index"] = edges.plain[:, :0]
            if named.get("edge_weight") is not None:
                named["edge_weight"] = named["edge_weight"][:0]
        else:
            first, count = edges.sample.hop(edges.shape[1])
            for name in EDGE_ARGUMENTS:
                value = named.get(name)
                if isinstance(value, Tensor) and edges.sample.hops is not None:
                    named[name] = value[first : first + count]
            part = named["edge_index"] = edges.plain[:, first : first + count]
            if not self._sums(layer):
                return (), named
            _check(layer, edges)
            stand_in = Summed(layer, edges, part)
        layer.propagate = stand_in
        return (), named

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def after(self, layer: Any, args: Any, out: Any) -> None:
        """Takes the stand-in away; a forward hook, called after errors as well."""
        found = layer.__dict__.get("propagate")
        if isinstance(found, StandIn):
            found.leave()

    def _sums(self, layer: Any) -> bool:
        """Whether messages are to be scaled."""
        return self.scale == "sum" and layer.aggr in ("add", "sum")


def cure_of(layer: Any) -> Cure | None:
    """The hooks that `unbiased` has given a layer, or None."""
    owners = (getattr(f, "__self__", None) for f in layer._forward_pre_hooks.values())
    return next((owner for owner in owners if isinstance(owner, Cure)), None)


class StandIn:
    """Takes the place of a layer's `propagate` for one call of the layer."""

    def __init__(self, layer: Any) -> None:
        self.layer = layer
        self.own = layer.__dict__.get("propagate")  # PyG sets one while explaining
        self.propagate = layer.propagate

    def leave(self) -> None:
        """Gives the place back."""
        del self.layer.propagate
        if self.own is not None:
            self.layer.propagate = self.own


class Normalised(StandIn):
    """Propagates along the estimate of a normalised matrix."""

    def __init__(self, layer: Any, operator: Any, named: dict[str, Any]) -> None:
        super().__init__(layer)
        self.operator, self.weight_name = operator
        self.edges: SampledEdgeIndex = named["edge_index"]
        self.weight: Tensor | None = named.get("edge_weight")
        self.name = _name_of(self.weight, self.edges)
        self.how: dict[str, Any] = {}
        if self.operator is chebyshev:
            self.how["lambda_max"] = _one_number(named.get("lambda_max"))

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, edge_index: Any, size: Any = None, **kwargs: Any) -> Any:
        x = kwargs["x"]
        index, weight = self._entries(x.size(self.layer.node_dim), x.dtype)
        if isinstance(self.layer, APPNP) and self.layer.training:
            weight = torch.nn.functional.dropout(weight, p=self.layer.dropout)
        kwargs[self.weight_name] = weight
        return self.propagate(index, size=size, **kwargs)

    def _entries(self, size: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The matrix for the next step; layers that want the same one share it."""
        sample, edges, weight = self.edges.sample, self.edges.plain, self.weight
        first, count = sample.hop(edges.shape[1])
        layer = self.layer
        alike = (
            *(getattr(layer, name, None) for name in ("add_self_loops", "improved")),
            *(getattr(layer, name, None) for name in ("normalization", "diag_lambda")),
        )
        asked = self.operator, alike, first, count, size, dtype, edges.device
        simple = weight is None and not self.how.get("lambda_max")
        if simple and asked in sample.made:
            found: tuple[Tensor, Tensor] = sample.made[asked]
            return found
        if weight is not None:
            weight = weight[first : first + count]
            dtype = weight.dtype
        edges = edges[:, first : first + count]
        drawn = Drawn(edges, sample, first, size, weight, self.name, dtype)
        found = self.operator(layer, drawn, **self.how)
        if simple:
            sample.made[asked] = found
        return found


class Summed(StandIn):
    """Propagates as ever, and scales the sums."""

    def __init__(self, layer: Any, edges: SampledEdgeIndex, part: Tensor) -> None:
        super().__init__(layer)
        self.edges, self.part = edges, part

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, edge_index: Any, size: Any = None, **kwargs: Any) -> Any:
        out = self.propagate(edge_index, size=size, **kwargs)
        sample, dim = self.edges.sample, self.layer.node_dim % out.dim()
        total = sample.local("received", None, 1, out.device)
        each = share(total.to(out.dtype), self.part[sample.receiver])[: out.size(dim)]
        return out * each.view(-1, *[1] * (out.dim() - dim - 1))


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


def _name_of(weight: Tensor | None, edges: SampledEdgeIndex) -> str | None:
    """What the data calls these edge weights; an error if it has none like them.

    By value, because a batch may have been moved and cast since the weights were read.
    """
    sample = edges.sample
    named = None
    if weight is not None:
        for name in sample.names:
            there = sample.weight(name, weight.device)[: weight.numel()]
            if torch.equal(there.to(weight.dtype), weight.detach()):
                named = name
                break
        else:
            raise ValueError(
                "'edge_weight' must be an attribute of the loader's data, which knows "
                f"it for all edges (got other weights; there are {sample.names})"
            )
    if sample.law not in (None, named) and sample.takes_zero(sample.law):
        raise ValueError(
            f"'weight_attr' must name weights above zero, or the layer's own (got "
            f"{sample.law!r}, which is zero for some edges); they are never drawn"
        )
    return named


def _one_number(value: Any) -> Any:
    """A `lambda_max` for the one graph that batches come from."""
    if isinstance(value, Tensor) and value.numel() > 1:
        got = shown(value)
        raise ValueError(f"'lambda_max' must be one number, of one graph (got {got})")
    return value
