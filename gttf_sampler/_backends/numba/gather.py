"""Rows of features of many tensors, gathered in one call.

A column is a row of `columns`: which tensors its rows are in, counted end to end, the
addresses of the index into them, of the places that rows go to and of what is to be
written, with their sizes; 0 stands for an index that counts from zero. A tensor is a
row of `pieces`: its address, and the number of its first row. Threads share the bytes
of all columns.
"""

from functools import partial
from itertools import pairwise

import numpy as np
import torch
from llvmlite import ir
from numba import int64, types
from numba.extending import intrinsic
from torch import Tensor

from gttf_sampler._backends.numba.rng import compiled, prefetch_address
from gttf_sampler._backends.numba.rows import longs
from gttf_sampler._backends.threads import held, run
from gttf_sampler._backends.torch.gather import Moves

PIECE, PIECES, ROWS, WIDTH, INDEX, TO, COUNT, GAPS, OUT, FIRST, COLUMNS = range(11)
ADDRESS, FIRST_ROW = range(2)
_LINE = 64  # bytes that memory hands out at once
_AHEAD = 1 << 12  # bytes that are asked for ahead, as the hardware cannot guess rows


def _copying(size):
    """An intrinsic that copies so many bytes from one address to another."""
    kind = ir.VectorType(ir.IntType(8), size).as_pointer()

    @intrinsic
    def copy(_, source, target):
        def emit(context, builder, signature, args):
            source, target = (builder.inttoptr(address, kind) for address in args)
            builder.store(builder.load(source, align=1), target, align=1)
            return context.get_dummy_value()

        return types.void(source, target), emit

    return copy


_copy_32, _copy_8, _copy_4, _copy_1 = (_copying(size) for size in (32, 8, 4, 1))


@compiled
def _address(pieces, piece, stop, row, width):
    """The address of a row, in one of the tensors from `piece` on."""
    while piece + 1 < stop and row >= pieces[piece + 1, FIRST_ROW]:
        piece += 1
    return pieces[piece, ADDRESS] + (row - pieces[piece, FIRST_ROW]) * width


@compiled
def gather_kernel(lo, hi, columns, pieces, wrong):
    """Copies all rows that begin in bytes lo to hi of what is to be written.

    Notes in `wrong` if a row is not there.
    """
    for c in range(columns.shape[0]):
        width, rows, before = columns[c, WIDTH], columns[c, ROWS], columns[c, FIRST]
        first = max(int64(0), (lo - before + width - 1) // width)
        stop = min(columns[c, COUNT], (hi - before + width - 1) // width)
        piece, out = columns[c, PIECE], columns[c, OUT]
        last = piece + columns[c, PIECES]
        index, ahead = longs(columns[c, INDEX]), max(1, _AHEAD // width)
        to = longs(columns[c, TO])
        chosen, placed = columns[c, INDEX] != 0, columns[c, TO] != 0
        for i in range(first, stop):
            if chosen:
                row = index[min(i + ahead, stop - 1)]
                soon = _address(pieces, piece, last, row, width)
                for byte in range(0, width, _LINE):
                    prefetch_address(soon + byte)
            row = index[i] if chosen else i
            if row < 0 or row >= rows:
                wrong[0] |= row >= rows or columns[c, GAPS] == 0
                continue
            source = _address(pieces, piece, last, row, width)
            target = out + i * width
            if placed:
                target = out + to[i] * width
            end = target + width
            while target + 128 <= end:
                for part in range(0, 128, 32):
                    _copy_32(source + part, target + part)
                source, target = source + 128, target + 128
            while target + 32 <= end:
                _copy_32(source, target)
                source, target = source + 32, target + 32
            while target + 8 <= end:
                _copy_8(source, target)
                source, target = source + 8, target + 8
            while target + 4 <= end:
                _copy_4(source, target)
                source, target = source + 4, target + 4
            while target < end:
                _copy_1(source, target)
                source, target = source + 1, target + 1


SHARE_BYTES = 1 << 16  # bytes of features, fewer are not worth another thread


def gather(moves: Moves) -> list[Tensor]:
    """Rows of all columns, with memory asked ahead of time; see `torch.gather`."""
    table, total = [], 0
    pieces: list[tuple[int, int]] = []  # address, number of the first row
    for move in moves.columns:
        index, out = move.row, move.out
        known, first = len(pieces), 0
        for some in move.values:
            pieces.append((some.data_ptr(), first))
            first += some.shape[0]
        count = first if index is None else index.numel()
        size = count * (out.nbytes // max(out.shape[0], 1))
        if size:
            places = (0 if x is None else x.data_ptr() for x in (index, move.to))
            about = known, len(move.values), first, size // count, *places, count
            table.append((*about, move.gaps, out.data_ptr(), total))
            total += size
    outs = [move.out for move in moves.columns]
    if not table:
        return outs
    wrong = np.zeros(1, np.bool_)
    args = np.array(table, np.int64), np.array(pieces, np.int64), wrong
    parts = max(1, min(2 * torch.get_num_threads(), total // SHARE_BYTES))
    bounds = [total * part // parts for part in range(parts + 1)]
    calls = [partial(gather_kernel, *part, *args) for part in pairwise(bounds)]
    run([partial(held, moves, call) for call in calls])
    if wrong[0]:
        raise IndexError("an index is out of range")  # `gather_rows` words it
    return outs
