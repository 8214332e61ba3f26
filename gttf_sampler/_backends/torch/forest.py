"""Walk forests without a bias: all depths of all seeds."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gttf_sampler._backends.torch.draw import draw_uniform
from gttf_sampler._backends.torch.rows import row_range, take_or_none
from gttf_sampler.random import Key, folds
from gttf_sampler.random import stream as streams


def arrive(
    col: Tensor,
    node: Tensor,
    degree: Tensor,
    edge: Tensor,
    replace: bool,
    stays: bool,
) -> Tensor:
    """The nodes that edges [w, f] lead to; at a dead end a walker may stay."""
    arrived = take_or_none(col, edge)
    if not stays:
        return arrived
    stay = node.where((degree == 0) & (node >= 0), -1)[:, None]
    if not replace:  # one edge to itself gives one walker, the other draws find none
        stay = torch.cat([stay, stay.new_full((1, 1), -1).expand_as(edge[:, 1:])], 1)
    return torch.maximum(arrived, stay)


Levels = list[tuple[Tensor, Tensor]]


def walk_forest(
    rowptr: Tensor,
    col: Tensor,
    mass: Tensor | None,
    seeds: Tensor,
    fanouts: Sequence[int],
    replace: bool,
    key: Key,
    stays: bool,
) -> Levels | None:
    """(edges, nodes) [w, f] of every depth of walks from the seeds [b].

    By the cumulative mass [m] of every row's entries, unless all are equally likely.
    None where a backend has no such call, as here by mass: walks are taken step by step
    then, and come out the same.
    """
    if mass is not None:
        return None
    node, levels = seeds, []
    for fanout, own in zip(fanouts, folds(key, len(fanouts)), strict=True):
        slot = torch.arange(node.numel(), device=node.device)
        start, count = row_range(rowptr, node)
        stream = streams(own, slot)
        offset = draw_uniform(stream, count, fanout, replace)
        edge = offset.add(start[:, None]).masked_fill_(offset < 0, -1)
        levels.append((edge, arrive(col, node, count, edge, replace, stays)))
        node = levels[-1][1].view(-1)
    return levels
