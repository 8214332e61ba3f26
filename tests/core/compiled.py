"""Triton's kernels as it compiles them, run on tensors of the CPU.

Triton's own compiler makes the PTX, for an A100 that a driver of ours pretends to have.
`ptx.py` makes C of it, gcc machine code, and `ptx.h` runs that with its threads and
programs interleaved at random. So what is tested is what the compiler has made of a
kernel, and what programs do that run at the same time; the interpreter of Triton has
Python's semantics, and runs one program after the other.

Needs gcc and x86-64; `why_not` says what is missing. Code is kept in `.pytest_cache`.
"""

import ctypes
import hashlib
import math
import os
import platform
import shutil
import struct
import subprocess
import tempfile
import threading
from collections import Counter
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
import torch
from torch.utils._python_dispatch import _disable_current_modes

from gttf_sampler._backends import ops as backend
from ptx import to_c

HERE = Path(__file__).parent
KEPT = HERE.parents[1] / ".pytest_cache" / "ptx"
GCC = ("gcc", "-w", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off")
GCC += ("-shared", "-fPIC", f"-I{HERE}")
ARCHITECTURE = 80  # A100
DEVICE = 99  # Triton keeps what it compiles by this number, apart from real devices
SWITCHING = 24  # of 256 accesses to memory, those that another thread precedes
RESIDENT = 6  # programs at a time
ENDS = {1: "an assertion failed", 2: "all threads wait", 3: "memory is not there"}
KINDS = ("read", "write", "atomic")


class Race(NamedTuple):
    """Two accesses to one place that nothing orders, in one launch of a kernel.

    Attributes:
        kernel: its name.
        kinds: of the accesses, such as "write/write"; "write/write, same" leaves what
            was there.
        across: of two programs, not of two threads of one.
        sites: the lines of the kernels.
    """

    kernel: str
    kinds: str
    across: bool
    sites: tuple[str, str]


# Races that may be: (kernel, kinds, of two programs) and why nothing depends on them.
ACCEPTED = {
    ("enter", "write/write, same", True): "the first program of every node type writes "
    "the address of all seeds and of their roots, which is one address",
}


def unexpected(races: Counter) -> dict[Race, int]:
    """The races that nobody has accepted, and how often they were seen."""
    return {race: count for race, count in races.items() if race[:3] not in ACCEPTED}


class Work(NamedTuple):
    """The work of one launch.

    Attributes:
        kernel: its name.
        programs, warps: of the launch.
        instructions: of PTX, of all threads, those that a guard skips among them.
        sectors: of 32 bytes, read and written, as if no cache held any of them.
        reads: of the thread that reads most often.
    """

    kernel: str
    programs: int
    warps: int
    instructions: int
    sectors: int
    reads: int


def why_not() -> str | None:
    """The reason why compiled kernels cannot run here, if there is one."""
    if reason := backend.no_triton():
        return reason
    import triton

    if triton.knobs.runtime.interpret:
        return "TRITON_INTERPRET leaves nothing to compile"
    if shutil.which("gcc") is None:
        return "there is no gcc to compile PTX"
    if platform.machine() != "x86_64":
        return "fibers are written for x86-64"
    return None


@contextmanager
def kernels(seed: int = 1, watch: bool = False, works: list["Work"] | None = None):
    """`use_backend("triton")` runs compiled kernels on the CPU; gives the races found.

    Skips the test where that cannot be.

    Args:
        seed: of the interleaving.
        watch: look for races.
        works: takes the work of every launch; threads are not interleaved then.
    """
    if reason := why_not():
        pytest.skip(reason)
    import triton
    from triton.backends.nvidia.compiler import CUDABackend

    from gttf_sampler._backends.triton import launch as triton_launch

    runner = _Runner(seed, watch, works)
    driver, before = triton.runtime.driver, triton.runtime.driver._active
    with ExitStack() as changes:
        change = changes.enter_context
        change(mock.patch.object(triton_launch, "start", runner.start))
        change(mock.patch.object(backend, "_interpreted", return_value=True))
        change(mock.patch.object(CUDABackend, "make_cubin", return_value=b""))
        change(mock.patch.object(triton.knobs.cache, "dir", str(KEPT)))
        driver.set_active(_Driver())
        changes.callback(setattr, driver, "_active", before)
        yield runner.races


class _Driver:
    """A driver without a device."""

    def get_current_device(self) -> int:
        return DEVICE

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", ARCHITECTURE, 32)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")


class _Runner:
    """Launches of one block, and the races among them."""

    def __init__(self, seed: int, watch: bool, works: list["Work"] | None) -> None:
        self.seed, self.watch, self.works = seed, watch, works
        self.races: Counter[Race] = Counter()
        self.launches = 0

    def start(
        self, kernel: Any, grid: Any, args: Any, constants: Any, long: bool
    ) -> None:
        """Stands in for `launch.start`; sees through simulated devices."""
        from gttf_sampler._backends.triton import launch as triton_launch

        with torch._C.DisableTorchFunction(), _disable_current_modes(), _LOCK:
            args = tuple(map(_plain, args))
            options = {**constants, "enable_fp_fusion": False}
            made = kernel.warmup(*triton_launch.typed(args, long), grid=grid, **options)
            given = dict(zip(kernel.arg_names, args, strict=False)) | constants
            words = [
                word
                for name in kernel.arg_names
                for word in _words(made.src.signature[name], given[name])
            ]
            self._run(kernel.__name__, made, grid, words)

    def _run(self, name: str, made: Any, grid: Any, words: list[int]) -> None:
        words = [*words, 0, 0, 0, 0]  # scratch memory, which no kernel of ours has
        self.launches += 1
        status = _runtime().run(
            _loaded(made.asm["ptx"]).kernel,
            (ctypes.c_uint64 * len(words))(*words),
            (ctypes.c_uint32 * 3)(*grid, *(1,) * (3 - len(grid))),
            ctypes.c_uint32(made.metadata.num_warps),
            ctypes.c_uint32(made.metadata.shared),
            ctypes.c_uint64(self.seed * 1_000_003 + self.launches),
            0 if self.works is not None else SWITCHING,
            *(RESIDENT, int(self.watch) | 2 * (self.works is not None)),
        )
        if self.works is not None:
            found = (ctypes.c_uint64 * 3)()
            _runtime().work(found)
            programs = math.prod(grid)
            warps = programs * made.metadata.num_warps
            self.works.append(Work(name, programs, warps, *found))
        if self.watch:
            self.races.update(_races(name))
        if status:
            raise RuntimeError(f"{name}: {ENDS[status]} ({len(self.races)} races)")


_LOCK = threading.RLock()


def _plain(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(map(_plain, value))
    return value.as_subclass(torch.Tensor) if isinstance(value, torch.Tensor) else value


def _words(kind: Any, value: Any) -> list[int]:
    """An argument as 64-bit words; none for what is compiled in."""
    if kind == "constexpr":
        return []
    if isinstance(kind, tuple):
        pairs = zip(kind, value, strict=True)
        return [word for each, part in pairs for word in _words(each, part)]
    if kind == "fp32":
        return list(struct.unpack("I", struct.pack("f", value)))
    number = value.data_ptr() if isinstance(value, torch.Tensor) else int(value)
    return [number & (1 << 64) - 1]


def _built(source: str, *options: str) -> Path:
    """The library that gcc makes of a source, once."""
    header = (HERE / "ptx.h").read_bytes()
    digest = hashlib.sha256(header + "\0".join([source, *options]).encode()).hexdigest()
    library = KEPT / f"{digest[:32]}.so"
    if not library.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as folder:
            part = Path(folder, "code.c")
            part.write_text(source)
            made = Path(folder, "code.so")
            subprocess.run([*GCC, *options, str(part), "-o", str(made)], check=True)
            os.replace(made, library)  # other processes make the same
    return library


@cache
def _runtime() -> Any:
    """`ptx.h` as a library, whose names kernels find."""
    path = _built('#include "ptx.h"\n', "-O2", "-DRUNTIME")
    return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


@cache
def _loaded(ptx: str) -> Any:
    """A kernel's library."""
    _runtime()
    return ctypes.CDLL(str(_built(to_c(ptx), "-Og")))


def _races(kernel: str) -> Counter:
    """The races of the last launch, and how many accesses each is."""
    found: Counter[Race] = Counter()
    sites, numbers = (ctypes.c_char_p * 2)(), (ctypes.c_uint64 * 4)()
    for number in count():
        if not _runtime().race(number, sites, numbers):
            return found
        here, there = divmod(numbers[0], 3)
        kinds = "/".join(sorted((KINDS[here], KINDS[there])))
        kinds += ", same" if numbers[2] else ""
        lines = tuple(sorted(site.decode() for site in sites))
        found[Race(kernel, kinds, bool(numbers[1]), lines)] += numbers[3]
