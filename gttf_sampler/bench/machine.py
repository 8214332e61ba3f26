"""The machine: its packages, the memory work takes, and jobs in their own processes.

Such a process runs `main` and leaves nothing behind: it reads a job from stdin and
writes lines of JSON to stdout.
"""

import contextlib
import ctypes
import gc
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module, metadata
from inspect import isgenerator
from pathlib import Path
from typing import IO, Any

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


# libgomp reads its policy when it is loaded: threads that spin while they wait hurt
# every peer on a machine that does anything else.
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive"}
CODE = "from gttf_sampler.bench.machine import main; main()"
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
ENDING = signal.SIGINT, signal.SIGTERM
DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
TAIL = 12  # lines of a failed child's stderr that are repeated
LOG_EVERY = 20  # seconds between two lines of progress in a log

Report = Callable[[str, float], None]  # what is being done, and the share that is done
Job = dict[str, Any]


class ChildError(ChildProcessError):
    """A job that did not finish, with the last lines that its process wrote."""


class RefusedError(ValueError):
    """A job that was given something it cannot use; one sentence for the user."""


def run_job(job: Job, report: Report | None = None) -> Any:
    """Runs {"run": "package.module:function", **arguments} and returns its result."""
    with conversation() as ask:
        return ask(job, report)


@contextlib.contextmanager
def conversation(
    environment: dict[str, str] | None = None,
) -> Iterator[Callable[..., Any]]:
    """A process that is told its job and returns the result.

    A job that is a generator yields its first result, and may be asked again: it is
    sent the question and yields the answer. In between its process waits, so that it
    takes turns with what is measured here, in an environment of its own.
    """
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as words,
        tempfile.TemporaryDirectory(prefix="gttf-bench-") as scratch,
    ):
        # what libraries leave in the place for temporary files goes with it
        places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), scratch)
        path = {"PYTHONPATH": os.pathsep.join(sys.path)}
        own = {**ENVIRONMENT, **places, **path, **(environment or {})}
        child = None
        try:
            with _signals_blocked():  # else nobody knows of it who is to end it
                child = subprocess.Popen(
                    [sys.executable, "-W", "ignore", "-c", CODE, str(os.getpid())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=words,
                    encoding="utf-8",
                    env={**os.environ, **own},
                    start_new_session=True,  # its workers end with it, by their group
                )
            yield partial(_ask, child, words)
        finally:
            if child is not None:
                _end(child)


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Keeps the signals that end a command until the block is left."""
    if threading.current_thread() is not threading.main_thread():  # has no handlers
        yield
        return
    kept: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: kept.append(number))
        for number in ENDING
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for came in kept[:1]:
            signal.raise_signal(came)


def run_jobs(
    job: Job, names: Iterable[str], missing: Missing, report: Report
) -> dict[str, Any]:
    """Runs a job per name, each in its process; a peer that fails is left out."""
    found: dict[str, Any] = {}
    for name in names:
        try:
            found[name] = run_job({**job, "name": name}, report)
        except ChildError as error:
            if name.startswith("gttf"):  # ours, which others are compared with
                raise
            missing.add(name, str(error).splitlines()[-1])
    return found


def _ask(
    child: "subprocess.Popen[str]",
    words: IO[str],
    question: Job,
    report: Report | None = None,
) -> Any:
    """Hands over a job or a question and listens until there is a result."""
    if child.stdin is None or child.stdout is None:
        raise ChildError("the process has no pipes")
    with contextlib.suppress(BrokenPipeError):  # it says below why it has gone
        child.stdin.write(json.dumps(question) + "\n")
        child.stdin.flush()
    for line in child.stdout:
        message = json.loads(line)
        if "result" in message:
            return message["result"]
        if "refused" in message:
            raise RefusedError(message["refused"])
        if report is not None:
            report(message["doing"], message["share"])
    status = child.wait()
    words.seek(0)
    how = f"was ended by signal {-status}" if status < 0 else f"failed ({status})"
    hint = "; is there enough memory?" if status == -KILL else ""
    tail = words.read().strip().splitlines()[-TAIL:]
    what = question.get("run", question)
    raise ChildError("\n".join([f"the process for {what} {how}{hint}", *tail]))


def _end(child: "subprocess.Popen[str]") -> None:
    """Ends the process and its group, whatever is still there of them."""
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(child.pid, KILL)
        else:
            child.kill()
    child.wait()


def progress() -> Report:
    """Shows progress on a line of a terminal, else writes a line now and then."""
    last = time.monotonic()

    def show(what: str, share: float) -> None:
        nonlocal last
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\033[K{what[:60]} {share:.0%}")
        elif time.monotonic() - last > LOG_EVERY:
            last = time.monotonic()
            sys.stderr.write(f"{time.strftime('%H:%M:%S')} {what} {share:.0%}\n")

    return show


def main() -> None:
    """Does the job on the first line of stdin, and answers questions on later ones."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries print to stderr from now on
    job: Job = json.loads(sys.stdin.readline())
    if sys.platform == "linux":  # ends with its parent, even if that is killed
        ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != int(sys.argv[1]):
            sys.exit(1)

    def say(**message: Any) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    def report(what: str, share: float) -> None:
        say(doing=what, share=share)

    module, _, function = job.pop("run").partition(":")
    try:
        done = getattr(import_module(module), function)(**job, report=report)
        if isgenerator(done):
            say(result=next(done))
            for line in sys.stdin:
                say(result=done.send(json.loads(line)))
        else:
            say(result=done)
    except RefusedError as refusal:
        say(refused=str(refusal))
