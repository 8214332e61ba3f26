"""The single door to the hot code: every module calls `ops`, never a backend.

Each function here has the signature of its namesake in `torch_ops`, the reference, and
calls the one of the fast backend instead if that has one for the tensors at hand.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from gttf_sampler._backends import (
    torch_disk,
    torch_node2vec,
    torch_ops,
    torch_pairs,
    torch_second_order,
)
from gttf_sampler._backends.torch_ops import id_dtype, take
from gttf_sampler._backends.types import REFUSED, Envelope, Reverse, SecondOrder
from gttf_sampler.backend import fast_backend

__all__ = [
    "REFUSED",
    "Envelope",
    "Reverse",
    "SecondOrder",
    "arrive",
    "as_gradient",
    "both_ways",
    "compress",
    "draw_alias",
    "draw_exact_node2vec",
    "draw_node2vec",
    "draw_uniform",
    "draw_weighted",
    "edge_filter",
    "expand",
    "first_position",
    "first_position_sorted",
    "forest_by_mass",
    "forest_uniform",
    "gather",
    "group_by_row",
    "has_edge",
    "id_dtype",
    "pair_gradients",
    "pair_pass",
    "pair_scores",
    "read_all",
    "rooted",
    "rooted_padded",
    "row_range",
    "step_rows",
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
    """`reference`, or its namesake in the fast backend for the first argument."""
    name = reference.__name__

    @wraps(reference)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        device = getattr(args[0], "device", None)  # of a tensor or a record of them
        fast = None if device is None else fast_backend(device)
        chosen: Callable[P, T] = getattr(fast, name, reference)
        return chosen(*args, **kwargs)

    return call


arrive = _door(torch_ops.arrive)
as_gradient = _door(torch_pairs.as_gradient)
both_ways = _door(torch_ops.both_ways)
compress = _door(torch_ops.compress)
draw_alias = _door(torch_pairs.draw_alias)
draw_exact_node2vec = _door(torch_second_order.draw_exact_node2vec)
draw_node2vec = _door(torch_node2vec.draw_node2vec)
draw_uniform = _door(torch_ops.draw_uniform)
draw_weighted = _door(torch_ops.draw_weighted)
edge_filter = _door(torch_ops.edge_filter)
expand = _door(torch_ops.expand)
first_position = _door(torch_ops.first_position)
first_position_sorted = _door(torch_ops.first_position_sorted)
forest_by_mass = _door(torch_ops.forest_by_mass)
forest_uniform = _door(torch_ops.forest_uniform)
gather = _door(torch_ops.gather)
group_by_row = _door(torch_ops.group_by_row)
has_edge = _door(torch_ops.has_edge)
pair_gradients = _door(torch_pairs.pair_gradients)
pair_pass = _door(torch_pairs.pair_pass)
pair_scores = _door(torch_pairs.pair_scores)
read_all = _door(torch_disk.read_all)
rooted = _door(torch_ops.rooted)
rooted_padded = _door(torch_ops.rooted_padded)
row_range = _door(torch_ops.row_range)
step_rows = _door(torch_pairs.step_rows)
take_or_none = _door(torch_ops.take_or_none)
walk_node2vec = _door(torch_second_order.walk_node2vec)
weigh_node2vec = _door(torch_node2vec.weigh_node2vec)
upper_bound = _door(torch_ops.upper_bound)
weight_table = _door(torch_ops.weight_table)
