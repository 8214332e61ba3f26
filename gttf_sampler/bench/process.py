"""Jobs in processes of their own, which leave nothing behind, and their progress.

`python -m gttf_sampler.bench.process` is such a process: it reads a job from stdin and
writes lines of JSON to stdout.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from typing import IO, Any, TextIO

# libgomp reads its policy when it is loaded: threads that spin while they wait hurt
# every peer on a machine that does anything else.
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive"}
HERE = "gttf_sampler.bench.process"
PATIENCE = 5  # seconds between asking a process to end and killing it
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
TAIL = 12  # lines of a failed child's stderr that are repeated
LOG_EVERY = 20  # seconds between two lines of progress in a log

Report = Callable[[str, float], None]  # what is being done, and the share that is done
Job = dict[str, Any]


class ChildError(RuntimeError):
    """A job that did not finish, with the last lines that its process wrote."""


class RefusedError(ValueError):
    """A job that was given something it cannot use; one sentence for the user."""


def run_job(job: Job, report: Report | None = None) -> Any:
    """Runs {"run": "package.module:function", **arguments} and returns its result."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as words,
        tempfile.TemporaryDirectory(prefix="gttf-bench-") as scratch,
    ):
        # what libraries leave in the place for temporary files goes with it
        places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), scratch)
        path = {"PYTHONPATH": os.pathsep.join(sys.path)}
        child = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", HERE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            encoding="utf-8",
            env={**os.environ, **ENVIRONMENT, **places, **path},
            start_new_session=True,  # its own workers end with it, by their group
        )
        try:
            return _converse(child, {**job, "parent": os.getpid()}, report, words)
        finally:
            _end(child)


def _converse(
    child: "subprocess.Popen[str]", job: Job, report: Report | None, words: IO[str]
) -> Any:
    """Hands over the job and listens until there is a result."""
    if child.stdin is None or child.stdout is None:
        raise ChildError("the process has no pipes")
    with contextlib.suppress(BrokenPipeError):  # it says below why it has gone
        child.stdin.write(json.dumps(job))
        child.stdin.close()
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
    raise ChildError("\n".join([f"the process for {job['run']} {how}{hint}", *tail]))


def _end(child: "subprocess.Popen[str]") -> None:
    """Ends the process and whatever it has started, if it is still there."""
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    if child.poll() is None:
        _signal(child, signal.SIGTERM)
        try:
            child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    _signal(child, KILL)


def _signal(child: "subprocess.Popen[str]", number: int) -> None:
    """Sends a signal to the child's group, which may be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(child.pid, number)
        elif child.poll() is None:
            child.terminate()


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
    """Does the job that stands on stdin."""
    out = _private_stdout()
    job: Job = json.load(sys.stdin)
    _die_with(int(job.pop("parent")))

    def say(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    def report(what: str, share: float) -> None:
        say({"doing": what, "share": share})

    # not this file once more under the name of __main__: its errors are other classes
    refused = import_module(HERE).RefusedError
    module, _, function = job.pop("run").partition(":")
    try:
        done = getattr(import_module(module), function)(**job, report=report)
    except refused as refusal:
        say({"refused": str(refusal)})
    else:
        say({"result": done})


def _private_stdout() -> TextIO:
    """Returns the pipe to the parent; libraries print to stderr from now on."""
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return pipe


def _die_with(parent: int) -> None:
    """Ends this process with its parent, even if that is killed."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    main()
