"""The single door to the hot code: every module calls `ops`, never a backend.

Each function here has the signature of its namesake in `torch`, the reference, and
calls the one of the fast backend instead if that has one for the tensors at hand.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from gttf_sampler._backends.memory import NodeTable
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


id_dtype, take = rows.id_dtype, rows.take

additive_gradient = _door(aggregate.additive_gradient)
additive_score = _door(aggregate.additive_score)
arrive = _door(draw.arrive)
as_gradient = _door(pairs.as_gradient)
both_ways = _door(rows.both_ways)
compress = _door(rows.compress)
draw_alias = _door(pairs.draw_alias)
draw_node2vec = _door(node2vec.draw_node2vec)
draw_uniform = _door(draw.draw_uniform)
draw_weighted = _door(draw.draw_weighted)
edge_dot = _door(aggregate.edge_dot)
edge_filter = _door(rows.edge_filter)
expand = _door(rows.expand)
first_position = _door(rows.first_position)
first_position_sorted = _door(rows.first_position_sorted)
gather = _door(gathers.gather)
group_by_row = _door(rows.group_by_row)
has_edge = _door(rows.has_edge)
pair_pass = _door(pairs.pair_pass)
pair_scores = _door(pairs.pair_scores)
read_all = _door(gathers.read_all)
row_range = _door(rows.row_range)
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


def relabel(
    known: Tensor,
    ids: Tensor,
    table: NodeTable | None,
    count: int | Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Local ids [e] of `ids`, and which entries [e] introduce a new node.

    `known` [k] are the nodes that have local ids 0 .. k-1 already (of a repeated one,
    the first counts); new ones are numbered from k on in the order of `ids`. -1 stays
    -1. Without a table, which serves ids beyond any table's size, the ids are sorted.
    If only the first `count` of the `known` are nodes, and -1 the rest, new ones are
    numbered from there on.
    """
    every = torch.cat([known, ids])
    if table is None:
        first = first_position_sorted(every)
    else:
        first = first_position(every, table.cell, table.reserve(every.numel()))
    first = first[known.numel() :]
    position = torch.arange(known.numel(), every.numel(), device=ids.device)
    new = (first == position).logical_and_(ids >= 0)
    rank = torch.cat([position.new_zeros(known.numel()), new.cumsum(0)])
    start = known.numel() if count is None else count
    local = take(rank, first).add_(start - 1)
    local = torch.where(first < known.numel(), first, local)
    return local.masked_fill_(ids < 0, -1), new


# Calls for a whole batch that only fast backends have. They give None where they have
# none for what is asked: then steps are taken one by one, and come out the same.


def rooted(plan: Plan, batch: Batch) -> Rooted | None:
    """A batch in one call; `sample_hops` of `torch.hop` is the reference."""
    return _whole("rooted", plan, batch)  # type: ignore[no-any-return]


def rooted_padded(plan: Plan, batch: Batch) -> Padded | None:
    """`rooted` with static shapes; `sample_padded` of `torch.hop` is the reference.

    No fanout is -1, every bias has a law, and the seeds are sound.
    """
    return _whole("rooted_padded", plan, batch)  # type: ignore[no-any-return]


def walk_node2vec(
    graph: SecondOrder, seeds: Tensor, length: int, key: Key, stays: bool
) -> list[tuple[Tensor, Tensor]] | None:
    """(edges, nodes) [b, 1] of every step of walks."""
    return _whole("walk_node2vec", graph, seeds, length, key, stays)  # type: ignore[no-any-return]


def _whole(name: str, about: Any, *rest: Any) -> Any:
    """The call of a fast backend; None if there is none."""
    fast = fast_backend(about.device, name)
    call = getattr(fast, name, None)
    return None if call is None else call(about, *rest)
