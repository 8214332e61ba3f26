"""Every Triton kernel, compiled for GPUs that need not be there, and what it takes.

    python -m examples.bench.gpu_kernels

It takes a minute or two, and needs Triton. The machine code says how many registers a
thread has, how many bytes of what it holds are on a stack in memory instead, and how
often it has to wait for the others.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from gttf_sampler import _check
from gttf_sampler._backends.triton import aggregate as reduces
from gttf_sampler._backends.triton import hop as hops
from gttf_sampler._backends.triton import launch as how
from gttf_sampler._backends.triton import record as table
from gttf_sampler._backends.triton import relabel as ends
from gttf_sampler._backends.triton.draw import measure
from gttf_sampler._backends.triton.forest import forest, walk
from gttf_sampler._backends.triton.gather import gather_rows
from gttf_sampler._backends.triton.hop import finish, pad
from gttf_sampler._backends.triton.node2vec import node2vec

ARCHITECTURES = (80, 90, 100)  # A100, H100, B200
FENCES = ("MEMBAR", "CCTL", "ERRBAR")  # an order of memory accesses, and cold caches
NUMBERS = ("depth", "batch", "length", "rounds", "stays")
LONG = ("at", "count", "span", "stride", "position", "slots", "old_slots")
TYPES: dict[str, Any] = {  # of arguments that are no arrays of int64
    **dict.fromkeys(NUMBERS, "i32"),
    **dict.fromkeys(("key", "shape", *LONG), "i64"),
    "rows": ("*i64",) * 3,
    "new_nodes": ("*i64",) * 3,
    "out": ("*i64",) * 4,
    "arrays": ("*i64",) * 5,
    "graph": ("*i64", "*i32", "*i32", "*i32", "*i64", "*i32"),
    "weights": "*fp32",
    "packed": ("i64",) * 32,
    "envelope": ("i64",) * 6,
    "shares": ("i32",) * 3 + ("i64",) * 9 + ("i32",) * 9,
    "alpha": ("i64",) * 3,
    **dict.fromkeys(("x", "weight", "grad", "other", "vector", "parts"), "*fp32"),
    **dict.fromkeys(("result", "score", "share"), "*fp32"),
    **dict.fromkeys(("receivers", "width", "heads"), "i32"),
    "steps": ("i32",) * 5,
    "slope": "fp32",
}


class Taken(NamedTuple):
    """The registers and memory that one kernel takes of a GPU.

    Attributes:
        name: of the kernel, with what it was compiled for.
        architecture: 80 for sm_80.
        registers: per thread, of 255.
        stack: bytes per thread that did not fit there.
        shared: bytes per program.
        instructions: of the machine code, loops once.
        barriers: among them, at which the threads of a program wait for each other.
        shuffles: at which the threads of a warp do.
        fences: at which a thread waits until all others can see what it has written.
    """

    name: str
    architecture: int
    registers: int
    stack: int
    shared: int
    instructions: int
    barriers: int
    shuffles: int
    fences: int


def variants() -> Iterator[tuple[Any, dict[str, Any]]]:
    """Kernels with what they are compiled for: the default, and all laws at once."""
    lanes = {"B": how.LANES // 16, "F": 16}
    entries = {"B": how.ENTRIES}
    yield table.write_words, {"W": 32, "B": how.SPAN}
    for all_ in (False, True):
        apart = {"APART": all_}
        laws = {"TIMES": all_, "HIDES": all_, "GAPS": all_}
        yield ends.enter, apart | entries
        yield measure, {"REPLACE": False} | laws | lanes
        for replace in (False, True):
            how_ = {"REPLACE": replace, "MASS": all_}
            yield hops.draw, how_ | {"HIDES": all_} | apart | lanes
            yield forest, how_ | {"SEEDS": how.SEEDS} | lanes
        yield hops.take, {"HIDES": all_} | apart | entries
        yield ends.mark, apart | entries
        yield ends.settle, apart | entries
        yield finish, apart | entries
        yield pad, apart | entries
        warp = {"B": how.WALKERS, "num_warps": 1}
        yield walk, {"MASS": all_} | warp
        for by_mass in (False, True):
            rows_ = {"ORDERED": not all_, "REVERSED": all_, "MASS": by_mass}
            yield node2vec, rows_ | warp
    yield ends.rehash, entries
    yield gather_rows, {}
    yield from _aggregates()


def _aggregates() -> Iterator[tuple[Any, dict[str, Any]]]:
    """The kernels of `aggregate`, for rows of many columns, and of few heads."""
    wide = {"B": reduces.NUMBERS // reduces.COLUMNS, "F": reduces.COLUMNS}
    few = {"B": reduces.NUMBERS // 4, "F": 4}
    weighted = {"WEIGHTED": True}
    yield reduces.sum_rows, {"MEAN": True, "WEIGHTED": False} | wide
    yield reduces.sum_rows, {"MEAN": False} | weighted | wide
    yield reduces.best_rows, {"LARGEST": True, "NOTED": True} | weighted | wide
    yield reduces.add_picked, weighted | wide
    for bent in (False, True):
        yield reduces.score_edges, {"BENT": bent} | wide
    yield reduces.bend_rows, wide
    yield reduces.soften, few
    yield reduces.soften_back, few


def made_for(kernel: Any, constants: dict[str, Any], target: GPUTarget) -> Any:
    """Compiles a kernel for a GPU."""
    types = {name: _type(kernel, name, constants) for name in kernel.arg_names}
    fixed = {name: value for name, value in constants.items() if name in types}
    source = ASTSource(fn=kernel, signature=types, constexprs=fixed)
    options = {"enable_fp_fusion": False, "num_warps": constants.get("num_warps", 4)}
    return triton.compile(source, target=target, options=options)


def compiled(kernel: Any, constants: dict[str, Any], architecture: int) -> Taken:
    """Compiles a kernel for a GPU and reads what it takes."""
    if how.interpreted():
        _check.fail("TRITON_INTERPRET", "must not be set to compile kernels", 1)
    made = made_for(kernel, constants, GPUTarget("cuda", architecture, 32))
    flags = [name.lower() for name, value in constants.items() if value is True]
    name = " ".join([kernel.__name__, *flags])
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "kernel.cubin"
        cubin.write_bytes(made.asm["cubin"])
        registers, stack = _usage(cubin)
        code = _instructions(cubin)
    return Taken(
        *(name, architecture, registers, stack, made.metadata.shared),
        instructions=code.total(),
        barriers=code["BAR"],
        shuffles=code["SHFL"],
        fences=sum(code[fence] for fence in FENCES),
    )


def _type(kernel: Any, name: str, constants: dict[str, Any]) -> Any:
    """The type of an argument, as the launcher would find it."""
    if name in constants:
        return "constexpr"
    narrow = kernel in (forest, walk) and name == "col"
    return "*i32" if narrow else TYPES.get(name, "*i64")


def _usage(cubin: Path) -> tuple[int, int]:
    """Registers, and bytes of local memory, as they stand in the machine code."""
    said = _said(triton.knobs.nvidia.cuobjdump.path, "-res-usage", str(cubin))
    found = {name: int(number) for name, number in re.findall(r"(\w+):(\d+)", said)}
    return found["REG"], found["STACK"] + found["LOCAL"]


def _instructions(cubin: Path) -> Counter[str]:
    """Counts each instruction of the machine code, padding left out."""
    said = _said(triton.knobs.nvidia.nvdisasm.path, "-c", str(cubin))
    line = r"^\s+(?:/\*\w+\*/)?\s*(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)[. ;]"
    found = Counter(re.findall(line, said, re.MULTILINE))
    del found["NOP"]
    return found


def _said(*command: str) -> str:
    """The output of a command."""
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout


def report(architectures: tuple[int, ...] = ARCHITECTURES) -> str:
    """A table of all kernels in Markdown."""
    shown = Taken._fields[2:]
    lines = [f"| kernel | {' | '.join(shown)} |", f"|---{'|---:' * len(shown)}|"]
    for kernel, constants in variants():
        made = [compiled(kernel, constants, each) for each in architectures]
        rows = [[str(getattr(one, name)) for one in made] for name in shown]
        cells = [" / ".join(row) if len({*row}) > 1 else row[0] for row in rows]
        lines.append(f"| `{made[0].name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(report())
