"""Who has reached a node first: cells that the smallest position wins.

A cell belongs to a node, and what earlier batches have left there is larger than all
positions of this one. Where trees are apart, it belongs to a (tree, node) pair that is
found in an open-addressing hash table: all codes first, then all positions. Which slot
a code gets may depend on who comes first; the smallest position in it does not.
"""

import triton
import triton.language as tl

from gttf_sampler._backends import triton_table as tt
from gttf_sampler._backends.triton_words import any_of, longs, mix

SPARE = tl.constexpr(256)  # slots behind the table, for lanes that have no code
EMPTY = tl.constexpr((1 << 63) - 1)  # as a code, and as a position


@triton.jit
def _top(wide):
    """The largest number that a cell can hold."""
    return tl.where(wide != 0, 0x7FFFFFFFFFFFFFFF, 0x7FFFFFFF)


@triton.jit
def find_slot(keys, slots, code, lane, mask):
    """The slot of every code, which is entered where it is new."""
    last = slots - 1
    slot = mix(code.to(tl.uint64)).to(tl.int64) & last
    slot = tl.where(mask, slot, slots + (lane & (SPARE - 1)))
    waiting = mask
    empty = tl.zeros_like(code) + EMPTY
    while any_of(waiting):
        found = tl.atomic_cas(keys + slot, empty, code)
        waiting = waiting & (found != EMPTY) & (found != code)
        slot = tl.where(waiting, (slot + 1) & last, slot)
    return slot


@triton.jit
def claim(kind, node, code, position, mask, slots, APART: tl.constexpr):
    """Claims nodes of a type for positions; returns the place of each one's cell."""
    cells, wide = tl.load(kind + tt.CELLS), tl.load(kind + tt.WIDE_CELLS)
    if APART:
        place = find_slot(longs(cells), slots, code, position, mask)
        tl.atomic_min(longs(cells) + slots + SPARE + place, position, mask=mask)
    else:
        place = node
        value = position + (_top(wide) + tl.load(kind + tt.FLOOR))
        if wide != 0:
            tl.atomic_min(longs(cells) + place, value, mask=mask)
        else:
            narrow = cells.to(tl.pointer_type(tl.int32))
            tl.atomic_min(narrow + place, value.to(tl.int32), mask=mask)
    return place


@triton.jit
def claimed(kind, place, mask, slots, APART: tl.constexpr):
    """The smallest position that has claimed a cell."""
    cells, wide = tl.load(kind + tt.CELLS), tl.load(kind + tt.WIDE_CELLS)
    if APART:
        found = tl.load(longs(cells) + slots + SPARE + place, mask=mask, other=0)
    else:
        floor = _top(wide) + tl.load(kind + tt.FLOOR)
        if wide != 0:
            found = tl.load(longs(cells) + place, mask=mask, other=0) - floor
        else:
            narrow = cells.to(tl.pointer_type(tl.int32))
            found = tl.load(narrow + place, mask=mask, other=0).to(tl.int64) - floor
    return found


@triton.jit
def release(kind, place, mask):
    """Leaves cells as if nobody had ever claimed them."""
    cells, wide = tl.load(kind + tt.CELLS), tl.load(kind + tt.WIDE_CELLS)
    top = tl.zeros_like(place) + _top(wide)
    if wide != 0:
        tl.store(longs(cells) + place, top, mask=mask)
    else:
        narrow = cells.to(tl.pointer_type(tl.int32))
        tl.store(narrow + place, top.to(tl.int32), mask=mask)


@triton.jit(do_not_specialize=["old_slots", "slots"])
def rehash(old, old_slots, keys, slots, B: tl.constexpr):
    """Moves the entries of a hash table into a larger one."""
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    code = tl.load(old + at, mask=at < old_slots, other=EMPTY)
    mask = code != EMPTY
    value = tl.load(old + old_slots + SPARE + at, mask=mask, other=0)
    place = find_slot(keys, slots.to(tl.int64), code, at, mask)
    tl.store(keys + slots + SPARE + place, value, mask=mask)
