"""`gttf bench`: its tasks, their defaults and graphs, and the command."""

import argparse
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from gttf_sampler import _check, _files
from gttf_sampler._backends.compiling import HERE
from gttf_sampler.bench import (
    embedding,
    graphs,
    loader,
    machine,
    memory,
    report,
    step,
)
from gttf_sampler.bench.machine import Missing, Report, progress, run_job
from gttf_sampler.bench.measure import Options
from gttf_sampler.cli import reading
from gttf_sampler.cli.main import BAD_ARGUMENTS, FAILED

PACKAGE = "gttf_sampler.bench"
ALONE = "there is no peer to compare with here; what is left out says how to get some"

Result = dict[str, Any]
# what a row begins with if it is about us, and not about somebody to compare with
OURS = ("gttf", step.PRODUCTS)


class Task(NamedTuple):
    """One task."""

    purpose: str  # one line of `--help`
    defaults: dict[str, Any]  # options that are not those of `Options`
    job: str = ""  # "module:function" that does all of it on one graph, if one does
    devices: bool = False  # runs on a GPU, too
    compares: bool = True  # others should take part


LARGE = {"graph": memory.GRAPH}
TASKS = {
    "loader": Task("batches with features", {}, "loader:load", devices=True),
    "step": Task(
        "a training step of each model, with sampling",
        {"batches": 0, "rounds": 5},
        "step:run",
        devices=True,
    ),
    "modes": Task(
        "loaders in every mode, ours and the hosts'",
        {"graph": None, "batches": 0, "rounds": 5},
        devices=True,
    ),
    "walks": Task(
        "uniform and node2vec walks", {"batch": 4096, "batches": 10}, "embedding:walk"
    ),
    "embedding": Task("epochs of embeddings", {"graph": None, "rounds": 3}),
    "memory": Task("what a sampler holds", {"batches": 5}),
    "scale": Task(
        "a batch from graphs of all sizes", {**LARGE, "rounds": 5}, compares=False
    ),
    "distributed": Task(
        "batches from a graph in parts",
        {"batches": 10, "rounds": 5},
        "distributed:run",
        compares=False,
    ),
    "disk": Task(
        "features from a disk",
        {**LARGE, "scale": 0.05, "batches": 10, "rounds": 3},
        "disk:run",
        compares=False,
    ),
}
ALIASES = {"train": "step"}


def options_of(task: str, given: dict[str, Any]) -> Options:
    """Those that are given, else the task's own, else the usual ones."""
    said = {name: value for name, value in given.items() if value is not None}
    options = Options(**{**TASKS[task].defaults, **said})
    if "fanouts" not in said and options.graph in graphs.SIZES:
        options = replace(options, fanouts=graphs.SIZES[options.graph].fanouts)
    return options


def measure(task: str, options: Options, report: Report) -> Result:
    """The result of a task. Nothing it has made outlives it but what is to be kept."""
    busy = machine.busy()
    with tempfile.TemporaryDirectory(prefix="gttf-bench-", dir=options.tmp) as tmp:
        found = _measured(task, options, tmp, report)
    if not found["groups"]:
        left_out = found["left_out"]
        raise ImportError("; ".join(f"{e['peer']}: {e['why']}" for e in left_out))
    notes = [busy] if busy else []
    if TASKS[task].compares and alone(found):
        notes.append(ALONE)
    told = asdict(options).items()
    settings = {name: v for name, v in told if name not in ("graph", "tmp", "keep")}
    about = {"task": task, "settings": settings, "machine": machine.describe()}
    return {**about, "notes": notes, **found}


def _measured(task: str, options: Options, tmp: str, report: Report) -> Result:
    """The groups of a task, and who was left out."""
    if task == "modes":
        return loader.measure_modes(options, report)
    if task == "embedding":
        return embedding.measure(options, report)
    if task == "scale":
        return memory.measure_scale(options, _maker(tmp, report), report)
    facts = {"place": ""}  # the models of `--only` may have graphs of their own
    if task != "step" or step.reads_graph(options.only):
        facts = _graph(options, tmp, report)
    place = facts.pop("place")
    if task == "memory":
        found = memory.measure(options, place, tmp, report)
    else:
        job = {"run": f"{PACKAGE}.{TASKS[task].job}", "graph": place}
        found = run_job({**job, "options": asdict(options)}, report)
    return {**found, "graph": facts}


def alone(found: Result) -> bool:
    """True if no row is about a peer."""
    rows = [row for group in found["groups"] for row in group["rows"]]
    return all((row.get("peer") or "gttf").startswith(OURS) for row in rows)


def _graph(options: Options, tmp: str, report: Report) -> dict[str, Any]:
    """Makes or reads the graph that was asked for; returns its facts and its place."""
    source, place = str(options.graph), str(Path(tmp, "graph"))
    if source not in graphs.SIZES:
        job = {"run": f"{PACKAGE}.graphs:read_job", "source": source, "folder": place}
        return {"name": Path(source).name, **run_job(job, report)}
    size = graphs.scaled(source, options.scale)
    final = str(Path(options.keep or place).absolute())
    home = Path(final).parent
    graphs.check_room(home, size.nodes, size.edges)
    with tempfile.TemporaryDirectory(prefix="gttf-bench-", dir=home) as draft:
        made = str(Path(draft, "graph"))
        wanted = {"nodes": size.nodes, "edges": size.edges, "seed": options.seed}
        job = {"run": f"{PACKAGE}.graphs:make_job", "folder": made}
        facts = run_job({**job, **wanted}, report)
        os.replace(made, final)
    name = source + (f" × {size.scale:g}" if size.scale != 1 else "")
    return {"name": name, "place": final, **facts}


def _maker(tmp: str, report: Report) -> Callable[[Options], dict[str, Any]]:
    """Makes one graph after the other in the same place; only the last one is kept."""
    last = None

    def make(options: Options) -> dict[str, Any]:
        nonlocal last
        if last is not None:
            shutil.rmtree(last)
        facts = _graph(options, tmp, report)
        last = facts["place"]
        return facts

    return make


OK, DISAGREEMENT = 0, 3
COMMAND = "gttf bench "
OPTIONS = tuple(Options.__dataclass_fields__)
WRITTEN = ("tmp", "keep")  # options that change no number
LEAST = dict.fromkeys(("batch", "batches", "rounds", "features", "length"), 1)
LEAST |= {"workers": 0, "seed": 0}
FORMATS = (".png", ".pdf", ".svg")
ON_DEVICES = [name for name, task in TASKS.items() if task.devices]
EPILOG = f"exit status: {OK} done, {FAILED} a measurement failed, {BAD_ARGUMENTS} bad \
arguments, {DISAGREEMENT} a peer did other work (no ratio is printed), 130 interrupted"


def add_bench(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `gttf bench`; None stands for the task's default."""
    add = parser.add_argument
    parser.epilog = EPILOG
    names = ", ".join(f"{name} ({task.purpose})" for name, task in TASKS.items())
    add("task", choices=[*TASKS, *ALIASES], metavar="task", help=names)
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
    args.task = ALIASES.get(args.task, args.task)
    os.environ["GTTF_COMPILE"] = HERE  # what is measured are kernels
    result = measure(args.task, checked(args), progress())
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
    for name, least in LEAST.items():
        if given[name] is not None and given[name] < least:
            _check.fail(f"--{name}", f"must be {least} or more", given[name])
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
    options = options_of(args.task, given)
    _check_device(args, options)
    _check_graph(args, options)
    _check_places(args)
    return options


def _check_modes(args: argparse.Namespace) -> None:
    """Modes have graphs, fanouts and batches of their own."""
    if args.only is not None:
        loader.chosen_modes(args.only, Missing())
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
    if args.plot is not None:
        reading.check_plot(args, report.is_ours)
        if Path(args.plot).suffix not in FORMATS:
            _check.fail("--plot", f"must end in {', '.join(FORMATS)}", args.plot)


def _is_report(file: Path) -> bool:
    """Tells a report of this command, which a newer one may replace."""
    try:
        found = json.loads(file.read_bytes())
    except ValueError:
        return False
    return isinstance(found, dict) and str(found.get("command")).startswith(COMMAND)
