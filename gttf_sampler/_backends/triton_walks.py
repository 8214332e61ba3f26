"""The kernels of walks: a lane per walker takes all of its steps in one launch.

In node2vec a walker proposes neighbours until one is accepted. Who was refused in all
rounds weighs its neighbours exactly, which the rest of its block waits for; the
arithmetic is that of `torch_ops`.
"""

import triton
import triton.language as tl

from gttf_sampler._backends.triton_draws import mass_within
from gttf_sampler._backends.triton_second_order import follow, propose, row_of, weigh
from gttf_sampler._backends.triton_second_order_mass import (
    propose_by_mass,
    weigh_by_mass,
)
from gttf_sampler._backends.triton_words import (
    any_of,
    as_key,
    below,
    bisect,
    bits,
    fold,
    streams,
)


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
    zero = tl.zeros_like(slot)
    top = as_key(key)
    for step in range(length):
        some = live & (node >= 0)
        start, count = row_of(rowptr, node, some)
        stream = streams(fold(top, tl.full((), 0, tl.int64) + step), slot)
        total = count
        if MASS:
            total = mass_within(mass, start, count, zero, some)
        edge = below(bits(stream, zero), total)
        if MASS:
            high = tl.where(total > 0, start + count, start)
            edge = bisect(mass, start, high, edge)
        else:
            edge = start + edge
        edge = tl.where(total > 0, edge, -1)
        node = follow(col, node, count, edge, some, stays)
        at = tl.full((), 0, tl.int64) + step
        tl.store(edges + at * batch + slot, edge, mask=live)
        tl.store(nodes + at * batch + slot, node, mask=live)


@triton.jit(do_not_specialize=["key", "rounds", "batch", "length", "stays"])
def node2vec(
    rowptr,
    col,
    sorted_col,
    order,
    reverse_ptr,
    reverse_col,
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
    graph = (rowptr, col, sorted_col, order, reverse_ptr, reverse_col)
    top = as_key(key)
    for step in range(length):
        at = tl.full((), 0, tl.int64) + step
        some = live & (node >= 0)
        start, count = row_of(rowptr, node, some)
        stream = streams(fold(top, at), slot)
        total = count
        if MASS:
            total = mass_within(masses, start, count, zero, some)
        some_way = some & (total > 0)
        edge = below(bits(stream, zero), total)
        if MASS:
            edge = bisect(masses, start, tl.where(some_way, start + count, start), edge)
        else:
            edge = start + edge
        if step > 0:
            stream = bits(stream, zero)
            waiting = some_way
            turn = tl.full((), 0, tl.int64)
            while (turn < rounds) & any_of(waiting):
                own = (stream, start, count)
                if MASS:
                    found, taken = propose_by_mass(
                        graph, masses, envelope, own, total, last, turn, waiting
                    )
                else:
                    found, taken = propose(
                        graph, envelope, own, last, turn, waiting, ORDERED
                    )
                edge = tl.where(taken, found, edge)
                waiting = waiting & ~taken
                turn += 1
            if any_of(waiting):
                word = bits(bits(stream, zero + 2 * rounds), zero)
                row = (start, count)
                if MASS:
                    found = weigh_by_mass(
                        graph, weights, alpha, row, last, word, waiting
                    )
                else:
                    found = weigh(
                        graph, shares, row, last, word, waiting, ORDERED, REVERSED
                    )
                edge = tl.where(waiting, found, edge)
        edge = tl.where(some_way, edge, -1)
        last, node = node, follow(col, node, count, edge, some, stays)
        tl.store(edges + at * batch + slot, edge, mask=live)
        tl.store(nodes + at * batch + slot, node, mask=live)
