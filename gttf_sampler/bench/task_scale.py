"""`gttf bench scale`: a batch from graphs of all sizes, mapped from disk or typed."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import CompactAdj, TemporalBias, _check, sample_rooted
from gttf_sampler.bench import in_memory
from gttf_sampler.bench.graphs import SIZES
from gttf_sampler.bench.measure import Report, draw_seeds
from gttf_sampler.bench.peak import private

SMALLEST = 10**6
MODES = ("plain", "typed", "temporal")
# Typed graphs stay in memory; at scale 1 the largest has this many edges.
LARGEST_TYPED, SMALLEST_TYPED, USUAL_TYPED = 10**8, 10**5, 0.1
SEED_TYPE = "user"

Sample = Callable[[Tensor], Any]  # seeds [b] → a subgraph


def steps(scale: float) -> list[float]:
    """The scales to measure: `scale` and tenths of it, down to a million edges."""
    edges = SIZES["papers-like"].edges
    found = [scale]
    while found[-1] * edges / 10 >= SMALLEST:
        found.append(found[-1] / 10)
    return found[::-1]


def typed_steps(scale: float | None) -> list[int]:
    """The numbers of edges of typed graphs, each ten times the one before."""
    scale = USUAL_TYPED if scale is None else scale
    if not SMALLEST_TYPED / LARGEST_TYPED / 10 <= scale <= 1:
        _check.fail("--scale", "must lie in [0.0001, 1] for typed graphs", scale)
    found = [round(LARGEST_TYPED * scale)]
    while found[-1] / 10 >= SMALLEST_TYPED:
        found.append(found[-1] // 10)
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
    seeds = draw_seeds(adj.num_rows, batches * (rounds + 1), batch, seed)

    def sample(nodes: Tensor) -> Any:
        return sample_rooted(adj, nodes, fanouts)

    turns = seeds.view(rounds + 1, batches, -1)
    row = _row(sample, turns, [adj], lambda made: made.num_edges, report)
    return {**row, "nodes": adj.num_rows, "private": private() - before}


def measure_typed(
    edges: int,
    mode: str,
    fanouts: list[int],
    batch: int,
    batches: int,
    rounds: int,
    seed: int,
    report: Report,
) -> dict[str, Any]:
    """The job of one size of the database that `gttf bench modes` has, too."""
    report(f"making {edges:,} edges", 0.0)
    before = private()
    made = in_memory.database(edges / in_memory.DATABASE_EDGES, seed)
    adjs = made.rows(timed=mode == "temporal")
    nodes, users = sum(made.nodes.values()), made.nodes[SEED_TYPE]
    del made
    seeds = draw_seeds(users, batches * (rounds + 1), batch, seed)
    times = in_memory.seed_times((seeds.shape[1],), seed)
    bias = {
        kind: TemporalBias(times)
        for kind, adj in adjs.items()
        if adj.edge_time is not None
    }

    def sample(nodes: Tensor) -> Any:
        return sample_rooted(adjs, {SEED_TYPE: nodes}, fanouts, bias=bias)

    def drawn(made: Any) -> int:
        return sum(part.numel() for part in made.row.values())

    turns = seeds.view(rounds + 1, batches, -1)
    row = _row(sample, turns, list(adjs.values()), drawn, report)
    return {**row, "nodes": nodes, "private": private() - before}


def _row(
    sample: Sample,
    seeds: Tensor,
    adjs: list[CompactAdj],
    count: Callable[[Any], int],
    report: Report,
) -> dict[str, Any]:
    """What a table says of one size; `seeds` is [rounds + 1, batches, b]."""
    start = time.perf_counter()
    sample(seeds[0, 0])  # compiles, and reads all of rowptr once
    first = time.perf_counter() - start
    size = sum(adj.num_edges for adj in adjs)
    rounds, batches, _ = seeds.shape
    turns, drawn = [], []
    for turn, some in enumerate(seeds):
        start = time.perf_counter()
        for nodes in some:
            drawn.append(count(sample(nodes)))
        turns.append((time.perf_counter() - start) / batches * 1e3)
        report(f"{size:,} edges", (turn + 1) / rounds)
    edges = sum(drawn) / len(drawn)
    largest = max(adjs, key=lambda adj: adj.num_edges)
    where = torch.randint(largest.num_edges, (batches, round(edges)))
    start = time.perf_counter()
    for entries in where:
        largest.col.index_select(0, entries)
    gather = (time.perf_counter() - start) / batches * 1e3
    space = sum(adj.nbytes for adj in adjs)
    return {
        "edges": size,
        "best": min(turns[1:]),
        "median": median(turns[1:]),
        "first": first * 1e3,
        "drawn": edges,
        "ns_per_edge": min(turns[1:]) / edges * 1e6,
        "gather": gather,
        "bytes": space,
        "per_edge": space / size,
    }
