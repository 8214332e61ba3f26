"""`gttf bench scale`: a batch from graphs of all sizes, mapped from disk."""

import time
from statistics import median
from typing import Any

import torch

from gttf_sampler import CompactAdj, sample_rooted
from gttf_sampler.bench.graphs import SIZES
from gttf_sampler.bench.measure import Report, draw_seeds
from gttf_sampler.bench.peak import private

SMALLEST = 10**6


def steps(scale: float) -> list[float]:
    """The scales to measure: `scale` and tenths of it, down to a million edges."""
    edges = SIZES["papers-like"].edges
    found = [scale]
    while found[-1] * edges / 10 >= SMALLEST:
        found.append(found[-1] / 10)
    return found[::-1]


def measure(
    graph: str,
    fanouts: list[int],
    batch: int,
    batches: int,
    rounds: int,
    seed: int,
    report: Report,
) -> dict[str, Any]:
    """The job of one size: new seeds in every round, so that pages are new, too."""
    before = private()
    adj = CompactAdj.open(graph, verify=False)
    made = draw_seeds(adj.num_rows, batches * (rounds + 1), batch, seed)
    seeds = made.view(rounds + 1, batches, -1)
    start = time.perf_counter()
    sample_rooted(adj, seeds[0, 0], fanouts)  # compiles, and reads all of rowptr once
    first = time.perf_counter() - start
    turns, drawn = [], []
    for turn in range(rounds + 1):
        start = time.perf_counter()
        for nodes in seeds[turn]:
            drawn.append(sample_rooted(adj, nodes, fanouts).num_edges)
        turns.append((time.perf_counter() - start) / batches * 1e3)
        report(f"{adj.num_edges:,} edges", (turn + 1) / (rounds + 1))
    edges = sum(drawn) / len(drawn)
    where = torch.randint(adj.num_edges, (batches, round(edges)))
    start = time.perf_counter()
    for some in where:
        adj.col.index_select(0, some)
    gather = (time.perf_counter() - start) / batches * 1e3
    return {
        "edges": adj.num_edges,
        "nodes": adj.num_rows,
        "best": min(turns[1:]),
        "median": median(turns[1:]),
        "first": first * 1e3,
        "drawn": edges,
        "ns_per_edge": min(turns[1:]) / edges * 1e6,
        "gather": gather,
        "bytes": adj.nbytes,
        "per_edge": adj.nbytes / adj.num_edges,
        "private": private() - before,
    }
