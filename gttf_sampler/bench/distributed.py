"""`gttf bench distributed`: batches from a graph in parts, by several processes."""

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from statistics import mean, median
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from gttf_sampler import CompactAdj, gather_rows, sample_rooted
from gttf_sampler.bench.loader import made_features
from gttf_sampler.bench.machine import Missing, Report
from gttf_sampler.bench.measure import Group, Options, Row
from gttf_sampler.distributed import PartitionedGraph, partition

WORLDS = (2, 4)
WARM, CACHED, REPLICATED = 2, 0.1, 0.01


class Way(NamedTuple):
    """A way to share the rows of a graph among processes."""

    label: str
    method: str = ""  # of `partition`; empty if every process has the whole graph
    replicate: float = 0.0  # the share of nodes whose rows all have
    cache: float = 0.0  # the share of nodes whose features are kept
    direct: bool = False  # reads the others' files; else asks them, as if elsewhere


WAYS = (
    Way("gttf, the whole graph in each"),
    Way("gttf, parts by range, one machine", "range", direct=True),
    Way("gttf, parts by range", "range"),
    Way("gttf, by range, 1% replicated, 10% cached", "range", REPLICATED, CACHED),
    Way("gttf, parts by METIS", "metis"),
    Way("gttf, by METIS, 1% replicated, 10% cached", "metis", REPLICATED, CACHED),
)


class Place(NamedTuple):
    """A process among others: its number, how many there are, and their files."""

    rank: int
    size: int
    graph: str
    tmp: str


def run(graph: str, options: dict[str, Any], report: Report) -> dict[str, Any]:
    """The job: a group per number of processes; see `Way` for its rows."""
    asked, missing, groups = Options(**options), Missing(), list[Group]()
    adj = CompactAdj.open(graph, verify=False)
    ways = [way for way in WAYS if way.method != "metis" or find_spec("pymetis")]
    if len(ways) < len(WAYS):
        missing.add("parts by METIS", "needs pymetis")
    x, _ = made_features(adj.num_rows, asked.features, asked.seed)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as tmp:
        torch.save(x, f"{tmp}/x.pt")
        for number, size in enumerate(WORLDS):
            rows: list[Row] = []
            world = context.Pool(size)
            for way in ways:
                done = (number + len(rows) / len(ways)) / len(WORLDS)
                report(f"{size} processes: {way.label}", done)
                place, facts = graph, {}
                if way.method:
                    place = f"{tmp}/{way.method}-{way.replicate}-{size}"
                    facts = partition(
                        *(adj, place, size),
                        method=way.method,
                        replicate=way.replicate,
                        features={"x": x},
                    )
                row = _row(world, way, Place(0, size, place, tmp), asked)
                row["cut"] = facts.get("cut")
                row["ratio"] = rows[0]["best"] / row["best"] if rows else None
                rows.append(row)
            world.terminate()
            title = f"{size} processes, {asked.batch:,} seeds each, "
            groups.append({"title": title + f"{asked.features} features", "rows": rows})
    return {"groups": groups, "left_out": missing}


def _row(world: Any, way: Way, place: Place, asked: Options) -> Row:
    """The slowest process counts, of rounds the best and the median."""
    jobs = [(place._replace(rank=rank), way, asked) for rank in range(place.size)]
    found = world.starmap(_work, jobs, chunksize=1)  # one each: they wait for another
    slowest = list(map(max, zip(*(each.pop("ms") for each in found), strict=True)))
    means = {name: mean(each[name] for each in found) for name in found[0]}
    row = {"peer": way.label, "best": min(slowest), "median": median(slowest)}
    return {**row, "differs": None, "processes": place.size, **means}


def _work(place: Place, way: Way, asked: Options) -> dict[str, Any]:
    """The rounds of one process; its rank counts the first time only."""
    torch.set_num_threads(1)
    if not dist.is_initialized():
        where = f"file://{place.tmp}/store-{place.size}"
        how: dict[str, Any] = {"rank": place.rank, "world_size": place.size}
        dist.init_process_group("gloo", init_method=where, **how)
    if not way.method:
        adj: Any = CompactAdj.open(place.graph, verify=False)
        x = torch.load(f"{place.tmp}/x.pt", mmap=True)
        every = torch.arange(adj.num_rows)
        found = _rounds(adj, lambda ids: gather_rows(x, ids), every, asked)
        return {**found, "messages": 0.0, "MB": 0.0, "share": 1.0}
    with PartitionedGraph.open(place.graph, verify=False, direct=way.direct) as graph:
        features = graph.features["", "x"]
        row = features.shape[1:].numel() * 4
        cached = round(way.cache * len(features)) * row
        if way.cache:
            features.cache(cached)
        before = graph.exchange.traffic
        found = _rounds(graph.adj, features.rows, graph.own_nodes(), asked)
        after, made = graph.exchange.traffic, found["made"]
        whole = 8 * graph.adj.num_rows + 4 * graph.adj.num_edges + row * len(features)
        here = graph.adj.local.nbytes + row * features.own.shape[0] + cached
        found["messages"] = (after.messages - before.messages) / made
        moved = after.sent + after.received - before.sent - before.received
        return {**found, "MB": moved / made, "share": here / whole}


def _rounds(
    adj: Any, fetch: Callable[..., Any], nodes_of: Any, asked: Options
) -> dict[str, Any]:
    """Rounds of batches, each with its features; all processes at the same time.

    Seeds are drawn from `nodes_of`, in a graph in parts a process's own nodes.
    """
    generator = torch.Generator().manual_seed(asked.seed + dist.get_rank())
    times, nodes, edges, made = [], 0, 0, 0
    for turn in range(-1, asked.rounds):
        shape = asked.batches if turn >= 0 else WARM, asked.batch
        seeds = nodes_of[torch.randint(len(nodes_of), shape, generator=generator)]
        dist.barrier()
        start = time.perf_counter()
        for number, some in enumerate(seeds):
            drawn = sample_rooted(adj, some, asked.fanouts, generator=number)
            fetch(drawn.node)
            nodes += drawn.num_nodes
            edges += drawn.num_edges
            made += 1
        if turn >= 0:
            times.append((time.perf_counter() - start) / len(seeds) * 1e3)
    return {"ms": times, "nodes": nodes / made, "edges": edges / made, "made": made}
