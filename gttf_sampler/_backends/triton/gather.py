"""The kernel that gathers rows of features: all columns in one launch, by their bytes.

A row of `columns` holds the address of the values, how many rows there are, the units
of a row and the bytes of a unit, and how many lanes a row has, as a power of two; then
the address of the index, how many rows it asks for, and where they go; then, if some
rows have copies that are nearer, which copy each has, the copies, and a count of them.

A program moves some whole rows. The lanes of a warp stand side by side, and begin at a
line of 128 bytes, be it before the row: what comes over the bus, if the values are in
memory of the host, comes in lines, and none of them is asked for twice.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gttf_sampler._backends.torch import gather as reference
from gttf_sampler._backends.torch.gather import Moves
from gttf_sampler._backends.triton.launch import blocks, launch
from gttf_sampler._backends.triton.record import send_words
from gttf_sampler._backends.triton.rng import longs

VALUES, ROWS, UNITS, BYTES, SHIFT = map(tl.constexpr, range(5))
INDEX, COUNT, OUT, SLOT, COPIES, HITS, COLUMNS = map(tl.constexpr, range(5, 12))


LANES = tl.constexpr(1024)  # of a program
LINE = tl.constexpr(128)  # bytes that come at once


@triton.jit
def _move(own, unit):
    """Copies a block of rows, a unit per lane at a time; a unit is of some type."""
    size: tl.constexpr = unit.primitive_bitwidth // 8
    units, shift = tl.load(own + UNITS), tl.load(own + SHIFT).to(tl.int32)
    lane = tl.arange(0, LANES)
    here = tl.program_id(0).to(tl.int64) * (LANES >> shift) + (lane >> shift)
    column = lane & ((1 << shift) - 1)
    mask = here < tl.load(own + COUNT)
    row = tl.load(longs(tl.load(own + INDEX)) + here, mask=mask, other=0)
    inside = (row >= 0) & (row < tl.load(own + ROWS))
    tl.device_assert(inside, "an index is out of range", mask=mask)
    mask = mask & inside
    width, extra = units.to(tl.int32), 0
    source = tl.load(own + VALUES) + row * (units * size)
    slots = tl.load(own + SLOT)
    if slots != 0:
        which = slots.to(tl.pointer_type(tl.int32), bitcast=True)
        slot = tl.load(which + row, mask=mask, other=-1)
        copy = tl.load(own + COPIES) + slot.to(tl.int64) * (units * size)
        source = tl.where(slot >= 0, copy, source)
        found = tl.sum(((slot >= 0) & (column == 0)).to(tl.int64), 0)
        tl.atomic_add(longs(tl.load(own + HITS)), found, sem="relaxed")
    if units * size >= LINE:
        column -= ((source & (LINE - 1)) // size).to(tl.int32)
        extra += LINE // size - 1
    source = source.to(tl.pointer_type(unit), bitcast=True)
    out = tl.load(own + OUT).to(tl.pointer_type(unit)) + here * units
    for first in range(0, width + extra, 1 << shift):
        at = first + column
        some = mask & (at >= 0) & (at < width)
        tl.store(out + at, tl.load(source + at, mask=some, other=0), mask=some)


@triton.jit
def gather_rows(columns):
    """A block of rows of one column; a row that is not there stops the program."""
    own = columns + tl.program_id(1) * COLUMNS
    size = tl.load(own + BYTES)
    if size == 8:
        _move(own, tl.int64)
    elif size == 4:
        _move(own, tl.int32)
    elif size == 2:
        _move(own, tl.int16)
    else:
        _move(own, tl.int8)


def gather(moves: Moves) -> list[Tensor]:
    """Rows of all columns in one launch; see `torch.gather`.

    An index that is out of range stops the device, as torch's own kernels do.
    """
    words, most = [], 0
    for move in moves.columns:
        if len(move.values) != 1 or move.row is None or not move.plain:
            reference.gather(Moves(moves.device, [move]))
            continue
        (values,), index, out = move.values, move.row, move.out
        if not out.numel():
            continue
        if moves.device.type == "cpu":  # the interpreter has no way to stop
            low, high = index.aminmax()
            if low < 0 or high >= values.shape[0]:
                raise IndexError("an index is out of range")  # `gather_rows` words it
        size = values.nbytes // values.shape[0]  # of a row
        near = (0, 0, 0)
        if move.cached is not None:
            slot, copies, hits = (part.data_ptr() for part in move.cached)
            near = slot, copies, hits
        places = values.data_ptr() | out.data_ptr() | near[1] | size
        unit = next(unit for unit in (8, 4, 2, 1) if places % unit == 0)
        ends = index.data_ptr(), index.numel(), out.data_ptr()
        shift = (min(size, LINE.value) // unit - 1).bit_length()
        words += [
            values.data_ptr(),
            values.shape[0],
            size // unit,
            unit,
            shift,
            *ends,
            *near,
        ]
        most = max(most, blocks(index.numel(), LANES.value >> shift))
    if words:
        columns = torch.empty(len(words), dtype=torch.int64, device=moves.device)
        send_words(columns, 0, words)
        grid = most, len(words) // COLUMNS.value
        launch(gather_rows, grid, columns, debug=True, sanitize_overflow=False)
    return [move.out for move in moves.columns]
