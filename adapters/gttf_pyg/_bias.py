"""The bias of a batch: what the sampler was told, and what only the batch knows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gttf_pyg._compat import reverse_edge_type
from gttf_pyg._rows import EdgeType
from gttf_sampler import EdgeWeightBias, ExcludeBias, TemporalBias
from gttf_sampler._check import shown

if TYPE_CHECKING:
    from gttf_pyg.sampler import GTTFSampler


def checked(bias: Any, sampler: GTTFSampler) -> Any:
    """`bias`, which must be callable, or be so for some edge types."""
    parts = {None: bias}
    if isinstance(bias, Mapping) and not sampler.is_hetero:
        raise TypeError("'bias' must be callable where there are no types (got a dict)")
    if isinstance(bias, Mapping):
        parts = dict(bias)
        for kind in parts:
            if kind not in sampler.edge_types:
                raise ValueError(
                    f"'bias' must use the edge types of the data, {sampler.edge_types} "
                    f"(got {kind!r})"
                )
    for part in parts.values():
        if part is not None and (not callable(part) or isinstance(part, type)):
            raise TypeError(f"'bias' must be callable (got {shown(part)})")
    weighted = any(adj.edge_weight is not None for adj in sampler.adjs.values())
    last = sampler.is_temporal and sampler.temporal_strategy == "last"
    options = {
        "weight_attr": weighted,
        "bias": bias is not None,
        "exclude_edges": sampler.excludes,
    }
    other = next((name for name, used in options.items() if used), None)
    if last and other is not None:
        raise ValueError(
            f"'temporal_strategy' must be 'uniform' together with '{other}' "
            "(got 'last')"
        )
    return bias


def of_batch(
    sampler: GTTFSampler,
    kind: EdgeType,
    seed_time: Tensor | None,
    hidden: Tensor | None,
) -> Any:
    """What times, weights and hidden edges make of one relation; None if nothing."""
    adj = sampler.adjs[kind]
    parts: list[Any] = []
    weighted = adj.edge_weight is not None
    if seed_time is not None and adj.edge_time is not None:
        strategy, window = sampler.temporal_strategy, sampler.time_window
        timed = TemporalBias(
            seed_time, strategy=strategy, window=window, weighted=weighted
        )
        parts.append(timed)
    elif weighted:
        parts.append(EdgeWeightBias())
    if hidden is not None and hidden.numel():
        parts.append(ExcludeBias(hidden))
    if kind in sampler.always_hidden:
        parts.append(sampler.always_hidden[kind])
    return reduce(mul, parts) if parts else None


def with_own(sampler: GTTFSampler, kind: EdgeType, bias: Any) -> Any:
    """`bias` times the one that the sampler was given for a relation."""
    own = sampler.bias
    if isinstance(own, Mapping):
        backward = sampler.sample_direction == "backward"
        own = own.get(reverse_edge_type(kind) if backward else kind)
    if bias is None or own is None:
        return own if bias is None else bias
    return bias * own
