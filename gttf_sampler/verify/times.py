"""How long some work takes on every backend of a device; a look, not a benchmark."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    Node2VecBias,
    gather_rows,
    sample_rooted,
    traverse,
    use_backend,
)
from gttf_sampler.bench import in_memory
from gttf_sampler.bench.clock import settle
from gttf_sampler.verify.checks import Progress, backends_on

NODES, DEGREE, SEEDS = 100_000, 20, 1024
PATIENCE = 0.5  # seconds for one entry, of which there are some dozen
LAUNCH, WAIT = "LaunchKernel", "Synchronize"


class Time(NamedTuple):
    """The best of some rounds.

    Attributes:
        work: what was done.
        where: device and backend.
        best: milliseconds.
        launches: of kernels, as torch's profiler counts them; None if it does not.
        waits: of the host for the device, likewise.
    """

    work: str
    where: str
    best: float
    launches: int | None
    waits: int | None


def run_times(
    device: torch.device, progress: Progress, nodes: int = NODES
) -> list[Time]:
    """Every work on the CPU with what is chosen there, and on the device with each."""
    here = in_memory.plain(nodes, DEGREE, 0)
    weight = torch.rand(here.num_edges, generator=torch.Generator().manual_seed(0))
    here = CompactAdj(here.rowptr, here.col, here.num_cols, edge_weight=weight + 0.1)
    places = [] if device.type == "cpu" else [(torch.device("cpu"), "auto")]
    places += [(device, backend) for backend in backends_on(device)]
    found = []
    for place, backend in places:
        where = str(place) if backend == "auto" else f"{place} {backend}"
        with use_backend(backend):
            for name, call in works(here.to(place)).items():
                progress(f"{name}, {where}")
                best = best_of(call, place)
                found.append(Time(name, where, best, *counted(call, place)))
    return found


def works(adj: CompactAdj) -> dict[str, Callable[[], Any]]:
    """What is timed."""
    seeds = torch.arange(0, adj.num_rows, max(1, adj.num_rows // SEEDS))[:SEEDS]
    seeds = seeds.to(adj.device)
    x = torch.zeros(adj.num_rows, 100, device=adj.device)
    many = torch.arange(adj.num_rows, device=adj.device)
    weight, second = EdgeWeightBias(), Node2VecBias(0.5, 2.0)
    one = [1] * 20
    return {
        "rooted [15, 10]": lambda: sample_rooted(adj, seeds, [15, 10]),
        "by weight [15, 10]": lambda: sample_rooted(adj, seeds, [15, 10], bias=weight),
        "forest [15, 10]": lambda: traverse(adj, seeds, [15, 10]),
        "walk of 20": lambda: traverse(adj, seeds, one),
        "node2vec walk of 20": lambda: traverse(adj, seeds, one, second),
        "gather 100 features": lambda: gather_rows(x, many),
    }


def best_of(call: Callable[[], Any], device: torch.device) -> float:
    """Milliseconds of the best round, after two that make tables and compile."""
    call()
    call()
    best, end = float("inf"), time.perf_counter() + PATIENCE
    while True:
        settle(device)
        start = time.perf_counter()
        call()
        settle(device)
        last = time.perf_counter()
        best = min(best, last - start)
        if last > end:
            return best * 1e3


def counted(
    call: Callable[[], Any], device: torch.device
) -> tuple[int | None, int | None]:
    """Launches and waits of one call, where torch's profiler sees the device."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return None, None
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        call()
    names = [event.name for event in seen.events() or []]
    launches = sum(LAUNCH in name for name in names)
    waits = sum(WAIT in name for name in names)
    return (launches, waits) if launches else (None, None)
