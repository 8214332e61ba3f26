"""Losses of pairs of vectors and their gradients in one pass; draws of negatives.

Trees are cut into chunks, whose number does not depend on how many threads there are.
A chunk is the work of one thread, and has gradient rows of its own; `join_rows` adds up
what several chunks have found for one node, in their order. So the result does not
depend on threads either. Some trees at a time are finished while their vectors are in
the cache: scores, what they add to the loss, gradients.

`blocks`, `looked_up` and `nodes` are those of `pairs.Pairs`, `terms` of `pairs.Terms`.
"""

from functools import partial

import numpy as np
import torch
from numba import int64, uint64
from torch import Tensor

from gttf_sampler._backends.memory import Array, Idle, empty, empty_rows
from gttf_sampler._backends.numba.optimizer import flat, forget_rows, join_rows
from gttf_sampler._backends.numba.rng import (
    GOLDEN,
    ONE,
    below_wide,
    bits,
    compiled,
    mix,
    prefetch,
    word,
)
from gttf_sampler._backends.numba.terms import weigh
from gttf_sampler._backends.numba.vectors import dot, pull
from gttf_sampler._backends.pairs import (
    ROWS,
    SHARE,
    SOURCE,
    SOURCE_STEP,
    TARGET,
    TARGET_STEP,
    WIDTH,
    Pairs,
    Passed,
    RowGradients,
    Terms,
    scored,
)
from gttf_sampler._backends.threads import cut, parallel, ranges, run
from gttf_sampler._backends.torch.pairs import precise
from gttf_sampler.random import Key

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
    """Positions in `nodes` of the source and the first target of a block's row."""
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
    number, place = uint64(0), places[0]
    for block in range(blocks.shape[0]):
        at = blocks[block]
        width = uint64(at[WIDTH])
        for row in range(first * at[ROWS], last * at[ROWS]):
            begin, to = _ends(at, row)
            source = uint64(nodes[begin])
            rows = source * size, uint64(place[source]) * size
            first_of = to, number
            pull(tables, rows, nodes, places[1], slope, first_of, size, width, totals)
            number += width


@compiled
def pair_pass_kernel(lo, hi, pairs, tables, how, weight, unit, wanted, one, sides):
    """The loss of trees lo to hi, and what they add to the gradient rows of a chunk.

    `far`: vectors are worth asking for ahead. `unit` is like `weight`, or empty; φ is
    added to it. `wanted`: gradients are. `one`: both tables are the same one. Of both
    tables: `places` int32 [n], -1 for nodes without a gradient row yet; `rows`, whose
    gradient rows these are; `counts` [1], the next that is free; `totals`, flat.
    """
    blocks, looked_up, nodes = pairs
    width, far, terms, eps, symmetric = how
    places, rows, counts, totals = sides
    size = uint64(width)
    left, right = tables
    pairs_of_tree = 0
    for block in range(blocks.shape[0]):
        pairs_of_tree += blocks[block, ROWS] * blocks[block, WIDTH]
    each = 1
    for part in range(looked_up.shape[0]):
        each += looked_up[part, 1]
    group = max(1, _CACHED // (each * size * left.itemsize))
    score = np.empty(group * pairs_of_tree, weight.dtype)
    slope = np.empty(group * pairs_of_tree, weight.dtype)
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
            for i in range((last - first) * pairs_of_tree):
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
def draw_alias_kernel(lo, hi, share, alias, coin_bits, key, first, out):
    """Draws of an alias table; the coin is what a row's share of a word leaves."""
    rows = uint64(share.size)
    mask = (ONE << coin_bits) - ONE
    for i in range(lo, hi):
        word = bits(mix(key + uint64(first + i) * GOLDEN), uint64(0))
        row = below_wide(word, rows)
        coin = (word * rows >> (uint64(64) - coin_bits)) & mask
        own = coin < uint64(share[row])
        out[i] = int64(row) if own else alias[row]


FAR = 1 << 24  # bytes of a table that does not stay in the cache
CHUNK = 1 << 20  # multiplications that a chunk is worth
CHUNKS = 4  # at most; what they have in common is added up afterwards
_idle = Idle[Array](kept=4)  # tables of places, all -1


def pair_pass(
    pairs: Pairs,
    terms: Terms,
    weight: Tensor,
    left: Tensor,
    right: Tensor,
    gradients: bool,
    units: bool,
) -> Passed:
    """The loss of pairs and its gradients, in one pass; see `torch.pairs`."""
    both, size, kind = right is left, left.shape[1], precise(left)
    weights = weight.detach().to(kind).contiguous().numpy()
    unit = np.zeros(weights.size if units else 0, weights.dtype)
    bounds = _chunks(pairs, size)
    tables = [left] if both else [left, right]
    sides = [Side(pairs, table, bounds, gradients) for table in tables]
    arrays = pairs.blocks.numpy(), pairs.looked_up.numpy(), pairs.nodes.numpy()
    vectors = flat(left), flat(right)
    how = size, right.nbytes > FAR, terms.blocks.numpy(), terms.eps, terms.symmetric
    values = [0.0] * len(bounds)

    def work(chunk: int) -> None:
        ends = tuple(zip(sides[0].chunk(chunk), sides[-1].chunk(chunk), strict=True))
        given = arrays, vectors, how, weights, unit, gradients, both, ends
        values[chunk] = pair_pass_kernel(*bounds[chunk], *given)

    run([partial(work, chunk) for chunk in range(len(bounds))])
    value = torch.tensor(sum(values), dtype=kind)
    found = [side.joined() for side in sides] if gradients else []
    return Passed(value, torch.from_numpy(unit) if units else None, found)


def _chunks(pairs: Pairs, size: int) -> list[tuple[int, int]]:
    """The first and the last tree of every chunk: a power of two of them."""
    worth = pairs.scores * size // CHUNK
    count = min(CHUNKS, 1 << max(0, worth.bit_length() - 1), pairs.trees)
    return cut(pairs.trees, count)


class Side:
    """Buffers in which the gradients of a table are added up, chunk by chunk.

    Attributes:
        begin: per chunk, where its rows begin; and where the last one ends.
        count: int64 [chunks], where they end.
        places: int32 [chunks, n], where the gradient of a node is, or -1.
        rows: int64 [*], the node of every gradient row.
        total: [*, d], the gradient rows; `flat` are their numbers.
    """

    def __init__(
        self, pairs: Pairs, table: Tensor, bounds: list[tuple[int, int]], wanted: bool
    ) -> None:
        nodes, self.size = table.shape
        each = -(-pairs.nodes.numel() // max(1, pairs.trees)) if wanted else 0
        most = [min(nodes, each * (high - low)) for low, high in bounds]
        self.begin = np.cumsum([0, *most])
        self.count = self.begin[:-1].copy()
        self.places = _take_places(len(bounds), nodes if wanted else 0)
        self.rows = np.empty(self.begin[-1], np.int64)
        self.total = empty_rows((int(self.begin[-1]), self.size), precise(table))
        self.flat = flat(self.total)

    def chunk(self, number: int) -> tuple[Array, Array, Array, Array]:
        """The arguments of a kernel for one chunk: places, rows, count, total."""
        count = self.count[number : number + 1]
        return self.places[number], self.rows, count, self.flat

    def joined(self) -> RowGradients:
        """The gradients, when all chunks are done."""
        ends = list(zip(self.begin.tolist(), self.count.tolist(), strict=False))
        for chunk, (low, high) in enumerate(ends[1:], 1):
            how = chunk, self.places, self.rows, self.flat, self.size
            cuts = ranges(high - low, (high - low) * self.size // 4)
            run([partial(join_rows, low + lo, low + hi, *how) for lo, hi in cuts])
        for chunk, (low, high) in enumerate(ends):
            forget_rows(low, high, self.rows, self.places[chunk])
        _idle.give_back(self.places)
        parts = [low + np.flatnonzero(self.rows[low:high] >= 0) for low, high in ends]
        at = np.concatenate(parts)
        row = torch.from_numpy(self.rows[at])
        return RowGradients(row, torch.from_numpy(at), self.total)


def pair_scores(pairs: Pairs, left: Tensor, right: Tensor) -> Tensor:
    """⟨left[source], right[target]⟩ of all pairs [scores]; see `torch.pairs`."""
    weight = torch.zeros(pairs.scores, dtype=precise(left), device="cpu")
    found = pair_pass(pairs, scored(pairs), weight, left, right, False, True)
    return weight if found.unit is None else found.unit


def draw_alias(
    share: Tensor, alias: Tensor, bits: int, key: Key, first: int, count: int
) -> Tensor:
    """Draws number `first` to `first` + `count` of a key [count]; see `torch.pairs`."""
    out = torch.empty(count, dtype=torch.int64, device="cpu")
    table = share.numpy(), alias.numpy(), np.uint64(bits), word(key)
    parallel(draw_alias_kernel, count, count * 4, *table, first, out.numpy())
    return out


def _take_places(chunks: int, nodes: int) -> Array:
    """Tables of places [chunks, nodes], all -1."""
    found = _idle.take(lambda places: places.shape == (chunks, nodes))
    if found is not None:
        return found
    made: Array = empty(chunks * nodes, torch.int32).fill_(-1).numpy()
    return made.reshape(chunks, nodes)
