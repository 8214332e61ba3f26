"""Tasks whose graphs live in the memory of their processes, and in no file."""

from typing import Any

from gttf_sampler.bench import task_scale
from gttf_sampler.bench.children import Progress, run_job
from gttf_sampler.bench.modes import chosen
from gttf_sampler.bench.peers import Missing

PACKAGE = "gttf_sampler.bench"


def modes(options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """A process per graph, which stays in its memory for all modes that share it."""
    groups: list[dict[str, Any]] = []
    missing = Missing()
    rows = chosen(options.get("only"))
    names = ("scale", "batches", "rounds", "seed", "device")
    wanted = {name: options[name] for name in names}
    for graph in dict.fromkeys(mode.graph for mode in rows):
        only = [mode.name for mode in rows if mode.graph == graph]
        job = {"run": f"{PACKAGE}.task_modes:run", "graph": graph, "only": only}
        found = run_job({**job, **wanted}, progress)
        groups += found["groups"]
        for entry in found["left_out"]:
            missing.add(**entry)
    if not groups:
        raise ImportError("; ".join(f"{e['peer']}: {e['why']}" for e in missing))
    return {"groups": groups, "left_out": missing}


def typed_scale(options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """A process per size, which makes its graph itself and takes it along."""
    names = "mode", "fanouts", "batch", "batches", "rounds", "seed"
    wanted = {name: options[name] for name in names}
    job = {"run": f"{PACKAGE}.task_scale:measure_typed", **wanted}
    sizes = task_scale.typed_steps(options["scale"])
    rows = [run_job({**job, "edges": edges}, progress) for edges in sizes]
    add_ratio(rows, "best")
    timed = ", none later than its seed" if options["mode"] == "temporal" else ""
    title = (
        f"{options['batch']:,} seeds, fanouts {options['fanouts']}, 12 relations{timed}"
    )
    return {"groups": [{"title": title, "rows": rows}], "left_out": []}


def add_ratio(rows: list[dict[str, Any]], key: str) -> None:
    """How many times the first row's value each other one has."""
    for row in rows[1:]:
        row["ratio"] = row[key] / rows[0][key] if rows[0][key] > 0 else None
