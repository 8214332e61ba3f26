"""Counts a batch's work for a GPU without one: launches, host syncs, bytes.

    TRITON_INTERPRET=1 python tests/core/gpu_work.py

fills in the tables of docs/gpu.md.

Kernels run on the simulated device, as they are compiled, or in Triton's interpreter
where bytes are counted. Torch's own operations are counted, too. Bytes are what the
kernels of a batch read and write: every access of every program is seen, and the
32-byte sectors it touches are counted, as a GPU moves them if nothing is found in a
cache.
"""

from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import torch
from triton.runtime.interpreter import InterpreterBuilder

import compiled
from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    Node2VecBias,
    TemporalBias,
    sample_rooted,
    traverse,
    use_backend,
)
from gttf_sampler._backends.triton import launch as triton_launch
from simulated import Accelerator, start_interpreted

SECTOR = 32


class Work(NamedTuple):
    """The work of one batch.

    Attributes:
        kernels: the names of the kernels, in order.
        operations: torch's own, beside views and allocations.
        syncs: what the host has waited for.
        bytes: moved by the kernels, in sectors; 0 where they were compiled.
    """

    kernels: list[str]
    operations: list[str]
    syncs: list[str]
    bytes: int


class Traffic:
    """Counts the sectors that kernels touch."""

    def __init__(self) -> None:
        self.sectors = 0

    def note(self, pointers, mask=None, times=1) -> None:
        """The sectors of one access of one program."""
        at = np.asarray(pointers.data).reshape(-1)
        if mask is not None:
            at = at[np.broadcast_to(mask.data, pointers.data.shape).reshape(-1)]
        self.sectors += times * np.unique(at // SECTOR).size

    @contextmanager
    def counting(self):
        """Watches loads, stores and atomics."""
        names = {
            "create_load": lambda p, *rest: self.note(p),
            "create_store": lambda p, v, *rest: self.note(p),
            "create_masked_load": lambda p, m, *rest: self.note(p, m),
            "create_masked_store": lambda p, v, m, *rest: self.note(p, m),
            "create_atomic_rmw": lambda op, p, v, m, *rest: self.note(p, m, 2),
            "create_atomic_cas": lambda p, *rest: self.note(p, None, 2),
        }
        with contextmanager(self._patched)(names):
            yield self

    def _patched(self, names):
        before = {name: getattr(InterpreterBuilder, name) for name in names}
        for name, see in names.items():
            whole = before[name]

            def seen(builder, *args, see=see, whole=whole, **kwargs):
                see(*args)
                return whole(builder, *args, **kwargs)

            setattr(InterpreterBuilder, name, seen)
        try:
            yield
        finally:
            for name, whole in before.items():
                setattr(InterpreterBuilder, name, whole)


def work_of(call) -> Work:
    """Counts the work of a call on the simulated device, once everything is made."""
    seen = Traffic()
    with _kernels(), use_backend("triton"), Accelerator() as gpu:
        ready = call(gpu)
        ready()
        with gpu.counting(), triton_launch.counting() as kernels, seen.counting():
            ready()
        operations, syncs = list(gpu.launches), list(gpu.syncs)
    return Work(kernels, operations, syncs, seen.sectors * SECTOR)


def _kernels():
    """Triton's kernels in its interpreter, if that was chosen, or compiled."""
    if not triton_launch.interpreted():
        return compiled.kernels()
    import interpreted  # noqa: F401 (for its effect)

    return mock.patch.object(triton_launch, "start", start_interpreted)


def graph(nodes: int = 30, edges: int = 150) -> CompactAdj:
    """A random graph with weights and times."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, nodes, (2, edges), generator=generator)
    weight = torch.rand(edges, generator=generator)
    time = torch.randint(0, 9, (edges,), generator=generator)
    return CompactAdj.from_edge_index(ends, nodes, edge_weight=weight, edge_time=time)


def rooted(fanouts, bias=None, adj=graph, batch=8, **options):
    """A rooted sample of a graph that is on the device."""

    def call(gpu):
        there = adj().to("cuda")
        seeds = torch.arange(batch).to("cuda")
        own = None if bias is None else bias(batch)
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


def forest(fanouts, bias=None, replace=True, adj=graph, batch=8):
    """A forest on a graph that is on the device."""

    def call(gpu):
        there, seeds = adj().to("cuda"), torch.arange(batch).to("cuda")
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

NODES, EDGES, BATCH = 200_000, 3_000_000, 1024
GPUS = {"A100": (2.039e12, 5e-6), "H100": (3.35e12, 5e-6)}  # bytes/s, s per launch


def large() -> CompactAdj:
    """A graph that is larger than a GPU's caches would have to be for random reads."""
    return graph(NODES, EDGES)


MODELLED = {
    "`sample_rooted` [15, 10], the default": rooted([15, 10], None, large, BATCH),
    "with replacement": rooted([15, 10], None, large, BATCH, replace=True),
    "forest [15, 10]": forest([15, 10], None, True, large, BATCH),
    "uniform walk of 20 steps": forest([1] * 20, None, True, large, BATCH),
    "node2vec walk of 20 steps": forest(
        [1] * 20, lambda b: Node2VecBias(0.5, 2), True, large, BATCH
    ),
}


def modelled(name: str, work: Work) -> str:
    """A row of the table of the model."""
    launches = len(work.kernels) + len(work.operations) + len(work.syncs)
    times = []
    for bandwidth, launch in GPUS.values():
        seconds = work.bytes / bandwidth + launches * launch
        times.append(f"{seconds * 1e6:.0f}")
    return f"| {name} | {work.bytes / 1e6:.1f} | {launches} | {' | '.join(times)} |"


def tables() -> dict[str, list[str]]:
    """The tables of docs/gpu.md, by name."""
    launches = ["| a batch of | kernels | torch operations | syncs |"]
    launches.append("|---|---:|---:|---:|")
    for name, (hops, call) in CASES.items():
        launches.append(line(name, hops, work_of(call)))
    model = ["| a batch of | MB | launches and syncs | A100, µs | H100, µs |"]
    model.append("|---|---:|---:|---:|---:|")
    for name, call in MODELLED.items():
        model.append(modelled(name, work_of(call)))
    return {"launches": launches, "model": model}


def main() -> None:
    """Fills in the tables."""
    if not triton_launch.interpreted():
        raise SystemExit("set TRITON_INTERPRET=1, by which bytes are counted")
    page = Path(__file__).parents[2] / "docs" / "gpu.md"
    text = page.read_text()
    for name, rows in tables().items():
        begin, end = f"<!-- {name} -->\n\n", f"\n\n<!-- end of {name} -->"
        before, rest = text.split(begin)
        text = before + begin + "\n".join(rows) + end + rest.split(end)[1]
    page.write_text(text)


if __name__ == "__main__":
    main()
