"""The memory that a piece of work takes: the resident set, and its peak."""

import ctypes
import gc
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
PAUSE = 0.002  # seconds between two looks where the system keeps no peak


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
    return int(_psutil().Process().memory_info().rss)


def private() -> int:
    """Memory without the pages of mapped files, which the system may take back."""
    if STATUS.exists():
        return _from_status("RssAnon")
    return resident()


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


def _psutil() -> Any:
    try:
        return import_module("psutil")
    except ImportError as error:
        cure = "install it with: pip install psutil"
        raise ImportError(f"memory is measured with psutil here; {cure}") from error
