"""Batches with features from a graph in parts, beside processes with all of it each."""

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from statistics import median
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from gttf_sampler import CompactAdj, gather_rows
from gttf_sampler.bench.peers import Missing
from gttf_sampler.bias import UNIFORM
from gttf_sampler.distributed import PartitionedGraph, partition
from gttf_sampler.rooted import RootedSampler

Report = Callable[[str, float], None]
WORLDS = (2, 4)
WARM, CACHED, REPLICATED = 2, 0.1, 0.01


class Way(NamedTuple):
    """How processes come by their rows.

    Attributes:
        label: in the table.
        method: of `partition`; empty if every process has the whole graph.
        replicate: the share of nodes whose rows all have.
        cache: the share of nodes whose features are kept.
        direct: whether files of the other processes are read; else these are asked, as
            they would be on machines of their own.
    """

    label: str
    method: str = ""
    replicate: float = 0.0
    cache: float = 0.0
    direct: bool = False


WAYS = (
    Way("gttf, the whole graph in each"),
    Way("gttf, parts by range, one machine", "range", direct=True),
    Way("gttf, parts by range", "range"),
    Way("gttf, by range, 1% replicated, 10% cached", "range", REPLICATED, CACHED),
    Way("gttf, parts by METIS", "metis"),
    Way("gttf, by METIS, 1% replicated, 10% cached", "metis", REPLICATED, CACHED),
)


def run(
    graph: str,
    fanouts: list[int],
    batch: int,
    batches: int,
    rounds: int,
    seed: int,
    features: int,
    report: Report,
) -> dict[str, Any]:
    """A group per number of processes; see `Way` for its rows."""
    adj = CompactAdj.open(graph, verify=False)
    missing = Missing()
    ways = [way for way in WAYS if way.method != "metis" or find_spec("pymetis")]
    if len(ways) < len(WAYS):
        missing.add("parts by METIS", "needs pymetis")
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(adj.num_rows, features, generator=generator)
    how = {"fanouts": fanouts, "batch": batch, "batches": batches, "rounds": rounds}
    context = multiprocessing.get_context("spawn")
    groups, done = [], 0
    with tempfile.TemporaryDirectory() as tmp:
        torch.save(values, f"{tmp}/x.pt")
        for size in WORLDS:
            rows: list[dict[str, Any]] = []
            world = context.Pool(size)
            for way in ways:
                report(f"{size} processes: {way.label}", done / len(ways) / len(WORLDS))
                place, facts = graph, {}
                if way.method:
                    place = f"{tmp}/{way.method}-{way.replicate}-{size}"
                    facts = partition(
                        *(adj, place, size),
                        method=way.method,
                        replicate=way.replicate,
                        features={"x": values},
                    )
                row = _measure(world, way, place, tmp, size, {**how, "seed": seed})
                row["cut"] = facts.get("cut")
                row["ratio"] = rows[0]["best"] / row["best"] if rows else None
                rows.append(row)
                done += 1
            world.terminate()
            title = f"{size} processes, {batch:,} seeds each, {features} features"
            groups.append({"title": title, "rows": rows})
    return {"groups": groups, "left_out": missing}


def _measure(
    world: Any, way: Way, place: str, tmp: str, size: int, how: dict[str, Any]
) -> dict[str, Any]:
    """A row: the slowest process counts, of rounds the best and the median."""
    jobs = [(rank, size, way, place, tmp, how) for rank in range(size)]
    found = world.starmap(
        _work, jobs, chunksize=1
    )  # one each: they wait for each other
    slowest = [
        max(times) for times in zip(*(each["ms"] for each in found), strict=True)
    ]
    mean = {
        name: sum(each[name] for each in found) / size
        for name in ("nodes", "edges", "messages", "bytes", "share")
    }
    best, usual = min(slowest), median(slowest)
    row = {"peer": way.label, "best": best, "median": usual, "differs": None}
    return {**row, "processes": size, **mean}


def _work(
    rank: int, size: int, way: Way, place: str, tmp: str, how: dict[str, Any]
) -> dict[str, Any]:
    """What one of the processes does; `rank` is only told the first time."""
    torch.set_num_threads(1)
    if not dist.is_initialized():
        where = f"file://{tmp}/store-{size}"
        dist.init_process_group("gloo", init_method=where, rank=rank, world_size=size)
    rank = dist.get_rank()
    if not way.method:
        adj: Any = CompactAdj.open(place, verify=False)
        x = torch.load(f"{tmp}/x.pt", mmap=True)
        every = torch.arange(adj.num_rows)
        found = _rounds(adj, lambda ids: gather_rows(x, ids), every, rank, how)
        found.update(messages=0.0, bytes=0.0, share=1.0)
        return found
    with PartitionedGraph.open(place, verify=False, direct=way.direct) as graph:
        features = graph.features["", "x"]
        row = features.shape[1:].numel() * 4
        if way.cache:
            features.cache(round(way.cache * len(features)) * row)
        before = graph.exchange.traffic
        found = _rounds(graph.adj, features.rows, graph.own_nodes(), rank, how)
        after, made = graph.exchange.traffic, found["made"]
        whole = 8 * graph.adj.num_rows + 4 * graph.adj.num_edges + row * len(features)
        here = graph.adj.local.nbytes + row * features.own.shape[0]
        here += round(way.cache * len(features)) * row
        found["messages"] = (after.messages - before.messages) / made
        moved = after.sent + after.received - before.sent - before.received
        found.update(bytes=moved / made, share=here / whole)
    return found


def _rounds(
    adj: Any, fetch: Callable[..., Any], nodes_of: Any, rank: int, how: dict[str, Any]
) -> dict[str, Any]:
    """Rounds of batches, each with its features; all processes at the same time.

    Seeds are drawn from `nodes_of`, in a graph in parts a process's own nodes.
    """
    sampler = RootedSampler(adj, how["fanouts"])
    generator = torch.Generator().manual_seed(how["seed"] + rank)
    times, nodes, edges, made = [], 0, 0, 0
    for turn in range(-1, how["rounds"]):
        count = how["batches"] if turn >= 0 else WARM
        shape = count, how["batch"]
        seeds = nodes_of[torch.randint(len(nodes_of), shape, generator=generator)]
        dist.barrier()
        start = time.perf_counter()
        for number, some in enumerate(seeds):
            drawn = sampler.draw(sampler.batch({"": some}, [UNIFORM], False, number))
            fetch(drawn.node[0])
            nodes += drawn.node[0].numel()
            edges += drawn.edge[0].numel()
            made += 1
        if turn >= 0:
            times.append((time.perf_counter() - start) / count * 1e3)
    return {"ms": times, "nodes": nodes / made, "edges": edges / made, "made": made}
