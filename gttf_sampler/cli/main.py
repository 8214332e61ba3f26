"""The command `gttf`: one sub-command per task, imported when it is asked for."""

import argparse
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NoReturn

from gttf_sampler import __version__

# The purpose of a sub-command. A module of this package has two functions for it:
# `add_<command>(parser)` and `run_<command>(args)`, which returns the lines to print at
# the end, or the exit status if it has printed them itself.
COMMANDS = {
    "bench": "compare speed, memory and scale with other samplers on this machine",
    "build": "sort edges into rows on disk, more of them than memory holds",
    "convert": "write a graph in another format, with the ids of its nodes",
    "demo": "show what a walk forest is, on the graph of the paper's Figure 1",
    "doctor": "tell what a report of a problem should say, and draw a batch",
    "embed": "learn embeddings of the nodes of an edge list",
    "features": "write values per node so that batches read them by id from disk",
    "info": "tell versions, backend and hosts, or what is in a file",
    "partition": "cut a graph into parts, one for each of several processes",
    "show": "show what is sampled around some nodes, as a picture or a page",
    "verify": "compare the draws of a device with those of the CPU, bit by bit",
    "warm": "compile the CPU kernels ahead of their first use, as for an image",
}
MODULES = dict.fromkeys(("build", "convert", "features", "info", "partition"), "files")
MODULES |= dict.fromkeys(("doctor", "verify"), "machine")
MODULES |= {"demo": "show"}  # the others have their own names
FAILED, BAD_ARGUMENTS, INTERRUPTED = 1, 2, 130


class Parser(argparse.ArgumentParser):
    """Complains in one sentence."""

    def error(self, message: str) -> NoReturn:
        """Says what is wrong, and nothing else."""
        self.exit(BAD_ARGUMENTS, f"{self.prog}: {message}; see '{self.prog} --help'\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `gttf <command> …`; returns the exit status."""
    words = sys.argv[1:] if argv is None else list(argv)
    parser = Parser(prog="gttf", description="Graph traversal with tensor functionals.")
    parser.add_argument("--version", action="version", version=f"gttf {__version__}")
    choices = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, purpose in COMMANDS.items():
        child = choices.add_parser(name, help=purpose, description=f"{purpose}.")
        if name in words[:1]:
            functions(name)[0](child)
    args = parser.parse_args(words)
    for stream in (sys.stdout, sys.stderr):  # some terminals know no lines but dashes
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        with _ended_by_signals():
            outcome = functions(args.command)[1](args)
    except KeyboardInterrupt:
        sys.stderr.write(f"gttf {args.command}: interrupted\n")
        return INTERRUPTED
    except (ValueError, TypeError) as error:
        sys.stderr.write(f"gttf {args.command}: {error}\n")
        return BAD_ARGUMENTS
    except (OSError, MemoryError, ImportError) as error:
        sys.stderr.write(f"gttf {args.command}: {error or 'out of memory'}\n")
        return FAILED
    if isinstance(outcome, int):
        return outcome
    sys.stdout.write("".join(f"{line}\n" for line in outcome))
    return 0


def functions(command: str) -> tuple[Callable[..., None], Callable[..., Any]]:
    """The functions that add the arguments of a command, and run it."""
    module = import_module(f"gttf_sampler.cli.{MODULES.get(command, command)}")
    return getattr(module, f"add_{command}"), getattr(module, f"run_{command}")


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM ends a command like Ctrl-C; a second signal does not stop the tidying."""
    numbers = (signal.SIGINT, signal.SIGTERM)

    def interrupt(number: int, frame: Any) -> NoReturn:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    try:
        before = {number: signal.signal(number, interrupt) for number in numbers}
    except ValueError:  # not the main thread, which nobody interrupts
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
