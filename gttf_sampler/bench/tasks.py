"""The tasks of `gttf bench`: their defaults, their graphs and the jobs they start."""

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from gttf_sampler.bench import embedding, graphs, machine, memory, modes, step
from gttf_sampler.bench.measure import Options
from gttf_sampler.bench.process import Report, run_job

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
        return modes.measure(options, report)
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
