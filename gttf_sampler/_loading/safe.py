"""Which biases a thread may draw with while another one does."""

from typing import Any

from gttf_sampler.bias.base import as_bias
from gttf_sampler.bias.node2vec import Node2VecBias
from gttf_sampler.bias.simple import EdgeWeightBias, ExcludeBias
from gttf_sampler.bias.temporal import TemporalBias

# They note nothing from one call to the next, and call no function of a user.
WITHOUT_STATE = {EdgeWeightBias, ExcludeBias, Node2VecBias, TemporalBias}


def safe_biases(given: Any) -> bool:
    """Whether a bias, one per edge type, or None is safe in a thread."""
    parts = given.values() if isinstance(given, dict) else [given]
    biases = [as_bias(part) for part in parts]
    return all(
        type(factor) in WITHOUT_STATE
        for bias in biases
        if bias is not None
        for factor in bias.factors
    )
