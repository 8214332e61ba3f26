"""`gttf bench disk`: features from a disk, cold and warm, beside memory and memmap."""

from pathlib import Path
from typing import Any

import torch

from gttf_sampler import CompactAdj, FeatureFile
from gttf_sampler._backends.memory import room as free_memory
from gttf_sampler.bench import disk, disk_rows, peers
from gttf_sampler.bench.disk_loaders import Loaders, Way, batches_of, epochs_of
from gttf_sampler.bench.measure import Report, draw_seeds
from gttf_sampler.features import access

HALF = "float16"
CACHED = 0.2  # of the rows, at most

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
    memory: float | None,
    sweep: bool,
    report: Report,
) -> dict[str, Any]:
    """The job: random rows, batches of a loader, epochs of GraphSAGE.

    `memory` is how many GB there are supposed to be; by default those that there are.
    """
    adj = CompactAdj.open(graph, verify=False)
    missing = peers.Missing()
    room = free_memory() if memory is None else round(memory * 1e9)
    fits = room is None or 4 * adj.num_rows * features < room / 3
    path = str(Path(graph).parent / "features.npy")
    stored = None if fits else HALF
    file = disk.made_file(path, adj.num_rows, features, seed, stored, report)
    try:
        if sweep:
            groups = disk_rows.sweep(path, file, rounds, seed, report)
            return {"groups": groups, "left_out": missing}
        groups = [disk_rows.random_rows(path, file, rounds, seed, report)]
        if not missing.needs("torch_geometric", "loaders"):
            return {"groups": groups, "left_out": missing}
        seeds = draw_seeds(adj.num_rows, batches, batch, seed)
        report("counting edges", 0.0)
        ranked = _ranked(adj)
        made = Loaders(adj, path, ranked, fanouts, seeds, features, fits)
        ways = WAYS if fits else _that_fit(LARGE, file, room, missing)
        groups.append(batches_of(made, ways, rounds, report))
        chosen = EPOCHS if fits else ways
        groups.append(epochs_of(made, chosen, rounds, report, together=fits))
    finally:
        Path(path).unlink()
    return {"groups": groups, "left_out": missing}


def _ranked(adj: CompactAdj) -> torch.Tensor:
    """The rows to cache, those first that most edges lead to."""
    counts = access.count_reached([adj], adj.num_cols)
    return access.largest(counts, max(1, round(CACHED * adj.num_cols)))


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
