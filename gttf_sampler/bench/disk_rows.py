"""Rows at random places of a cold file, by everyone who reads them; and a sweep."""

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import FeatureFile
from gttf_sampler.bench import disk
from gttf_sampler.bench.measure import Report
from gttf_sampler.features import read

RANDOM = 120_000  # rows that are read at random places
SLOW = 8  # memmap reads fewer of them, by so much
FEW, MANY = 40_000, 120_000  # rows of a batch with most of them in a cache, or none
GAPS = 0, 1 << 12, 1 << 13, 1 << 14, 1 << 15
LONGEST = 1 << 15, 1 << 17, 1 << 19

Reader = Callable[[Tensor], Any]


def random_rows(
    path: str, file: FeatureFile, rounds: int, seed: int, report: Report
) -> dict[str, Any]:
    """Rows at random places, cold, in turns: memmap, raw reads, ours."""
    count = min(RANDOM, len(file))
    stride = file.nbytes // max(1, len(file))
    raw = torch.empty(count, stride, dtype=torch.uint8)
    mapped = np.load(path, mmap_mode="r")
    subjects: dict[str, tuple[int, Reader]] = {
        "np.memmap, one page after the other": (
            max(1, count // SLOW),
            lambda ids: mapped[ids.numpy()],
        ),
        "64 raw reads in flight": (
            count,
            lambda ids: disk.raw_reads(path, file, ids, raw),
        ),
        "gttf FeatureFile": (count, FeatureFile(path, direct=False).read),
        "gttf FeatureFile, direct": (count, FeatureFile(path, direct=True).read),
    }
    rows = _measured(path, mapped, len(file), subjects, rounds, seed, report)
    for row in rows:
        row["ratio"] = row["rate"] / rows[0]["rate"]
    title = f"{count:,} rows of {stride} bytes at random places, cold"
    return {"title": title, "columns": "disk rows", "rows": rows}


def sweep(
    path: str, file: FeatureFile, rounds: int, seed: int, report: Report
) -> list[dict[str, Any]]:
    """The same with other sizes of gaps and reads than the usual ones."""
    groups = []
    for direct in (True, False):
        own = FeatureFile(path, direct=direct)
        for count in (FEW, MANY):
            count = min(count, len(file))
            subjects = {
                f"gap {gap // 1024} kB, reads of {longest // 1024} kB": (
                    count,
                    _with(gap, longest, own.read),
                )
                for gap in GAPS
                for longest in LONGEST
            }
            how = path, None, len(file), subjects, rounds, seed, report
            rows = _measured(*how)
            best = max(row["median"] for row in rows)
            for row in rows:
                row["ratio"] = row["median"] / best
            around = "around" if own.direct else "through"
            title = f"{count:,} rows of {len(file):,}, {around} the system's cache"
            groups.append({"title": title, "columns": "disk sweep", "rows": rows})
    return groups


def _with(gap: int, longest: int, reader: Reader) -> Reader:
    """The reader, which joins rows and cuts reads at these sizes."""

    def call(ids: Tensor) -> Any:
        usual = read.GAP, read.LONGEST
        read.GAP, read.LONGEST = gap, longest
        try:
            return reader(ids)
        finally:
            read.GAP, read.LONGEST = usual

    return call


def _measured(
    path: str,
    mapped: Any,
    size: int,
    subjects: dict[str, tuple[int, Reader]],
    rounds: int,
    seed: int,
    report: Report,
) -> list[dict[str, Any]]:
    """A row per subject; each has a turn in every round, with a cold file."""
    generator = torch.Generator().manual_seed(seed)
    rates: dict[str, list[float]] = {name: [] for name in subjects}
    work: dict[str, list[float]] = {name: [] for name in subjects}
    got = dict.fromkeys(subjects, 0.0)
    for turn in range(rounds):
        for place, (name, (count, reader)) in enumerate(subjects.items()):
            ids = torch.randint(size, (count,), generator=generator).unique()
            ids = ids[torch.randperm(ids.numel(), generator=generator)]
            disk.forget(path, mapped)
            before, start = disk.bytes_from_disk(), time.perf_counter()
            with _cpu_time(work[name], ids.numel()):
                reader(ids)
            rates[name].append(ids.numel() / (time.perf_counter() - start))
            got[name] = (disk.bytes_from_disk() - before) / ids.numel()
            share = (turn * len(subjects) + place + 1) / (rounds * len(subjects))
            report("random rows, cold", share)
    return [
        {
            "peer": name,
            "rate": max(found),
            "median": median(found),
            "cpu": min(work[name]),
            "bytes": got[name],
            "differs": None,
        }
        for name, found in rates.items()
    ]


@contextmanager
def _cpu_time(found: list[float], rows: int) -> Iterator[None]:
    """Notes the µs of all threads, per row, that a block has taken."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    yield
    after = resource.getrusage(resource.RUSAGE_SELF)
    took = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    found.append(1e6 * took / max(1, rows))
