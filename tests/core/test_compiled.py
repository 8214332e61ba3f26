"""Compiled kernels give the bits of the reference, however their threads interleave.

All cases of `gttf verify`: on plain tensors of the CPU, and with another interleaving
on the simulated device, where a tensor of the host among those of a GPU is an error.
"""

import pytest
import torch

import compiled

if compiled.why_not():
    pytest.skip(compiled.why_not(), allow_module_level=True)

import triton
import triton.language as tl

import ptx
from gttf_sampler import use_backend
from gttf_sampler._backends.triton.launch import launch
from gttf_sampler.verify import CASES, SAME, compared, make_world, tensors
from simulated import Accelerator


@pytest.fixture(scope="module")
def world():
    return make_world()


@pytest.mark.parametrize("name", CASES)
def test_cases_are_bit_identical(world, name):
    case = CASES[name]
    with use_backend("torch"):
        expected = list(tensors(case(world)))
    with compiled.kernels(1, watch=True) as races, use_backend("triton"):
        assert compared(lambda: case(world), expected) == SAME
    assert compiled.unexpected(races) == {}
    with Accelerator(), compiled.kernels(2, watch=True) as races:
        there = world.to(torch.device("cuda"))
        with use_backend("triton"):
            assert compared(lambda: case(there), expected) == SAME
    assert compiled.unexpected(races) == {}


def test_accepted_races_are_seen(world):
    """A reason for what no kernel does any more has to go."""
    with compiled.kernels(1, watch=True) as races, use_backend("triton"):
        CASES["typed, padded"](world)
    assert {race[:3] for race in races} == set(compiled.ACCEPTED)


@triton.jit
def write_own_number(out, B: tl.constexpr):
    tl.store(out, tl.program_id(0))


@triton.jit
def add_one(out, B: tl.constexpr):
    tl.atomic_add(out, 1)


@triton.jit
def lower_without_atomics(out, B: tl.constexpr):
    here = tl.arange(0, B)
    place = out + here % 2
    tl.store(place, tl.minimum(tl.load(place), here - 1000))


@triton.jit
def shift(out, B: tl.constexpr, SYNC: tl.constexpr):
    here = tl.arange(0, B)
    tl.store(out + here, here)
    if SYNC:
        tl.debug_barrier()
    before = tl.load(out + (here + B - 1) % B)
    if SYNC:
        tl.debug_barrier()
    tl.store(out + here, before)


def races_of(kernel, grid, seed=1, **constants):
    """The kinds of races of a kernel on 256 zeros, and the numbers that it leaves."""
    out = torch.zeros(256, dtype=torch.int64)
    with compiled.kernels(seed, watch=True) as races:
        launch(kernel, grid, out, B=256, **constants)
    return {(race.kinds, race.across) for race in races}, out


def test_watch_sees_programs_that_write_to_one_place():
    kinds, _ = races_of(write_own_number, (5,))
    assert kinds == {("write/write", True)}
    assert races_of(write_own_number, (1,))[0] == set()


def test_watch_lets_atomics_pass():
    kinds, out = races_of(add_one, (7,))
    assert kinds == set()
    assert out[0] == 7


def test_watch_sees_what_should_be_atomic():
    kinds, _ = races_of(lower_without_atomics, (1,))
    assert ("read/write", False) in kinds
    assert ("write/write", False) in kinds


def test_watch_sees_a_missing_barrier():
    kinds, _ = races_of(shift, (1,), SYNC=False)
    assert kinds == {("read/write", False)}
    kinds, out = races_of(shift, (1,), SYNC=True)
    assert kinds == set()
    assert out.tolist() == [255, *range(255)]


def test_seeds_are_other_interleavings():
    found = {int(races_of(write_own_number, (5,), seed)[1][0]) for seed in range(12)}
    assert len(found) > 1


@triton.jit
def ask_for_positive(out, B: tl.constexpr):
    tl.device_assert(tl.load(out + tl.arange(0, B)) > 0, "not positive")


def test_assertions_of_kernels_are_errors():
    with pytest.raises(RuntimeError, match=r"^ask_for_positive: an assertion"):
        races_of(ask_for_positive, (1,), debug=True)


@triton.jit
def read_nowhere(out, B: tl.constexpr):
    tl.store(out, tl.load(out + tl.load(out) + (1 << 44)))


def test_memory_that_is_not_there_is_an_error():
    with pytest.raises(RuntimeError, match=r"^read_nowhere: memory is not there"):
        races_of(read_nowhere, (2,))
    assert races_of(add_one, (2,))[1][0] == 2


@pytest.mark.parametrize(
    "line", ["sin.approx.f32 %f1, %f2;", "mov.b32 %r1, unknown;", "bar.warp.sync 0;"]
)
def test_unknown_instructions_are_refused(line):
    text = f".visible .entry k(\n)\n.reqntid 128\n{{\n{line}\nret;\n$L__func_end0:\n}}"
    with pytest.raises(ptx.UnknownPTXError):
        ptx.to_c(text)
