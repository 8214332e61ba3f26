"""`gttf bench modes`: every way to load batches, against whoever has it, too."""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from gttf_sampler.bench import peers
from gttf_sampler.bench.measure import Peer, Report, compare
from gttf_sampler.bench.modes import GRAPHS, Mode, chosen
from gttf_sampler.bench.modes_pyg import Makers

HOSTS = {"PyG": "modes_pyg", "DGL": "modes_dgl"}
FEW = 2  # rounds are enough where one takes seconds: batches made by workers
ALONE = "without workers"

Row = dict[str, Any]


def run(
    graph: str,
    only: list[str],
    scale: float,
    batches: int | None,
    rounds: int,
    seed: int,
    report: Report,
    device: str = "cpu",
) -> dict[str, Any]:
    """The job: the modes of these names, which share a graph."""
    wanted = GRAPHS[graph]
    host = import_module(f"gttf_sampler.bench.{HOSTS[wanted.host]}")
    missing = peers.Missing()
    where = torch.device(device)
    if not host.can_run(where, missing):
        return {"groups": [], "left_out": missing}
    report(f"making the graph '{graph}'", 0.0)
    ground = host.ground(graph, scale, seed, where)
    loaders, workers = list[Row](), list[Row]()
    for mode in chosen(only):
        if mode.workers and where.type != "cpu":
            missing.add(mode.name, "workers cannot use a graph on a device")
            continue
        seeds = host.seeds(ground, mode, batches or mode.batches, seed)
        makers = host.contestants(ground, mode, seeds, seed, missing)
        row = {"name": mode.name, "host": wanted.host, "reach": mode.reach}
        row |= {"batch": seeds.shape[1], "batches": len(seeds)}
        if mode.workers:
            workers.append(row | with_workers(mode, makers, seeds, rounds, report))
        else:
            loaders.append(row | one_mode(mode, makers, seeds, rounds, report))
    size = ", ".join(f"{short(n)} {what}" for what, n in ground.facts.items())
    title = f"{wanted.host}: {wanted.title}; {size}, {wanted.features:,} features"
    found = []
    if loaders:
        found.append({"title": title, "rows": loaders})
    if workers:
        found.append({"title": title, "columns": "workers", "rows": workers})
    return {"groups": found, "left_out": missing}


def short(count: int) -> str:
    """A size in three digits: 14.6 M."""
    if count >= 10**6:
        return f"{count / 1e6:.3g} M"
    return f"{count / 1e3:.3g} k" if count >= 10**4 else f"{count:,}"


def one_mode(
    mode: Mode, makers: Makers, seeds: Tensor, rounds: int, report: Report
) -> Row:
    """Milliseconds per batch of ours and, if there is one, of the peer."""
    entries = {name: make(0) for name, make in makers.items()}
    title = mode.title(seeds.shape[1])
    rows = compare(title, entries, seeds, rounds, report)["rows"]
    return {"mode": title, **beside(rows)}


def with_workers(
    mode: Mode, makers: Makers, seeds: Tensor, rounds: int, report: Report
) -> Row:
    """Seconds for all batches, with worker processes and without."""
    entries: dict[str, Peer] = {}
    for name, make in makers.items():
        entries[name], entries[f"{name} {ALONE}"] = make(mode.workers), make(0)
    title = f"{mode.title(seeds.shape[1])}, {len(seeds)} batches"
    rows = compare(title, entries, seeds, min(rounds, FEW), report)["rows"]
    seconds = len(seeds) / 1e3
    for row in rows:
        row["best"], row["median"] = row["best"] * seconds, row["median"] * seconds
    row = {"mode": title, **beside(rows[::2])}
    row["best_alone"] = rows[1]["best"]
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
