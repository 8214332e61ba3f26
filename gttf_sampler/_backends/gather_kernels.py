"""The compiled loop that gathers rows of features, of many tensors in one call.

A column is a row of `columns`: which tensors its rows are in, counted end to end, the
addresses of the index into them, of the places that rows go to and of what is to be
written, with their sizes; 0 stands for an index that counts from zero. A tensor is a
row of `pieces`: its address, and the number of its first row. Threads share the bytes
of all columns.
"""

from llvmlite import ir
from numba import int64, types
from numba.extending import intrinsic

from gttf_sampler._backends.hop_kernels import longs
from gttf_sampler._backends.word_kernels import compiled

PIECE, PIECES, ROWS, WIDTH, INDEX, TO, COUNT, GAPS, OUT, FIRST, COLUMNS = range(11)
ADDRESS, FIRST_ROW = range(2)

_LINE = 64  # bytes that memory hands out at once
_AHEAD = 1 << 12  # bytes that are asked for ahead, as the hardware cannot guess rows


def _copying(size):
    """What copies so many bytes from one address to another."""
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


@intrinsic
def _ask(_, address):
    """Asks memory for what is at an address, and does not wait for it."""

    def emit(context, builder, signature, args):
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        call = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        where = builder.inttoptr(args[0], byte)
        builder.call(call, [where, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(address), emit


@compiled
def _address(pieces, piece, stop, row, width):
    """Where a row is, in one of the tensors from `piece` on."""
    while piece + 1 < stop and row >= pieces[piece + 1, FIRST_ROW]:
        piece += 1
    return pieces[piece, ADDRESS] + (row - pieces[piece, FIRST_ROW]) * width


@compiled
def gather(lo, hi, columns, pieces, wrong):
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
                    _ask(soon + byte)
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
