"""`gttf verify`: whether a device draws the bits that the CPU draws, and how fast."""

import argparse
import sys
import time

from gttf_sampler import _check
from gttf_sampler.bench import peers
from gttf_sampler.verify.checks import SAME, backends_on, run_checks, run_host_checks
from gttf_sampler.verify.report import report
from gttf_sampler.verify.times import run_times

FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What can be said on the command line."""
    add = parser.add_argument
    add("--device", default="cpu", help="cpu compares numba with torch (cpu)")
    add("--no-times", action="store_true", help="compare bits only")
    parser.epilog = "exit status: 0 all bits are the same, 1 some are not, 2 no device"


def run(args: argparse.Namespace) -> int:
    """Checks, takes times, prints one report."""
    device = _check.device("--device", args.device)
    if device.type not in ("cpu", "cuda"):
        _check.fail("--device", "must be cpu or cuda", args.device)
    start = time.perf_counter()
    left_out = peers.Missing()
    checks = run_checks(device, _say)
    checks += run_host_checks(device, _say, left_out)
    times = [] if args.no_times else run_times(device, _say)
    _say("")
    seconds = time.perf_counter() - start
    lines = report(device, backends_on(device), checks, times, left_out, seconds)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0 if all(check.verdict == SAME for check in checks) else FAILED


def _say(what: str) -> None:
    """Shows what is being done, on a line of a terminal that is written over."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{what}")
