"""Walk forests of uniform draws: where edges lead, and all depths in one call."""

from collections.abc import Sequence
from typing import NamedTuple

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


class ForestSpec(NamedTuple):
    """Walk forests on a graph: where walkers may go, and how many they become.

    Attributes:
        rowptr: [n + 1].
        col: [m].
        mass: int64 [m], cumulative mass of every row's entries; None if all are alike.
        fanouts: per depth.
        replace: whether an edge can be drawn twice.
        stays: whether walkers without neighbours stay where they are.
    """

    rowptr: Tensor
    col: Tensor
    mass: Tensor | None
    fanouts: Sequence[int]
    replace: bool
    stays: bool

    @property
    def device(self) -> torch.device:
        """The device of the arrays."""
        return self.rowptr.device


def walk_forest(spec: ForestSpec, seeds: Tensor, key: Key) -> Levels | None:
    """(edges, nodes) [w, f] of every depth of walks from the seeds [b].

    None where a backend has no such call, as here by mass: walks are taken step by step
    then, and come out the same.
    """
    if spec.mass is not None:
        return None
    node, levels, replace = seeds, [], spec.replace
    for fanout, own in zip(spec.fanouts, folds(key, len(spec.fanouts)), strict=True):
        slot = torch.arange(node.numel(), device=node.device)
        start, count = row_range(spec.rowptr, node)
        stream = streams(own, slot)
        offset = draw_uniform(stream, count, fanout, replace)
        edge = offset.add(start[:, None]).masked_fill_(offset < 0, -1)
        arrived = arrive(spec.col, node, count, edge, replace, spec.stays)
        levels.append((edge, arrived))
        node = levels[-1][1].view(-1)
    return levels
