"""Words and searches of the Triton kernels: the bits of `gttf_sampler.random`.

Triton has unsigned words and the upper half of a product, so that both `below` and
`below_wide` are one instruction here. Arrays whose type is data, not known when a
kernel is compiled, are read by their address.
"""

import triton
import triton.language as tl

from gttf_sampler.random import GOLDEN, MULTIPLIERS, WORD

_GOLDEN = tl.constexpr(GOLDEN & WORD)
_FIRST, _SECOND = (tl.constexpr(multiplier & WORD) for multiplier in MULTIPLIERS)


@triton.jit
def mix(word):
    """SplitMix64's finaliser of unsigned words."""
    word = (word ^ (word >> 30)) * _FIRST
    word = (word ^ (word >> 27)) * _SECOND
    return word ^ (word >> 31)


@triton.jit
def as_key(key):
    """A key as an unsigned word, whether it is a number or is on the device."""
    found = key
    if key.dtype.is_ptr():
        found = tl.load(key)
    return found.to(tl.uint64)


@triton.jit
def fold(key, number):
    """The key of sub-task `number`."""
    return mix(key + (number + 1).to(tl.uint64) * _GOLDEN)


@triton.jit
def streams(key, slot):
    """The stream of every slot."""
    return mix(key + slot.to(tl.uint64) * _GOLDEN)


@triton.jit
def bits(stream, draw):
    """64 random bits for draw number `draw`."""
    return mix(stream + (draw + 1).to(tl.uint64) * _GOLDEN)


@triton.jit
def below(word, bound):
    """⌊word · bound / 2⁶⁴⌋, for 0 <= bound < 2⁶³."""
    return tl.umulhi(word, bound.to(tl.uint64)).to(tl.int64)


@triton.jit
def longs(address):
    """A pointer to int64 from an address."""
    return address.to(tl.pointer_type(tl.int64))


@triton.jit
def read_ids(address, wide, at, mask):
    """Ids of int32, or of int64 if `wide`, as int64; 0 where masked off."""
    if wide != 0:
        found = tl.load(address.to(tl.pointer_type(tl.int64)) + at, mask=mask, other=0)
    else:
        narrow = address.to(tl.pointer_type(tl.int32))
        found = tl.load(narrow + at, mask=mask, other=0).to(tl.int64)
    return found


@triton.jit
def bisect(values, low, high, bound):
    """The first position in [low, high) whose value is > bound, else high >= low."""
    size = high - low
    while any_of(size > 0):
        half = size >> 1
        middle = low + half
        value = tl.load(values + middle, mask=size > 0, other=0)
        above = (size > 0) & (value <= bound)
        low = tl.where(above, middle + 1, low)
        size = tl.where(above, size - half - 1, half)
    return low


@triton.jit
def any_of(mask):
    """True if any lane of a block of one or two dimensions holds."""
    found = mask.to(tl.int32)
    if len(found.shape) == 2:
        found = tl.max(found, 1)
    return tl.max(found, 0) > 0
