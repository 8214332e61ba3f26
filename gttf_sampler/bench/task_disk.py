"""`gttf bench disk`: features from a disk, cold and warm, beside memory and memmap."""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from gttf_sampler import CompactAdj, FeatureFile
from gttf_sampler._backends import memory
from gttf_sampler.bench import disk, peers
from gttf_sampler.bench.disk_loaders import Loaders, Way, batches_of, epochs_of
from gttf_sampler.bench.measure import Report, draw_seeds
from gttf_sampler.features import most_reached

RANDOM = 120_000  # rows that are read at random places
SLOW = 8  # memmap reads fewer of them, by so much
HALF = "float16"


MEMORY = Way("gttf, all in memory", held="memory", cold=False)
WAYS = (
    MEMORY,
    Way("PyG's loader, np.memmap, cold", held="memmap"),
    Way("gttf FeatureFile, cold"),
    Way("gttf FeatureFile, cold, direct", direct=True),
    Way("gttf FeatureFile, cold, 5 % cached", 0.05),
    Way("gttf FeatureFile, cold, 20 % cached", 0.2),
    Way("gttf FeatureFile, cold, direct, 20 % cached", 0.2, direct=True),
    Way("PyG's loader, np.memmap, warm", held="memmap", cold=False),
    Way("gttf FeatureFile, warm", cold=False),
    Way("gttf FeatureFile, warm, 20 % cached", 0.2, cold=False),
)
LARGE = (
    Way("gttf FeatureFile", direct=True),
    Way("gttf FeatureFile, 5 % cached", 0.05, direct=True),
    Way("gttf FeatureFile, 20 % cached", 0.2, direct=True),
)
EPOCHS = (MEMORY, WAYS[1], WAYS[2], WAYS[5], WAYS[6])


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
    """The job: random rows, batches of a loader, epochs of GraphSAGE."""
    adj = CompactAdj.open(graph, verify=False)
    missing = peers.Missing()
    room = memory.room()
    fits = room is None or 4 * adj.num_rows * features < room / 3
    path = str(Path(graph).parent / "features.npy")
    report("writing features", 0.0)
    file = disk.made_file(path, adj.num_rows, features, seed, None if fits else HALF)
    try:
        groups = [_random_rows(path, file, rounds, seed, report)]
        if not missing.needs("torch_geometric", "loaders"):
            return {"groups": groups, "left_out": missing}
        seeds = draw_seeds(adj.num_rows, batches, batch, seed)
        ranked = most_reached(adj)
        made = Loaders(adj, path, ranked, fanouts, seeds, features, fits)
        ways = WAYS if fits else _that_fit(LARGE, file, room, missing)
        groups.append(batches_of(made, ways, rounds, report))
        chosen = EPOCHS if fits else ways
        groups.append(epochs_of(made, chosen, rounds, report))
    finally:
        Path(path).unlink()
    return {"groups": groups, "left_out": missing}


def _that_fit(
    ways: tuple[Way, ...], file: FeatureFile, room: int | None, missing: peers.Missing
) -> tuple[Way, ...]:
    """Those whose cache leaves half of the memory to others."""
    found = []
    for way in ways:
        need = way.share * file.nbytes + 4 * len(file)
        if room is not None and way.share and need > room / 2:
            why = f"takes {need / 1e9:.1f} GB of {room / 1e9:.1f} GB that are left"
            missing.add(way.label, why)
        else:
            found.append(way)
    return tuple(found)


def _random_rows(
    path: str, file: FeatureFile, rounds: int, seed: int, report: Report
) -> dict[str, Any]:
    """Rows at random places, cold, in turns: memmap, raw reads, ours."""
    count = min(RANDOM, len(file))
    stride = file.nbytes // max(1, len(file))
    raw = torch.empty(count, stride, dtype=torch.uint8)
    mapped = np.load(path, mmap_mode="r")
    few = max(1, count // SLOW)
    direct = FeatureFile(path, direct=True)
    subjects: dict[str, tuple[int, Callable[[Any], Any]]] = {
        "np.memmap, one page after the other": (few, lambda ids: mapped[ids.numpy()]),
        "64 raw reads in flight": (
            count,
            lambda ids: disk.raw_reads(path, file, ids, raw),
        ),
        "gttf FeatureFile": (count, file.read),
        "gttf FeatureFile, direct": (count, direct.read),
    }
    generator = torch.Generator().manual_seed(seed)
    rates: dict[str, list[float]] = {name: [] for name in subjects}
    got = dict.fromkeys(subjects, 0.0)
    for turn in range(rounds):
        for place, (name, (size, read)) in enumerate(subjects.items()):
            ids = torch.randint(len(file), (size,), generator=generator).unique()
            ids = ids[torch.randperm(ids.numel(), generator=generator)]
            disk.forget(path, mapped)
            before, start = disk.bytes_from_disk(), time.perf_counter()
            read(ids)
            rates[name].append(ids.numel() / (time.perf_counter() - start))
            got[name] = (disk.bytes_from_disk() - before) / ids.numel()
            share = (turn * len(subjects) + place + 1) / (rounds * len(subjects))
            report("random rows, cold", share)
    rows = [
        {
            "peer": name,
            "rate": max(found),
            "median": median(found),
            "bytes": got[name],
            "ratio": max(found) / max(rates[next(iter(rates))]),
            "differs": None,
        }
        for name, found in rates.items()
    ]
    title = f"{count:,} rows of {stride} bytes at random places, cold"
    return {"title": title, "columns": "disk rows", "rows": rows}
