"""Checks of the seeds that PyG hands to a sampler, and that callers make by hand."""

import copy
from typing import Any

from torch import Tensor
from torch_geometric.sampler import (
    EdgeSamplerInput,
    NegativeSampling,
    NodeSamplerInput,
)

from gttf_pyg._words import ids
from gttf_sampler._check import dense, shown


def checked_nodes(inputs: Any) -> NodeSamplerInput:
    """`inputs` with ids in int64; what does not name nodes is refused."""
    if not isinstance(inputs, NodeSamplerInput):
        raise TypeError(f"'inputs' must be a NodeSamplerInput (got {shown(inputs)})")
    node = ids("inputs.node", inputs.node)
    _one_each("inputs.time", inputs.time, node.numel())
    return _with(inputs, node=node)


def checked_edges(inputs: Any, neg_sampling: Any) -> EdgeSamplerInput:
    """`inputs` with ids in int64; what does not name pairs is refused."""
    if not isinstance(inputs, EdgeSamplerInput):
        raise TypeError(f"'inputs' must be an EdgeSamplerInput (got {shown(inputs)})")
    row, col = ids("inputs.row", inputs.row), ids("inputs.col", inputs.col)
    count = row.numel()
    if col.numel() != count:
        raise ValueError(
            f"'inputs.col' must have one entry per entry of 'inputs.row', {count} in "
            f"all (got {inputs.col.numel()})"
        )
    _one_each("inputs.label", inputs.label, count)
    _one_each("inputs.time", inputs.time, count)
    if neg_sampling is not None and not isinstance(neg_sampling, NegativeSampling):
        got = shown(neg_sampling)
        raise TypeError(f"'neg_sampling' must be a NegativeSampling (got {got})")
    triplets = neg_sampling is not None and neg_sampling.is_triplet()
    if triplets and inputs.label is not None:
        raise ValueError("'inputs.label' must be None beside triplets (got a tensor)")
    return _with(inputs, row=row, col=col)


def _with(inputs: Any, **parts: Tensor) -> Any:
    """`inputs` itself, or a copy with other parts."""
    if all(getattr(inputs, name) is part for name, part in parts.items()):
        return inputs
    inputs = copy.copy(inputs)
    inputs.__dict__.update(parts)
    return inputs


def _one_each(name: str, value: Any, count: int) -> None:
    """Refuses what is neither None nor a tensor with one entry per seed."""
    if value is None:
        return
    found = dense(name, value)
    if found.dim() == 0 or found.shape[0] != count:
        raise ValueError(
            f"'{name}' must have one entry per seed, {count} in all (got shape "
            f"{list(found.shape)})"
        )
