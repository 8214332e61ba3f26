"""`gttf bench loader` and `modes`: batches with features, in every way to load them."""

from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import CompactAdj, _check
from gttf_sampler.bench import graphs
from gttf_sampler.bench.graphs import LINKS, Typed
from gttf_sampler.bench.hosts import (
    Host,
    LoaderSetting,
    Mode,
    ModeGraph,
    hosts,
)
from gttf_sampler.bench.machine import Missing, Report, run_job
from gttf_sampler.bench.measure import (
    FEW,
    Group,
    Options,
    Peer,
    Row,
    compare,
    draw_seeds,
)

CLASSES, HIDDEN = 47, 256


def load(graph: str, options: dict[str, Any], report: Report) -> dict[str, Any]:
    """The job: a group per host, our loaders and its own."""
    asked, missing, groups = Options(**options), Missing(), list[Group]()
    setting = read_setting(graph, asked)
    for host in hosts(missing):  # one graph of a host in memory at a time
        if peers := peers_of(host, setting, missing):
            how = setting.seeds, asked.rounds, report
            groups.append(compare(f"{host.name} loaders", peers, *how))
    return {"groups": groups, "left_out": missing}


def peers_of(
    host: Host, setting: LoaderSetting, missing: Missing, label: str = ""
) -> dict[str, Peer]:
    """The loaders of a host, by name and label."""
    return {
        name + label: Peer(partial(_batches, loader), host.work, device=setting.device)
        for name, loader in host.loaders(setting, missing).items()
    }


def _batches(loader: Any, seeds: Tensor) -> Any:
    """The batches of a loader, which has its seeds already."""
    return loader


def read_setting(graph: str, options: Options) -> LoaderSetting:
    """The batches that are asked for, on a graph that was written before."""
    adj = CompactAdj.open(graph, mmap=False, verify=False)
    seeds = draw_seeds(adj.num_rows, options.batches, options.batch, options.seed)
    x, y = made_features(adj.num_rows, options.features, options.seed)
    device = torch.device(options.device)
    return LoaderSetting(adj, x, y, options.fanouts, seeds, options.workers, device)


def made_features(
    nodes: int, features: int, seed: int, classes: int = CLASSES
) -> tuple[Tensor, Tensor]:
    """Random features [n, d] and labels [n]; what they are does not change the time."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(nodes, features, generator=generator)
    return x, torch.randint(classes, (nodes,), generator=generator)


ALONE = "without workers"


def chosen_modes(only: list[str] | None, missing: Missing) -> list[tuple[Host, Mode]]:
    """The modes of these names, or all, in the order of the table."""
    found = [(host, mode) for host in hosts(missing) for mode in host.modes]
    known = [mode.name for _, mode in found]
    for name in only or ():
        if name not in known:
            _check.fail("--only", f"must name some of {', '.join(known)}", name)
    return [(host, mode) for host, mode in found if only is None or mode.name in only]


def measure_modes(options: Options, report: Report) -> dict[str, Any]:
    """A process per graph, which stays in its memory for all modes that share it."""
    missing, groups = Missing(), list[Group]()
    rows = [mode for _, mode in chosen_modes(options.only, missing)]
    for graph in dict.fromkeys(mode.graph for mode in rows):
        only = [mode.name for mode in rows if mode.graph == graph]
        job = {
            "run": f"{__name__}:run_modes",
            "options": {**asdict(options), "only": only},
        }
        found = run_job(job, report)
        groups += found["groups"]
        for entry in found["left_out"]:
            missing.add(**entry)
    return {"groups": groups, "left_out": missing}


def run_modes(options: dict[str, Any], report: Report) -> dict[str, Any]:
    """The job: the modes of `--only`, which share a graph."""
    asked, missing = Options(**options), Missing()
    modes = chosen_modes(asked.only, missing)
    host, graph = modes[0][0], modes[0][1].graph
    wanted, where = host.graphs[graph], torch.device(asked.device)
    report(f"making the graph '{graph}'", 0.0)
    adj, x = made_graph(graph, wanted, asked)
    rows: dict[str, list[Row]] = {"modes": [], "workers": []}
    for _, mode in modes:
        if mode.workers and where.type != "cpu":
            missing.add(mode.name, "workers cannot use a graph on a device")
            continue
        seeds = _seeds(adj, mode, asked)
        setting = LoaderSetting(
            *(adj, x, None, list(mode.fanouts), seeds),
            device=where,
            mode=mode,
            seed=asked.seed,
        )
        if row := _mode_row(host, setting, asked.rounds, missing, report):
            rows["workers" if mode.workers else "modes"].append(row)
    typed = isinstance(adj, Typed)
    nodes = sum(adj.nodes.values()) if typed else adj.num_rows
    size = f"{short(nodes)} nodes, {short(adj.num_edges)} edges"
    title = f"{host.name}: {wanted.title}; {size}, {wanted.features:,} features"
    tables = ({"title": title, "columns": k, "rows": some} for k, some in rows.items())
    groups = [table for table in tables if table["rows"]]
    return {"groups": groups, "left_out": missing}


def made_graph(name: str, wanted: ModeGraph, asked: Options) -> tuple[Any, Any]:
    """A graph of the modes, a CompactAdj or typed, and the features of its nodes."""
    scale = 1.0 if asked.scale is None else asked.scale
    made = partial(made_features, features=wanted.features, seed=asked.seed)
    nodes = graphs.sized(wanted.nodes, scale)
    if wanted.types == 1:
        return graphs.plain(nodes, wanted.degree, asked.seed), made(nodes)[0]
    if wanted.nodes:
        adj = graphs.ring(wanted.types, nodes, wanted.degree, asked.seed)
    else:
        adj = graphs.database(scale, asked.seed, name)
    return adj, {kind: made(count)[0] for kind, count in adj.nodes.items()}


def _seeds(adj: Any, mode: Mode, asked: Options) -> Tensor:
    """The seeds of every batch [batches, b]: nodes, or positions of edges."""
    if isinstance(adj, Typed):
        nodes, links = next(iter(adj.nodes.values())), adj.edges.get(LINKS)
        edges = 0 if links is None else links.shape[1]
    else:
        nodes, edges = adj.num_rows, adj.num_edges
    count = edges if mode.kind == "links" else nodes
    return draw_seeds(count, asked.batches or mode.batches, mode.batch, asked.seed)


def _mode_row(
    host: Host, setting: LoaderSetting, rounds: int, missing: Missing, tell: Report
) -> Row | None:
    """One mode: milliseconds per batch, or seconds for all where there are workers."""
    mode, seeds = setting.mode, setting.seeds
    title = mode.title(seeds.shape[1])
    row: Row = {"name": mode.name, "host": host.name, "reach": mode.reach}
    row |= {"batch": seeds.shape[1], "batches": len(seeds), "mode": title}
    peers = peers_of(host, setting._replace(workers=mode.workers), missing)
    if not peers:
        return None
    if not mode.workers:
        return row | beside(compare(title, peers, seeds, rounds, tell)["rows"])
    peers |= peers_of(host, setting, missing, f" {ALONE}")
    row["mode"] = title = f"{title}, {len(seeds)} batches"
    # batches made by workers: one round takes seconds
    found = compare(title, peers, seeds, min(rounds, FEW), tell)["rows"]
    for some in found:
        for key in ("best", "median"):
            some[key] *= len(seeds) / 1e3
    rows, alone = found[: len(found) // 2], found[len(found) // 2 :]
    row |= {**beside(rows), "best_alone": alone[0]["best"]}
    if len(alone) > 1:
        row["theirs_alone"] = alone[1]["best"]
    row["differs"] = next((r["differs"] for r in found if r["differs"]), None)
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
