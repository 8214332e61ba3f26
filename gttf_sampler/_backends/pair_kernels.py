"""The compiled loops of embeddings: scores of pairs, gradients, steps of optimizers.

Scores are shared by trees: each belongs to one thread. Gradients are shared by the
numbers of a vector: every thread goes through all pairs in their order and adds up its
part of the vectors, so that the result does not depend on how many threads there are.
Trees go in groups, whose vectors are asked for ahead and stay in the cache meanwhile.

`blocks`, `looked_up` and `nodes` are those of `pairs.Pairs`.
"""

from functools import partial

import numpy as np
from numba import int64, uint64

from gttf_sampler._backends.kernels import (
    _GOLDEN,
    _1,
    _below_wide,
    _bits,
    _compiled,
    _mix,
    _prefetch,
)
from gttf_sampler._backends.pairs import (
    ROWS,
    SCORE,
    SHARE,
    SOURCE,
    SOURCE_STEP,
    TARGET,
    TARGET_STEP,
    WIDTH,
)
from gttf_sampler._backends.vector_kernels import dot, pull

SGD, ADAGRAD, ADAM = range(3)
_16 = np.uint64(16)
LANES = 16  # numbers that threads do not share: a cache line of them
_SOON = 4  # rows ahead that an optimizer asks for
_CACHED = 1 << 18  # bytes of vectors that a group of trees may look up


@_compiled
def _group(looked_up, size, itemsize):
    """How many trees are worked on together."""
    each = 1
    for part in range(looked_up.shape[0]):
        each += looked_up[part, 1]
    return max(1, _CACHED // (each * size * itemsize))


@_compiled
def _ask(first, last, looked_up, nodes, table, size, low, high):
    """Asks memory for the vectors of some trees, numbers low to high of each."""
    line = uint64(64 // table.itemsize)
    for part in range(looked_up.shape[0]):
        start, width = looked_up[part, 0], looked_up[part, 1]
        for at in range(start + first * width, start + last * width):
            row = uint64(nodes[uint64(at)]) * size
            for number in range(row + low, row + high, line):
                _prefetch(table, number)


@_compiled
def _ask_rows(first, last, looked_up, nodes, place, table, size, low, high):
    """Asks for the rows of gradients that those vectors have."""
    line = uint64(64 // table.itemsize)
    for part in range(looked_up.shape[0]):
        start, width = looked_up[part, 0], looked_up[part, 1]
        for at in range(start + first * width, start + last * width):
            node = uint64(nodes[uint64(at)])  # a source may be of another table
            number = place[node] if node < uint64(place.size) else -1
            if number >= 0:
                row = uint64(number) * size
                for each in range(row + low, row + high, line):
                    _prefetch(table, each)


@_compiled
def pair_scores(lo, hi, blocks, looked_up, nodes, left, right, size, far, out):
    """The scores of trees lo to hi; `far` if vectors are worth asking for ahead."""
    size = uint64(size)
    group = _group(looked_up, size, left.itemsize)
    for first in range(lo, hi, group):
        last = min(hi, first + group)
        if far:
            _ask(first, last, looked_up, nodes, right, size, uint64(0), size)
        for block in range(blocks.shape[0]):
            at = blocks[block]
            width = uint64(at[WIDTH])
            for row in range(first * at[ROWS], last * at[ROWS]):
                source = uint64(nodes[uint64(at[SOURCE] + row * at[SOURCE_STEP])])
                place = at[TARGET] + row // at[SHARE] * at[TARGET_STEP]
                score = uint64(at[SCORE]) + uint64(row) * width
                for i in range(width):
                    target = uint64(nodes[uint64(place) + i])
                    out[score + i] = dot(
                        left, source * size, right, target * size, size
                    )


@_compiled
def pair_gradients(
    lo,
    hi,
    trees,
    blocks,
    looked_up,
    nodes,
    tables,
    size,
    far,
    coefficient,
    places,
    gradients,
):
    """Adds numbers lo to hi, in lines, of all vectors' gradients."""
    size = uint64(size)
    low = uint64(lo * LANES)
    high = min(size, uint64(hi * LANES))
    left_place, right_place = places
    group = _group(looked_up, size, tables[0].itemsize)
    for first in range(0, trees, group):
        last = min(trees, first + group)
        if far:
            _ask(first, last, looked_up, nodes, tables[1], size, low, high)
            how = looked_up, nodes, right_place, gradients[1], size, low, high
            _ask_rows(first, last, *how)
        for block in range(blocks.shape[0]):
            at = blocks[block]
            width = uint64(at[WIDTH])
            for row in range(first * at[ROWS], last * at[ROWS]):
                source = uint64(nodes[uint64(at[SOURCE] + row * at[SOURCE_STEP])])
                place = uint64(at[TARGET] + row // at[SHARE] * at[TARGET_STEP])
                home = uint64(left_place[source]) * size
                pull(
                    tables,
                    (source * size, home),
                    nodes,
                    right_place,
                    coefficient,
                    (place, uint64(at[SCORE]) + uint64(row) * width),
                    (size, low, high),
                    width,
                    gradients,
                )


@_compiled
def mark_rows(trees, blocks, nodes, sources, targets, place, out):
    """Writes the nodes that are sources or targets of pairs, each once; how many.

    `place` holds -1 for every node before, and something else for those found after.
    """
    count = uint64(0)
    for block in range(blocks.shape[0]):
        at = blocks[block]
        for row in range(trees * at[ROWS]):
            if sources:
                node = nodes[uint64(at[SOURCE] + row * at[SOURCE_STEP])]
                if place[uint64(node)] < 0:
                    place[uint64(node)] = 0
                    out[count] = node
                    count += uint64(1)
            if targets and row % at[SHARE] == 0:
                first = uint64(at[TARGET] + row // at[SHARE] * at[TARGET_STEP])
                for i in range(uint64(at[WIDTH])):
                    node = nodes[first + i]
                    if place[uint64(node)] < 0:
                        place[uint64(node)] = 0
                        out[count] = node
                        count += uint64(1)
    return count


@_compiled
def number_rows(rows, place):
    for i in range(uint64(rows.size)):
        place[uint64(rows[i])] = i


@_compiled
def forget_rows(rows, place):
    for i in range(uint64(rows.size)):
        place[uint64(rows[i])] = -1


# Python's division asks about zero each time, and keeps loops from being vectors.
_divides = partial(_compiled, error_model="numpy")


@_divides
def _step_row(kind, numbers, gradient, row, first, second):
    """One rule on one row, in place; `first` and `second` are what it keeps."""
    rate, keep1, keep2, eps = numbers
    if kind == SGD:
        for i in range(row.size):
            row[i] -= rate * gradient[i]
    elif kind == ADAGRAD:
        for i in range(row.size):
            first[i] += gradient[i] * gradient[i]
            row[i] -= rate * gradient[i] / (np.sqrt(first[i]) + eps)
    else:
        for i in range(row.size):
            g = gradient[i]
            first[i] += keep1 * (g - first[i])
            second[i] += keep2 * (g * g - second[i])
            row[i] -= rate * first[i] / (np.sqrt(second[i]) + eps)


@_compiled
def _ask_row(table, start, size):
    """Asks memory for a row that is changed soon."""
    for number in range(start, start + size, uint64(64 // table.itemsize)):
        _prefetch(table, number)


@_compiled
def step_rows(lo, hi, kind, numbers, rows, gradient, table, first, second, size, key):
    """Changes a part of the rows, each there once; `numbers` as in `_step_row`."""
    size = uint64(size)
    for i in range(lo, hi):
        soon = uint64(rows[min(i + _SOON, hi - 1)]) * size
        _ask_row(table, soon, size)
        if kind != SGD:
            _ask_row(first, soon, size)
        if kind == ADAM:
            _ask_row(second, soon, size)
        place = uint64(rows[i]) * size
        at, end = uint64(i) * size, place + size
        kept = first[place:end], second[place:end]
        _step_row(kind, numbers, gradient[at : at + size], table[place:end], *kept)


@_compiled
def step_rows_half(
    lo, hi, kind, numbers, rows, gradient, table, first, second, size, key
):
    """Rows of bfloat16: widened, changed, and rounded up or down at random."""
    size = uint64(size)
    bits = np.empty(size, np.uint32)
    row = bits.view(np.float32)
    words = (size + uint64(3)) // uint64(4)
    for i in range(lo, hi):
        node = uint64(rows[i])
        place = node * size
        for j in range(size):
            bits[j] = uint64(table[place + j]) << _16
        at, end = uint64(i) * size, place + size
        kept = first[place:end], second[place:end]
        _step_row(kind, numbers, gradient[at : at + size], row, *kept)
        for j in range(size):
            quarter = j // uint64(4)
            word = _mix(key + (node * words + quarter) * _GOLDEN)
            coin = (word >> (uint64(16) * (j % uint64(4)))) & uint64(0xFFFF)
            table[place + j] = (uint64(bits[j]) + coin) >> _16


@_compiled
def draw_alias(lo, hi, share, alias, bits, key, first, out):
    """Draws of an alias table; the coin is what a row's share of a word leaves."""
    rows = uint64(share.size)
    mask = (_1 << bits) - _1
    for i in range(lo, hi):
        word = _bits(_mix(key + uint64(first + i) * _GOLDEN), uint64(0))
        row = _below_wide(word, rows)
        coin = (word * rows >> (uint64(64) - bits)) & mask
        own = coin < uint64(share[row])
        out[i] = int64(row) if own else alias[row]
