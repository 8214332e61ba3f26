"""node2vec: a lane per walker takes all of its steps in one launch.

A walker proposes neighbours until one is accepted. Who was refused in all rounds weighs
its neighbours exactly, which the rest of its block waits for: a block is one warp, so
that few wait and no barrier is needed. The arithmetic is that of `torch.node2vec`.
"""

import math
import struct

import triton
import triton.language as tl
from torch import Tensor

from gttf_sampler._backends.torch.draw import MASS_BITS
from gttf_sampler._backends.torch.forest import Levels
from gttf_sampler._backends.torch.node2vec import SecondOrder
from gttf_sampler._backends.triton import launch as how
from gttf_sampler._backends.triton.forest import (
    draw_one,
    empty_ids,
    follow,
    levels_of,
    row_of,
)
from gttf_sampler._backends.triton.launch import blocks, key_of, launch
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

_BITS = tl.constexpr(MASS_BITS)


@triton.jit
def _place(order, at, mask, ORDERED):
    """Positions, in the rows as they are, of entries of sorted rows."""
    found = at
    if not ORDERED:
        found = tl.load(order + at, mask=mask, other=0).to(tl.int64)
    return found


@triton.jit
def holds(rowptr, sorted_col, source, target, mask):
    """True where the row of `source` holds `target`."""
    low, count = row_of(rowptr, source, mask)
    at = bisect(sorted_col, low, low + count, target - 1)
    inside = mask & (at < low + count)
    return inside & (tl.load(sorted_col + at, mask=inside, other=-1) == target)


@triton.jit
def propose(graph, envelope, own, last, turn, mask, ORDERED):
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
    """Accepts edges by their coins; looks for near ones only where that decides."""
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
def _name(names, k, mask, REVERSED):
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
def _near(graph, names, start, count, last, k, mask, REVERSED):
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
    """The bit length of numbers."""
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
    """The heaviest of the kinds that are there."""
    ranks = tl.where(back > 0, tl.zeros_like(back) + shares[0], 0)
    top = tl.zeros_like(back)
    rank = tl.where(near > 0, tl.zeros_like(back) + shares[1], 0)
    top, ranks = tl.where(rank > ranks, 1, top), tl.maximum(rank, ranks)
    rank = tl.where(away > 0, tl.zeros_like(back) + shares[2], 0)
    return tl.where(rank > ranks, 2, top)


@triton.jit
def weigh(graph, shares, own, last, word, mask, ORDERED, REVERSED):
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


@triton.jit
def propose_by_mass(graph, masses, envelope, own, total, last, turn, mask):
    """Edges in proportion to their mass, and whether they are accepted."""
    stream, start, count = own
    twice = tl.zeros_like(start) + 2 * turn
    target = below(bits(stream, twice), total)
    coin = (bits(stream, twice + 1) >> 1).to(tl.int64)
    edge = bisect(masses, start, tl.where(mask, start + count, start), target)
    return edge, accept(graph, envelope, edge, coin, last, mask)


@triton.jit
def _weight_of(graph, weights, alpha, at, last, mask):
    """The weights, as doubles, of edges by what they weigh and where they lead."""
    rowptr, col, sorted_col = graph[0], graph[1], graph[2]
    to = tl.load(col + at, mask=mask, other=-1).to(tl.int64)
    near = holds(rowptr, sorted_col, to, last, mask & (to != last))
    share = tl.where(near, alpha[1], alpha[2])
    share = tl.where(to == last, alpha[0], share)  # the bits of doubles
    own = tl.load(weights + at, mask=mask, other=0).to(tl.float64)
    return tl.where(mask, share.to(tl.float64, bitcast=True) * own, 0.0)


@triton.jit
def _integer_mass(weight, top, unit):
    """The integer mass of weights where the heaviest has `unit`; see `weight_table`."""
    some = weight > 0
    share = tl.where(some, weight, 0.0) / tl.where(some, top, 1.0)
    return tl.where(some, tl.maximum((share * unit).to(tl.int64), 1), 0)


@triton.jit
def weigh_by_mass(graph, weights, alpha, own, last, word, mask):
    """Edges by the exact weights of all neighbours.

    A walker reads its row three times: to find the heaviest, to sum up masses, and to
    find the one.
    """
    start, count = own
    size = tl.where(mask, count, 0)
    none = tl.zeros_like(count)
    top, k = none.to(tl.float64), none
    while any_of(k < size):
        weight = _weight_of(graph, weights, alpha, start + k, last, k < size)
        top = tl.maximum(top, weight)
        k += 1
    unit = ((none + 1) << (none + _BITS - length_of(size))).to(tl.float64)
    total, k = none, none
    while any_of(k < size):
        weight = _weight_of(graph, weights, alpha, start + k, last, k < size)
        total += _integer_mass(weight, top, unit)
        k += 1
    left = below(word, total)
    at, k = start, none
    while any_of((k < size) & (left >= 0)):
        weight = _weight_of(graph, weights, alpha, start + k, last, k < size)
        at = tl.where((k < size) & (left >= 0), start + k, at)
        left -= _integer_mass(weight, top, unit)
        k += 1
    return at


@triton.jit(do_not_specialize=["key", "rounds", "batch", "length", "stays"])
def node2vec(
    graph,
    masses,
    weights,
    key,
    envelope,
    shares,
    alpha,
    rounds,
    batch,
    length,
    stays,
    seeds,
    nodes,
    edges,
    ORDERED: tl.constexpr,
    REVERSED: tl.constexpr,
    MASS: tl.constexpr,
    B: tl.constexpr,
):
    """Second-order walks by rejection; step k of all walks is behind k - 1."""
    slot = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    live = slot < batch
    node = tl.load(seeds + slot, mask=live, other=-1)
    zero = tl.zeros_like(slot)
    last = zero - 1  # not `node`, which Triton would take for one that never changes
    rowptr, col = graph[0], graph[1]
    top = as_key(key)
    for step in range(length):
        at = tl.full((), 0, tl.int64) + step
        some = live & (node >= 0)
        start, count = row_of(rowptr, node, some)
        stream = streams(fold(top, at), slot)
        edge, total = draw_one(masses, start, count, stream, some, MASS)
        some_way = some & (total > 0)
        if step > 0:
            stream = bits(stream, zero)
            waiting = some_way
            turn = tl.full((), 0, tl.int64)
            while (turn < rounds) & any_of(waiting):
                own = (stream, start, count)
                now = (last, turn, waiting)
                if MASS:
                    found, taken = propose_by_mass(
                        graph, masses, envelope, own, total, *now
                    )
                else:
                    found, taken = propose(graph, envelope, own, *now, ORDERED)
                edge = tl.where(taken, found, edge)
                waiting = waiting & ~taken
                turn += 1
            if any_of(waiting):
                word = bits(bits(stream, zero + 2 * rounds), zero)
                rest = ((start, count), last, word, waiting)
                if MASS:
                    found = weigh_by_mass(graph, weights, alpha, *rest)
                else:
                    found = weigh(graph, shares, *rest, ORDERED, REVERSED)
                edge = tl.where(waiting, found, edge)
        edge = tl.where(some_way, edge, -1)
        last, node = node, follow(col, node, count, edge, some, stays)
        tl.store(edges + at * batch + slot, edge, mask=live)
        tl.store(nodes + at * batch + slot, node, mask=live)


def walk_node2vec(
    graph: SecondOrder, seeds: Tensor, length: int, key: Key, stays: bool
) -> Levels | None:
    """(edges, nodes) of every step; see `torch.node2vec`."""
    batch, order = seeds.numel(), graph.order()
    nodes, edges = empty_ids(batch * length, seeds), empty_ids(batch * length, seeds)
    envelope, places = graph.envelope, graph.col if order is None else order
    reverse = graph.reverse or (graph.rowptr, graph.col)
    launch(
        node2vec,
        (blocks(batch, how.WALKERS) if length else 0,),
        (graph.rowptr, graph.col, graph.sorted_col, places, *reverse),
        graph.col if graph.table is None else graph.table,
        *(graph.col if graph.weight is None else graph.weight, key_of(key)),
        (
            *(envelope.back, envelope.near, envelope.away, envelope.unit),
            *(max(envelope.extra, 1), envelope.extra * envelope.copies),
        ),
        *(_shares(graph.alpha), _words_of(graph.alpha), graph.rounds),
        *(batch, length, int(stays)),
        *(seeds.contiguous(), nodes, edges),
        ORDERED=order is None,
        REVERSED=graph.reverse is not None,
        MASS=graph.table is not None,
        B=how.WALKERS,
        num_warps=1,
    )
    return levels_of(edges, nodes, [batch] * length, [1] * length)


def _shares(alpha: tuple[float, float, float]) -> tuple[int, ...]:
    """Ranks of three kinds by weight, and what each weighs in units of each.

    A share is a double of at most 1, as its significand and exponent: m · 2⁻ᵉ. Where it
    would be more the kind is not there, and what it weighs does not matter.
    """
    order = sorted(range(3), key=lambda kind: alpha[kind])
    ranks = [2 + order.index(kind) for kind in range(3)]
    parts = [math.frexp(min(own / top, 1.0)) for own in alpha for top in alpha]
    significands = [int(fraction * 2**53) for fraction, _ in parts]
    return (*ranks, *significands, *(53 - exponent for _, exponent in parts))


def _words_of(doubles: tuple[float, ...]) -> tuple[int, ...]:
    """The bits of doubles: one that goes to a kernel as such loses half of them."""
    return struct.unpack(f"{len(doubles)}q", struct.pack(f"{len(doubles)}d", *doubles))
