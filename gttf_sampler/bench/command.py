"""The arguments of `gttf bench`, and what becomes of its results."""

import argparse
import json
import shlex
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gttf_sampler import _check, _files
from gttf_sampler.bench import (
    bar,
    graphs,
    modes,
    plots,
    runs,
    tables,
    task_embedding,
    task_gcn,
    task_scale,
)
from gttf_sampler.bench.children import ChildError, RefusedError

OK, FAILED, BAD_ARGUMENTS, DISAGREEMENT = 0, 1, 2, 3
COMMAND = "gttf bench "
SAID = (
    *("graph", "scale", "fanouts", "batch", "batches", "rounds", "only", "root"),
    "memory",
)
USUAL = (
    *(("features", 100), ("workers", 0), ("length", 20), ("seed", 0)),
    *(("mode", "plain"), ("device", "cpu")),
)
ON_DEVICES = ("sampling", "loader", "train", "modes")
FORMATS = (".png", ".pdf", ".svg")
EPILOG = f"exit status: {OK} done, {FAILED} a measurement failed, {BAD_ARGUMENTS} bad \
arguments, {DISAGREEMENT} a peer did other work (no ratio is printed), 130 interrupted"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds everything that `gttf bench` takes."""
    add = parser.add_argument
    parser.epilog = EPILOG
    add("task", choices=list(runs.TASKS), help="what to measure")
    names = ", ".join(graphs.SIZES)
    add("--graph", help=f"{names}, or a file: edge list, .npz, CompactAdj directory")
    add("--scale", type=float, help="size of a made graph; 1 is that of the real one")
    add("--fanouts", type=int, nargs="+", help="neighbours per hop, seeds first")
    add("--batch", type=int, help="seeds per batch, or walks")
    add("--batches", type=int, help="batches per round")
    add("--rounds", type=int, help="rounds; everyone takes a turn in each")
    add("--features", type=int, default=100, help="features per node (100)")
    add("--workers", type=int, default=0, help="worker processes of a loader (0)")
    add("--length", type=int, default=20, help="steps of a walk (20)")
    names = ", ".join(mode.name for mode in modes.MODES)
    add("--only", nargs="+", metavar="NAME", help=f"rows of 'modes': {names}")
    what = "graphs of 'scale': one node type on disk, typed, typed with times (plain)"
    add("--mode", choices=task_scale.MODES, default="plain", help=what)
    what = f"where to sample, for {', '.join(ON_DEVICES)} (cpu)"
    add("--device", default="cpu", help=what)
    what = "GB that 'disk' supposes there are, or that 'chunks' sorts in"
    add("--memory", type=float, metavar="GB", help=what)
    what = "for 'disk': which gaps and sizes of reads are the best"
    add("--sweep", action="store_true", help=what)
    add("--root", help="folder with Cora and CiteSeer of Planetoid, for 'train'")
    add("--seed", type=int, default=0, help="of graphs and seed nodes (0)")
    add("--tmp", default=tempfile.gettempdir(), help="where graphs are made")
    add("--keep", metavar="DIR", help="keep the made graph there")
    add("--json", nargs="?", const="-", metavar="FILE", help="numbers as JSON")
    add("--plot", metavar="FILE", help=f"picture, {', '.join(FORMATS)}")
    force = "overwrite what is there, even if it is no report or picture of this"
    add("--force", action="store_true", help=force)


def run(args: argparse.Namespace) -> int:
    """Measures, shows, writes; returns the exit status."""
    try:
        options = checked(args)
        with bar.progress() as progress:
            result = runs.measure(args.task, options, progress)
    except (ValueError, TypeError, RefusedError) as error:
        sys.stderr.write(f"gttf bench: {error}\n")
        return BAD_ARGUMENTS
    except (ChildError, ImportError, OSError) as error:
        sys.stderr.write(f"gttf bench: {error}\n")
        return FAILED
    result["command"] = command_line(args)
    report = json.dumps(result, indent=1) + "\n"
    sys.stdout.write(report if args.json == "-" else tables.render(result))
    if args.json and args.json != "-":
        with _files.replacing(args.json) as (out,):
            out.write(report.encode())
    if args.plot:
        plots.save(result, args.plot)
    return DISAGREEMENT if any_differs(result) else OK


def any_differs(result: dict[str, Any]) -> bool:
    """Whether some peer did other work than it was compared to."""
    return any(row.get("differs") for g in result["groups"] for row in g["rows"])


def checked(args: argparse.Namespace) -> dict[str, Any]:
    """All options of a task, after checks of everything that can be wrong."""
    options = {**vars(args), **runs.defaults(args.task)}
    options.update({k: v for k, v in vars(args).items() if v is not None})
    for name in ("batch", "batches", "rounds", "features", "length"):
        value = options.get(name)
        if value is not None and value < 1:
            _check.fail(f"--{name}", "must be 1 or more", value)
    if args.workers < 0:
        _check.fail("--workers", "must be 0 or more", args.workers)
    if args.seed < 0:
        _check.fail("--seed", "must be 0 or more", args.seed)
    if args.fanouts is not None and any(f < 1 and f != -1 for f in args.fanouts):
        rule = "must hold positive integers or -1"
        _check.fail("--fanouts", rule, args.fanouts)
    if args.task == "train" and len(args.fanouts or [1, 1]) != 2:
        _check.fail("--fanouts", "must be two, for two layers", args.fanouts)
    if args.task == "modes":
        _check_modes(args)
    elif args.only is not None:
        _check.fail("--only", "is for 'modes'", args.only)
    if args.mode != "plain" and args.task != "scale":
        _check.fail("--mode", "is for 'scale'", args.mode)
    if args.sweep and args.task != "disk":
        _check.fail("--sweep", "is for 'disk'", args.task)
    if args.memory is not None and args.task not in ("disk", "chunks"):
        _check.fail("--memory", "is for 'disk' and 'chunks'", args.task)
    if args.memory is not None:
        _check.positive("--memory", args.memory)
    _check_device(args)
    _check_graph(args)
    _check_places(args)
    return options


def _check_device(args: argparse.Namespace) -> None:
    """The device must be there, and the task one that runs on it."""
    device = _check.device("--device", args.device)
    if device.type == "cpu":
        return
    if args.task not in ON_DEVICES:
        rule = f"must be cpu unless the task is one of {', '.join(ON_DEVICES)}"
        _check.fail("--device", rule, args.device)
    if args.workers:
        rule = "must be 0 where a graph is on a device"
        _check.fail("--workers", rule, args.workers)


def _check_modes(args: argparse.Namespace) -> None:
    """What each mode says for itself cannot be said for all."""
    modes.chosen(args.only)
    for name in ("graph", "fanouts", "batch", "keep"):
        value = getattr(args, name)
        if value is not None:
            _check.fail(f"--{name}", "must be left to each mode", value)


def _check_graph(args: argparse.Namespace) -> None:
    """The graph must be one that can be made or read, and fit the task."""
    given = args.graph is not None and args.graph not in graphs.SIZES
    if given and not Path(args.graph).exists():
        rule = f"must be {', '.join(graphs.SIZES)}, or a file that is there"
        _check.fail("--graph", rule, args.graph)
    if given and args.scale is not None:
        _check.fail("--scale", "is for made graphs", f"{args.scale} with {args.graph}")
    if given and args.keep is not None:
        _check.fail("--keep", "is for made graphs", f"{args.keep} with {args.graph}")
    if args.task == "scale" and args.graph not in (None, "papers-like"):
        _check.fail("--graph", "must be papers-like for 'scale'", args.graph)
    if args.task == "chunks" and given:
        _check.fail("--graph", "must be a made one for 'chunks'", args.graph)
    if args.task == "chunks" and args.keep is not None:
        _check.fail("--keep", "must be left out for 'chunks'", args.keep)
    if args.task == "embedding":
        _check_embedding(args)
        return
    if args.mode != "plain":
        task_scale.typed_steps(args.scale)
        if args.keep is not None:
            _check.fail("--keep", "is for graphs on disk", args.keep)
    elif args.scale is not None:
        graphs.scaled(str(args.graph or runs.DEFAULT_GRAPH[args.task]), args.scale)
    if args.root is not None:
        task_gcn.check_root(args.root)


def _check_embedding(args: argparse.Namespace) -> None:
    """Edges are given, or made in memory, as many as LiveJournal has times a scale."""
    if args.graph in graphs.SIZES:
        _check.fail("--graph", "must be a file for 'embedding'", args.graph)
    if args.keep is not None:
        _check.fail("--keep", "is for graphs on disk", args.keep)
    if args.scale is not None:
        task_embedding.check_scale(args.scale)


def _check_places(args: argparse.Namespace) -> None:
    """What is to be written must have a place, before anything is measured."""
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
    _files.check_free("--plot", args.plot, args.force, plots.is_ours)
    if Path(args.plot).suffix not in FORMATS:
        _check.fail("--plot", f"must end in {', '.join(FORMATS)}", args.plot)
    if find_spec("matplotlib") is None:
        cure = "install it with: pip install matplotlib"
        _check.fail("--plot", "needs matplotlib", "none", cure)


def _is_report(file: Path) -> bool:
    """Whether this command has written it, so that a newer one may take its place."""
    try:
        found = json.loads(file.read_bytes())
    except ValueError:
        return False
    return isinstance(found, dict) and str(found.get("command")).startswith(COMMAND)


def command_line(args: argparse.Namespace) -> str:
    """The command that gives these numbers again, without where it wrote them."""
    words = [*COMMAND.split(), args.task]
    for name in SAID:
        value = getattr(args, name)
        if value is not None:
            values = value if isinstance(value, list) else [value]
            words += [f"--{name}", *map(str, values)]
    for name, usual in USUAL:
        if getattr(args, name) != usual:
            words += [f"--{name}", str(getattr(args, name))]
    return shlex.join([*words, "--sweep"] if args.sweep else words)
