"""Loaders of the same batches, whose features are in memory, mapped, or in a file."""

import time
from importlib import import_module
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch

from gttf_sampler import CompactAdj, FeatureFile
from gttf_sampler.bench import disk, model
from gttf_sampler.bench.measure import Report
from gttf_sampler.bench.peak import private
from gttf_sampler.bench.task_loader import CLASSES

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

    def rounds(self, most: int) -> int:
        """How often it has its turn; a memory map takes minutes, and does not vary."""
        return 1 if self.cold and self.held == "memmap" else most


class Loaders:
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


def batches_of(
    made: Loaders, ways: tuple[Way, ...], rounds: int, report: Report
) -> dict[str, Any]:
    """Batches with features, one after the other."""
    rows: list[dict[str, Any]] = []
    for number, way in enumerate(ways):
        report(f"batches: {way.label}", number / len(ways))
        loader, file = made.of(way)
        times, nodes, got = [], 0, 0.0
        for turn in range(way.rounds(rounds) + (not way.cold)):
            if way.cold:
                disk.forget(made.path, made.mapped)
            before, start = disk.bytes_from_disk(), time.perf_counter()
            nodes = sum(batch.x.shape[0] for batch in loader)
            if turn or way.cold:  # else the first one makes it warm
                times.append((time.perf_counter() - start) / made.count)
                got = (disk.bytes_from_disk() - before) / made.count
            share = (number + (turn + 1) / (rounds + 1)) / len(ways)
            report(f"batches: {way.label}", share)
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


def epochs_of(
    made: Loaders, ways: tuple[Way, ...], rounds: int, report: Report, together: bool
) -> dict[str, Any]:
    """GraphSAGE, with sampling, reading and training at the same time.

    All have their turns in every round if their caches fit into memory `together`.
    """
    turns: dict[str, list[tuple[float, float]]] = {way.label: [] for way in ways}
    peak = dict.fromkeys(turns, 0)
    loaders: dict[str, Any] = {}
    order = [(way, turn) for turn in range(rounds) for way in ways]
    if not together:
        order.sort(key=lambda each: ways.index(each[0]))
    order = [(way, turn) for way, turn in order if turn < way.rounds(rounds)]
    for number, (way, _) in enumerate(order):
        report(f"GraphSAGE: {way.label}", number / len(order))
        if way.label not in loaders:
            if not together:
                loaders.clear()
            loaders[way.label] = made.of(way, AHEAD)[0]
        if way.cold:
            disk.forget(made.path, made.mapped)
        took, most = _epoch(loaders[way.label], made.width)
        turns[way.label].append(took)
        peak[way.label] = max(peak[way.label], most)
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
