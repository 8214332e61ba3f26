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


def forest_uniform(
    rowptr: Tensor,
    col: Tensor,
    seeds: Tensor,
    fanouts: Sequence[int],
    replace: bool,
    key: Key,
    stays: bool,
) -> list[tuple[Tensor, Tensor]]:
    """(edges, nodes) [w, f] of every depth of unbiased walks from the seeds [b]."""
    levels, node = [], seeds
    for fanout, own in zip(fanouts, folds(key, len(fanouts)), strict=True):
        slot = torch.arange(node.numel(), device=node.device)
        start, count = row_range(rowptr, node)
        stream = streams(own, slot)
        offset = draw_uniform(stream, count, fanout, replace)
        edge = offset.add(start[:, None]).masked_fill_(offset < 0, -1)
        levels.append((edge, arrive(col, node, count, edge, replace, stays)))
        node = levels[-1][1].view(-1)
    return levels


def forest_by_mass(
    rowptr: Tensor,
    col: Tensor,
    mass: Tensor,
    seeds: Tensor,
    fanouts: Sequence[int],
    replace: bool,
    key: Key,
    stays: bool,
) -> list[tuple[Tensor, Tensor]] | None:
    """`forest_uniform` of walks by the cumulative mass [m] of every row's entries.

    None where a backend has no such call, as here: the walks are taken step by step
    then, and come out the same.
    """
    return None
