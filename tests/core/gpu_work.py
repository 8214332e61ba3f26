"""Counts a batch's work for a GPU without one, and fills in the tables of docs/gpu.md.

    python tests/core/gpu_work.py

Kernels run as they are compiled, on the simulated device. Torch's own operations are
counted, too. Bytes are what the kernels of a batch read and write: the 32-byte sectors
that the lanes of a warp touch at one line of a kernel, as a GPU moves them if nothing
is found in a cache.
"""

from pathlib import Path
from typing import NamedTuple

import torch

import compiled
import host_time
from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    Node2VecBias,
    TemporalBias,
    sample_rooted,
    traverse,
    use_backend,
    verify,
)
from gttf_sampler._backends.triton import launch as triton_launch
from simulated import Accelerator

SECTOR = 32


class Work(NamedTuple):
    """The work of one batch.

    Attributes:
        kernels: the names of the kernels, in order.
        operations: torch's own, beside views and allocations.
        syncs: what the host has waited for.
        launches: the work of every kernel, if it was counted.
        result: what came out.
    """

    kernels: list[str]
    operations: list[str]
    syncs: list[str]
    launches: list[compiled.Work]
    result: object

    @property
    def bytes(self) -> int:
        """Bytes that the kernels move."""
        return SECTOR * sum(launch.sectors for launch in self.launches)

    @property
    def instructions(self) -> int:
        """Instructions of PTX of all threads."""
        return sum(launch.instructions for launch in self.launches)


def work_of(call, traffic: bool = False) -> Work:
    """Counts the work of a call on the simulated device, once everything is made."""
    launches: list[compiled.Work] = []
    how = {"works": launches} if traffic else {}
    with compiled.kernels(**how), use_backend("triton"), Accelerator() as gpu:
        ready = call(gpu)
        ready()
        launches.clear()
        with gpu.counting(), triton_launch.counting() as kernels:
            result = ready()
        operations, syncs = list(gpu.launches), list(gpu.syncs)
    return Work(kernels, operations, syncs, launches, result)


def graph(nodes: int = 30, edges: int = 150) -> CompactAdj:
    """A random graph with weights and times."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, nodes, (2, edges), generator=generator)
    weight = torch.rand(edges, generator=generator)
    time = torch.randint(0, 9, (edges,), generator=generator)
    return CompactAdj.from_edge_index(ends, nodes, edge_weight=weight, edge_time=time)


def rooted(fanouts, bias=None, **options):
    """A rooted sample of a graph that is on the device."""

    def call(gpu):
        there, seeds = graph().to("cuda"), torch.arange(8).to("cuda")
        own = None if bias is None else bias(8)
        return lambda: sample_rooted(
            there, seeds, fanouts, bias=own, generator=1, **options
        )

    return call


def typed(fanouts, **options):
    """A rooted sample of a graph with five relations among three types of nodes."""
    ends = ["aab", "bba", "abc", "cab", "acc"]

    def call(gpu):
        adjs = {(a, f"r{n}", c): graph().to("cuda") for n, (a, _, c) in enumerate(ends)}
        seeds = {"a": torch.arange(8).to("cuda"), "c": torch.arange(3).to("cuda")}
        return lambda: sample_rooted(adjs, seeds, fanouts, generator=1, **options)

    return call


def forest(fanouts, bias=None, replace=True, batch=8):
    """A forest on a graph that is on the device."""

    def call(gpu):
        there, seeds = graph().to("cuda"), torch.arange(batch).to("cuda")
        own = None if bias is None else bias(batch)
        return lambda: traverse(
            there, seeds, fanouts, own, replace=replace, generator=1, validate=False
        )

    return call


def timed(batch):
    bias = TemporalBias(torch.arange(batch) % 9, window=4)
    bias.seed_time = bias.seed_time.to("cuda")
    return bias


def hidden(batch):
    bias = ExcludeBias(torch.arange(0, 60, 3))
    bias.edge = bias.edge.to("cuda")
    return bias


CASES = {
    "`sample_rooted` [15, 10], the default": (2, rooted([15, 10])),
    "with replacement": (2, rooted([15, 10], replace=True)),
    "by edge weight": (2, rooted([15, 10], lambda b: EdgeWeightBias())),
    "by time, trees apart": (2, rooted([15, 10], timed)),
    "without hidden edges": (2, rooted([15, 10], hidden)),
    "all neighbours [-1, -1]": (2, rooted([-1, -1])),
    "5 relations, 3 node types": (2, typed([15, 10])),
    "`padded=True`": (2, rooted([15, 10], padded=True)),
    "5 relations, `padded=True`": (2, typed([15, 10], padded=True)),
    "forest [15, 10]": (0, forest([15, 10])),
    "without replacement": (0, forest([15, 10], replace=False)),
    "forest by edge weight": (0, forest([15, 10], lambda b: EdgeWeightBias())),
    "uniform walk of 20 steps": (0, forest([1] * 20)),
    "node2vec walk of 20 steps": (0, forest([1] * 20, lambda b: Node2VecBias(0.5, 2))),
    "the same by edge weight": (
        0,
        forest([1] * 20, lambda b: Node2VecBias(0.5, 2, weighted=True)),
    ),
}


def line(name: str, hops: int, work: Work) -> str:
    """A row of the table of launches."""
    kernels, operations = len(work.kernels), len(work.operations)
    return f"| {name} | {kernels} | {operations} | {len(work.syncs)} |"


# ---- the model of docs/gpu.md


class GPU(NamedTuple):
    """A GPU as its maker describes it, and what others have measured of its kind.

    Attributes:
        bandwidth: bytes per second.
        issue: instructions of warps per second, of all multiprocessors.
        warps: that are resident at a time.
    """

    bandwidth: float
    issue: float
    warps: int


GPUS = {
    "A100": GPU(2.039e12, 108 * 4 * 1.41e9, 108 * 64),
    "H100": GPU(3.35e12, 132 * 4 * 1.83e9, 132 * 64),
}
# Assumed, in seconds: between two kernels; of a read that depends on the one before;
# of a driver call beside what `host_time` measures; of a sync.
GAP, LATENCY, DRIVER, SYNC = 2e-6, 0.6e-6, 2e-6, 10e-6


def seconds_of(launch: compiled.Work, gpu: GPU) -> float:
    """The time of a kernel: of what takes longest, memory, instructions, or waiting."""
    moves = launch.sectors * SECTOR / gpu.bandwidth
    issues = launch.instructions / 32 / gpu.issue
    turns = -(-launch.warps // gpu.warps)
    return GAP + max(moves, issues, turns * launch.reads * LATENCY)


def batch_seconds(work: Work, host: host_time.HostWork, gpu: GPU) -> float:
    """The time of a batch, whose kernels run while the host starts the next ones."""
    device = sum(seconds_of(launch, gpu) for launch in work.launches)
    device += len(work.operations) * GAP
    calls = len(work.kernels) + len(work.operations)
    mine = host.microseconds * 1e-6 + calls * DRIVER
    return max(device, mine) + len(work.syncs) * SYNC


def large(name: str):
    """A batch that `gttf verify` times, on a graph that no cache of a GPU holds."""

    def call(gpu):
        adj, seeds = (part.to("cuda") for part in verify.timed_graph())
        return lambda: verify.TIMED[name].call(adj, seeds)

    return call


def modelled(name: str, work: Work, host: host_time.HostWork) -> str:
    """A row of the table of the model."""
    found = work.result
    edges = found.edge.numel() if hasattr(found, "edge") else 0
    edges = edges or sum(level.numel() for level in found.edges)
    cells = [
        f"{edges:,}",
        f"{work.bytes / 1e6:.1f}",
        f"{work.instructions / edges:.0f}",
        f"{host.microseconds:.0f}",
        *(f"{batch_seconds(work, host, gpu) * 1e6:.0f}" for gpu in GPUS.values()),
    ]
    return f"| {name} | {' | '.join(cells)} |"


def by_kernel(work: Work) -> list[str]:
    """A row per kernel of a batch: what it was counted to do."""
    return [
        f"| `{x.kernel}` | {x.programs} | {x.instructions / 1e6:.2f} | "
        f"{x.sectors * SECTOR / 1e6:.2f} | {x.reads} | "
        f"{seconds_of(x, GPUS['A100']) * 1e6:.1f} |"
        for x in work.launches
    ]


def tables() -> dict[str, list[str]]:
    """The tables of docs/gpu.md, by name."""
    launches = ["| a batch of | kernels | torch operations | syncs |"]
    launches.append("|---|---:|---:|---:|")
    for name, (hops, call) in CASES.items():
        launches.append(line(name, hops, work_of(call)))
    model = [
        "| a batch of | edges | MB | PTX per edge | host, µs | A100, µs | H100, µs |"
    ]
    model.append("|---|---:|---:|---:|---:|---:|---:|")
    kernels = ["| kernel | programs | million PTX | MB | reads | A100, µs |"]
    kernels.append("|---|---:|---:|---:|---:|---:|")
    hosts = host_time.measured()
    for name in verify.TIMED:
        work = work_of(large(name), traffic=True)
        model.append(modelled(name, work, hosts[name]))
        if len(kernels) == 2:
            kernels += by_kernel(work)
    return {"launches": launches, "model": model, "by kernel": kernels}


def main() -> None:
    """Fills in the tables."""
    page = Path(__file__).parents[2] / "docs" / "gpu.md"
    text = page.read_text()
    for name, rows in tables().items():
        begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
        before, rest = text.split(begin)
        text = before + begin + "\n".join(["", *rows, ""]) + end + rest.split(end)[1]
    page.write_text(text)


if __name__ == "__main__":
    main()
