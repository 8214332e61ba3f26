"""`gttf bench modes`: every way to load batches, beside the host that has it, too."""

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.bench.hosts import Ground, Host, Makers, Mode, hosts
from gttf_sampler.bench.machine import Missing
from gttf_sampler.bench.measure import Group, Peer, Row, compare
from gttf_sampler.bench.options import Options
from gttf_sampler.bench.process import Report, run_job

FEW = 2  # rounds are enough where one takes seconds: batches made by workers
ALONE = "without workers"


def chosen(only: list[str] | None, missing: Missing) -> list[tuple[Host, Mode]]:
    """The modes of these names, or all, in the order of the table."""
    found = [(host, mode) for host in hosts(missing) for mode in host.modes]
    known = [mode.name for _, mode in found]
    for name in only or ():
        if name not in known:
            _check.fail("--only", f"must name some of {', '.join(known)}", name)
    return [(host, mode) for host, mode in found if only is None or mode.name in only]


def measure(options: Options, report: Report) -> dict[str, Any]:
    """A process per graph, which stays in its memory for all modes that share it."""
    missing, groups = Missing(), list[Group]()
    rows = [mode for _, mode in chosen(options.only, missing)]
    for graph in dict.fromkeys(mode.graph for mode in rows):
        only = [mode.name for mode in rows if mode.graph == graph]
        job = {"run": f"{__name__}:run", "options": {**asdict(options), "only": only}}
        found = run_job(job, report)
        groups += found["groups"]
        for entry in found["left_out"]:
            missing.add(**entry)
    if not groups:
        raise ImportError("; ".join(f"{e['peer']}: {e['why']}" for e in missing))
    return {"groups": groups, "left_out": missing}


def run(options: dict[str, Any], report: Report) -> dict[str, Any]:
    """The job: the modes of `--only`, which share a graph."""
    asked, missing = Options(**options), Missing()
    modes = chosen(asked.only, missing)
    where = torch.device(asked.device)
    host, graph = modes[0][0], modes[0][1].graph
    report(f"making the graph '{graph}'", 0.0)
    scale = 1.0 if asked.scale is None else asked.scale
    try:
        ground = host.ground(graph, scale, asked.seed, where)
    except NotImplementedError as error:  # the host has no graphs on this device
        missing.add(host.name, str(error))
        return {"groups": [], "left_out": missing}
    rows: dict[str, list[Row]] = {"modes": [], "workers": []}
    for _, mode in modes:
        if mode.workers and where.type != "cpu":
            missing.add(mode.name, "workers cannot use a graph on a device")
            continue
        kind = "workers" if mode.workers else "modes"
        rows[kind].append(_row(host, ground, mode, asked, missing, report))
    size = ", ".join(f"{short(n)} {what}" for what, n in ground.facts.items())
    wanted = host.graphs[graph]
    title = f"{host.name}: {wanted.title}; {size}, {wanted.features:,} features"
    groups = [
        {"title": title, "columns": kind, "rows": some}
        for kind, some in rows.items()
        if some
    ]
    return {"groups": groups, "left_out": missing}


def _row(
    host: Host,
    ground: Ground,
    mode: Mode,
    asked: Options,
    missing: Missing,
    report: Report,
) -> Row:
    """One mode: milliseconds per batch, or seconds for all where there are workers."""
    seeds = ground.seeds(mode, asked.batches or mode.batches, asked.seed)
    makers = ground.peers(mode, seeds, asked.seed, missing)
    row: Row = {"name": mode.name, "host": host.name, "reach": mode.reach}
    row |= {"batch": seeds.shape[1], "batches": len(seeds)}
    title = mode.title(seeds.shape[1])
    if mode.workers:
        title += f", {len(seeds)} batches"
        return row | _with_workers(title, mode, makers, seeds, asked.rounds, report)
    entries = {name: make(0) for name, make in makers.items()}
    rows = compare(title, entries, seeds, asked.rounds, report)["rows"]
    return row | {"mode": title, **beside(rows)}


def _with_workers(
    title: str, mode: Mode, makers: Makers, seeds: Tensor, rounds: int, report: Report
) -> Row:
    """Seconds for all batches, with worker processes and without."""
    entries: dict[str, Peer] = {}
    for name, make in makers.items():
        entries[name], entries[f"{name} {ALONE}"] = make(mode.workers), make(0)
    rows = compare(title, entries, seeds, min(rounds, FEW), report)["rows"]
    for row in rows:
        for key in ("best", "median"):
            row[key] *= len(seeds) / 1e3
    row = {"mode": title, **beside(rows[::2]), "best_alone": rows[1]["best"]}
    if len(rows) > 2:
        row["theirs_alone"] = rows[3]["best"]
    row["differs"] = next((r["differs"] for r in rows if r["differs"]), None)
    row["ratio"] = None if row["differs"] else row["ratio"]
    return row


def beside(rows: list[Row]) -> Row:
    """The rows of a comparison as one: the first, and the second beside it."""
    ours, *others = rows
    row = {key: ours[key] for key in ("best", "median", "nodes", "edges")}
    row |= {"ours": ours["peer"], "peer": None, "ratio": None, "differs": None}
    for other in others:
        row |= {key: other[key] for key in ("peer", "ratio", "differs")}
        row |= {"theirs": other["best"], "their_median": other["median"]}
        row |= {"their_nodes": other["nodes"], "their_edges": other["edges"]}
    return row


def short(count: int) -> str:
    """A size in three digits: 14.6 M."""
    if count >= 10**6:
        return f"{count / 1e6:.3g} M"
    return f"{count / 1e3:.3g} k" if count >= 10**4 else f"{count:,}"
