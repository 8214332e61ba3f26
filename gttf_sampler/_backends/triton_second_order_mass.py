"""Steps of second-order walks where edges have weights: see `triton_walks`."""

import triton
import triton.language as tl

from gttf_sampler._backends.triton_second_order import accept, holds, length_of
from gttf_sampler._backends.triton_words import any_of, below, bisect, bits
from gttf_sampler._backends.types import MASS_BITS

_BITS = tl.constexpr(MASS_BITS)


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
def _weight(graph, weights, alpha, at, last, mask):
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
    """What a weight counts where the heaviest counts `unit`; see `weight_table`."""
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
        weight = _weight(graph, weights, alpha, start + k, last, k < size)
        top = tl.maximum(top, weight)
        k += 1
    unit = ((none + 1) << (none + _BITS - length_of(size))).to(tl.float64)
    total, k = none, none
    while any_of(k < size):
        weight = _weight(graph, weights, alpha, start + k, last, k < size)
        total += _integer_mass(weight, top, unit)
        k += 1
    left = below(word, total)
    at, k = start, none
    while any_of((k < size) & (left >= 0)):
        weight = _weight(graph, weights, alpha, start + k, last, k < size)
        at = tl.where((k < size) & (left >= 0), start + k, at)
        left -= _integer_mass(weight, top, unit)
        k += 1
    return at
