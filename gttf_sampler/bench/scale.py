"""`gttf bench scale`: a batch from graphs of all sizes, mapped from disk."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import CompactAdj, sample_rooted
from gttf_sampler.bench.graphs import SIZES
from gttf_sampler.bench.measure import (
    Peer,
    Row,
    Work,
    add_ratio,
    compare,
    draw_seeds,
    each,
)
from gttf_sampler.bench.options import Options
from gttf_sampler.bench.peak import private
from gttf_sampler.bench.process import Report, run_job

GRAPH = "papers-like"
SMALLEST = 10**6

MakeGraph = Callable[[Options], dict[str, Any]]  # → facts, with its "place"


def measure(options: Options, make: MakeGraph, report: Report) -> dict[str, Any]:
    """A process per size, the largest last."""
    job: dict[str, Any] = {"run": f"{__name__}:run", "options": asdict(options)}
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


def run(graph: str, options: dict[str, Any], report: Report) -> Row:
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
