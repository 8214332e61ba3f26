"""`gttf verify`: compares the bits that a device draws with those of the CPU."""

import argparse
import sys
import time

from gttf_sampler import _check
from gttf_sampler.bench.machine import Missing
from gttf_sampler.verify.checks import SAME, report, run_checks, run_host_checks

FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds everything that `gttf verify` takes."""
    add = parser.add_argument
    add("--device", default="cpu", help="cpu compares numba with torch (cpu)")
    # what `gttf bench --device` measures was once part of the report
    add("--no-times", action="store_true", help=argparse.SUPPRESS)
    parser.epilog = "exit status: 0 all bits are the same, 1 some are not, 2 no device"


def run(args: argparse.Namespace) -> int:
    """Checks, and prints one report."""
    device = _check.device("--device", args.device)
    if device.type not in ("cpu", "cuda"):
        _check.fail("--device", "must be cpu or cuda", args.device)
    start, left_out = time.perf_counter(), Missing()
    checks = run_checks(device, _say)
    checks += run_host_checks(device, _say, left_out)
    _say("")
    lines = report(device, checks, left_out, time.perf_counter() - start)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0 if all(check.verdict == SAME for check in checks) else FAILED


def _say(what: str) -> None:
    """Shows a case, on a line of a terminal that is written over."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{what}")
