"""Steps of second-order walks, for a block of walkers: see `triton_walks`."""

import triton
import triton.language as tl

from gttf_sampler._backends.triton_words import any_of, below, bisect, bits
from gttf_sampler._backends.types import MASS_BITS

_BITS = tl.constexpr(MASS_BITS)


@triton.jit
def row_of(rowptr, node, mask):
    """Start and length of the rows of nodes."""
    start = tl.load(rowptr + node, mask=mask, other=0)
    return start, tl.load(rowptr + node + 1, mask=mask, other=0) - start


@triton.jit
def follow(col, node, count, edge, some, stays):
    """Where edges lead; at a dead end a walker stays, if it `stays`."""
    reached = tl.load(col + edge, mask=some & (edge >= 0), other=-1).to(tl.int64)
    return tl.where(some & (count == 0) & (stays != 0), node, reached)


@triton.jit
def _place(order, at, mask, ORDERED: tl.constexpr):
    """Where entries of sorted rows stand in the rows as they are."""
    found = at
    if not ORDERED:
        found = tl.load(order + at, mask=mask, other=0).to(tl.int64)
    return found


@triton.jit
def holds(rowptr, sorted_col, source, target, mask):
    """Whether the row of `source` holds `target`."""
    low, count = row_of(rowptr, source, mask)
    at = bisect(sorted_col, low, low + count, target - 1)
    inside = mask & (at < low + count)
    return inside & (tl.load(sorted_col + at, mask=inside, other=-1) == target)


@triton.jit
def propose(graph, envelope, own, last, turn, mask, ORDERED: tl.constexpr):
    """An edge for every walker, and whether it is accepted.

    Beyond the row there are second chances of the way back, which need no coin.
    """
    sorted_col, order = graph[2], graph[3]
    stream, start, count = own
    unit, extra, chances = envelope[3], envelope[4], envelope[5]
    twice = tl.zeros_like(start) + 2 * turn
    ordinary = count << unit
    target = below(bits(stream, twice), ordinary + chances)
    edge = start + (target >> unit)
    coin = (bits(stream, twice + 1) >> 1).to(tl.int64)
    second = mask & (target >= ordinary)
    there = mask & ~second
    if any_of(second):
        copy = tl.where(second, target - ordinary, 0) // extra
        high = tl.where(second, start + count, start)
        at = copy + bisect(sorted_col, start, high, last - 1)
        found = second & (at < start + count)
        found = found & (tl.load(sorted_col + at, mask=found, other=-1) == last)
        edge = tl.where(second, _place(order, at, found, ORDERED), edge)
        coin = tl.where(second, 0, coin)
        there = there | found
    return edge, accept(graph, envelope, edge, coin, last, there)


@triton.jit
def accept(graph, envelope, edge, coin, last, mask):
    """Whether edges are accepted; who is near is asked only where it decides."""
    rowptr, col, sorted_col = graph[0], graph[1], graph[2]
    back, near, away = envelope[0], envelope[1], envelope[2]
    to = tl.load(col + edge, mask=mask, other=-1).to(tl.int64)
    open_ = mask & (to != last)
    open_ = open_ & (coin > tl.minimum(near, away)) & (coin <= tl.maximum(near, away))
    adjacent = holds(rowptr, sorted_col, to, last, open_)
    share = tl.where(adjacent, near, away)
    share = tl.where(to == last, back, share)
    return mask & (coin <= share)


@triton.jit
def _name(names, k, mask, REVERSED: tl.constexpr):
    """The k-th name of a list, in the row or in the reversed graph."""
    sorted_col, start, reverse_col, first, short = names
    if REVERSED:
        found = tl.load(sorted_col + start + k, mask=mask & ~short, other=-1)
        other = tl.load(reverse_col + first + k, mask=mask & short, other=-1)
        found = tl.where(short, other.to(tl.int64), found.to(tl.int64))
    else:
        found = tl.load(sorted_col + start + k, mask=mask, other=-1).to(tl.int64)
    return found


@triton.jit
def _near(graph, names, start, count, last, k, mask, REVERSED: tl.constexpr):
    """The copies in a row of the k-th name, if it is new and next to `last`."""
    rowptr, sorted_col = graph[0], graph[2]
    value = _name(names, k, mask, REVERSED)
    before = _name(names, k - 1, mask & (k > 0), REVERSED)
    new = mask & (before != value) & (value != last)
    new = holds(rowptr, sorted_col, value, last, new)
    high = tl.where(new, start + count, start)
    low = bisect(sorted_col, start, high, value - 1)
    return low, tl.where(new, bisect(sorted_col, low, high, value), low)


@triton.jit
def length_of(number):
    """How many bits a number has."""
    found = tl.zeros_like(number)
    while any_of(number > 0):
        found = tl.where(number > 0, found + 1, found)
        number = number >> 1
    return found


@triton.jit
def _mass(shares, kind: tl.constexpr, top, length):
    """The integer mass of a neighbour of a kind, in units of the heaviest kind there.

    A share is a double, m · 2⁻ᵉ; what it is of 2 to the power of BITS - `length` is
    found by shifting m.
    """
    significand, exponent = shares[3 + 3 * kind], shares[12 + 3 * kind]
    for other in tl.static_range(1, 3):
        significand = tl.where(top == other, shares[3 + 3 * kind + other], significand)
        exponent = tl.where(top == other, shares[12 + 3 * kind + other], exponent)
    shift = _BITS - length - exponent
    left = significand << tl.maximum(shift, 0)
    right = significand >> tl.minimum(tl.maximum(-shift, 0), 63)
    return tl.maximum(tl.where(shift > 0, left, right), 1)


@triton.jit
def _heaviest(shares, back, near, away):
    """Which of the kinds that are there weighs most."""
    ranks = tl.where(back > 0, tl.zeros_like(back) + shares[0], 0)
    top = tl.zeros_like(back)
    rank = tl.where(near > 0, tl.zeros_like(back) + shares[1], 0)
    top, ranks = tl.where(rank > ranks, 1, top), tl.maximum(rank, ranks)
    rank = tl.where(away > 0, tl.zeros_like(back) + shares[2], 0)
    return tl.where(rank > ranks, 2, top)


@triton.jit
def weigh(
    graph,
    shares,
    own,
    last,
    word,
    mask,
    ORDERED: tl.constexpr,
    REVERSED: tl.constexpr,
):
    """Edges by the exact weights of the way back, near it, and away.

    Near neighbours are sought in the row of the node, or among those from which `last`
    can be reached, if these are fewer: once to count them, once to find the one.
    """
    sorted_col, order = graph[2], graph[3]
    reverse_ptr, reverse_col = graph[4], graph[5]
    start, count = own
    size, first, short = count, start, mask & (count < 0)
    if REVERSED:
        first, others = row_of(reverse_ptr, last, mask)
        short = mask & (others < count)
        size = tl.where(short, others, count)
    size = tl.where(mask, size, 0)
    names = (sorted_col, start, reverse_col, first, short)
    stop = tl.where(mask, start + count, start)
    back_low = bisect(sorted_col, start, stop, last - 1)
    back = bisect(sorted_col, back_low, stop, last) - back_low
    near, k = tl.zeros_like(count), tl.zeros_like(count)
    while any_of(k < size):
        low, high = _near(graph, names, start, count, last, k, k < size, REVERSED)
        near += high - low
        k += 1
    away = count - back - near
    top, length = _heaviest(shares, back, near, away), length_of(count)
    mass = _mass(shares, 0, top, length)
    left = below(
        word,
        mass * back
        + _mass(shares, 1, top, length) * near
        + _mass(shares, 2, top, length) * away,
    )
    goes_back = left < mass * back
    left = tl.where(goes_back, left, left - mass * back)
    mass = tl.where(goes_back, mass, _mass(shares, 1, top, length))
    goes_near = ~goes_back & (left < mass * near)
    goes_on = ~goes_back & ~goes_near
    left = tl.where(goes_on, left - mass * near, left)
    mass = tl.where(goes_on, _mass(shares, 2, top, length), mass)
    rank = left // mass
    at = tl.where(goes_back, back_low + rank, start + rank)
    # near: the name whose copies hold it; away: step over all copies in front of it
    open_, waits, k = ~goes_back & mask, goes_on & (back > 0), tl.zeros_like(count)
    while any_of(open_ & (k < size)):
        now = open_ & (k < size)
        low, high = _near(graph, names, start, count, last, k, now, REVERSED)
        found = now & goes_near & (rank < high - low)
        at = tl.where(found, low + rank, at)
        rank = tl.where(now & goes_near, rank - (high - low), rank)
        turn = now & waits & (low > back_low)
        beyond = turn & (back_low > at)
        at = tl.where(turn & ~beyond, at + back, at)
        waits = waits & ~(turn & ~beyond)
        beyond = beyond | (now & goes_on & (high > low) & (low > at))
        at = tl.where(now & goes_on & ~beyond, at + high - low, at)
        open_ = open_ & ~found & ~beyond
        k += 1
    at = tl.where(waits & (back_low <= at), at + back, at)
    return _place(order, at, mask, ORDERED)
