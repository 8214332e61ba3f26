"""The loops over the numbers of vectors, written as vector instructions.

`dot` multiplies two vectors, `leaky_dot` what a leaky ReLU makes of two of them with a
third; `pull` gives a source and its targets what each pair owes
the other. LLVM would have to prove that the arrays do not overlap, and to reorder sums;
here the order is written down. Every number of a gradient is a chain of multiply-adds
in the order of the pairs.

Tables hold float32 or float64, or what is widened when loaded: bfloat16 as uint16,
float16 as int16, which LLVM is told is a half, and int8.
"""

from functools import partial

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_WORD, _LANE, _SINGLE = ir.IntType(64), ir.IntType(32), ir.FloatType()
_PAIR, _BYTE, _HALF = ir.IntType(16), ir.IntType(8), ir.HalfType()
_ALIGNED = {_SINGLE: 4, _PAIR: 2, _BYTE: 1}
_UNROLLED = 4  # vectors in flight: as long as one waits, the others go on


def _kind(pointer):
    """The numbers that are computed with, and how many make a vector of 64 bytes."""
    stored = pointer.type.pointee
    return (ir.DoubleType(), 8) if isinstance(stored, ir.DoubleType) else (_SINGLE, 16)


def _array(context, builder, signature, args, number):
    return _pointer(context, builder, signature.args[number], args[number])


def _pointer(context, builder, kind, value):
    """A pointer to the numbers of an array; those of int16 are float16's."""
    found = context.make_array(kind)(context, builder, value).data
    half = kind.dtype == types.int16
    return builder.bitcast(found, _HALF.as_pointer()) if half else found


def _unpacked(context, builder, signature, args, number):
    """The values of an argument that is a tuple; of arrays, pointers to their cells."""
    kinds = signature.args[number].types
    values = cgutils.unpack_tuple(builder, args[number])
    return [
        _pointer(context, builder, kind, value)
        if isinstance(kind, types.Array)
        else value
        for kind, value in zip(kinds, values, strict=True)
    ]


def _place(builder, pointer, index, lanes):
    where = builder.gep(pointer, [index])
    if lanes == 1:
        return where
    kind = ir.VectorType(pointer.type.pointee, lanes)
    return builder.bitcast(where, kind.as_pointer())


def _load(builder, pointer, index, lanes):
    """Numbers from `index` on, as float32 or float64."""
    stored = pointer.type.pointee
    if stored == _HALF:
        pointer = builder.bitcast(pointer, _PAIR.as_pointer())
    found = builder.load(_place(builder, pointer, index, lanes))
    found.align = _ALIGNED.get(pointer.type.pointee, 8)
    wide, number = _lanes(_LANE, lanes), _lanes(_SINGLE, lanes)
    if stored == _BYTE:
        return builder.sitofp(builder.sext(found, wide), number)
    if stored == _PAIR:  # of bfloat16: the upper half of a float32
        upper = builder.shl(builder.zext(found, wide), _filled(wide, 16))
        return builder.bitcast(upper, number)
    return _from_half(builder, found, wide, number) if stored == _HALF else found


def _from_half(builder, bits, wide, number):
    """The float32 of each float16, by its bits: not every processor can.

    An exponent of 5 bits becomes one of 8 by an offset, and twice that for infinity and
    NaN; what has no leading 1 is found as the difference to a number that has.
    """
    bits = builder.zext(bits, wide)
    sign = builder.shl(builder.and_(bits, _filled(wide, 0x8000)), _filled(wide, 16))
    size = builder.shl(builder.and_(bits, _filled(wide, 0x7FFF)), _filled(wide, 13))
    offset, least = _filled(wide, 112 << 23), _filled(wide, 113 << 23)
    usual = builder.add(size, offset)
    endless = builder.icmp_unsigned(">=", size, _filled(wide, 31 << 23))
    usual = builder.select(endless, builder.add(usual, offset), usual)
    small = builder.fsub(
        builder.bitcast(builder.add(size, least), number),
        builder.bitcast(least, number),
    )
    tiny = builder.icmp_unsigned("<", size, _filled(wide, 1 << 23))
    found = builder.select(tiny, builder.bitcast(small, wide), usual)
    return builder.bitcast(builder.or_(found, sign), number)


def _lanes(number, lanes):
    """The type of so many numbers."""
    return ir.VectorType(number, lanes) if lanes > 1 else number


def _store(builder, value, pointer, index, lanes):
    kept = builder.store(value, _place(builder, pointer, index, lanes))
    kept.align = 4 if pointer.type.pointee == _SINGLE else 8


def _multiply_add(builder, left, right, total):
    """The sum of a product and `total`, rounded once where the processor can."""
    kind = left.type
    lanes = f"v{kind.count}" if isinstance(kind, ir.VectorType) else ""
    number = kind.element if lanes else kind
    name = f"llvm.fmuladd.{lanes}{'f32' if number == _SINGLE else 'f64'}"
    signature = ir.FunctionType(kind, [kind] * 3)
    call = cgutils.get_or_insert_function(builder.module, signature, name)
    return builder.call(call, [left, right, total])


def _spread(builder, value, lanes):
    """A vector of one number."""
    if lanes == 1:
        return value
    kind = ir.VectorType(value.type, lanes)
    nothing, zero = ir.Constant(kind, ir.Undefined), ir.Constant(_LANE, 0)
    first = builder.insert_element(nothing, value, zero)
    mask = ir.Constant(ir.VectorType(_LANE, lanes), [0] * lanes)
    return builder.shuffle_vector(first, nothing, mask)


def _sum(builder, vector):
    """The numbers of a vector, added up half by half."""
    lanes, number = vector.type.count, vector.type.element
    while lanes > 1:
        nothing = ir.Constant(ir.VectorType(number, lanes), ir.Undefined)
        lanes //= 2
        kind = ir.VectorType(_LANE, lanes)
        halves = (
            ir.Constant(kind, list(range(start, start + lanes))) for start in (0, lanes)
        )
        vector = builder.fadd(
            *(builder.shuffle_vector(vector, nothing, half) for half in halves)
        )
    return builder.extract_element(vector, ir.Constant(_LANE, 0))


def _in_parts(builder, size, lanes, body):
    """body(start, vectors, lanes) over [0, size): many vectors, one, single numbers."""
    begin = _WORD(0)
    for vectors, width in ((_UNROLLED, lanes), (1, lanes), (1, 1)):
        step = vectors * width
        end = builder.and_(size, _WORD(-step))
        steps = begin, end, _WORD(step)
        with cgutils.for_range_slice(builder, *steps, intp=_WORD) as (start, _):
            body(start, vectors, width)
        begin = end


def _filled(kind, value):
    """A constant of one number, as a vector where `kind` is one."""
    many = isinstance(kind, ir.VectorType)
    return ir.Constant(kind, [value] * kind.count if many else value)


def _leaky(builder, value, slope):
    """(leaky ReLU of a vector, its derivative): 1 above 0, `slope` elsewhere."""
    above = builder.fcmp_ordered(">", value, _filled(value.type, 0.0))
    by = builder.select(above, _filled(value.type, 1.0), slope)
    return builder.fmul(value, by), by


def _dot(builder, tables, places, size, factors):
    """Adds up `size` products of factors, made of what stands in tables at places."""
    number, lanes = _kind(tables[-1])
    kind = ir.VectorType(number, lanes)
    sums = [cgutils.alloca_once(builder, kind) for _ in range(_UNROLLED)]
    rest = cgutils.alloca_once(builder, number)
    for each in (*sums, rest):
        builder.store(_filled(each.type.pointee, 0.0), each)

    def body(start, vectors, width):
        for turn in range(vectors):
            here = builder.add(start, _WORD(turn * width))
            read = [
                _load(builder, table, builder.add(place, here), width)
                for table, place in zip(tables, places, strict=True)
            ]
            total = rest if width == 1 else sums[turn]
            left, right = factors(*read)
            value = _multiply_add(builder, left, right, builder.load(total))
            builder.store(value, total)

    _in_parts(builder, size, lanes, body)
    a, b, c, d = (builder.load(each) for each in sums)
    whole = builder.fadd(builder.fadd(a, b), builder.fadd(c, d))
    return builder.fadd(_sum(builder, whole), builder.load(rest))


@intrinsic
def dot(_, left, at, right, beside, size):
    """⟨left[at:], right[beside:]⟩ of `size` numbers."""

    def emit(context, builder, signature, args):
        tables = [_array(context, builder, signature, args, n) for n in (0, 2)]
        same = lambda *factors: factors  # noqa: E731
        return _dot(builder, tables, (args[1], args[3]), args[4], same)

    number = types.float64 if left.dtype == types.float64 else types.float32
    word = types.uint64
    return number(left, word, right, word, word), emit


@intrinsic
def leaky_dot(_, tables, places, slope, size):
    """⟨leaky ReLU of left + right, by⟩ of `size` numbers, of tables left, right, by."""

    def emit(context, builder, signature, args):
        arrays = _unpacked(context, builder, signature, args, 0)

        def factors(left, right, by):
            value, lanes = builder.fadd(left, right), 1
            if isinstance(value.type, ir.VectorType):
                lanes = value.type.count
            value, _ = _leaky(builder, value, _spread(builder, args[2], lanes))
            return value, by

        at = cgutils.unpack_tuple(builder, args[1])
        return _dot(builder, arrays, at, args[3], factors)

    number = tables[2].dtype
    return number(tables, places, slope, types.uint64), emit


@intrinsic
def pull(_, tables, rows, nodes, places, coefficient, first, size, targets, gradients):
    """Adds to gradients what one source and its targets owe each other.

    `rows` is where the source begins in the left table, and its gradient among the
    gradients; so many `targets` are in `nodes`, and their pairs in `coefficient`, from
    `first` on; `places` [n] is which row of the gradients belongs to a target.
    """

    def emit(context, builder, signature, args):
        pair = partial(_unpacked, context, builder, signature, args)
        (left, right), (source, home) = pair(0), pair(1)
        node, place, weight = (
            _array(context, builder, signature, args, number) for number in (2, 3, 4)
        )
        at, beside = pair(5)
        size, targets = args[6], args[7]
        mine, theirs = pair(8)
        number, lanes = _kind(mine)

        def body(start, vectors, width):
            kind = ir.VectorType(number, width) if width > 1 else number
            begins = [
                builder.add(start, _WORD(turn * width)) for turn in range(vectors)
            ]
            own = [
                _load(builder, left, builder.add(source, begin), width)
                for begin in begins
            ]
            sums = [cgutils.alloca_once(builder, kind) for _ in begins]
            for total in sums:
                builder.store(_filled(kind, 0.0), total)
            with cgutils.for_range(builder, targets, intp=_WORD) as loop:
                name = builder.load(builder.gep(node, [builder.add(at, loop.index)]))
                row = builder.sext(builder.load(builder.gep(place, [name])), _WORD)
                name, row = builder.mul(name, size), builder.mul(row, size)
                here = builder.gep(weight, [builder.add(beside, loop.index)])
                factor = _spread(builder, builder.load(here), width)
                for begin, vector, total in zip(begins, own, sums, strict=True):
                    other = _load(builder, right, builder.add(name, begin), width)
                    value = _multiply_add(builder, factor, other, builder.load(total))
                    builder.store(value, total)
                    there = builder.add(row, begin)
                    value = _load(builder, theirs, there, width)
                    value = _multiply_add(builder, factor, vector, value)
                    _store(builder, value, theirs, there, width)
            for begin, total in zip(begins, sums, strict=True):
                there = builder.add(home, begin)
                value = _load(builder, mine, there, width)
                value = builder.fadd(value, builder.load(total))
                _store(builder, value, mine, there, width)

        _in_parts(builder, size, lanes, body)
        return context.get_dummy_value()

    given = tables, rows, nodes, places, coefficient, first, size, targets, gradients
    return types.void(*given), emit
