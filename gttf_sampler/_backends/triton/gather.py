"""The kernel that gathers rows of features: all columns in one launch, by their bytes.

A row of `columns` holds the address of the values, how many rows there are, the units
of a row and the bytes of a unit, then the address of the index, how many rows it asks
for, and where they go.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gttf_sampler._backends.torch import gather as reference
from gttf_sampler._backends.torch.gather import Moves
from gttf_sampler._backends.triton import launch as how
from gttf_sampler._backends.triton.launch import blocks, launch
from gttf_sampler._backends.triton.record import send_words
from gttf_sampler._backends.triton.rng import longs

VALUES, ROWS, UNITS, BYTES = map(tl.constexpr, range(4))
INDEX, COUNT, OUT, COLUMNS = map(tl.constexpr, range(4, 8))


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


def gather(moves: Moves) -> list[Tensor]:
    """Rows of all columns in one launch; see `torch.gather`.

    An index that is out of range stops the device, as torch's own kernels do.
    """
    words, longest = [], 0
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
        places = values.data_ptr() | out.data_ptr() | size
        unit = next(unit for unit in (8, 4, 2, 1) if places % unit == 0)
        ends = index.data_ptr(), index.numel(), out.data_ptr()
        words += [values.data_ptr(), values.shape[0], size // unit, unit, *ends]
        longest = max(longest, out.nbytes // unit)
    if words:
        columns = torch.empty(len(words), dtype=torch.int64, device=moves.device)
        send_words(columns, 0, words)
        grid = blocks(longest, how.UNITS), len(words) // COLUMNS.value
        launch(
            gather_rows, grid, columns, B=how.UNITS, debug=True, sanitize_overflow=False
        )
    return [move.out for move in moves.columns]
