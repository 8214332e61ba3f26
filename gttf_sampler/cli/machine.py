"""`gttf doctor` and `gttf verify`: the backends and kernels of this machine."""

import argparse
import os
import sys
import time

import torch

from gttf_sampler import CompactAdj, _check, sample_rooted, use_backend, verify
from gttf_sampler._backends import cache
from gttf_sampler.bench import machine
from gttf_sampler.bench.hosts import unavailable
from gttf_sampler.bench.machine import Missing
from gttf_sampler.cli.reading import line
from gttf_sampler.cli.warm import WORK

VARIABLES = ("GTTF_COMPILE", "NUMBA_CACHE_DIR", "NUMBA_CPU_NAME")


def add_doctor(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: `gttf doctor` takes no arguments."""
    parser.epilog = "Paste what it prints into an issue."


def run_doctor(args: argparse.Namespace) -> list[str]:
    """Versions, caches, threads, and a batch on every backend."""
    lines = [line(name, value) for name, value in machine.describe().items()]
    lines += [line(adapter, f"needs {host}") for adapter, host in unavailable()]
    own, done = cache.kernel_folder(), [g for g in WORK if cache.is_compiled(g)]
    lines.append(line("kernels in", own or "no folder could be had"))
    others = [folder for folder in cache.kernel_folders() if folder != own]
    lines += [line("and read from", folder) for folder in others]
    lines.append(line("compiled", ", ".join(done) or "nothing; see 'gttf warm'"))
    set_here = [name for name in VARIABLES if name in os.environ]
    lines += [line(f"{name} ", os.environ[name]) for name in set_here]
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
