"""Gradient rows: joined, handed out, and steps of optimizers by them."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import uint64
from torch import Tensor

from gttf_sampler._backends.memory import Array, empty_rows
from gttf_sampler._backends.numba.rng import GOLDEN, compiled, mix, prefetch, word
from gttf_sampler._backends.pairs import RULES, RowGradients, Rule
from gttf_sampler._backends.threads import parallel

SGD, ADAGRAD, ADAM = range(3)
_16 = np.uint64(16)
_SOON = 4  # rows ahead that an optimizer asks for


@compiled
def join_rows(lo, hi, chunk, places, rows, total, size):
    """Gives gradient rows lo to hi of a chunk to the first one that has the node.

    Of those that were given away, the node is ~node afterwards.
    """
    size = uint64(size)
    for i in range(lo, hi):
        node = rows[uint64(i)]
        for earlier in range(chunk):
            found = places[earlier, uint64(node)]
            if found >= 0:
                to, start = uint64(found) * size, uint64(i) * size
                for j in range(size):
                    total[to + j] += total[start + j]
                rows[uint64(i)] = ~node
                break


@compiled
def forget_rows(lo, hi, rows, place):
    """Makes the places of nodes lo to hi of `rows` -1 again."""
    for i in range(lo, hi):
        node = rows[uint64(i)]
        place[uint64(node if node >= 0 else ~node)] = -1


@compiled
def copy_rows(lo, hi, rows, at, total, scale, size, out):
    """out[rows[i]] = scale · total[at[i]], flat; rows are different ones."""
    size = uint64(size)
    for i in range(lo, hi):
        to, start = uint64(rows[i]) * size, uint64(at[i]) * size
        for j in range(size):
            out[to + j] = scale * total[start + j]


# Python's division asks about zero each time, and keeps loops from being vectors.
_divides = partial(compiled, error_model="numpy")


class Numbers(NamedTuple):
    """The numbers of a `Rule`, as floats of the width that is computed with.

    Attributes:
        rate: of learning.
        new1, new2: how much of a new value enters an average.
        eps: added to roots.
        scale: what gradients are multiplied by first.
        decay: how much of the row its gradient gets.
    """

    rate: Any
    new1: Any
    new2: Any
    eps: Any
    scale: Any
    decay: Any


@_divides
def _step_row(kind, numbers, gradient, row, first, second):
    """One rule on one row, in place; `first` and `second` are what it keeps."""
    rate, eps = numbers.rate, numbers.eps
    scale, decay = numbers.scale, numbers.decay
    if kind == SGD:
        for i in range(row.size):
            row[i] -= rate * (scale * gradient[i] + decay * row[i])
    elif kind == ADAGRAD:
        for i in range(row.size):
            g = scale * gradient[i] + decay * row[i]
            first[i] += g * g
            row[i] -= rate * g / (np.sqrt(first[i]) + eps)
    else:
        for i in range(row.size):
            g = scale * gradient[i] + decay * row[i]
            first[i] += numbers.new1 * (g - first[i])
            second[i] += numbers.new2 * (g * g - second[i])
            row[i] -= rate * first[i] / (np.sqrt(second[i]) + eps)


@compiled
def _ask_row(table, start, size):
    """Asks memory for a row that is changed soon."""
    for number in range(start, start + size, uint64(64 // table.itemsize)):
        prefetch(table, number)


@compiled
def step_rows_kernel(lo, hi, kind, numbers, rows, at, arrays, size, key):
    """Changes a part of the rows, each there once, by `Numbers`."""
    gradient, table, first, second = arrays
    size = uint64(size)
    for i in range(lo, hi):
        soon = min(i + _SOON, hi - 1)
        begin = uint64(rows[soon]) * size
        _ask_row(gradient, uint64(at[soon]) * size, size)
        _ask_row(table, begin, size)
        if kind != SGD:
            _ask_row(first, begin, size)
        if kind == ADAM:
            _ask_row(second, begin, size)
        place, start = uint64(rows[i]) * size, uint64(at[i]) * size
        end = place + size
        kept = first[place:end], second[place:end]
        owed = gradient[start : start + size]
        _step_row(kind, numbers, owed, table[place:end], *kept)


@compiled
def step_rows_half(lo, hi, kind, numbers, rows, at, arrays, size, key):
    """Rows of bfloat16: widened, changed, and rounded up or down at random."""
    gradient, table, first, second = arrays
    size = uint64(size)
    bits = np.empty(size, np.uint32)
    row = bits.view(np.float32)
    words = (size + uint64(3)) // uint64(4)
    for i in range(lo, hi):
        node = uint64(rows[i])
        place = node * size
        for j in range(size):
            bits[j] = uint64(table[place + j]) << _16
        start, end = uint64(at[i]) * size, place + size
        kept = first[place:end], second[place:end]
        _step_row(kind, numbers, gradient[start : start + size], row, *kept)
        for j in range(size):
            quarter = j // uint64(4)
            word = mix(key + (node * words + quarter) * GOLDEN)
            coin = (word >> (uint64(16) * (j % uint64(4)))) & uint64(0xFFFF)
            table[place + j] = (uint64(bits[j]) + coin) >> _16


def step_rows(
    rows: RowGradients, table: Tensor, state: Sequence[Tensor], rule: Rule
) -> None:
    """Changes the rows of a table by their gradients; see `torch.pairs`."""
    wide = np.float64 if rows.total.dtype == torch.float64 else np.float32
    kept = [*map(flat, state), *[np.empty(0, wide)] * 2][:2]
    kernel = step_rows_half if table.itemsize == 2 else step_rows_kernel
    count, size = rows.row.numel(), table.shape[1]
    numbers = Numbers(
        rate=wide(rule.rate),
        new1=wide(1 - rule.beta1),
        new2=wide(1 - rule.beta2),
        eps=wide(rule.eps),
        scale=wide(rule.scale),
        decay=wide(rule.decay),
    )
    parallel(
        kernel,
        count,
        count * size,
        RULES.index(rule.kind),
        numbers,
        rows.row.numpy(),
        rows.at.numpy(),
        (flat(rows.total), flat(table), *kept),
        size,
        word(rule.key),
    )


def as_gradient(
    rows: RowGradients, table: Tensor, sparse: bool, scale: float
) -> Tensor:
    """A gradient of a table, dense, or sparse and coalesced; see `torch.pairs`."""
    size, row, at = table.shape[1], rows.row.numpy(), rows.at.numpy()
    if sparse:
        order = np.argsort(row)
        index, at = row[order], at[order]
        row = np.arange(row.size)
        out = empty_rows((row.size, size), rows.total.dtype)
    else:
        out = empty_rows(table.shape, rows.total.dtype).zero_()
    kernel, work = copy_rows, row.size * size // 4
    factor = flat(rows.total).dtype.type(scale)
    how = row, at, flat(rows.total), factor, size, flat(out)
    parallel(kernel, row.size, work, *how)
    if not sparse:
        return out
    return torch.sparse_coo_tensor(
        torch.from_numpy(index)[None],
        out,
        table.shape,
        is_coalesced=True,
        check_invariants=False,
    )


def flat(table: Tensor) -> Array:
    """The numbers of a table, one after the other; bfloat16 as uint16."""
    numbers = table.detach().view(-1)
    if numbers.dtype == torch.bfloat16:
        return numbers.view(torch.int16).numpy().view(np.uint16)  # torch 2.2 has none
    made: Array = numbers.numpy()
    return made
