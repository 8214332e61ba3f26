"""Runs a job in a process of its own, and leaves none behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import IO, Any

# libgomp reads its policy when it is loaded: threads that spin while they wait hurt
# every peer on a machine that does anything else.
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive", "DGLBACKEND": "pytorch"}
PATIENCE = 5  # seconds between asking a process to end and making it
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
TAIL = 12  # lines of a failed child's complaint that are repeated

Progress = Callable[[str, float], None]  # what is being done, and how much of it is
Job = dict[str, Any]


class ChildError(RuntimeError):
    """A job that did not finish, with the last words of its process."""


class RefusedError(ValueError):
    """A job that was given something it cannot use; one sentence for the user."""


def run_job(job: Job, progress: Progress | None = None) -> Any:
    """What `job` returns; {"run": "package.module:function", ...} says what it is."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as words,
        tempfile.TemporaryDirectory(prefix="gttf-bench-") as scratch,
    ):
        # what libraries leave in the place for temporary files goes with it
        places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), scratch)
        path = {"PYTHONPATH": os.pathsep.join(sys.path)}
        child = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "gttf_sampler.bench.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            encoding="utf-8",
            env={**os.environ, **ENVIRONMENT, **places, **path},
            start_new_session=True,  # its own workers end with it, by their group
        )
        try:
            return _converse(child, {**job, "parent": os.getpid()}, progress, words)
        finally:
            _end(child)


def _converse(
    child: "subprocess.Popen[str]",
    job: Job,
    progress: Progress | None,
    words: IO[str],
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
        if progress is not None:
            progress(message["doing"], message["share"])
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
