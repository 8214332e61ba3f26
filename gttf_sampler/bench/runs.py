"""Which jobs a task consists of; their graphs and files live as long as the task."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from gttf_sampler.bench import (
    graphs,
    in_processes,
    machine,
    task_chunks,
    task_embedding,
    task_gcn,
    task_memory,
    task_scale,
)
from gttf_sampler.bench.children import ChildError, Progress, run_job
from gttf_sampler.bench.in_processes import PACKAGE, add_ratio
from gttf_sampler.bench.peers import Missing, cure

JOBS = {
    "sampling": (
        *("graph", "fanouts", "batch", "batches", "rounds", "seed"),
        "device",
    ),
    "loader": (
        *("graph", "fanouts", "batch", "batches", "rounds", "seed"),
        *("features", "workers", "device"),
    ),
    "train": (
        *("graph", "fanouts", "batch", "batches", "rounds", "seed"),
        *("features", "device"),
    ),
    "modes": ("only", "scale", "batches", "rounds", "seed", "device"),
    "walks": ("graph", "batch", "batches", "rounds", "seed", "length"),
    "embedding": ("graph", "rounds", "seed"),
    "build": ("graph", "rounds", "seed"),
    "kernels": (
        *("graph", "fanouts", "batch", "batches", "rounds", "seed"),
        "length",
    ),
    "distributed": (
        *("graph", "fanouts", "batch", "batches", "rounds", "seed"),
        "features",
    ),
    "disk": (
        *("graph", "fanouts", "batch", "batches", "rounds", "seed"),
        *("features", "memory", "sweep"),
    ),
    "chunks": ("memory", "seed"),
    "memory": ("fanouts", "batch", "batches", "seed"),
    "scale": ("mode", "fanouts", "batch", "batches", "rounds", "seed"),
}
TASKS = tuple(JOBS)
DEFAULT_GRAPH = {
    **dict.fromkeys(TASKS, "reddit-like"),
    "scale": "papers-like",
    "disk": "papers-like",
    "chunks": "papers-like",
    "embedding": None,  # a small one that it makes itself
}
# What a row begins with if it is about us, and not about somebody to compare with.
OURS = ("gttf", "reading as many", "full batch")
ALONE = "there is no peer to compare with here; install some with: \
pip install torch-geometric 'dgl<2' packaging"
NOT_FOUND = ("ImportError", "ModuleNotFoundError")
USUAL = {"batch": 1024, "batches": 20, "rounds": 7}
SPECIAL: dict[str, dict[str, Any]] = {
    "modes": {"scale": 1.0, "batches": None, "rounds": 5},
    "walks": {"batch": 4096, "batches": 10},
    "train": {"batches": 10, "rounds": 3},
    "embedding": {"rounds": 3},
    "build": {"rounds": 5},
    "kernels": {"batches": 10, "rounds": 5},
    "distributed": {"batches": 10, "rounds": 5},
    "disk": {"scale": 0.05, "batches": 10, "rounds": 3},
    "memory": {"batches": 5},
    "scale": {"batches": 20, "rounds": 5},
}


def defaults(task: str) -> dict[str, Any]:
    """The options of a task that are not the same for all."""
    return {"graph": DEFAULT_GRAPH[task], **USUAL, **SPECIAL.get(task, {})}


def measure(task: str, options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """The result of a task. Nothing it has made outlives it but what is to be kept."""
    made = options["graph"] in graphs.SIZES
    if options.get("fanouts") is None:
        usual = graphs.SIZES.get(options["graph"], graphs.SIZES["products-like"])
        options = {**options, "fanouts": usual.fanouts}
    busy = machine.busy()
    with tempfile.TemporaryDirectory(prefix="gttf-bench-", dir=options["tmp"]) as tmp:
        if task == "scale" and options["mode"] != "plain":
            found = in_processes.typed_scale(options, progress)
        elif task == "scale":
            found = _scale(options, tmp, progress)
        elif task == "embedding":
            grows = options["scale"] is not None
            work = task_embedding.grow if grows else task_embedding.compare
            found = work(options, progress)
        elif task == "modes":
            found = in_processes.modes(options, progress)
        elif task == "chunks":
            found = task_chunks.measure(options, tmp, progress)
        else:
            facts = (
                _graph(options, tmp, progress)
                if made
                else _given(options, tmp, progress)
            )
            found = _of_one_graph(task, options, facts, tmp, progress)
            found["graph"] = facts
    settings = {name: options[name] for name in JOBS[task] if name != "graph"}
    grows = task == "scale" or (task == "embedding" and options["scale"] is not None)
    compares = not grows and task not in ("distributed", "disk", "chunks")
    lonely = compares and alone(found["groups"])
    return {
        "task": task,
        "settings": settings,
        "machine": machine.describe(),
        "notes": [*([busy] if busy else []), *([ALONE] if lonely else [])],
        **found,
    }


def alone(groups: list[dict[str, Any]]) -> bool:
    """Whether no row is about a peer."""
    named = [row["peer"] for group in groups for row in group["rows"] if row["peer"]]
    return all(peer.startswith(OURS) for peer in named)


def _of_one_graph(
    task: str,
    options: dict[str, Any],
    facts: dict[str, Any],
    tmp: str,
    progress: Progress,
) -> dict[str, Any]:
    """The groups of a task that needs one graph."""
    place = facts.pop("place")
    if task == "memory":
        return _memory(options, place, tmp, progress)
    wanted = {name: options[name] for name in JOBS[task] if name != "graph"}
    job = {"run": f"{PACKAGE}.task_{task}:run", "graph": place, **wanted}
    found: dict[str, Any] = run_job(job, progress)
    if task in ("walks", "kernels"):
        for group in found["groups"]:
            for row in group["rows"]:
                if row["edges"] is not None and "rate" not in row:
                    row["rate"] = row["edges"] / row["best"] / 1e3
    if task == "train" and options["device"] == "cpu":
        extra = _gcn(options, tmp, progress)
        found["groups"] += extra["groups"]
        found["left_out"] += extra["left_out"]
    return found


def _graph(options: dict[str, Any], tmp: str, progress: Progress) -> dict[str, Any]:
    """Makes the graph that was asked for; returns its facts and its place."""
    name = options["graph"]
    size = graphs.scaled(name, options["scale"])
    keep = options.get("keep")
    home = Path(keep).absolute().parent if keep else Path(tmp)
    graphs.check_room(home, size.nodes, size.edges)
    with tempfile.TemporaryDirectory(prefix="gttf-bench-", dir=home) as draft:
        place = str(Path(draft, "graph"))
        job: dict[str, Any] = {"run": f"{PACKAGE}.inputs:make", "folder": place}
        job |= {"nodes": size.nodes, "edges": size.edges, "seed": options["seed"]}
        facts: dict[str, Any] = run_job(job, progress)
        final = str(Path(keep).absolute()) if keep else str(Path(tmp, "graph"))
        os.replace(place, final)
    scale = f" × {size.scale:g}" if size.scale != 1 else ""
    return {"name": name + scale, "place": final, **facts}


def _given(options: dict[str, Any], tmp: str, progress: Progress) -> dict[str, Any]:
    """Reads the graph of the user; returns its facts and where it is now."""
    source = options["graph"]
    if Path(source, "header.json").is_file():
        job = {"run": f"{PACKAGE}.inputs:look", "folder": source}
        return {"name": Path(source).name, "place": source, **run_job(job, progress)}
    place = str(Path(tmp, "graph"))
    job = {"run": f"{PACKAGE}.inputs:convert", "source": source, "folder": place}
    return {"name": Path(source).name, "place": place, **run_job(job, progress)}


def _memory(
    options: dict[str, Any], place: str, tmp: str, progress: Progress
) -> dict[str, Any]:
    """A process per subject; the ratio is of what is held."""
    file = str(Path(tmp, "edges.npy"))
    job = {"run": f"{PACKAGE}.task_memory:write_edges", "graph": place, "file": file}
    facts = run_job({**job, "seed": options["seed"]}, progress)
    names, missing = task_memory.subjects()
    wanted = {name: options[name] for name in JOBS["memory"]}
    job = {"run": f"{PACKAGE}.task_memory:measure", "file": file, **wanted}
    rows = _subjects(names, {**job, "nodes": facts["nodes"]}, missing, progress)
    add_ratio(rows, "held")
    size = (
        f"{facts['edges']:,} edges, which are {rows[0]['input'] / 1e6:,.0f} MB as input"
    )
    title = f"to sample from {size}"
    return {"groups": [{"title": title, "rows": rows}], "left_out": missing}


def _gcn(options: dict[str, Any], tmp: str, progress: Progress) -> dict[str, Any]:
    """The memory of a GCN on every dataset there is, a process per subject."""
    names, missing = task_gcn.subjects()
    root = options.get("root")
    datasets = [task_gcn.MADE]
    if root is not None:
        datasets = [n for n in task_gcn.NAMES if Path(root, n, "raw").is_dir()]
    groups = []
    for dataset in datasets:
        folder = str(Path(tmp, dataset))
        job = {"run": f"{PACKAGE}.task_gcn:write_dataset", "name": dataset}
        run_job({**job, "root": root, "folder": folder}, progress)
        job = {"run": f"{PACKAGE}.task_gcn:measure", "folder": folder}
        rows = _subjects(names, job, missing, progress)
        add_ratio(rows, "peak")
        size = f"{rows[0]['nodes']:,} nodes, {rows[0]['edges']:,} edges"
        title = f"memory of training a GCN: {dataset}, {size}"
        facts = {"name": dataset, "nodes": rows[0]["nodes"], "edges": rows[0]["edges"]}
        group = {"title": title, "columns": "gcn", "graph": facts, "rows": rows}
        groups.append(group)
        shutil.rmtree(folder)
    return {"groups": groups, "left_out": missing}


def _subjects(
    names: list[str], job: dict[str, Any], missing: Missing, progress: Progress
) -> list[dict[str, Any]]:
    """A row per subject, each from a process of its own; who fails is left out."""
    rows = []
    for name in names:
        try:
            rows.append(run_job({**job, "subject": name}, progress))
        except ChildError as error:
            if name == names[0]:  # ours, which everyone is compared to
                raise
            why = str(error).splitlines()[-1]
            if why.startswith(NOT_FOUND) and "pip install" not in why:
                why += f"; {cure(task_gcn.MODULES[name.removeprefix('gttf_')])}"
            missing.add(name, why)
    return rows


def _scale(options: dict[str, Any], tmp: str, progress: Progress) -> dict[str, Any]:
    """A graph after the other, the largest last; each is removed after its turn."""
    scale = options["scale"]
    largest = graphs.scaled("papers-like", scale)
    graphs.check_room(tmp, largest.nodes, largest.edges)
    wanted = {name: options[name] for name in JOBS["scale"] if name != "mode"}
    rows: list[dict[str, Any]] = []
    for part in task_scale.steps(largest.scale):
        last = part == largest.scale
        asked = {"graph": "papers-like", "scale": part, "seed": options["seed"]}
        facts = _graph(
            asked | ({"keep": options["keep"]} if last else {}), tmp, progress
        )
        job = {"run": f"{PACKAGE}.task_scale:measure", "graph": facts["place"]}
        rows.append(run_job({**job, **wanted}, progress))
        if not (last and options["keep"]):
            shutil.rmtree(facts["place"])
    add_ratio(rows, "best")
    title = (
        f"{options['batch']:,} seeds, fanouts {options['fanouts']}, mapped from disk"
    )
    return {"groups": [{"title": title, "rows": rows}], "left_out": []}
