"""The kernel of forests: all depths in one launch, a program per block of seeds.

Walkers of one tree are local to the tree, so that a program goes down all depths of its
seeds; between two depths it waits for its own threads only.
"""

import triton
import triton.language as tl

from gttf_sampler._backends.triton_draws import (
    draw_again,
    draw_by_mass,
    draw_by_mass_distinct,
    draw_distinct,
    draw_distinct_wide,
    mass_within,
)
from gttf_sampler._backends.triton_words import any_of, as_key, fold, streams


@triton.jit
def _land(edges, nodes, col, cell, taken, resting, mask):
    """Notes which edges were taken and where they lead, or who rests where it is."""
    reached = tl.load(col + taken, mask=mask & (taken >= 0), other=-1).to(tl.int64)
    tl.store(edges + cell, taken, mask=mask)
    tl.store(nodes + cell, tl.where(resting >= 0, resting, reached), mask=mask)


@triton.jit
def _step(
    col,
    mass,
    stream,
    start,
    count,
    resting,
    fanout,
    nodes,
    edges,
    at,
    live,
    REPLACE: tl.constexpr,
    MASS: tl.constexpr,
    F: tl.constexpr,
):
    """Draws for a block of walkers and notes what they draw from `at` on.

    `resting` is the node of a walker that stays there, else -1.
    """
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
            start = tl.load(rowptr + node, mask=some, other=0)
            count = tl.load(rowptr + node + 1, mask=some, other=0) - start
            resting = tl.where(some & (count == 0) & (stays != 0), node, -1)
            _step(
                col,
                mass,
                streams(own, slot),
                start,
                count,
                resting,
                fanout,
                nodes,
                edges,
                there + slot * fanout,
                live,
                REPLACE,
                MASS,
                F,
            )
        tl.debug_barrier()  # the next depth reads what other threads have written
        before = nodes + there
        width = width * fanout
        there = there + batch * width
