"""One report, in Markdown, to be pasted into an issue."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Iterable
from typing import Any

import torch

from gttf_sampler import __version__
from gttf_sampler.bench import machine, peers
from gttf_sampler.verify.checks import SAME, Check
from gttf_sampler.verify.times import Time

PACKAGES = ("torch_geometric", "dgl", "numba", "triton")


def report(
    device: torch.device,
    backends: list[str],
    checks: list[Check],
    times: list[Time],
    left_out: list[dict[str, str]],
    seconds: float,
) -> list[str]:
    """The lines."""
    passed = sum(check.verdict == SAME for check in checks)
    verdict = "passed" if passed == len(checks) else "FAILED"
    lines = [f"## gttf verify --device {device}: {verdict}", ""]
    facts = {
        "gttf": __version__,
        "device": device_name(device),
        "driver": driver(device),
        "backends": f"{', '.join(backends)}; compared with torch on the CPU",
        "torch": f"{torch.__version__}, CUDA {torch.version.cuda or 'none'}",
        "packages": ", ".join(_packages()) or "none",
        "python": f"{platform.python_version()}, {platform.platform(terse=True)}",
        "cpu": str(machine.describe()["cpu"]),
        "checks": f"{passed} of {len(checks)} gave the same bits",
        "took": f"{seconds:.0f} s",
    }
    lines += _table(("", ""), facts.items())
    lines += ["", *_checks(checks)]
    lines += ["", *_times(times)] if times else []
    lines += [f"\nLeft out: {entry['peer']}, {entry['why']}." for entry in left_out]
    return lines


def _packages() -> list[str]:
    """Those that matter here, with their versions."""
    found = [(name, peers.version(name)) for name in PACKAGES]
    return [f"{name} {version}" for name, version in found if version]


def device_name(device: torch.device) -> str:
    """What the device is, as far as torch tells."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return str(device)
    told = torch.cuda.get_device_properties(device)
    size = told.total_memory / 2**30
    return f"{told.name}, sm_{told.major}{told.minor}, {size:.0f} GiB"


def driver(device: torch.device) -> str:
    """The version of the driver, as its own command tells it."""
    command = shutil.which("nvidia-smi")
    if device.type != "cuda" or command is None:
        return "unknown" if device.type == "cuda" else "none"
    words = [command, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        told = subprocess.run(words, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return (told.stdout.split() or ["unknown"])[0]


def _checks(checks: list[Check]) -> list[str]:
    """A row per call, a column per backend."""
    backends = list(dict.fromkeys(check.backend for check in checks))
    rows: dict[str, dict[str, str]] = {}
    for check in checks:
        rows.setdefault(check.name, {})[check.backend] = check.verdict
    cells = ([name, *(row.get(b, "") for b in backends)] for name, row in rows.items())
    return _table(("bits", *backends), cells)


def _times(times: list[Time]) -> list[str]:
    """A row per work, a column per backend: milliseconds, launches, waits."""
    places = list(dict.fromkeys(entry.where for entry in times))
    rows: dict[str, dict[str, str]] = {}
    for entry in times:
        cell = f"{entry.best:.3g}" if entry.best < 100 else f"{entry.best:,.0f}"
        if entry.launches is not None:
            cell += f" ({entry.launches} launches, {entry.waits} waits)"
        rows.setdefault(entry.work, {})[entry.where] = cell
    cells = ([name, *(row.get(p, "") for p in places)] for name, row in rows.items())
    return _table(("ms, best", *places), cells)


def _table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> list[str]:
    """Rows of Markdown; what would end a cell is left out of it."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return [
        "| " + " | ".join(str(c).replace("|", "/") for c in line) + " |"
        for line in lines
    ]
