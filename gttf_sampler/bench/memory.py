"""`gttf bench memory` and `scale`: the memory of samplers, and graphs of all sizes.

Every sampler has a process of its own. It first does everything once on a tiny graph,
so that libraries are loaded and kernels compiled. Then it reads the edges, makes its
sampler, drops what that no longer needs, and samples.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import CompactAdj, sample_rooted
from gttf_sampler.bench.graphs import SIZES, shuffled
from gttf_sampler.bench.hosts import MakeSampler, hosts
from gttf_sampler.bench.machine import (
    Missing,
    PeakMemory,
    Report,
    private,
    run_job,
    run_jobs,
    settled,
)
from gttf_sampler.bench.measure import (
    Options,
    Peer,
    Row,
    Work,
    add_ratio,
    compare,
    draw_seeds,
    each,
)

TINY = 64  # nodes of the graph that everything is tried on first
GRAPH = "papers-like"  # of `scale`
SMALLEST = 10**6

MakeGraph = Callable[[Options], dict[str, Any]]  # → facts, with its "place"


def measure(options: Options, place: str, tmp: str, report: Report) -> dict[str, Any]:
    """A process per sampler; the ratio is of the memory that is held."""
    file, missing = str(Path(tmp, "edges.npy")), Missing()
    job: dict[str, Any] = {"run": f"{__name__}:write_edges", "graph": place}
    facts = run_job({**job, "file": file, "seed": options.seed}, report)
    job = {"run": f"{__name__}:run", "options": asdict(options), **facts, "file": file}
    rows = list(run_jobs(job, samplers(missing), missing, report).values())
    add_ratio(rows, "held")
    size = f"{facts['edges']:,} edges, which are {rows[0]['input'] / 1e6:,.0f} MB"
    group = {"title": f"to sample from {size} as input", "rows": rows}
    return {"groups": [group], "left_out": missing}


def write_edges(graph: str, file: str, seed: int, report: Report) -> dict[str, Any]:
    """The job that writes the input of all samplers: shuffled edges, int64 [2, m]."""
    report("shuffling the edges", 0.0)
    adj = CompactAdj.open(graph, mmap=False, verify=False)
    np.save(file, shuffled(adj, seed).numpy())
    return {"nodes": adj.num_rows, "edges": adj.num_edges}


def samplers(missing: Missing) -> dict[str, MakeSampler]:
    """Ours, and those of every host."""
    found: dict[str, MakeSampler] = {
        "gttf CompactAdj": _rows,
        "gttf CompactAdj, no edge ids": partial(_rows, ids=False),
    }
    for host in hosts(missing):
        found |= host.samplers
    return found


def run(
    name: str,
    options: dict[str, Any],
    file: str,
    nodes: int,
    edges: int,
    report: Report,
) -> Row:
    """The job of one sampler; returns its row."""
    asked, make = Options(**options), samplers(Missing())[name]
    generator = torch.Generator().manual_seed(0)
    tiny = torch.randint(TINY, (2, 10 * TINY), generator=generator)
    make(tiny, TINY, asked.fanouts, torch.arange(TINY))()
    seeds = draw_seeds(nodes, asked.batches, asked.batch, asked.seed).view(-1)
    report(name, 0.1)
    before = settled()
    edge_index = torch.from_numpy(np.load(file))
    size, read = edge_index.nbytes, settled()
    with PeakMemory() as making:
        sample = make(edge_index, nodes, asked.fanouts, seeds)
        del edge_index  # whoever needs it later has kept it
        held = settled() - before
    report(name, 0.6)
    with PeakMemory() as drawing:
        drawn = sample()  # None where the sampler can be made, but not sample
    return {
        "peer": name,
        "held": held,
        "per_edge": held / edges,
        "making": making.peak - read,
        "sampling": None if drawn is None else drawing.beyond,
        "input": size,
    }


def _rows(
    edges: Tensor, nodes: int, fanouts: list[int], seeds: Tensor, ids: bool = True
) -> Any:
    """A `CompactAdj`, with or without the positions of its edges in the input."""
    adj = CompactAdj.from_edge_index(edges, nodes)
    adj = adj if ids else CompactAdj.from_csr(adj.rowptr, adj.col)
    return lambda: [sample_rooted(adj, part, fanouts) for part in seeds.split(1024)]


def measure_scale(options: Options, make: MakeGraph, report: Report) -> dict[str, Any]:
    """The task `scale`: a process per size, the largest last."""
    job: dict[str, Any] = {"run": f"{__name__}:run_scale", "options": asdict(options)}
    rows: list[Row] = []
    for scale in steps(options.scale or SIZES[GRAPH].scale):
        facts = make(replace(options, scale=scale))
        rows.append(run_job({**job, "graph": facts["place"]}, report))
    add_ratio(rows, "best")
    title = f"{options.batch:,} seeds, fanouts {options.fanouts}, mapped from disk"
    return {"groups": [{"title": title, "rows": rows}], "left_out": []}


def steps(scale: float) -> list[float]:
    """The scales to measure: `scale` and tenths of it, down to a million edges."""
    found = [scale]
    while found[-1] * SIZES[GRAPH].edges / 10 >= SMALLEST:
        found.append(found[-1] / 10)
    return found[::-1]


def run_scale(graph: str, options: dict[str, Any], report: Report) -> Row:
    """The job of one size."""
    asked, before = Options(**options), private()
    adj = CompactAdj.open(graph, verify=False)

    def sample(nodes: Tensor) -> Any:
        return sample_rooted(adj, nodes, asked.fanouts)

    row = row_of(sample, asked, [adj], adj.num_rows, report)
    return {**row, "nodes": adj.num_rows, "private": private() - before}


def row_of(
    sample: Callable[[Tensor], Any],
    asked: Options,
    adjs: list[CompactAdj],
    nodes: int,
    report: Report,
) -> Row:
    """A batch, beside reading as many edges at random places."""
    # new seeds in every round, so that pages are new, too
    count = asked.batches * (asked.rounds + 1)
    seeds = draw_seeds(nodes, count, asked.batch, asked.seed)
    seeds = seeds.view(asked.rounds + 1, asked.batches, -1)
    size = sum(adj.num_edges for adj in adjs)
    space = sum(adj.nbytes for adj in adjs)
    drawn = _edges_of(sample(seeds[0, 0]))  # compiles, and reads all of rowptr once
    largest = max(adjs, key=lambda adj: adj.num_edges)
    where = torch.randint(largest.num_edges, (drawn,))
    peers = {
        "gttf": Peer(each(sample), lambda made: Work(_edges_of(made))),
        "reading": Peer(each(lambda _: largest.col.index_select(0, where)), bound=True),
    }
    ours, reading = compare(f"{size:,} edges", peers, seeds, asked.rounds, report)[
        "rows"
    ]
    return {
        "edges": size,
        "best": ours["best"],
        "median": ours["median"],
        "drawn": ours["edges"],
        "ns_per_edge": ours["best"] / ours["edges"] * 1e6,
        "gather": reading["best"],
        "bytes": space,
        "per_edge": space / size,
    }


def _edges_of(made: Any) -> int:
    """The edges of a sample, of all types."""
    rows = made.row.values() if isinstance(made.row, dict) else [made.row]
    return sum(row.numel() for row in rows)
