"""The compiled loop that gathers rows of features, of many tensors in one call.

A column is a row of `columns`: the addresses of one tensor, of the index into it and of
what is to be written, with their sizes. Threads share the bytes of all of them.
"""

from llvmlite import ir
from numba import int64, types
from numba.extending import intrinsic

from gttf_sampler._backends.kernels import _compiled
from gttf_sampler._backends.rooted_kernels import _longs

VALUES, ROWS, WIDTH, INDEX, COUNT, OUT, FIRST, COLUMNS = range(8)

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


@_compiled
def gather(lo, hi, columns, wrong):
    """Copies all rows that begin in bytes lo to hi of what is to be written.

    Notes in `wrong` if a row is not there.
    """
    for c in range(columns.shape[0]):
        width, rows, before = columns[c, WIDTH], columns[c, ROWS], columns[c, FIRST]
        first = max(int64(0), (lo - before + width - 1) // width)
        stop = min(columns[c, COUNT], (hi - before + width - 1) // width)
        values, out = columns[c, VALUES], columns[c, OUT]
        index, ahead = _longs(columns[c, INDEX]), max(1, _AHEAD // width)
        for i in range(first, stop):
            soon = values + index[min(i + ahead, stop - 1)] * width
            for byte in range(0, width, _LINE):
                _ask(soon + byte)
            if index[i] < 0 or index[i] >= rows:
                wrong[0] = True
                continue
            source, target = values + index[i] * width, out + i * width
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
