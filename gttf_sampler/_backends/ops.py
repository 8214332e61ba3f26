"""The single door to the hot code: every module calls `ops`, never a backend.

Each function here has the signature of its namesake in `torch`, the reference, and
calls the one of the fast backend instead if that has one for the tensors at hand.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from torch import Tensor

from gttf_sampler._backends.record import Batch, Padded, Plan, Rooted
from gttf_sampler._backends.torch import (
    aggregate,
    draw,
    node2vec,
    pairs,
    rows,
)
from gttf_sampler._backends.torch import (
    gather as gathers,
)
from gttf_sampler._backends.torch.node2vec import SecondOrder
from gttf_sampler.backend import fast_backend
from gttf_sampler.random import Key

P = ParamSpec("P")
T = TypeVar("T")


def _door(reference: Callable[P, T]) -> Callable[P, T]:
    """`reference`, or its namesake in the fast backend for the first argument."""
    name = reference.__name__

    @wraps(reference)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        device = getattr(args[0], "device", None)  # of a tensor or a record of them
        fast = None if device is None else fast_backend(device, name)
        chosen: Callable[P, T] = getattr(fast, name, reference)
        return chosen(*args, **kwargs)

    return call


# what no backend has faster
arrive, compress, expand = draw.arrive, rows.compress, rows.expand
id_dtype, row_range, take = rows.id_dtype, rows.row_range, rows.take

additive_gradient = _door(aggregate.additive_gradient)
additive_score = _door(aggregate.additive_score)
as_gradient = _door(pairs.as_gradient)
both_ways = _door(rows.both_ways)
draw_alias = _door(pairs.draw_alias)
draw_node2vec = _door(node2vec.draw_node2vec)
draw_uniform = _door(draw.draw_uniform)
draw_weighted = _door(draw.draw_weighted)
edge_dot = _door(aggregate.edge_dot)
edge_filter = _door(rows.edge_filter)
gather = _door(gathers.gather)
group_by_row = _door(rows.group_by_row)
has_edge = _door(rows.has_edge)
pair_pass = _door(pairs.pair_pass)
pair_scores = _door(pairs.pair_scores)
read_all = _door(gathers.read_all)
relabel = _door(rows.relabel)
scatter_best = _door(aggregate.scatter_best)
segment_best = _door(aggregate.segment_best)
segment_softmax = _door(aggregate.segment_softmax)
segment_sum = _door(aggregate.segment_sum)
softmax_gradient = _door(aggregate.softmax_gradient)
sound = _door(aggregate.sound)
step_rows = _door(pairs.step_rows)
take_or_none = _door(rows.take_or_none)
upper_bound = _door(rows.upper_bound)
walk_forest = _door(draw.walk_forest)
weigh_node2vec = _door(node2vec.weigh_node2vec)
weight_table = _door(draw.weight_table)


# Calls for a whole batch that only fast backends have. They give None where they have
# none for what is asked: then steps are taken one by one, and come out the same.


@_door
def rooted(plan: Plan, batch: Batch) -> Rooted | None:
    """A batch in one call; `sample_hops` of `torch.hop` is the reference."""
    return None


@_door
def rooted_padded(plan: Plan, batch: Batch) -> Padded | None:
    """`rooted` with static shapes; `sample_padded` of `torch.hop` is the reference.

    No fanout is -1, every bias has a law, and the seeds are sound.
    """
    return None


@_door
def walk_node2vec(
    graph: SecondOrder, seeds: Tensor, length: int, key: Key, stays: bool
) -> list[tuple[Tensor, Tensor]] | None:
    """(edges, nodes) [b, 1] of every step of walks."""
    return None
