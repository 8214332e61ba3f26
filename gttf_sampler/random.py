"""The counter-based generator: key → bits, identical on every backend and device.

    bits(key, slot, draw) = mix(mix(key + slot·γ) + (draw + 1)·γ)

`mix` is the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014; the variant
Stafford numbered 13) and γ its golden-ratio increment, so every slot owns a SplitMix64
stream that starts at a hashed position. A value depends on its coordinates alone, never
on the order in which values are asked for: that is what makes a batch the same on one
thread or on sixty-four, on a CPU or on a GPU.

Torch has no unsigned arithmetic, so 64-bit words travel as int64: products wrap, and a
logical shift is an arithmetic one with the sign bits masked off.

Every family of draws has keys of its own: with one seed for all, walker 1 of a forest
and node 1 of a rooted adjacency must not read the same words.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from gttf_sampler._compat import is_compiling

Randomness = torch.Generator | int | Tensor | None
Key = int | Tensor  # unsigned, or int64 [] on an accelerator
WORD = (1 << 64) - 1
WORDS = -(1 << 63), (1 << 63) - 1  # as int64, but for the last of them


def signed(word: int) -> int:
    """The int64 that has the bits of an unsigned 64-bit `word`."""
    word &= WORD
    return word - (1 << 64) if word >> 63 else word


GOLDEN = signed(0x9E3779B97F4A7C15)
MULTIPLIERS = signed(0xBF58476D1CE4E5B9), signed(0x94D049BB133111EB)
LOW32 = 0xFFFFFFFF

# families of draws; see `new_key`
FOREST, ROOTED, NEGATIVE, SPLIT, RANK, COMMUNITY, BATCH, WALK, FIT, DROPOUT = range(10)


def new_key(generator: Randomness, device: torch.device, family: int) -> Key:
    """A key for one family of draws on `device`.

    None means torch's default CPU generator, whatever device the graph is on, so that
    `torch.manual_seed` gives one batch everywhere. An integer counts in full, all of
    its bits, and so does an int64 [] that is on the device already: the key then stays
    there, as with a generator on the graph's own accelerator. A compiler can neither
    see a number nor the default generator: for it torch draws the key on the device.
    """
    compiling = is_compiling()
    if isinstance(generator, Tensor):
        if compiling or device.type != "cpu":
            return fold(mix(generator), family)
        generator = int(generator)
    if isinstance(generator, int):
        return fold(_mix_integer(generator), family)
    if generator is None and compiling:
        return fold(torch.randint(*WORDS, (), device=device), family)
    if generator is None or generator.device.type == "cpu":
        return fold(draw(generator), family)
    key = torch.randint(*WORDS, (), generator=generator, device=generator.device)
    return fold(key if key.device == device else int(key) & WORD, family)


def draw(generator: torch.Generator | None) -> int:
    """A number from a CPU generator, by default the one of `torch.manual_seed`.

    It is taken as torch's DataLoader takes its base seed. Of a generator's seed torch
    uses 32 bits; here all 64 count.
    """
    source = torch.default_generator if generator is None else generator
    number = torch.empty((), dtype=torch.int64, device="cpu").random_(generator=source)
    return (int(number) + _mix_number(source.initial_seed())) & WORD


def mix(word: Tensor) -> Tensor:
    """SplitMix64's finaliser: a bijection of 64-bit words that hides their order."""
    moved = (word >> 30).bitwise_and_((1 << 34) - 1)
    word = word.bitwise_xor(moved).mul_(MULTIPLIERS[0])
    # new memory costs more than all the arithmetic: `moved` is used again
    torch.bitwise_right_shift(word, 27, out=moved).bitwise_and_((1 << 37) - 1)
    word.bitwise_xor_(moved).mul_(MULTIPLIERS[1])
    torch.bitwise_right_shift(word, 31, out=moved).bitwise_and_((1 << 33) - 1)
    return word.bitwise_xor_(moved)


def _mix_number(word: int) -> int:
    """`mix` of one Python number, taken and given as unsigned."""
    word &= WORD
    for shift, multiplier in zip((30, 27), MULTIPLIERS, strict=True):
        word = ((word ^ word >> shift) * multiplier) & WORD
    return word ^ word >> 31


def _mix_integer(seed: int) -> int:
    """64 bits from an integer of any size; those of one word are mixed once."""
    key, rest = _mix_number(seed), seed >> 64
    while rest not in (0, -1):
        key, rest = _mix_number(key + GOLDEN + rest), rest >> 64
    return key


def fold(key: Key, number: int) -> Key:
    """The key of sub-task `number` (a hop, a depth, a relation) of `key`."""
    if isinstance(key, int):
        return _mix_number(key + GOLDEN * (number + 1))
    return mix(key + signed(GOLDEN * (number + 1)))


def folds(key: Key, count: int) -> Sequence[Key]:
    """`fold` for the numbers below `count`; on an accelerator, all at once."""
    if isinstance(key, int):
        return [fold(key, number) for number in range(count)]
    return bits(key, torch.arange(count, device=key.device)).unbind()


def grid(key: Key, rows: int, columns: int) -> Sequence[Sequence[Key]]:
    """`fold` for two numbers in turn, a hop and a relation; see `folds`."""
    if isinstance(key, int):
        return [folds(own, columns) for own in folds(key, rows)]
    row, column = (torch.arange(n, device=key.device) for n in (rows, columns))
    found = bits(bits(key, row)[:, None], column)
    return [own.unbind() for own in found]


def stream(key: Key, slot: Tensor) -> Tensor:
    """The stream of every slot, [w]: where the draws of one walker or node start."""
    return mix((slot * GOLDEN).add_(signed(key) if isinstance(key, int) else key))


def bits(stream: Tensor, draw: int | Tensor) -> Tensor:
    """64 random bits for draw number `draw` of each stream (the two broadcast)."""
    if isinstance(draw, int):
        return mix(stream + signed(GOLDEN * (draw + 1)))
    return mix(torch.add(stream, draw + 1, alpha=GOLDEN))


def fraction(word: Tensor) -> Tensor:
    """The first 53 bits of every word as a number of [0, 1), float64."""
    return (word >> 11).bitwise_and_((1 << 53) - 1).double() / (1 << 53)


def below(word: Tensor, bound: Tensor) -> Tensor:
    """⌊word · bound / 2⁶⁴⌋: uniform on [0, bound), for 0 <= bound < 2³¹.

    Exact integer arithmetic: each value's probability is within 2⁻⁶⁴ of 1 / bound.
    """
    carry = word.bitwise_and(LOW32).mul_(bound).bitwise_right_shift_(32)
    high = (word >> 32).bitwise_and_(LOW32).mul_(bound)
    return high.add_(carry).bitwise_right_shift_(32)


def below_wide(word: Tensor, bound: Tensor) -> Tensor:
    """Uniform on [0, bound) for 0 <= bound < 2⁶³: products of 32-bit limbs."""
    return multiply_high(*limbs(word), bound)


def limbs(word: Tensor) -> tuple[Tensor, Tensor]:
    """The low and the high 32 bits of every word."""
    return word & LOW32, (word >> 32).bitwise_and_(LOW32)


def multiply_high(low: Tensor, high: Tensor, bound: Tensor) -> Tensor:
    """⌊word · bound / 2⁶⁴⌋ of words in two limbs, for 0 <= bound < 2⁶³."""
    b0, b1 = bound & LOW32, bound >> 32
    carry = (low * b0).bitwise_right_shift_(32).bitwise_and_(LOW32)
    middle = carry.addcmul(high, b0)
    lower = (middle & LOW32).addcmul_(low, b1).bitwise_right_shift_(32)
    upper = middle.bitwise_right_shift_(32).bitwise_and_(LOW32)
    return upper.addcmul(high, b1).add_(lower)
