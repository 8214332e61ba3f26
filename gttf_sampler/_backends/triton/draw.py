"""Draws of a block of walkers from its rows, in registers: [walkers, draws].

`measure` is the first kernel of a hop: the admissible part of each walker's row, for
all relations and laws at once; see `triton.hop`.
"""

import triton
import triton.language as tl

from gttf_sampler._backends.triton import record as tt
from gttf_sampler._backends.triton.rng import any_of, below, bisect, bits, longs


@triton.jit
def draw_again(stream, count, draw):
    """Offsets [w, f] with replacement; what an empty row has is for nobody to use."""
    return below(bits(stream[:, None], draw[None, :]), count[:, None])


@triton.jit
def draw_distinct(stream, count, fanout, draw):
    """Offsets [w, f] without replacement by Floyd's method.

    A row no longer than the fanout is taken as it stands. An offset at or beyond the
    count, or a draw beyond the fanout, is for nobody to use. All draws are made at
    once; one after the other, each tells the later ones what it has taken. A row has
    fewer than 2³¹ entries, as in every graph.
    """
    every = tl.zeros_like(count)[:, None] + draw[None, :]
    long = count > fanout
    taken = every
    if any_of(long):
        last = (count - fanout)[:, None] + draw[None, :]
        word = bits(stream[:, None], every)
        pick = below(word, tl.maximum(last + 1, 1)).to(tl.int32)
        last = last.to(tl.int32)
        for i in range(fanout - 1):
            own = tl.where(draw[None, :] == i, pick, -1)
            same = pick == tl.max(own, 1)[:, None]
            pick = tl.where(same & (draw > i)[None, :], last, pick)
        taken = tl.where(long[:, None], pick.to(tl.int64), every)
    return taken


@triton.jit
def draw_distinct_wide(stream, count, fanout, out, at, live, F):
    """Floyd's method where the draws of a walker do not fit in registers.

    Writes offsets to `out` from `at` [w] on, in rows that are longer than the fanout,
    and reads there what was taken before.
    """
    spare = count - fanout
    draw = tl.arange(0, F)
    for i in range(fanout):
        last = spare + i
        pick = below(bits(stream, tl.zeros_like(count) + i), tl.maximum(last + 1, 1))
        again = tl.zeros_like(pick) > 0
        for first in range(0, i, F):
            before = first + draw
            mask = live[:, None] & (before < i)[None, :]
            taken = tl.load(out + at[:, None] + before[None, :], mask=mask, other=-1)
            again = again | (tl.max((taken == pick[:, None]).to(tl.int32), 1) > 0)
        tl.store(out + at + i, tl.where(again, last, pick), mask=live)
        tl.debug_barrier()  # other threads of this program read it


@triton.jit
def mass_before(table, row, start, live):
    """The mass of a row in front of position `start`."""
    return tl.load(table + start - 1, mask=live & (start > row), other=0)


@triton.jit
def mass_within(table, start, count, base, live):
    """The mass of `count` entries from `start` on."""
    some = live & (count > 0)
    end = tl.load(table + start + count - 1, mask=some, other=0)
    return tl.where(some, end - base, 0)


@triton.jit
def draw_by_mass(stream, table, start, count, base, total, draw):
    """Positions [w, f] drawn with replacement by mass; see `torch.draw`."""
    zero = tl.zeros_like(draw)[None, :].to(tl.int64)
    word = bits(stream[:, None], draw[None, :])
    target = below(word, total[:, None] + zero) + base[:, None]
    some = (total > 0)[:, None]
    low = start[:, None] + zero
    high = tl.where(some, (start + count)[:, None] + zero, low)
    return bisect(table, low, high, target)


@triton.jit
def draw_by_mass_distinct(stream, table, start, count, base, total, fanout, draw):
    """Positions [w, f] by successive sampling, and the place [w, f] of each.

    `gone` is where taken entries start in the mass that is left in front of them; see
    `torch.draw`. Places are ranks in ascending order, or -1 for none.
    """
    chosen = tl.zeros_like(start)[:, None] + tl.zeros_like(draw)[None, :]
    gone, mass, place = chosen, chosen, chosen - 1
    for i in range(fanout):
        some = total > 0
        earlier = (draw < i)[None, :] & (place >= 0)
        target = below(bits(stream, tl.zeros_like(start) + i), total)
        passed = earlier & (gone <= target[:, None])
        skipped = tl.sum(tl.where(passed, mass, 0), 1)
        end = tl.where(some, start + count, start)
        position = bisect(table, start, end, target + skipped + base)
        ahead = tl.load(table + position - 1, mask=some & (position > start), other=0)
        ahead = tl.where(position > start, ahead, base)
        own = tl.load(table + position, mask=some, other=0) - ahead
        own = tl.where(some, own, 0)
        mine = ahead - base - skipped
        gone = tl.where(earlier & (gone > mine[:, None]), gone - own[:, None], gone)
        smaller = earlier & (chosen < position[:, None])
        rank = tl.sum(smaller.to(tl.int64), 1)
        place = tl.where(earlier & ~smaller & some[:, None], place + 1, place)
        now = (draw == i)[None, :] & some[:, None]
        place = tl.where(now, rank[:, None], place)
        chosen = tl.where(now, position[:, None], chosen)
        gone = tl.where(now, mine[:, None], gone)
        mass = tl.where(now, own[:, None], mass)
        total = total - own
    return chosen, place


@triton.jit
def _between(times, row, root, mask):
    """The part of every row between the two times of its tree."""
    time, latest, before = times
    start, count = row
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
    row = (start, count)
    if kind == 1:
        times = (time.to(tl.pointer_type(tl.int32)), longs(latest), longs(before))
        start, count = _between(times, row, root, mask)
    elif kind == 2:
        times = (longs(time), longs(latest), longs(before))
        start, count = _between(times, row, root, mask)
    elif kind == 3:
        real = tl.pointer_type(tl.float64)
        single = time.to(tl.pointer_type(tl.float32))
        times = (single, latest.to(real), before.to(real))
        start, count = _between(times, row, root, mask)
    elif kind == 4:
        real = tl.pointer_type(tl.float64)
        times = (time.to(real), latest.to(real), before.to(real))
        start, count = _between(times, row, root, mask)
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
def _positive(own, row, start, count, limit, live, F):
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


@triton.jit(do_not_specialize=["shape", "stride"])
def measure(
    words,
    levels,
    shape,
    rows,
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
    block, relation, own, level, after = tt.program(words, levels, shape)
    to = tl.load(own + tt.DST_TYPE)
    fanout = tl.load(own + tt.FANOUTS + tt.hop_of(shape))
    walker = block * B + tl.arange(0, B).to(tl.int64)
    live = walker < tl.where(fanout != 0, tl.load(level + to), 0)
    at = tl.load(tt.node_start(level, shape) + to) + walker
    node = tl.load(tt.array(level, tt.IDS, shape) + at, mask=live, other=0)
    rowptr = longs(tl.load(own + tt.ROWPTR))
    row = tl.load(rowptr + node, mask=live, other=0)
    count = tl.load(rowptr + node + 1, mask=live, other=0) - row
    start = row
    if TIMES:
        if tl.load(own + tt.TIME_KIND) != 0:
            roots = tt.array(level, tt.ROOTS, shape)
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
    start_of, count_of, size_of = rows
    tl.store(start_of + cell, start, mask=live)
    tl.store(count_of + cell, count, mask=live)
    tl.store(size_of + cell, size, mask=live)
    blocks, total = tl.num_programs(0), tl.sum(size, 0)
    parts = tt.taken_parts(after, relation, shape)
    tt.add_up(sums + relation * blocks, parts, block, blocks, total)
    tl.atomic_add(after + tt.types_of(shape) + relation, total, sem="relaxed")
