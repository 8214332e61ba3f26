"""The compiled loops of embeddings: one pass over pairs, and draws of negatives.

Trees are cut into chunks, whose number does not depend on how many threads there are.
A chunk is the work of one thread, and has gradient rows of its own; `join_rows` adds up
what several chunks have found for one node, in their order. So the result does not
depend on threads either. Some trees at a time are finished while their vectors are in
the cache: scores, what they add to the loss, gradients.

`blocks`, `looked_up` and `nodes` are those of `pairs.Pairs`, `terms` of `terms.Terms`.
"""

import numpy as np
from numba import int64, uint64

from gttf_sampler._backends.pairs import (
    ROWS,
    SHARE,
    SOURCE,
    SOURCE_STEP,
    TARGET,
    TARGET_STEP,
    WIDTH,
)
from gttf_sampler._backends.term_kernels import weigh
from gttf_sampler._backends.vector_kernels import dot, pull
from gttf_sampler._backends.word_kernels import (
    GOLDEN,
    ONE,
    below_wide,
    bits,
    compiled,
    mix,
    prefetch,
)

_CACHED = 1 << 17  # bytes of vectors that a group of trees looks up


@compiled
def _ask(first, last, looked_up, nodes, left, right, places, size):
    """Asks memory for what some trees need: vectors, and places of gradient rows."""
    line = uint64(64 // left.itemsize)
    for part in range(looked_up.shape[0]):
        start, width = looked_up[part, 0], looked_up[part, 1]
        for at in range(start + first * width, start + last * width):
            node = uint64(nodes[uint64(at)])
            if node < places[0].size:
                prefetch(places[0], node)
            if node < places[1].size:
                prefetch(places[1], node)
            for number in range(node * size, node * size + size, line):
                if number < right.size:
                    prefetch(right, number)
            if part == 0 and node * size < left.size:  # seeds come first
                for number in range(node * size, node * size + size, line):
                    prefetch(left, number)


@compiled
def _ends(at, row):
    """Where a row of a block has its source and its first target in `nodes`."""
    source = uint64(at[SOURCE] + row * at[SOURCE_STEP])
    return source, uint64(at[TARGET] + row // at[SHARE] * at[TARGET_STEP])


@compiled
def _score(first, last, blocks, nodes, left, right, size, symmetric, score):
    """The scores of all pairs of some trees, block by block."""
    half = score.dtype.type(0.5)
    number = uint64(0)
    for block in range(blocks.shape[0]):
        at = blocks[block]
        width = uint64(at[WIDTH])
        for row in range(first * at[ROWS], last * at[ROWS]):
            place, to = _ends(at, row)
            source = uint64(nodes[place]) * size
            for i in range(width):
                target = uint64(nodes[to + i]) * size
                found = dot(left, source, right, target, size)
                if symmetric:
                    found += dot(right, source, left, target, size)
                    found *= half
                score[number] = found
                number += ONE


@compiled
def _new_row(node, place, rows, count, total, size):
    """Gives a node a gradient row of zeros."""
    found = count[0]
    count[0] = found + 1
    place[node] = found
    rows[uint64(found)] = node
    begin = uint64(found) * size
    for i in range(begin, begin + size):
        total[i] = 0


@compiled
def _mark_all(first, last, looked_up, nodes, place, rows, count, total, size):
    """Gives gradient rows to all nodes of some trees that have none yet."""
    for part in range(looked_up.shape[0]):
        start, width = looked_up[part, 0], looked_up[part, 1]
        for at in range(start + first * width, start + last * width):
            node = uint64(nodes[uint64(at)])
            if place[node] < 0:
                _new_row(node, place, rows, count, total, size)


@compiled
def _mark(first, last, blocks, nodes, targets, place, rows, count, total, size):
    """Gives gradient rows to sources, or targets, of some trees that have none yet."""
    for block in range(blocks.shape[0]):
        at = blocks[block]
        width = uint64(at[WIDTH])
        for row in range(first * at[ROWS], last * at[ROWS]):
            begin, to = _ends(at, row)
            if not targets:
                node = uint64(nodes[begin])
                if place[node] < 0:
                    _new_row(node, place, rows, count, total, size)
            elif row % at[SHARE] == 0:
                for i in range(to, to + width):
                    node = uint64(nodes[i])
                    if place[node] < 0:
                        _new_row(node, place, rows, count, total, size)


@compiled
def _pull(first, last, blocks, nodes, tables, size, slope, places, totals):
    """Adds what pairs of some trees owe to the gradients of sources and targets."""
    number, nothing, place = uint64(0), uint64(0), places[0]
    for block in range(blocks.shape[0]):
        at = blocks[block]
        width = uint64(at[WIDTH])
        for row in range(first * at[ROWS], last * at[ROWS]):
            begin, to = _ends(at, row)
            source = uint64(nodes[begin])
            pull(
                tables,
                (source * size, uint64(place[source]) * size),
                nodes,
                places[1],
                slope,
                (to, number),
                (size, nothing, size),
                width,
                totals,
            )
            number += width


@compiled
def pair_pass(
    lo,
    hi,
    blocks,
    looked_up,
    nodes,
    tables,
    size,
    far,
    terms,
    eps,
    symmetric,
    weight,
    unit,
    wanted,
    one,
    places,
    rows,
    counts,
    totals,
):
    """The loss of trees lo to hi, and what they add to the gradient rows of a chunk.

    `far`: vectors are worth asking for ahead. `unit` is like `weight`, or empty; φ is
    added to it. `wanted`: gradients are. `one`: both tables are the same one. Of both
    tables: `places` int32 [n], -1 for nodes without a gradient row yet; `rows`, whose
    gradient rows these are; `counts` [1], the next that is free; `totals`, flat.
    """
    size = uint64(size)
    left, right = tables
    pairs = 0
    for block in range(blocks.shape[0]):
        pairs += blocks[block, ROWS] * blocks[block, WIDTH]
    each = 1
    for part in range(looked_up.shape[0]):
        each += looked_up[part, 1]
    group = max(1, _CACHED // (each * size * left.itemsize))
    score = np.empty(group * pairs, weight.dtype)
    slope = np.empty(group * pairs, weight.dtype)
    half, value, mixed = weight.dtype.type(0.5), 0.0, one or symmetric
    for first in range(lo, hi, group):
        last = min(hi, first + group)
        if far:
            soon = min(hi, last + group)
            _ask(last, soon, looked_up, nodes, left, right, places, size)
        _score(first, last, blocks, nodes, left, right, size, symmetric, score)
        value += weigh(first, last, blocks, terms, eps, weight, unit, score, slope)
        if not wanted:
            continue
        if symmetric:
            for i in range((last - first) * pairs):
                slope[i] *= half
        own = places[0], rows[0], counts[0], totals[0], size
        other = places[1], rows[1], counts[1], totals[1], size
        if mixed:
            _mark_all(first, last, looked_up, nodes, *own)
        else:
            _mark(first, last, blocks, nodes, False, *own)
            _mark(first, last, blocks, nodes, True, *other)
        if symmetric and not one:
            _mark_all(first, last, looked_up, nodes, *other)
        _pull(first, last, blocks, nodes, tables, size, slope, places, totals)
        if symmetric:
            swapped = (places[1], places[0]), (totals[1], totals[0])
            _pull(first, last, blocks, nodes, (right, left), size, slope, *swapped)
    return value


@compiled
def draw_alias(lo, hi, share, alias, coin_bits, key, first, out):
    """Draws of an alias table; the coin is what a row's share of a word leaves."""
    rows = uint64(share.size)
    mask = (ONE << coin_bits) - ONE
    for i in range(lo, hi):
        word = bits(mix(key + uint64(first + i) * GOLDEN), uint64(0))
        row = below_wide(word, rows)
        coin = (word * rows >> (uint64(64) - coin_bits)) & mask
        own = coin < uint64(share[row])
        out[i] = int64(row) if own else alias[row]
