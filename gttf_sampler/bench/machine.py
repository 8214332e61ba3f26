"""What a number was measured on."""

import os
import platform
import sys
from pathlib import Path
from typing import Any

import torch

from gttf_sampler import __version__, backend_info
from gttf_sampler.bench import peers

BUSY = 0.5  # of the cores, before anything has been started here


def describe() -> dict[str, Any]:
    """The machine and the packages that matter, by name."""
    found = {name: peers.version(module) for module, name in peers.PACKAGES.items()}
    return {
        "gttf": __version__,
        "cpu": _cpu(),
        "cores": os.cpu_count() or 1,
        "memory": _memory(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "backend": backend_info(),
        "packages": {name: version for name, version in found.items() if version},
    }


def busy() -> str | None:
    """A warning if others are using the machine."""
    if not hasattr(os, "getloadavg"):
        return None
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load < BUSY * cores:
        return None
    return f"the machine was busy when this began: load {load:.1f} on {cores} cores"


def _cpu() -> str:
    """The model of the processor, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> int | None:
    """Bytes of memory, if the system tells."""
    if sys.platform == "win32" or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
