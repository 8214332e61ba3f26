"""The process that does one job: `python -m gttf_sampler.bench.child`."""

import ctypes
import json
import os
import signal
import sys
from importlib import import_module
from typing import Any, TextIO

from gttf_sampler.bench.children import RefusedError

DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


def main() -> None:
    """Reads a job from stdin, does it, and writes lines of JSON to stdout."""
    out = _private_stdout()
    job: dict[str, Any] = json.load(sys.stdin)
    _die_with(int(job.pop("parent")))

    def say(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    module, _, function = job.pop("run").partition(":")
    work = getattr(import_module(module), function)
    try:
        done = work(
            **job, report=lambda what, share: say({"doing": what, "share": share})
        )
    except RefusedError as refusal:
        say({"refused": str(refusal)})
    else:
        say({"result": done})


def _private_stdout() -> TextIO:
    """The pipe to the parent; what libraries print goes to stderr from now on."""
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return pipe


def _die_with(parent: int) -> None:
    """Ends with the parent, even if that is killed and cannot say so."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    main()
