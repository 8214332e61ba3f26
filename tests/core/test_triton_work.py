"""Every Triton kernel compiles for GPUs, and a batch takes few of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import compiled

if compiled.why_not():
    pytest.skip(compiled.why_not(), allow_module_level=True)

import gpu_work
import host_time

variants = pytest.importorskip("examples.bench.gpu_kernels").variants
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", gpu_work.CASES)
def test_batches_take_few_launches_and_hardly_ever_wait(name):
    hops, call = gpu_work.CASES[name]
    work = gpu_work.work_of(call)
    assert set(work.kernels) <= {kernel.__name__ for kernel, _ in variants()}
    if "padded" in name or not hops:
        assert work.syncs == []
    assert len(work.syncs) <= hops
    assert len(work.kernels) <= (12 * hops or 3)
    assert gpu_work.line(name, hops, work) in (ROOT / "docs" / "gpu.md").read_text()


def test_traffic_is_what_a_kernel_touches():
    """A walk of one step reads a seed, a row and a column, and writes two numbers."""
    work = gpu_work.work_of(gpu_work.forest([1], batch=1), traffic=True)
    assert work.kernels == ["walk"]
    # seed, two row pointers (one or two sectors), column, edge and node
    assert work.bytes in (5 * 32, 6 * 32)
    assert work.launches[0].reads == 4
    assert 32 < work.instructions < 32 * 500


@pytest.mark.compile
def test_batches_do_not_take_the_slow_way_into_a_kernel():
    """Triton is asked once per kernel which variant is meant, not in every batch."""
    for name, work in host_time.measured().items():
        assert (work.kernels > 0, work.asked) == (True, 0), name
        assert work.microseconds < 1000, name  # on the busiest of machines


COMPILE = """
import sys
from examples.bench.gpu_kernels import compiled, variants
for kernel, constants in variants():
    made = compiled(kernel, constants, int(sys.argv[1]))
    assert 0 < made.registers < 255, made
    assert made.stack <= 32, made
    assert made.fences == 0, made
    assert made.instructions > 50, made
"""


@pytest.mark.parametrize("architecture", [80, 90])
def test_kernels_compile_without_spills_and_fences(architecture):
    """In a process of its own: the suite's leaves machine code out. It is kept."""
    run_alone(COMPILE, str(architecture))


def run_alone(code, *words):
    """Runs code that compiles for GPUs in a process of its own."""
    env = {name: value for name, value in os.environ.items() if name[:6] != "TRITON"}
    env |= {
        "TRITON_CACHE_DIR": str(compiled.KEPT.parent / "cubin"),
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


ROCM = """
from triton.backends.compiler import GPUTarget
from examples.bench.gpu_kernels import made_for, variants
for kernel, constants in variants():
    assert made_for(kernel, constants, GPUTarget("hip", "gfx942", 64)).asm["hsaco"]
"""


@pytest.mark.compile
def test_kernels_compile_for_rocm():
    """For an MI300, with Triton's own compiler."""
    run_alone(ROCM)
