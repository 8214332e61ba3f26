"""The first kernel of a hop: the admissible part of each walker's row.

All relations and laws at once; see `triton.hop`.
"""

import triton
import triton.language as tl

from gttf_sampler._backends.triton import record as tt
from gttf_sampler._backends.triton.draw import mass_before
from gttf_sampler._backends.triton.rng import any_of, bisect, longs


@triton.jit
def _between(time, latest, before, start, count, root, mask):
    """The part of every row between the two times of its tree."""
    bound = tl.load(latest + root, mask=mask, other=0)
    stop = bisect(time, start, start + count, bound)
    low = start
    if before.to(tl.int64) != 0:
        low = bisect(time, start, stop, tl.load(before + root, mask=mask, other=0))
    return low, stop - low


@triton.jit
def _admit(own, start, count, root, mask):
    """Narrows rows to the times that are admitted, of whatever type they are."""
    kind = tl.load(own + tt.TIME_KIND)
    time, latest = tl.load(own + tt.TIME), tl.load(own + tt.TIME_MAX)
    before = tl.load(own + tt.TIME_MIN)
    if kind == 1:
        times = time.to(tl.pointer_type(tl.int32))
        start, count = _between(
            times, longs(latest), longs(before), start, count, root, mask
        )
    elif kind == 2:
        start, count = _between(
            longs(time), longs(latest), longs(before), start, count, root, mask
        )
    elif kind == 3:
        real = tl.pointer_type(tl.float64)
        times = time.to(tl.pointer_type(tl.float32))
        start, count = _between(
            times, latest.to(real), before.to(real), start, count, root, mask
        )
    elif kind == 4:
        real = tl.pointer_type(tl.float64)
        start, count = _between(
            time.to(real), latest.to(real), before.to(real), start, count, root, mask
        )
    return start, count


@triton.jit
def _hide(own, start, count):
    """Rows as they would stand if all hidden edges were gone from the graph."""
    hidden, hides = longs(tl.load(own + tt.EXCLUDED)), tl.load(own + tt.NUM_EXCLUDED)
    zero = tl.zeros_like(start)
    low = bisect(hidden, zero, zero + hides, start - 1)
    high = bisect(hidden, low, zero + hides, start + count - 1)
    return start - low, count - (high - low)


@triton.jit
def has_mass(table, start, base, offset, mask):
    """True [w, f] for entries of rows that have mass."""
    at = start[:, None] + offset
    value = tl.load(table + at, mask=mask, other=0)
    before = tl.load(table + at - 1, mask=mask & (offset > 0), other=0)
    return mask & (value > tl.where(offset > 0, before, base[:, None]))


@triton.jit
def _positive(own, row, start, count, limit, live, F: tl.constexpr):
    """Counts the entries of rows that have mass, little further than `limit`."""
    table = longs(tl.load(own + tt.CUMULATIVE_WEIGHT))
    base = mass_before(table, row, start, live)
    found, done = tl.zeros_like(start), tl.zeros_like(start)
    while any_of(live & (found < limit) & (done < count)):
        offset = done[:, None] + tl.arange(0, F)[None, :]
        mask = live[:, None] & (offset < count[:, None])
        some = has_mass(table, start, base, offset, mask)
        found += tl.sum(some.to(tl.int64), 1)
        done += F
    return tl.minimum(found, limit)


@triton.jit(do_not_specialize=["hop", "types", "relations", "depth", "stride"])
def measure(
    words,
    levels,
    hop,
    types,
    relations,
    depth,
    start_of,
    count_of,
    size_of,
    sums,
    stride,
    REPLACE: tl.constexpr,
    TIMES: tl.constexpr,
    HIDES: tl.constexpr,
    GAPS: tl.constexpr,
    B: tl.constexpr,
    F: tl.constexpr,
):
    """The admitted part of every walker's row, and how many edges it will take."""
    block, relation = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    own = tt.relation_row(words, relation, types, depth)
    level = tt.level_row(levels, hop, types, relations)
    to, fanout = tl.load(own + tt.DST_TYPE), tl.load(own + tt.FANOUTS + hop)
    walker = block * B + tl.arange(0, B).to(tl.int64)
    live = walker < tl.where(fanout != 0, tl.load(level + to), 0)
    at = tl.load(tt.node_start(level, types, relations) + to) + walker
    ids = longs(tl.load(tt.address(level, types, relations, tt.IDS)))
    node = tl.load(ids + at, mask=live, other=0)
    rowptr = longs(tl.load(own + tt.ROWPTR))
    row = tl.load(rowptr + node, mask=live, other=0)
    count = tl.load(rowptr + node + 1, mask=live, other=0) - row
    start = row
    if TIMES:
        if tl.load(own + tt.TIME_KIND) != 0:
            roots = longs(tl.load(tt.address(level, types, relations, tt.ROOTS)))
            root = tl.load(roots + at, mask=live, other=0)
            start, count = _admit(own, start, count, root, live)
    if HIDES:
        if tl.load(own + tt.NUM_EXCLUDED) != 0:
            start, count = _hide(own, start, count)
    if (tl.load(own + tt.MOST_RECENT) != 0) & (fanout >= 0):
        skipped = tl.maximum(count - fanout, 0)
        start, count = start + skipped, count - skipped
    size = count
    if fanout >= 0:
        size = tl.minimum(count, fanout)
        if REPLACE:
            size = tl.where(count > 0, fanout, 0)
    if GAPS:
        if tl.load(own + tt.HAS_ZERO_WEIGHT) != 0:
            limit = size
            if REPLACE and fanout >= 0:
                limit = tl.minimum(size, 1)
            found = _positive(own, row, start, count, limit, live, F)
            if REPLACE and fanout >= 0:
                found = found * size
            size = found
    size = tl.where(live, size, 0)
    cell = relation * stride + walker
    tl.store(start_of + cell, start, mask=live)
    tl.store(count_of + cell, count, mask=live)
    tl.store(size_of + cell, size, mask=live)
    tl.store(sums + relation * tl.num_programs(0) + block, tl.sum(size, 0))
