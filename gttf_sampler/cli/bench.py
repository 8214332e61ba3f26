"""`gttf bench`: numbers of this machine, beside others."""

import argparse
import json
import os
import shlex
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from gttf_sampler import _check, _files
from gttf_sampler._backends.compiling import HERE
from gttf_sampler.bench import graphs, memory, modes, report, step, tasks
from gttf_sampler.bench.machine import Missing
from gttf_sampler.bench.measure import Options
from gttf_sampler.bench.process import ChildError, RefusedError, progress

OK, FAILED, BAD_ARGUMENTS, DISAGREEMENT = 0, 1, 2, 3
COMMAND = "gttf bench "
OPTIONS = tuple(Options.__dataclass_fields__)
WRITTEN = ("tmp", "keep")  # options that change no number
FORMATS = (".png", ".pdf", ".svg")
ON_DEVICES = [name for name, task in tasks.TASKS.items() if task.devices]
EPILOG = f"exit status: {OK} done, {FAILED} a measurement failed, {BAD_ARGUMENTS} bad \
arguments, {DISAGREEMENT} a peer did other work (no ratio is printed), 130 interrupted"


def add_bench(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `gttf bench`; None stands for the task's default."""
    add = parser.add_argument
    parser.epilog = EPILOG
    names = ", ".join(f"{name} ({task.purpose})" for name, task in tasks.TASKS.items())
    add("task", choices=[*tasks.TASKS, *tasks.ALIASES], metavar="task", help=names)
    names = ", ".join(graphs.SIZES)
    add("--graph", help=f"{names}, or a file: edge list, .npz, CompactAdj directory")
    add("--scale", type=float, help="size of a made graph; 1 is that of the real one")
    add("--fanouts", type=int, nargs="+", help="neighbours per hop, seeds first")
    add("--batch", type=int, help="seeds per batch, or walks")
    add("--batches", type=int, help="batches per round")
    add("--rounds", type=int, help="rounds; everyone takes a turn in each")
    add("--features", type=int, help="features per node (100)")
    add("--workers", type=int, help="worker processes of a loader (0)")
    add("--length", type=int, help="steps of a walk (20)")
    add("--only", nargs="+", metavar="NAME", help="rows of 'modes', models of 'step'")
    add("--device", help=f"where to sample, for {', '.join(ON_DEVICES)} (cpu)")
    add("--memory", type=float, metavar="GB", help="GB that 'disk' supposes there are")
    add("--seed", type=int, help="of graphs and seed nodes (0)")
    add("--tmp", default=tempfile.gettempdir(), help="where graphs are made")
    add("--keep", metavar="DIR", help="keep the made graph there")
    add("--json", nargs="?", const="-", metavar="FILE", help="numbers as JSON")
    add("--plot", metavar="FILE", help=f"figure, {', '.join(FORMATS)}")
    force = "overwrite what is there, even if it is no report or figure of this"
    add("--force", action="store_true", help=force)


def run_bench(args: argparse.Namespace) -> int:
    """Measures, shows, writes; returns the exit status."""
    args.task = tasks.ALIASES.get(args.task, args.task)
    os.environ["GTTF_COMPILE"] = HERE  # what is measured are kernels
    try:
        options = checked(args)
        result = tasks.measure(args.task, options, progress())
    except (ValueError, TypeError, RefusedError) as error:
        sys.stderr.write(f"gttf bench: {error}\n")
        return BAD_ARGUMENTS
    except (ChildError, ImportError, OSError) as error:
        sys.stderr.write(f"gttf bench: {error}\n")
        return FAILED
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    result["command"] = command_line(args)
    text = json.dumps(result, indent=1) + "\n"
    sys.stdout.write(text if args.json == "-" else report.render(result))
    if args.json and args.json != "-":
        with _files.replacing(args.json) as (out,):
            out.write(text.encode())
    if args.plot:
        report.save(result, args.plot)
    differs = any(row.get("differs") for g in result["groups"] for row in g["rows"])
    return DISAGREEMENT if differs else OK


def command_line(args: argparse.Namespace) -> str:
    """The command that gives these numbers again, without where it wrote them."""
    words = [*COMMAND.split(), args.task]
    for name in OPTIONS:
        value = getattr(args, name)
        if value is not None and name not in WRITTEN:
            values = value if isinstance(value, list) else [value]
            words += [f"--{name}", *map(str, values)]
    return shlex.join(words)


def checked(args: argparse.Namespace) -> Options:
    """All options of a task, after checks of everything that can be wrong."""
    given = {name: getattr(args, name) for name in OPTIONS}
    for name in ("batch", "batches", "rounds", "features", "length"):
        if given[name] is not None and given[name] < 1:
            _check.fail(f"--{name}", "must be 1 or more", given[name])
    for name in ("workers", "seed"):
        if given[name] is not None and given[name] < 0:
            _check.fail(f"--{name}", "must be 0 or more", given[name])
    if args.fanouts is not None and any(f < 1 and f != -1 for f in args.fanouts):
        _check.fail("--fanouts", "must hold positive integers or -1", args.fanouts)
    if args.task == "step" and len(args.fanouts or [1, 1]) != 2:
        _check.fail("--fanouts", "must be two, for two layers", args.fanouts)
    for name, some in (("only", ["modes", "step"]), ("memory", ["disk"])):
        if given[name] is not None and args.task not in some:
            words = " and ".join(map(repr, some))
            _check.fail(f"--{name}", f"is for {words}", given[name])
    if args.task == "step":
        step.chosen(args.only)
    if args.memory is not None:
        _check.positive("--memory", args.memory)
    if args.task == "modes":
        _check_modes(args)
    options = tasks.options_of(args.task, given)
    _check_device(args, options)
    _check_graph(args, options)
    _check_places(args)
    return options


def _check_modes(args: argparse.Namespace) -> None:
    """Modes have graphs, fanouts and batches of their own."""
    if args.only is not None:
        modes.chosen(args.only, Missing())
    for name in ("graph", "fanouts", "batch", "keep"):
        value = getattr(args, name)
        if value is not None:
            _check.fail(f"--{name}", "must be left to each mode", value)


def _check_device(args: argparse.Namespace, options: Options) -> None:
    """The device must be there, and the task one that runs on it."""
    if _check.device("--device", options.device).type == "cpu":
        return
    if args.task not in ON_DEVICES:
        rule = f"must be cpu unless the task is one of {', '.join(ON_DEVICES)}"
        _check.fail("--device", rule, args.device)
    if options.workers:
        _check.fail("--workers", "must be 0 where a graph is on a device", args.workers)


def _check_graph(args: argparse.Namespace, options: Options) -> None:
    """The graph must be one that can be made or read, and fit the task."""
    given = args.graph is not None and args.graph not in graphs.SIZES
    if given and not Path(args.graph).exists():
        rule = f"must be {', '.join(graphs.SIZES)}, or a file that is there"
        _check.fail("--graph", rule, args.graph)
    if given or args.task == "embedding":
        for name in ("scale", "keep"):
            value = getattr(args, name)
            if value is not None:
                _check.fail(f"--{name}", "is for made graphs", value)
    if args.task == "embedding" and args.graph in graphs.SIZES:
        _check.fail("--graph", "must be a file for 'embedding'", args.graph)
    if args.task == "scale" and options.graph != memory.GRAPH:
        _check.fail("--graph", f"must be {memory.GRAPH} for 'scale'", args.graph)
    if options.graph in graphs.SIZES:
        graphs.scaled(options.graph, options.scale)


def _check_places(args: argparse.Namespace) -> None:
    """Everything that is to be written must have a place, before any measurement."""
    if not Path(args.tmp).is_dir():
        _check.fail("--tmp", "must be a directory", args.tmp)
    if args.keep is not None and Path(args.keep).exists():
        _check.fail("--keep", "must not be there yet", args.keep)
    if args.keep is not None and not Path(args.keep).absolute().parent.is_dir():
        _check.fail("--keep", "must be in a directory that is there", args.keep)
    if args.json not in (None, "-"):
        _files.check_free("--json", args.json, args.force, _is_report)
    if args.plot is None:
        return
    _files.check_free("--plot", args.plot, args.force, report.is_ours)
    if Path(args.plot).suffix not in FORMATS:
        _check.fail("--plot", f"must end in {', '.join(FORMATS)}", args.plot)
    if find_spec("matplotlib") is None:
        cure = "install it with: pip install matplotlib"
        _check.fail("--plot", "needs matplotlib", "none", cure)


def _is_report(file: Path) -> bool:
    """Tells a report of this command, which a newer one may replace."""
    try:
        found = json.loads(file.read_bytes())
    except ValueError:
        return False
    return isinstance(found, dict) and str(found.get("command")).startswith(COMMAND)
