"""The backend for GPUs: the functions of `torch_ops` as fused Triton kernels.

Same names, same arguments, same bits. What is missing here is left to `torch_ops`, and
so is what a function returns None for. Nothing here waits for the device but `rooted`,
once per hop.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from gttf_sampler._backends import triton_launch as how
from gttf_sampler._backends.triton_forest import forest
from gttf_sampler._backends.triton_launch import bucket, key_of, launch
from gttf_sampler._backends.triton_rooted import rooted as rooted
from gttf_sampler._backends.triton_rooted import rooted_padded as rooted_padded
from gttf_sampler.random import Key

Levels = list[tuple[Tensor, Tensor]]


def forest_uniform(
    rowptr: Tensor,
    col: Tensor,
    seeds: Tensor,
    fanouts: Sequence[int],
    replace: bool,
    key: Key,
    stays: bool,
) -> Levels:
    """(edges, nodes) of every depth; see `torch_ops`."""
    return _forest(rowptr, col, None, seeds, fanouts, replace, key, stays)


def _forest(
    rowptr: Tensor,
    col: Tensor,
    mass: Tensor | None,
    seeds: Tensor,
    fanouts: Sequence[int],
    replace: bool,
    key: Key,
    stays: bool,
) -> Levels:
    """All depths of a forest, by mass if there is one."""
    widths = [seeds.numel()]
    for fanout in fanouts:
        widths.append(widths[-1] * fanout)
    nodes, edges = (
        torch.empty(sum(widths[1:]), dtype=torch.int64, device=seeds.device)
        for _ in range(2)
    )
    room = bucket(max(fanouts, default=1))
    launch(
        forest,
        (how.blocks(seeds.numel(), how.SEEDS) if fanouts else 0,),
        *(rowptr, col, rowptr if mass is None else mass, key_of(key)),
        *(tuple(fanouts), seeds.numel(), int(stays), seeds.contiguous(), nodes, edges),
        REPLACE=replace,
        MASS=mass is not None,
        SEEDS=how.SEEDS,
        B=max(1, how.LANES // room),
        F=room,
    )
    starts = [0]
    for width in widths[1:]:
        starts.append(starts[-1] + width)
    return [
        (edges[lo:hi].view(-1, fanout), nodes[lo:hi].view(-1, fanout))
        for (lo, hi), fanout in zip(pairwise(starts), fanouts, strict=True)
    ]
