"""`gttf bench disk`: features from a disk, cold and warm, beside memory and memmap."""

import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch

from gttf_sampler import CompactAdj, FeatureFile
from gttf_sampler._backends import memory
from gttf_sampler.bench import disk, model, peers
from gttf_sampler.bench.measure import Report, draw_seeds
from gttf_sampler.bench.peak import private
from gttf_sampler.bench.task_loader import CLASSES
from gttf_sampler.features import most_reached

RANDOM = 120_000  # rows that are read at random places
SLOW = 8  # memmap reads fewer of them, by so much
AHEAD = 3  # batches
HIDDEN = 256


class Way(NamedTuple):
    """How a loader comes by its features.

    Attributes:
        label: in the table.
        share: of the rows that are kept in memory.
        cold: whether the system forgets the file before each round.
        direct: whether to read around its cache.
        held: "memory", "memmap" or "file".
    """

    label: str
    share: float = 0.0
    cold: bool = True
    direct: bool | None = None
    held: str = "file"


MEMORY = Way("gttf, all in memory", held="memory", cold=False)
WAYS = (
    MEMORY,
    Way("PyG's loader, np.memmap, cold", held="memmap"),
    Way("gttf FeatureFile, cold"),
    Way("gttf FeatureFile, cold, direct", direct=True),
    Way("gttf FeatureFile, cold, 5 % cached", 0.05),
    Way("gttf FeatureFile, cold, 20 % cached", 0.2),
    Way("PyG's loader, np.memmap, warm", held="memmap", cold=False),
    Way("gttf FeatureFile, warm", cold=False),
    Way("gttf FeatureFile, warm, 20 % cached", 0.2, cold=False),
)
LARGE = (
    Way("gttf FeatureFile", direct=True),
    Way("gttf FeatureFile, 5 % cached", 0.05, direct=True),
    Way("gttf FeatureFile, 20 % cached", 0.2, direct=True),
)
EPOCHS = (MEMORY, WAYS[1], WAYS[2], WAYS[5])


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
        groups = [_random_rows(path, file, rounds, seed, fits, report)]
        if not missing.needs("torch_geometric", "loaders"):
            return {"groups": groups, "left_out": missing}
        seeds = draw_seeds(adj.num_rows, batches, batch, seed)
        ranked = most_reached(adj)
        made = _Loaders(adj, path, ranked, fanouts, seeds, features, fits)
        ways = WAYS if fits else _that_fit(LARGE, file, room, missing)
        groups.append(_batches(made, ways, rounds, report))
        epochs = EPOCHS if fits else ways
        groups.append(_epochs(made, epochs, rounds, report))
    finally:
        Path(path).unlink()
    return {"groups": groups, "left_out": missing}


HALF = "float16"


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
    path: str, file: FeatureFile, rounds: int, seed: int, fits: bool, report: Report
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


class _Loaders:
    """Loaders of the same batches, whose features are in different places."""

    def __init__(
        self,
        adj: CompactAdj,
        path: str,
        ranked: Any,
        fanouts: list[int],
        seeds: Any,
        features: int,
        fits: bool,
    ) -> None:
        self.path, self.ranked, self.width = path, ranked, features
        self.how = {
            "num_neighbors": fanouts,
            "batch_size": seeds.shape[1],
            "input_nodes": seeds.reshape(-1),
        }
        self.count = seeds.shape[0]
        self.rows, self.mapped = FeatureFile(path), np.load(path, mmap_mode="r")
        self.x = self.rows[:] if fits else None
        nodes = adj.num_rows
        generator = torch.Generator().manual_seed(0)
        self.y = torch.randint(CLASSES, (nodes,), generator=generator)
        self.pyg = import_module("gttf_pyg")
        self.sampler = self.pyg.GTTFSampler(self.pyg.FileStore(adj), fanouts)

    def _data(self, **arrays: Any) -> Any:
        return import_module("torch_geometric.data").Data(**arrays)

    def of(self, way: Way, prefetch: int = 0) -> tuple[Any, FeatureFile | None]:
        """The loader, and its file if it has one."""
        store = {"y": self.y, "num_nodes": len(self.rows)}
        none = torch.empty(2, 0, dtype=torch.int64)  # its rows are the sampler's
        if way.held == "memmap":
            x: Any = self.mapped
            loader = import_module("torch_geometric.loader").NeighborLoader
            made = self._data(x=x, edge_index=none, **store)
            return loader(made, neighbor_sampler=self.sampler, **self.how), None
        file = None
        x = self.x
        if way.held == "file":
            file = x = FeatureFile(self.path, direct=way.direct)
            kept = round(way.share * len(file))
            if kept:
                row = file.nbytes // len(file)
                file.cache(4 * len(file) + kept * row, self.ranked)
        made = self._data(x=x, edge_index=none, **store)
        how = {**self.how, "neighbor_sampler": self.sampler, "prefetch": prefetch}
        return self.pyg.GTTFLoader(made, **how, seed=0), file


def _batches(
    made: _Loaders, ways: tuple[Way, ...], rounds: int, report: Report
) -> dict[str, Any]:
    """Batches with features, one after the other."""
    rows: list[dict[str, Any]] = []
    for number, way in enumerate(ways):
        loader, file = made.of(way)
        times, nodes, got = [], 0, 0.0
        for turn in range(rounds + 1):
            if way.cold:
                disk.forget(made.path, made.mapped)
            before, start = disk.bytes_from_disk(), time.perf_counter()
            nodes = sum(batch.x.shape[0] for batch in loader)
            if turn or way.cold:  # else the first one makes it warm
                times.append((time.perf_counter() - start) / made.count)
                got = (disk.bytes_from_disk() - before) / made.count
            report(f"batches: {way.label}", (number + turn / rounds) / len(ways))
        best = min(times)
        rows.append(
            {
                "peer": way.label,
                "best": best * 1e3,
                "median": median(times) * 1e3,
                "rate": nodes / made.count / best,
                "bytes": got,
                "share": file.hit_rate if file is not None and way.share else None,
                "ratio": best * 1e3 / rows[0]["best"] if rows else None,
                "differs": None,
            }
        )
    title = f"batches of {nodes / made.count:,.0f} nodes, {made.width} features"
    return {"title": title, "columns": "disk batches", "rows": rows}


def _epochs(
    made: _Loaders, ways: tuple[Way, ...], rounds: int, report: Report
) -> dict[str, Any]:
    """GraphSAGE, with sampling, reading and training at the same time."""
    turns: dict[str, list[tuple[float, float]]] = {way.label: [] for way in ways}
    peak = dict.fromkeys(turns, 0)
    loaders = {way.label: made.of(way, AHEAD)[0] for way in ways}
    for turn in range(rounds):
        for number, way in enumerate(ways):
            if way.cold:
                disk.forget(made.path, made.mapped)
            took, most = _epoch(loaders[way.label], made.width)
            turns[way.label].append(took)
            peak[way.label] = max(peak[way.label], most)
            share = (turn * len(ways) + number + 1) / (rounds * len(ways))
            report(f"GraphSAGE: {way.label}", share)
    rows: list[dict[str, Any]] = []
    for name, found in turns.items():
        best, waiting = min(found)
        rows.append(
            {
                "peer": name,
                "best": best,
                "median": median(total for total, _ in found),
                "batch": best / made.count * 1e3,
                "share": waiting / best,
                "peak": peak[name],
                "ratio": best / rows[0]["best"] if rows else None,
                "differs": None,
            }
        )
    title = f"an epoch of GraphSAGE, {made.count} batches, {AHEAD} made ahead"
    return {"title": title, "columns": "disk epochs", "rows": rows}


def _epoch(loader: Any, width: int) -> tuple[tuple[float, float], int]:
    """(seconds, seconds of waiting for a batch), and the most memory there was."""
    torch.manual_seed(0)
    net = model.SAGE(width, HIDDEN, CLASSES)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    start = last = time.perf_counter()
    waiting, most = 0.0, 0
    for batch in loader:
        waiting += time.perf_counter() - last
        model.step(net, optimizer, model.from_data(batch))
        most = max(most, private())
        last = time.perf_counter()
    return (time.perf_counter() - start, waiting), most
