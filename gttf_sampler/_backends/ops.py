"""The single door to the hot code: every module calls `_ops`, never a backend.

Each function here has the signature of its namesake in `_ops_torch`, the reference, and
calls the one of the fast backend instead if that has one for the tensors at hand.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from torch import Tensor

from gttf_sampler import _ops_torch, _ops_torch_rooted
from gttf_sampler._ops_torch import REFUSED, Envelope, Reverse, id_dtype, take
from gttf_sampler.backend import fast_backend

__all__ = [
    "REFUSED",
    "Envelope",
    "Reverse",
    "arrive",
    "compress",
    "draw_node2vec",
    "draw_uniform",
    "draw_weighted",
    "edge_filter",
    "expand",
    "first_position",
    "first_position_sorted",
    "forest_uniform",
    "group_by_row",
    "has_edge",
    "id_dtype",
    "rooted",
    "row_range",
    "take",
    "take_or_none",
    "upper_bound",
    "walk_node2vec",
    "weigh_node2vec",
    "weight_table",
]

P = ParamSpec("P")
T = TypeVar("T")


def _door(reference: Callable[P, T]) -> Callable[P, T]:
    """`reference`, or its namesake in the fast backend of the first argument."""
    name = reference.__name__

    @wraps(reference)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        first = args[0]
        fast = fast_backend(first.device) if isinstance(first, Tensor) else None
        chosen: Callable[P, T] = getattr(fast, name, reference)
        return chosen(*args, **kwargs)

    return call


arrive = _door(_ops_torch.arrive)
compress = _door(_ops_torch.compress)
draw_node2vec = _door(_ops_torch.draw_node2vec)
draw_uniform = _door(_ops_torch.draw_uniform)
draw_weighted = _door(_ops_torch.draw_weighted)
edge_filter = _door(_ops_torch.edge_filter)
expand = _door(_ops_torch.expand)
first_position = _door(_ops_torch.first_position)
first_position_sorted = _door(_ops_torch.first_position_sorted)
forest_uniform = _door(_ops_torch.forest_uniform)
group_by_row = _door(_ops_torch.group_by_row)
has_edge = _door(_ops_torch.has_edge)
rooted = _door(_ops_torch_rooted.rooted)
row_range = _door(_ops_torch.row_range)
take_or_none = _door(_ops_torch.take_or_none)
walk_node2vec = _door(_ops_torch.walk_node2vec)
weigh_node2vec = _door(_ops_torch.weigh_node2vec)
upper_bound = _door(_ops_torch.upper_bound)
weight_table = _door(_ops_torch.weight_table)
