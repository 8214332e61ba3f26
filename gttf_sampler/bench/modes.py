"""`gttf bench modes`: every way to load batches, beside the host that has it, too."""

from dataclasses import asdict
from typing import Any

import torch

from gttf_sampler import _check
from gttf_sampler.bench.hosts import Ground, Host, Mode, hosts
from gttf_sampler.bench.machine import Missing
from gttf_sampler.bench.measure import FEW, Group, Options, Peer, Row, compare
from gttf_sampler.bench.process import Report, run_job

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
        rows[kind].append(_row(host.name, ground, mode, asked, missing, report))
    size = ", ".join(f"{short(n)} {what}" for what, n in ground.facts.items())
    wanted = host.graphs[graph]
    title = f"{host.name}: {wanted.title}; {size}, {wanted.features:,} features"
    tables = ({"title": title, "columns": k, "rows": some} for k, some in rows.items())
    groups = [table for table in tables if table["rows"]]
    return {"groups": groups, "left_out": missing}


def _row(
    host: str,
    ground: Ground,
    mode: Mode,
    asked: Options,
    missing: Missing,
    tell: Report,
) -> Row:
    """One mode: milliseconds per batch, or seconds for all where there are workers."""
    seeds = ground.seeds(mode, asked.batches or mode.batches, asked.seed)
    makers = ground.peers(mode, seeds, asked.seed, missing)
    title, rounds = mode.title(seeds.shape[1]), asked.rounds
    row: Row = {"name": mode.name, "host": host, "reach": mode.reach}
    row |= {"batch": seeds.shape[1], "batches": len(seeds), "mode": title}
    entries: dict[str, Peer] = {}
    if not mode.workers:
        entries = {name: make(0) for name, make in makers.items()}
        return row | beside(compare(title, entries, seeds, rounds, tell)["rows"])
    row["mode"] = title = f"{title}, {len(seeds)} batches"
    for name, make in makers.items():
        entries[name], entries[f"{name} {ALONE}"] = make(mode.workers), make(0)
    # batches made by workers: one round takes seconds
    rows = compare(title, entries, seeds, min(rounds, FEW), tell)["rows"]
    for some in rows:
        for key in ("best", "median"):
            some[key] *= len(seeds) / 1e3
    row |= {**beside(rows[::2]), "best_alone": rows[1]["best"]}
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
