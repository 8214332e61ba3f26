"""The machine, the packages on it, and the peers that are left out of a result."""

import os
import platform
import re
import sys
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import torch

from gttf_sampler import __version__, backend_info

BUSY = 0.5  # of the cores, before anything has been started here
DISTRIBUTION = "gttf-sampler"
COMPILER = "triton"


class Missing(list[dict[str, str]]):
    """The peers that were left out, each with the reason."""

    def add(self, peer: str, why: str) -> None:
        """Notes one, once."""
        entry = {"peer": peer, "why": why}
        if entry not in self:
            self.append(entry)

    def load(self, module: str, peer: str, package: str = "") -> Any:
        """Imports an optional package; notes its absence and returns None."""
        name = package or module
        try:
            return import_module(module)
        except (ImportError, OSError, RuntimeError, AttributeError) as error:
            why = f"{name} is not installed"
            if found := version(name):  # made for another torch or numpy
                why = f"{name} {found} cannot be imported ({first_line(error)})"
            self.add(peer, f"{why}; install it with: pip install {name}")
            return None


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its class where there is none."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def version(package: str) -> str | None:
    """The version of an installed distribution; None if it is not there."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def describe() -> dict[str, Any]:
    """The machine and the packages that matter, by name."""
    found = {name: version(name) for name in (*of_extra("bench"), COMPILER)}
    return {
        "gttf": __version__,
        "cpu": _cpu(),
        "cores": os.cpu_count() or 1,
        "memory": _memory(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "backend": backend_info(),
        "packages": {name: number for name, number in found.items() if number},
    }


def busy() -> str | None:
    """A warning if others are using the machine."""
    if not hasattr(os, "getloadavg"):
        return None
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load < BUSY * cores:
        return None
    return f"the machine was busy when this began: load {load:.1f} on {cores} cores"


def of_extra(extra: str) -> list[str]:
    """The packages that an extra of this distribution asks for."""
    try:
        asked = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # run from a checkout
        return []
    marked = [text for text in asked if re.search(rf"extra == .{extra}\b", text)]
    return [re.split(r"[^\w.-]", text)[0] for text in marked]


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
