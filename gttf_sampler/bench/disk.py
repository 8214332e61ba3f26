"""`gttf bench disk`: features from a disk, cold and warm, beside memory and memmap."""

import mmap
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from gttf_sampler import CompactAdj, FeatureFile, gather_rows, sample_rooted
from gttf_sampler._backends.memory import room as free_memory
from gttf_sampler.bench.loader import made_features
from gttf_sampler.bench.machine import Missing, RefusedError, Report
from gttf_sampler.bench.measure import (
    Group,
    Options,
    Peer,
    Work,
    compare,
    draw_seeds,
    each,
)
from gttf_sampler.features import most_reached

PIECE = 1 << 16  # rows that are written at a time
COUNTERS = Path("/proc/self/io")


class Way(NamedTuple):
    """A place of features, and a way to read them."""

    label: str
    held: str = "file"  # or "memory", or "memmap"
    cold: bool = True  # the system forgets the file before each round
    direct: bool | None = None  # read around the system's cache
    share: float = 0.0  # of the rows that are kept in memory


WAYS = (
    Way("gttf, all in memory", "memory", cold=False),
    Way("np.memmap, cold", "memmap"),
    Way("gttf FeatureFile, cold"),
    Way("gttf FeatureFile, cold, 20 % cached", share=0.2),
    Way("np.memmap, warm", "memmap", cold=False),
    Way("gttf FeatureFile, warm", cold=False),
)
DIRECT = (  # also of a file that is larger than the memory
    Way("gttf FeatureFile, cold, direct", direct=True),
    Way("gttf FeatureFile, cold, direct, 5 % cached", direct=True, share=0.05),
    Way("gttf FeatureFile, cold, direct, 20 % cached", direct=True, share=0.2),
)


def run(graph: str, options: dict[str, Any], report: Report) -> dict[str, Any]:
    """The job: batches with the features of their nodes."""
    asked, missing = Options(**options), Missing()
    adj = CompactAdj.open(graph, verify=False)
    room = free_memory() if asked.memory is None else round(asked.memory * 1e9)
    fits = room is None or 4 * adj.num_rows * asked.features < room / 3
    path = str(Path(graph).parent / "features.npy")
    try:
        file = made_file(path, adj.num_rows, asked, None if fits else "float16", report)
        ways = [*WAYS, *DIRECT] if fits else _that_fit(file, room, missing)
        mapped = np.load(path, mmap_mode="r")  # one for all: see `forget`
        group = batches(adj, mapped, ways, asked, report)
    finally:
        Path(path).unlink(missing_ok=True)
    return {"groups": [group], "left_out": missing}


def made_file(
    path: str, nodes: int, asked: Options, stored: str | None, report: Report
) -> FeatureFile:
    """Writes random features [n, width], float32 when they are read."""
    width, size = asked.features, 4 if stored is None else 2
    need, free = nodes * width * size, shutil.disk_usage(Path(path).parent).free
    if need > 0.95 * free:
        raise RefusedError(
            f"'--scale' must leave features of at most {free / 1e9:.0f} GB, the free "
            f"disk (got {need / 1e9:.0f} GB); take {0.95 * free / need:.2g} times the "
            "scale"
        )
    what, done = f"writing {need / 1e9:.1f} GB of features", 0

    def tick(_: str, more: int) -> None:
        nonlocal done
        done += more
        report(what, done / max(1, 4 * nodes * width))

    # the same rows again and again, as none of them change the time
    made, _ = made_features(min(PIECE, nodes), width, asked.seed)
    rows = (made[: nodes - start] for start in range(0, nodes, PIECE))
    return FeatureFile.from_chunks(path, rows, stored=stored, report=tick)


def batches(
    adj: CompactAdj, mapped: Any, ways: list[Way], asked: Options, report: Report
) -> Group:
    """Batches of `sample_rooted` with the features of their nodes."""
    seeds = draw_seeds(adj.num_rows, asked.batches, asked.batch, asked.seed)
    report("counting edges", 0.0)
    ranked, path = most_reached(adj), mapped.filename
    peers: dict[str, Peer] = {}
    for way in ways:
        x = mapped if way.held == "memmap" else FeatureFile(path, direct=way.direct)
        if way.held == "memory":
            x = x[:]
        elif way.share:
            kept = round(way.share * len(x))
            x.cache(4 * len(x) + kept * (x.nbytes // len(x)), ranked[:kept])
        peers[way.label] = _batch_reader(adj, x, way, mapped, asked)
    title = f"batches of {asked.batch:,} seeds, {asked.features} features"
    group = compare(title, peers, seeds, asked.rounds, report)
    for row in group["rows"]:
        row["rate"] = 1e3 * row["nodes"] / row["best"]
    return group


def _batch_reader(
    adj: CompactAdj, x: Any, way: Way, mapped: Any, asked: Options
) -> Peer:
    """Samples a batch and reads its rows of `x`."""
    facts: dict[str, Any] = {}

    def read(node: Tensor) -> Any:
        if way.held == "memmap":
            return x[node.numpy()]
        return gather_rows(x, node) if way.held == "memory" else x.read(node)

    def batch(nodes: Tensor) -> Any:
        sub = sample_rooted(adj, nodes, asked.fanouts)
        start = bytes_from_disk()
        read(sub.node)
        facts["MB"] = bytes_from_disk() - start
        facts["share"] = x.hit_rate if way.share else None
        return sub

    work = lambda sub: Work(sub.num_edges, sub.num_nodes)  # noqa: E731
    if not way.cold:
        return Peer(each(batch), work, facts=facts)
    most = 1 if way.held == "memmap" else asked.rounds  # as one takes minutes
    how: dict[str, Any] = {"before": lambda: forget(mapped), "rounds": most}
    return Peer(each(batch), work, facts=facts, **how)


def _that_fit(file: FeatureFile, room: int | None, missing: Missing) -> list[Way]:
    """The ways whose caches leave half of the memory to others."""
    found, left = [], float("inf") if room is None else room / 2
    for way in DIRECT:
        need = way.share * file.nbytes + 4 * len(file) if way.share else 0.0
        if need <= left:
            found.append(way)
            left -= need
        else:
            why = f"takes {need / 1e9:.1f} GB of {left / 1e9:.1f} GB that are left"
            missing.add(way.label, why)
    return found


def forget(mapped: Any) -> None:
    """Has the system forget what it holds of a mapped file: the next reads are cold.

    It holds on to pages that somebody has mapped, so that these are let go first, and
    there must be no other mapping of the file.
    """
    if not hasattr(os, "posix_fadvise"):
        raise RefusedError("cold reads can be measured on Linux alone")
    mapped.base.madvise(mmap.MADV_DONTNEED)
    handle = os.open(mapped.filename, os.O_RDONLY)
    try:
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def bytes_from_disk() -> int:
    """The bytes that the disk has read for this process; 0 where nobody counts."""
    if not COUNTERS.exists():
        return 0
    lines = COUNTERS.read_text().splitlines()
    return next(int(x.split()[1]) for x in lines if x.startswith("read_bytes"))
