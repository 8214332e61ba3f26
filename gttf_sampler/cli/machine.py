"""`gttf doctor`, `verify` and `warm`: the backends and kernels of this machine."""

import argparse
import os
import sys
import time
from collections.abc import Callable

import torch

from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    Node2VecBias,
    _check,
    gather_rows,
    sample_rooted,
    traverse,
    use_backend,
    verify,
)
from gttf_sampler._backends import compiling, ops
from gttf_sampler.bench import machine
from gttf_sampler.bench.hosts import unavailable
from gttf_sampler.bench.machine import Missing
from gttf_sampler.cli.reading import line, progress

NODES, EDGES = 2_000, 70_000  # enough for the loops that threads share
FEW, MANY = 8, 1_500  # seeds: a batch in one call, a batch that threads share


def add_doctor(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: `gttf doctor` takes no arguments."""
    parser.epilog = "Paste what it prints into an issue."


def run_doctor(args: argparse.Namespace) -> list[str]:
    """Versions, caches, threads, and a batch on every backend."""
    lines = [line(name, value) for name, value in machine.describe().items()]
    lines += [line(adapter, f"needs {host}") for adapter, host in unavailable()]
    folder = compiling.kernel_folder()
    done = [g for g in compiling.GROUPS if folder and (folder / f"{g}.ready").exists()]
    lines.append(line("kernels in", folder or "no folder could be had"))
    lines.append(line("compiled", ", ".join(done) or "nothing; see 'gttf warm'"))
    set_here = [n for n in ("GTTF_COMPILE", "NUMBA_CACHE_DIR") if n in os.environ]
    lines += [line(name, os.environ[name]) for name in set_here]
    adj = CompactAdj.from_edge_index(torch.randint(10_000, (2, 200_000)), 10_000)
    seeds, fanouts = torch.arange(256), [10, 5]
    drawn = {}
    for name in verify.backends_on(torch.device("cpu")):
        with use_backend(name):
            start = time.perf_counter()
            sample_rooted(adj, seeds, fanouts, generator=0)
            first, start = time.perf_counter() - start, time.perf_counter()
            drawn[name] = sample_rooted(adj, seeds, fanouts, generator=0)
            again = time.perf_counter() - start
        told = f"first batch {first * 1e3:.0f} ms, then {again * 1e3:.1f} ms"
        lines.append(line(name, told))
    same = all(
        torch.equal(batch.edge_index, drawn["torch"].edge_index)
        for batch in drawn.values()
    )
    lines.append(line("same bits", "yes" if same else "NO: please report this"))
    return lines


KINDS = ("cpu", "cuda", "mps", "xpu")
"""Kinds of devices; on the last two the reference runs, as far as it can."""


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `gttf verify`."""
    add = parser.add_argument
    add("--device", default="cpu", help="cpu compares numba with torch (cpu)")
    add("--no-times", action="store_true", help="leave the times out")
    parser.epilog = "exit status: 0 all bits are the same, 1 some are not, 2 no device"


def run_verify(args: argparse.Namespace) -> int:
    """Compares the bits that a device draws with those of the CPU; prints a report."""
    device = _check.device("--device", args.device)
    if device.type not in KINDS:
        _check.fail("--device", f"must be one of {', '.join(KINDS)}", args.device)
    start, left_out = time.perf_counter(), Missing()
    found = verify.run_checks(device, _say)
    found += verify.run_host_checks(device, _say, left_out)
    times = [] if args.no_times else verify.run_times(device, _say)
    _say("")
    seconds = time.perf_counter() - start
    lines = verify.report(device, found, times, left_out, seconds)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return int(any(check.verdict != verify.SAME for check in found))


def _say(what: str) -> None:
    """Shows a case, on a line of a terminal that is written over."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{what}")


def add_warm(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `gttf warm`."""
    parser.add_argument(
        "group", nargs="*", help=f"some of {', '.join(compiling.GROUPS)} (all)"
    )
    parser.epilog = (
        "Kernels are kept in NUMBA_CACHE_DIR, or where the user has caches, and are "
        "compiled anew when numba, the CPU or this package is another one."
    )


def run_warm(args: argparse.Namespace) -> list[str]:
    """Compiles group by group."""
    for group in args.group:
        _check.one_of("group", group, compiling.GROUPS)
    groups = args.group or list(compiling.GROUPS)
    with use_backend("numba"), progress(len(groups), " groups") as report:
        for group in groups:
            if report:
                report(group, 0)
            WORK[group]()
            compiling.mark_ready(group)
            if report:
                report(group, 1)
    return [f"compiled for {', '.join(groups)}, kept in {compiling.kernel_folder()}"]


def _graph(edges: int = EDGES, weight: torch.Tensor | None = None) -> CompactAdj:
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(NODES, (2, edges), generator=generator)
    return CompactAdj.from_edge_index(ends, NODES, edge_weight=weight)


def _build() -> None:
    _graph(100)
    _graph()
    sample_rooted(_graph(), torch.arange(FEW), [3]).bidirectional()


def _rooted() -> None:
    adj = _graph()
    for count in (FEW, MANY):
        seeds = torch.arange(count)
        sample_rooted(adj, seeds, [5, 5])
        sample_rooted(adj, seeds, [5, 5], disjoint=True)
        sample_rooted({("a", "to", "a"): adj}, {"a": seeds}, [5, 5])


def _walks() -> None:
    adj = _graph(weight=torch.rand(EDGES))
    for count in (FEW, MANY):
        for bias in (None, EdgeWeightBias()):
            for replace in (True, False):
                traverse(adj, torch.arange(count), [4, 2], bias, replace=replace)


def _node2vec() -> None:
    adj = _graph()
    for count in (FEW, MANY):
        for fanouts in ([1] * 4, [2, 2]):
            traverse(adj, torch.arange(count), fanouts, Node2VecBias(0.5, 2.0))


def _gather() -> None:
    for dtype in (torch.float32, torch.float64, torch.float16):
        for width in (3, 64):
            gather_rows(torch.zeros(NODES, width, dtype=dtype), torch.arange(MANY))


def _rows() -> None:
    adj, ids = _graph(), torch.arange(MANY)
    row, longest = (adj.rowptr[:-1][:MANY], adj.rowptr[1:][:MANY]), adj.max_degree
    for dtype in (torch.int32, torch.int64, torch.float32, torch.float64):
        values = torch.arange(EDGES).to(dtype)
        ops.take_or_none(values, ids)
        bound = values[:MANY].double() if dtype.is_floating_point else ids
        ops.upper_bound(values, *row, bound, longest)
        if dtype.is_floating_point:
            ops.weight_table(values, adj.rowptr)
    with adj.borrow_table(NODES) as table:
        ops.relabel(ids[:0], ids, table)
    columns = torch.arange(EDGES, dtype=adj.col.dtype) % NODES
    ops.has_edge(adj.rowptr, columns, ids, ids, longest)
    ops.edge_filter(adj.rowptr, columns)


WORK: dict[str, Callable[[], None]] = {
    "build": _build,
    "gather": _gather,
    "node2vec": _node2vec,
    "rooted": _rooted,
    "rows": _rows,
    "walks": _walks,
}
