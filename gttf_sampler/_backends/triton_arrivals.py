"""Edges that a block of walkers takes, at their places, and claims on where they lead.

Used by the kernels of `triton_hops`.
"""

import triton
import triton.language as tl

from gttf_sampler._backends import triton_table as tt
from gttf_sampler._backends.triton_claims import claim
from gttf_sampler._backends.triton_draws import (
    draw_again,
    draw_by_mass,
    draw_by_mass_distinct,
    draw_distinct,
    draw_distinct_wide,
    mass_before,
    mass_within,
)
from gttf_sampler._backends.triton_measure import has_mass
from gttf_sampler._backends.triton_words import any_of, longs, read_ids


@triton.jit
def _step_over(own, edge, mask):
    """Positions among all edges, of positions among those that are not hidden."""
    hidden, hides = longs(tl.load(own + tt.HIDDEN)), tl.load(own + tt.HIDES)
    low = tl.zeros_like(edge)
    size = tl.where(mask, low + hides, 0)
    while any_of(size > 0):
        half = size >> 1
        middle = low + half
        value = tl.load(hidden + middle, mask=size > 0, other=0) - middle
        above = (size > 0) & (value <= edge)
        low = tl.where(above, middle + 1, low)
        size = tl.where(above, size - half - 1, half)
    return edge + low


@triton.jit
def arrive(own, taken, who, at, mask, out, HIDES: tl.constexpr, APART: tl.constexpr):
    """Notes edges at their places, and claims the nodes that they lead to.

    `who` are the local ids and the roots of walkers, `out` is where to write and what
    claims are made with.
    """
    words, types, slots, position, edge, receiver, landed, reached = out
    local, root = who
    if HIDES:
        if tl.load(own + tt.HIDES) != 0:
            taken = _step_over(own, taken, mask)
    node = read_ids(tl.load(own + tt.COL), tl.load(own + tt.WIDE), taken, mask)
    by = tl.load(own + tt.BY)
    kind = words + by * tt.TYPE_COLUMNS
    code = node
    if APART:
        code = (root * tl.load(kind + tt.SIZE) + node) * types + by
        tl.store(landed + at, node, mask=mask)
    place = claim(kind, node, code, position + at, mask, slots, APART)
    tl.store(edge + at, taken, mask=mask)
    tl.store(receiver + at, local + tl.zeros_like(at), mask=mask)
    tl.store(reached + at, place, mask=mask)


@triton.jit
def _row_start(own, node, live):
    """Where the rows of nodes start."""
    return tl.load(longs(tl.load(own + tt.ROWPTR)) + node, mask=live, other=0)


@triton.jit
def take_positive(
    own, node, start, count, who, at, live, out, APART: tl.constexpr, F: tl.constexpr
):
    """Every entry of the rows that has mass, in order."""
    table = longs(tl.load(own + tt.MASS))
    base = mass_before(table, _row_start(own, node, live), start, live)
    done = tl.zeros_like(start)
    while any_of(live & (done < count)):
        offset = done[:, None] + tl.arange(0, F)[None, :]
        mask = live[:, None] & (offset < count[:, None])
        some = has_mass(table, start, base, offset, mask).to(tl.int64)
        place = at[:, None] + tl.cumsum(some, 1) - some
        taken = start[:, None] + offset
        arrive(own, taken, who, place, some > 0, out, False, APART)
        at += tl.sum(some, 1)
        done += F


@triton.jit
def draw_edges_by_mass(
    own,
    node,
    start,
    count,
    size,
    fanout,
    stream,
    who,
    at,
    live,
    out,
    REPLACE: tl.constexpr,
    APART: tl.constexpr,
    F: tl.constexpr,
):
    """Edges drawn by mass, from as much of each row as is admitted."""
    table = longs(tl.load(own + tt.MASS))
    base = mass_before(table, _row_start(own, node, live), start, live)
    total = mass_within(table, start, count, base, live)
    draws = tl.arange(0, F)
    if REPLACE:
        for j in range(0, fanout, F):
            now = j + draws
            mask = live[:, None] & (now[None, :] < size[:, None])
            taken = draw_by_mass(stream, table, start, count, base, total, now)
            place = at[:, None] + now[None, :]
            arrive(own, taken, who, place, mask, out, False, APART)
    else:
        whole = live & (count <= fanout) & (tl.load(own + tt.GAPS) == 0)
        left = tl.where(whole, 0, total)
        taken, rank = draw_by_mass_distinct(
            stream, table, start, count, base, left, fanout, draws
        )
        every = tl.zeros_like(taken) + draws[None, :]
        taken = tl.where(whole[:, None], start[:, None] + every, taken)
        rank = tl.where(whole[:, None], every, rank)
        mask = live[:, None] & (rank >= 0) & (rank < size[:, None])
        arrive(own, taken, who, at[:, None] + rank, mask, out, False, APART)


@triton.jit
def draw_edges(
    own,
    start,
    count,
    size,
    fanout,
    stream,
    who,
    at,
    live,
    out,
    REPLACE: tl.constexpr,
    HIDES: tl.constexpr,
    APART: tl.constexpr,
    F: tl.constexpr,
):
    """Edges drawn uniformly; whole rows where nothing is drawn twice."""
    draws = tl.arange(0, F)
    for j in range(0, fanout, F):
        now = j + draws
        mask = live[:, None] & (now[None, :] < size[:, None])
        if REPLACE:
            offset = draw_again(stream, count, now)
        else:
            offset = tl.zeros_like(count)[:, None] + now[None, :]
            if fanout <= F:
                offset = draw_distinct(stream, count, fanout, now)
            else:
                mask = mask & (count <= fanout)[:, None]
        place = at[:, None] + now[None, :]
        arrive(own, start[:, None] + offset, who, place, mask, out, HIDES, APART)
    if not REPLACE:
        long = live & (count > fanout)
        if (fanout > F) & any_of(long):
            edge = out[4]
            draw_distinct_wide(stream, count, fanout, edge, at, long, F)
            for j in range(0, fanout, F):
                now = j + draws
                mask = long[:, None] & (now < fanout)[None, :]
                place = at[:, None] + now[None, :]
                taken = tl.load(edge + place, mask=mask, other=0) + start[:, None]
                arrive(own, taken, who, place, mask, out, HIDES, APART)
