"""The random words: what SplitMix64 gives in plain Python, and no visible pattern."""

from functools import cache
from random import Random

import pytest
import torch

from exact import SIGMAS
from exact import one_thread as one_thread
from gttf_sampler import CompactAdj, sample_rooted, traverse
from gttf_sampler.random import Key, below, below_wide, bits, fold, new_key, stream

WORD = 1 << 64
GAMMA = 0x9E3779B97F4A7C15
EXTREME = [0, 1, 2, WORD // 2 - 1, WORD // 2, WORD // 2 + 1, WORD - 2, WORD - 1]


def mix(word: int) -> int:
    """SplitMix64's finaliser on unsigned integers, as Steele et al. print it."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % WORD
    return word ^ (word >> 31)


def signed(word: int) -> int:
    return (word + WORD // 2) % WORD - WORD // 2


def unsigned(words: torch.Tensor) -> list[int]:
    return [word % WORD for word in words.tolist()]


def key(seed: int) -> Key:
    return new_key(seed, torch.device("cpu"), 0)


def words(count: int, below: int = WORD) -> list[int]:
    random = Random(count)
    return [random.randrange(below) for _ in range(count)]


def test_splitmix_published_values():
    # The first outputs of Vigna's splitmix64.c from state 1234567.
    state = torch.tensor(1234567)
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [unsigned(bits(state, i)[None])[0] for i in range(3)] == published


@pytest.mark.parametrize("number", [0, 1, 5, (1 << 31) - 1])
def test_words_match_unsigned_reference(number):
    inputs = EXTREME + words(500)
    keys = torch.tensor([signed(word) for word in inputs])
    expected = [mix((word + (number + 1) * GAMMA) % WORD) for word in inputs]
    assert unsigned(fold(keys, number)) == expected
    assert [fold(word, number) for word in inputs] == expected
    assert unsigned(bits(keys, number)) == expected
    assert unsigned(bits(keys, torch.tensor(number))) == expected
    slots = torch.full_like(keys, number)
    expected = [mix((word + number * GAMMA) % WORD) for word in inputs]
    assert unsigned(stream(keys, slots)) == expected
    assert [unsigned(stream(word, slots[:1]))[0] for word in inputs] == expected


@pytest.mark.parametrize("seed", [0, 1, -1, 42, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_key_of_an_integer(seed):
    assert int(key(seed)) == mix((mix(seed % WORD) + GAMMA) % WORD)


@pytest.mark.parametrize(
    ("draw", "bits_of_bound"),
    [(below, 31), (below_wide, 31), (below_wide, 63)],
)
def test_below_matches_integer_arithmetic(draw, bits_of_bound):
    limit = 1 << bits_of_bound
    bounds = [0, 1, 2, 3, limit // 2, limit - 2, limit - 1]
    bounds += [1 << i for i in range(bits_of_bound)]
    bounds += [((1 << i) - 1) for i in range(bits_of_bound)]
    bounds += [size % limit for size in (1 << 32, (1 << 32) - 1, (1 << 32) + 1)]
    bounds += words(200, limit)
    inputs = EXTREME + words(200)
    pairs = [(word, bound) for word in inputs for bound in bounds]
    found = draw(
        torch.tensor([signed(word) for word, _ in pairs]),
        torch.tensor([bound for _, bound in pairs]),
    )
    assert found.tolist() == [word * bound >> 64 for word, bound in pairs]


@cache
def neighbours(axis: str) -> torch.Tensor:
    """Words whose coordinates differ by one along `axis` and nowhere else."""
    three = torch.tensor(3)
    if axis == "draw":
        return bits(stream(key(7), three), torch.arange(1 << 17))
    if axis == "slot":
        return bits(stream(key(7), torch.arange(1 << 17)), 3)
    if axis == "depth":
        keys = [fold(key(7), i) for i in range(1 << 13)]
    else:
        keys = [fold(key(i), 0) for i in range(1 << 13)]
    starts = torch.tensor([signed(int(word)) for word in keys])
    return bits(stream(starts, three.expand_as(starts)), 3)


def assert_uniform(cells: torch.Tensor, count: int) -> None:
    """Pearson's chi-square: its mean is its degrees of freedom, its variance twice."""
    expected = cells.numel() / count
    squares = (cells.bincount(minlength=count) - expected).square() / expected
    freedom = count - 1
    assert abs(float(squares.sum()) - freedom) <= SIGMAS * (2 * freedom) ** 0.5


AXES = pytest.mark.parametrize("axis", ["draw", "slot", "depth", "key"])


@AXES
@pytest.mark.parametrize("shift", [0, 8, 28, 48, 56])
def test_words_bytes_are_uniform(axis, shift):
    assert_uniform((neighbours(axis) >> shift) & 255, 256)


@AXES
@pytest.mark.parametrize("shift", [0, 30, 60])
def test_words_neighbours_are_independent(axis, shift):
    nibble = (neighbours(axis) >> shift) & 15
    assert_uniform(nibble[:-1] * 16 + nibble[1:], 256)


@AXES
def test_words_every_bit_is_fair_and_flips_half_the_time(axis):
    word = neighbours(axis)[: 1 << 16]
    table = (word[:, None] >> torch.arange(64)) & 1
    for share in (table.double().mean(0), (table[1:] ^ table[:-1]).double().mean(0)):
        assert bool(((share - 0.5).abs() <= SIGMAS * 0.5 / len(word) ** 0.5).all())


@AXES
def test_words_are_uncorrelated(axis):
    unit = below(neighbours(axis), torch.tensor(1 << 30)).double() / (1 << 30)
    assert abs(float(unit.mean()) - 0.5) <= SIGMAS * (1 / 12 / len(unit)) ** 0.5
    for lag in (1, 2, 64):
        pair = torch.stack([unit[:-lag], unit[lag:]])
        assert abs(float(pair.corrcoef()[0, 1])) <= SIGMAS / len(unit) ** 0.5


def test_words_do_not_repeat_over_slots_and_draws():
    streams = stream(key(1), torch.arange(1 << 12))
    word = bits(streams[:, None], torch.arange(1 << 6))
    assert word.unique().numel() == word.numel()


def test_every_bit_of_a_seed_counts():
    seeds = [1, 1 + (1 << 32), 1 + (1 << 63), 1 + (1 << 64), 1 + (1 << 200)]
    keys = [key(seed) for seed in seeds]
    generators = [torch.Generator().manual_seed(seed) for seed in seeds[:3]]
    keys += [new_key(source, torch.device("cpu"), 0) for source in generators]
    assert len(set(keys)) == len(keys)


def test_families_of_draws_share_no_word():
    """One seed for all: a walker and a node of the same number draw apart."""
    seen = set()
    for family in range(8):
        own = new_key(7, torch.device("cpu"), family)
        for hop in range(4):
            for relation in (own, fold(fold(own, hop), 0), fold(own, hop)):
                words = bits(
                    stream(relation, torch.arange(50))[:, None], torch.arange(4)
                )
                seen.add(tuple(words.view(-1).tolist()))
    words = [word for some in seen for word in some]
    assert len(set(words)) == len(words)


def test_forest_and_rooted_draw_apart():
    """The first step of walker 1 and of node 1, from one integer: independent."""
    adj = CompactAdj.from_edge_index([list(range(16)) * 2, [1] * 16 + [0] * 16])
    together = sum(
        int(traverse(adj, [0, 1], [1], generator=i).nodes[1][1, 0])
        == int(sample_rooted(adj, [1], [1], replace=True, generator=i).edge[0]) % 16
        for i in range(400)
    )
    assert together < 400 / 16 + SIGMAS * (400 / 16) ** 0.5
