"""`gttf bench chunks`: rows from more edges than memory holds, made on the way."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from gttf_sampler import CompactAdj
from gttf_sampler.bench import graphs
from gttf_sampler.bench.children import Progress, run_job
from gttf_sampler.bench.graphs import Array, Law
from gttf_sampler.bench.measure import Report
from gttf_sampler.bench.peak import private

SPREAD = "reading edges"  # what `from_chunks` calls its first pass


def measure(options: dict[str, Any], folder: str, progress: Progress) -> dict[str, Any]:
    """What a process of its own finds; nobody else takes part."""
    size = graphs.scaled(options["graph"], options["scale"])
    graphs.check_room(folder, size.nodes, 3 * size.edges)  # rows, and twice as much
    job = {"run": f"{__name__}:run", "folder": folder, "nodes": size.nodes}
    job |= {"edges": size.edges, "memory": options["memory"], "seed": options["seed"]}
    found: dict[str, Any] = run_job(job, progress)
    return found


def run(
    folder: str,
    nodes: int,
    edges: int,
    memory: float | None,
    seed: int,
    report: Report,
) -> dict[str, Any]:
    """The job: a stream of edges, sorted by the end that is all over the place."""
    law = Law(nodes, edges, seed)
    total, watch = law.count(), _Watch(Path(folder))
    done: dict[str, int] = {}

    def tick(what: str, more: int) -> None:
        done[what] = done.get(what, 0) + more
        watch.look(what)
        report(what, min(1.0, done[what] / total))

    adj = CompactAdj.from_chunks(
        *(_edges(law, nodes), Path(folder, "rows"), nodes),
        direction="out",
        edge_ids=False,
        memory=None if memory is None else round(memory * 1e9),
        report=tick,
    )
    took = time.perf_counter() - watch.start
    sound = adj.num_edges == total and int(adj.rowptr[-1]) == total
    row = {
        "peer": "gttf CompactAdj.from_chunks",
        "edges": total,
        "best": took,
        "first": watch.first,
        "rate": total / took / 1e6,
        "peak": watch.peak,
        "disk": watch.disk,
        "bytes": adj.nbytes,
        "ratio": None,
        "differs": None if sound else "some edges are missing",
    }
    title = f"{total:,} edges of {nodes:,} nodes to rows, from a stream"
    groups = [{"title": title, "columns": "chunks", "rows": [row]}]
    return {"groups": groups, "left_out": []}


def _edges(law: Law, nodes: int) -> Iterator[Array]:
    """Edges [2, k], from neighbours (which are anywhere) to the nodes of a piece."""
    for piece, neighbors in zip(law.pieces(), law.col(lambda share: None), strict=True):
        degree = law.degrees(piece)
        first = piece * law.step
        row = np.repeat(np.arange(first, first + degree.size), degree)
        yield np.stack([neighbors, row])


class _Watch:
    """The memory and the disk that it takes, and when its first pass is over."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.start, self.last = folder, time.perf_counter(), 0.0
        self.peak = self.disk = 0
        self.first = 0.0

    def look(self, what: str) -> None:
        """Looks at what there is now, not more often than is worth it."""
        now = time.perf_counter() - self.start
        self.peak = max(self.peak, private())
        if what == SPREAD:
            self.first = now
        if now - self.last > 0.2:
            self.last = now
            with suppress(FileNotFoundError):  # one was removed meanwhile
                files = [file for file in self.folder.rglob("*") if file.is_file()]
                size = sum(file.stat().st_size for file in files)
                self.disk = max(self.disk, size)
