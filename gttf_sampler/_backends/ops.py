"""The single door to the hot code: every module calls `ops`, never a backend.

Each function here has the signature of its namesake in `torch`, the reference, and
calls the one of the fast backend instead if that has one for the tensors at hand.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from gttf_sampler._backends.torch import (
    csr,
    disk,
    draw,
    forest,
    node2vec,
    pairs,
    relabel,
    rows,
)
from gttf_sampler._backends.torch import gather as features
from gttf_sampler._backends.torch import rooted as batches
from gttf_sampler._backends.torch.rows import id_dtype, take
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


arrive = _door(forest.arrive)
as_gradient = _door(pairs.as_gradient)
both_ways = _door(csr.both_ways)
compress = _door(rows.compress)
draw_alias = _door(pairs.draw_alias)
draw_node2vec = _door(node2vec.draw_node2vec)
draw_uniform = _door(draw.draw_uniform)
draw_weighted = _door(draw.draw_weighted)
edge_filter = _door(rows.edge_filter)
expand = _door(rows.expand)
first_position = _door(relabel.first_position)
first_position_sorted = _door(relabel.first_position_sorted)
forest_by_mass = _door(forest.forest_by_mass)
forest_uniform = _door(forest.forest_uniform)
gather = _door(features.gather)
group_by_row = _door(csr.group_by_row)
has_edge = _door(rows.has_edge)
pair_gradients = _door(pairs.pair_gradients)
pair_pass = _door(pairs.pair_pass)
pair_scores = _door(pairs.pair_scores)
read_all = _door(disk.read_all)
rooted = _door(batches.rooted)
rooted_padded = _door(batches.rooted_padded)
row_range = _door(rows.row_range)
step_rows = _door(pairs.step_rows)
take_or_none = _door(rows.take_or_none)
walk_node2vec = _door(node2vec.walk_node2vec)
weigh_node2vec = _door(node2vec.weigh_node2vec)
upper_bound = _door(rows.upper_bound)
weight_table = _door(draw.weight_table)
