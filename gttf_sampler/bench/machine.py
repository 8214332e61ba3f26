"""The machine, its packages, peers that are left out, and the memory work takes."""

import ctypes
import gc
import os
import platform
import re
import sys
import threading
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import torch

from gttf_sampler import __version__, backend_info

BUSY = 0.5  # of the cores, before anything has been started here
DISTRIBUTION = "gttf-sampler"
COMPILER = "triton"
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
PAUSE = 0.002  # seconds between two looks where the system keeps no peak


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
    text = info.read_text("utf-8", errors="replace") if info.exists() else ""
    found = re.search(r"^model name\s*:\s*(.*?)\s*$", text, re.MULTILINE)
    return found[1] if found else platform.processor() or platform.machine()


def _memory() -> int | None:
    """Bytes of memory, if the system tells."""
    if sys.platform == "win32" or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class PeakMemory:
    """The largest resident set inside a `with` block, in bytes.

    Linux keeps the peak itself and can be told to forget it. Elsewhere a thread looks
    every two milliseconds, with psutil.
    """

    def __enter__(self) -> "PeakMemory":
        self.before = self.peak = settled()
        self._over = threading.Event()
        self._watch = None
        if CLEAR.exists():
            CLEAR.write_text("5")
        else:
            self._watch = threading.Thread(target=self._look, daemon=True)
            self._watch.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._watch is None:
            self.peak = _from_status("VmHWM")
        else:
            self._watch.join()
        self.peak = max(self.peak, self.before)

    @property
    def beyond(self) -> int:
        """The bytes by which the peak exceeds the beginning."""
        return self.peak - self.before

    def _look(self) -> None:
        while not self._over.wait(PAUSE):
            self.peak = max(self.peak, resident())


def resident() -> int:
    """The bytes of this process that are in memory now."""
    if STATUS.exists():
        return _from_status("VmRSS")
    try:
        psutil = import_module("psutil")
    except ImportError as error:
        cure = "install it with: pip install psutil"
        raise ImportError(f"memory is measured with psutil here; {cure}") from error
    return int(psutil.Process().memory_info().rss)


def private() -> int:
    """Memory without the pages of mapped files, which the system may take back."""
    return _from_status("RssAnon") if STATUS.exists() else resident()


def settled() -> int:
    """`resident`, after everything that is free was given back."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
    return resident()


def _from_status(field: str) -> int:
    """A field of the kernel's report, which counts kilobytes."""
    for line in STATUS.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0
