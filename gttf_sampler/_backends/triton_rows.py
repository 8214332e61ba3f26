"""The kernel that gathers rows of features: all columns in one launch, by their bytes.

A row of `columns` holds the address of the values, how many rows there are, the units
of a row and the bytes of a unit, then the address of the index, how many rows it asks
for, and where they go.
"""

import triton
import triton.language as tl

from gttf_sampler._backends.triton_words import longs

VALUES = tl.constexpr(0)
ROWS = tl.constexpr(1)
UNITS = tl.constexpr(2)
BYTES = tl.constexpr(3)
INDEX = tl.constexpr(4)
COUNT = tl.constexpr(5)
OUT = tl.constexpr(6)
COLUMNS = tl.constexpr(7)


@triton.jit
def _move(own, source, here, mask, unit):
    """Copies units of a type from where they are to where they belong."""
    values = tl.load(own + VALUES).to(tl.pointer_type(unit))
    out = tl.load(own + OUT).to(tl.pointer_type(unit))
    tl.store(out + here, tl.load(values + source, mask=mask, other=0), mask=mask)


@triton.jit
def gather_rows(columns, B: tl.constexpr):
    """A block of units of one column; a row that is not there stops the program."""
    own = columns + tl.program_id(1) * COLUMNS
    here = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    units, size = tl.load(own + UNITS), tl.load(own + BYTES)
    mask = here < tl.load(own + COUNT) * units
    row = tl.load(longs(tl.load(own + INDEX)) + here // units, mask=mask, other=0)
    inside = (row >= 0) & (row < tl.load(own + ROWS))
    tl.device_assert(inside, "an index is out of range", mask=mask)
    mask = mask & inside
    source = row * units + here % units
    if size == 8:
        _move(own, source, here, mask, tl.int64)
    elif size == 4:
        _move(own, source, here, mask, tl.int32)
    elif size == 2:
        _move(own, source, here, mask, tl.int16)
    else:
        _move(own, source, here, mask, tl.int8)
