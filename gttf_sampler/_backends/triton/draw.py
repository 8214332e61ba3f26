"""Draws of a block of walkers from its rows, in registers: [walkers, draws]."""

import triton
import triton.language as tl

from gttf_sampler._backends.triton.rng import any_of, below, bisect, bits


@triton.jit
def draw_again(stream, count, draw):
    """Offsets [w, f] with replacement; what an empty row has is for nobody to use."""
    return below(bits(stream[:, None], draw[None, :]), count[:, None])


@triton.jit
def draw_distinct(stream, count, fanout, draw):
    """Offsets [w, f] without replacement by Floyd's method.

    A row no longer than the fanout is taken as it stands. An offset at or beyond the
    count, or a draw beyond the fanout, is for nobody to use.
    """
    every = tl.zeros_like(count)[:, None] + draw[None, :]
    long = count > fanout
    taken = tl.zeros_like(every) - 1
    if any_of(long):
        spare = count - fanout
        for i in range(fanout):
            last = spare + i
            word = bits(stream, tl.zeros_like(count) + i)
            pick = below(word, tl.maximum(last + 1, 1))
            again = tl.max((taken == pick[:, None]).to(tl.int32), 1) > 0
            pick = tl.where(again, last, pick)
            taken = tl.where(draw[None, :] == i, pick[:, None], taken)
    return tl.where(long[:, None], taken, every)


@triton.jit
def draw_distinct_wide(stream, count, fanout, out, at, live, F: tl.constexpr):
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
