"""Walk forests: all depths in one launch, a program per block of seeds.

Walkers of one tree are local to the tree, so that a program goes down all depths of its
seeds; between two depths it waits for its own threads only. Where every fanout is one,
a lane per walker takes all of its steps.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
import triton
import triton.language as tl
from torch import Tensor

from gttf_sampler._backends.torch.forest import ForestSpec, Levels
from gttf_sampler._backends.triton import launch as how
from gttf_sampler._backends.triton.draw import (
    draw_again,
    draw_by_mass,
    draw_by_mass_distinct,
    draw_distinct,
    draw_distinct_wide,
    mass_within,
)
from gttf_sampler._backends.triton.launch import blocks, bucket, key_of, launch
from gttf_sampler._backends.triton.record import send_words
from gttf_sampler._backends.triton.rng import (
    any_of,
    as_key,
    below,
    bisect,
    bits,
    fold,
    streams,
)
from gttf_sampler.random import Key


@triton.jit
def row_of(rowptr, node, mask):
    """Start and length of the rows of nodes."""
    start = tl.load(rowptr + node, mask=mask, other=0)
    return start, tl.load(rowptr + node + 1, mask=mask, other=0) - start


@triton.jit
def _land(edges, nodes, col, cell, taken, resting, mask):
    """Notes which edges were taken and where they lead, or who rests where it is."""
    reached = tl.load(col + taken, mask=mask & (taken >= 0), other=-1).to(tl.int64)
    tl.store(edges + cell, taken, mask=mask)
    tl.store(nodes + cell, tl.where(resting >= 0, resting, reached), mask=mask)


@triton.jit
def _step(col, mass, stream, row, fanout, nodes, edges, at, live, REPLACE, MASS, F):
    """Draws for a block of walkers and notes what they draw from `at` on.

    `row` is the start and length of a walker's row, and its node if it rests there,
    else -1.
    """
    start, count, resting = row
    draw, zero = tl.arange(0, F), tl.zeros_like(start)
    total = count
    if MASS:
        total = mass_within(mass, start, count, zero, live)
    for first in range(0, fanout, F):
        now = first + draw
        mask = live[:, None] & (now < fanout)[None, :]
        if REPLACE and MASS:
            taken = draw_by_mass(stream, mass, start, count, zero, total, now)
        elif REPLACE:
            taken = start[:, None] + draw_again(stream, count, now)
        else:
            taken = zero[:, None] + now[None, :]
            if not MASS:
                if fanout <= F:
                    taken = draw_distinct(stream, count, fanout, now)
            taken = tl.where(taken < count[:, None], start[:, None] + taken, -1)
        if MASS and not REPLACE:  # written over below
            taken = tl.zeros_like(taken) - 1
        taken = tl.where((total > 0)[:, None], taken, -1)
        own = resting[:, None] + tl.zeros_like(taken)
        if not REPLACE:  # one edge to itself gives one walker
            own = tl.where((now == 0)[None, :], own, -1)
        _land(edges, nodes, col, at[:, None] + now[None, :], taken, own, mask)
    if MASS and not REPLACE:
        tl.debug_barrier()
        taken, place = draw_by_mass_distinct(
            stream, mass, start, count, zero, total, fanout, draw
        )
        none = tl.zeros_like(taken) - 1
        mask = live[:, None] & (place >= 0)
        _land(edges, nodes, col, at[:, None] + place, taken, none, mask)
    elif not REPLACE:
        long = live & (count > fanout)
        if (fanout > F) & any_of(long):
            tl.debug_barrier()
            draw_distinct_wide(stream, count, fanout, edges, at, long, F)
            for first in range(0, fanout, F):
                now = first + draw
                mask = long[:, None] & (now < fanout)[None, :]
                cell = at[:, None] + now[None, :]
                taken = tl.load(edges + cell, mask=mask, other=0) + start[:, None]
                none = tl.zeros_like(taken) - 1
                _land(edges, nodes, col, cell, taken, none, mask)


@triton.jit(do_not_specialize=["key", "depth", "batch", "stays"])
def forest(
    rowptr,
    col,
    mass,
    key,
    fanouts,
    depth,
    batch,
    stays,
    seeds,
    nodes,
    edges,
    REPLACE: tl.constexpr,
    MASS: tl.constexpr,
    SEEDS: tl.constexpr,
    B: tl.constexpr,
    F: tl.constexpr,
):
    """The trees of a block of seeds: level k of all trees is behind that of k - 1.

    Where `MASS`, edges are drawn by the table `mass`; where the flag `stays` is set, a
    walker without a neighbour stays where it is.
    """
    top = as_key(key)
    width, there = tl.full((), 1, tl.int64), tl.full((), 0, tl.int64)
    first = tl.program_id(0).to(tl.int64) * SEEDS
    last = tl.minimum(first + SEEDS, batch)
    before = seeds
    for level in range(depth):
        fanout = tl.load(fanouts + level)
        own = fold(top, tl.full((), 0, tl.int64) + level)
        for begin in range(first * width, last * width, B):
            slot = begin + tl.arange(0, B).to(tl.int64)
            live = slot < last * width
            node = tl.load(before + slot, mask=live, other=-1)
            some = live & (node >= 0)
            start, count = row_of(rowptr, node, some)
            resting = tl.where(some & (count == 0) & (stays != 0), node, -1)
            row, stream = (start, count, resting), streams(own, slot)
            at = there + slot * fanout
            _step(
                col, mass, stream, row, fanout, nodes, edges, at, live, REPLACE, MASS, F
            )
        tl.debug_barrier()  # the next depth reads what other threads have written
        before = nodes + there
        width = width * fanout
        there = there + batch * width


@triton.jit
def follow(col, node, count, edge, some, stays):
    """Follows edges to their nodes; at a dead end a walker stays, if it `stays`."""
    reached = tl.load(col + edge, mask=some & (edge >= 0), other=-1).to(tl.int64)
    return tl.where(some & (count == 0) & (stays != 0), node, reached)


@triton.jit
def draw_one(mass, start, count, stream, some, MASS):
    """An edge of every row, uniform or by mass, -1 for none; and all the row's mass."""
    zero = tl.zeros_like(start)
    total = count
    if MASS:
        total = mass_within(mass, start, count, zero, some)
    edge = below(bits(stream, zero), total)
    if MASS:
        edge = bisect(mass, start, tl.where(total > 0, start + count, start), edge)
    else:
        edge = start + edge
    return tl.where(total > 0, edge, -1), total


@triton.jit(do_not_specialize=["key", "batch", "length", "stays"])
def walk(
    rowptr,
    col,
    mass,
    key,
    batch,
    length,
    stays,
    seeds,
    nodes,
    edges,
    MASS: tl.constexpr,
    B: tl.constexpr,
):
    """First-order walks, uniform or by mass; step k of all walks is behind k - 1."""
    slot = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    live = slot < batch
    node = tl.load(seeds + slot, mask=live, other=-1)
    top = as_key(key)
    for step in range(length):
        some = live & (node >= 0)
        start, count = row_of(rowptr, node, some)
        stream = streams(fold(top, tl.full((), 0, tl.int64) + step), slot)
        edge, _ = draw_one(mass, start, count, stream, some, MASS)
        node = follow(col, node, count, edge, some, stays)
        at = tl.full((), 0, tl.int64) + step
        tl.store(edges + at * batch + slot, edge, mask=live)
        tl.store(nodes + at * batch + slot, node, mask=live)


def walk_forest(spec: ForestSpec, seeds: Tensor, key: Key) -> Levels | None:
    """(edges, nodes) of every depth, by mass if there is one; see `torch.forest`."""
    mass, fanouts, replace = spec.mass, spec.fanouts, spec.replace
    if mass is not None and not replace and max(fanouts, default=0) > how.WIDEST:
        return None
    batch, table = seeds.numel(), spec.rowptr if mass is None else mass
    widths = list(accumulate(fanouts, int.__mul__, initial=batch))[1:]
    nodes, edges = empty_ids(sum(widths), seeds), empty_ids(sum(widths), seeds)
    arrays = spec.rowptr, spec.col, table, key_of(key)
    rest = batch, int(spec.stays), seeds.contiguous(), nodes, edges
    if batch and set(fanouts) == {1}:  # with or without replacement comes to the same
        launch(
            walk,
            (blocks(batch, how.WALKERS),),
            *(*arrays, batch, len(fanouts), *rest[1:]),
            MASS=mass is not None,
            B=how.WALKERS,
            num_warps=1,
        )
    elif batch and fanouts:
        words, room = empty_ids(len(fanouts), seeds), bucket(max(fanouts))
        send_words(words, 0, list(fanouts))
        launch(
            forest,
            (blocks(batch, how.SEEDS),),
            *(*arrays, words, len(fanouts), *rest),
            REPLACE=replace,
            MASS=mass is not None,
            SEEDS=how.SEEDS,
            B=max(1, how.LANES // room),
            F=room,
        )
    return levels_of(edges, nodes, widths, fanouts)


def empty_ids(size: int, like: Tensor) -> Tensor:
    """Room for ids."""
    return torch.empty(size, dtype=torch.int64, device=like.device)


def levels_of(
    edges: Tensor, nodes: Tensor, widths: list[int], fanouts: Sequence[int]
) -> Levels:
    """Arrays of all levels end to end as a list of levels."""
    if widths and set(fanouts) == {1}:  # many, and all alike
        steps = [x.view(len(widths), -1, 1).unbind(0) for x in (edges, nodes)]
        return list(zip(*steps, strict=True))
    ends = pairwise(accumulate(widths, initial=0))
    return [
        (edges[lo:hi].view(-1, fanout), nodes[lo:hi].view(-1, fanout))
        for (lo, hi), fanout in zip(ends, fanouts, strict=True)
    ]
