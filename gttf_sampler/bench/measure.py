"""The options of a task, and interleaved rounds of peers that do the same work."""

import gc
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, median, stdev
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler.bench.machine import Report

ERRORS = 5.0  # standard errors that two means of the same law may differ by
FEW = 2  # rounds are enough where one takes seconds
SLACK = 0.002  # and the share of the mean that is granted to few batches
CPU = torch.device("cpu")

Row = dict[str, Any]
Group = dict[str, Any]  # of a result: "title", "rows", maybe "columns" and "graph"


@dataclass(frozen=True)
class Options:
    """The options of all tasks; each reads those that it has."""

    graph: str | None = "reddit-like"  # of `graphs.SIZES`, a file, None: the task's own
    scale: float | None = None  # of a made graph
    fanouts: list[int] = field(default_factory=lambda: [15, 10])  # seeds first
    batch: int = 1024  # seeds, or walks
    batches: int = 20  # per round; 0 where every mode has its own
    rounds: int = 7  # everyone takes a turn in each
    features: int = 100
    workers: int = 0
    length: int = 20  # steps of a walk
    only: list[str] | None = None  # names of modes
    device: str = "cpu"
    memory: float | None = None  # GB that `disk` assumes; None: those that are free
    seed: int = 0
    tmp: str = ""
    keep: str | None = None  # where the made graph stays, if anywhere


class Work(NamedTuple):
    """The size of a batch; None where a peer does not say, or it does not apply."""

    edges: int | None = None
    nodes: int | None = None


@dataclass(frozen=True)
class Peer:
    """One competitor in a group."""

    run: Callable[[Tensor], Iterable[Any]]  # seeds [batches, b] → batches, one by one
    work: Callable[[Any], Work] = lambda made: Work()  # counts a batch of the warm-up
    bound: bool = False  # does less on purpose: its ratio needs no equal work
    like: str = ""  # the peer whose work it must do, if that is not the first one
    device: torch.device = CPU  # of its batches; the clock waits for that
    before: Callable[[], None] = lambda: None  # before every round, off the clock
    rounds: int = 1 << 30  # the most it takes part in, if one takes minutes
    facts: Row = field(default_factory=dict)  # more cells, which `run` may write
    counted: Sequence[Work] = ()  # more of its batches


def each(
    call: Callable[[Tensor], Any], device: torch.device = CPU
) -> Callable[[Tensor], Iterable[Any]]:
    """A function of one batch of seeds [b] on `device`, as a function of all."""
    return lambda seeds: map(call, seeds.to(device))


class Mapped:
    """A function of every entry of something, called whenever that is iterated."""

    def __init__(self, call: Callable[..., Any], *over: Iterable[Any]) -> None:
        self.call, self.over = call, over

    def __iter__(self) -> Iterator[Any]:
        return map(self.call, *self.over)


def draw_seeds(nodes: int, batches: int, size: int, seed: int = 0) -> Tensor:
    """int64 [batches, size]: the same for every peer; no node twice in a batch."""
    size = min(size, nodes)
    random = np.random.Generator(np.random.PCG64([seed, 2]))
    rows = [random.choice(nodes, size, replace=False) for _ in range(batches)]
    return torch.from_numpy(np.stack(rows)).to(torch.int64)


def compare(
    title: str,
    peers: Mapping[str, Peer],
    seeds: Tensor,
    rounds: int,
    report: Report,
    patience: float = math.inf,
) -> Group:
    """One group of a result: a row per peer; others are compared to the first.

    Every peer takes its turn in every round, another one first each time. A row has the
    best and the median round in milliseconds per batch, the mean work of a batch, and
    how many times as long as the first it took: a ratio only if the work is the same.
    `seeds` are [batches, b], or [1 + rounds, batches, b] with those of the warm-up
    first. Who has had `FEW` turns and more seconds than `patience` rests.
    """
    turns = seeds if seeds.dim() == 3 else seeds.expand(rounds + 1, *seeds.shape)
    counted = {}
    for name, peer in peers.items():
        peer.before()
        warm = [peer.work(made) for made in peer.run(turns[0])]
        counted[name] = [*warm, *peer.counted]
    gc.collect()
    names = list(peers)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for place in range(len(names)):
            name = names[(turn + place) % len(names)]
            spent = sum(times[name]) * len(turns[0]) / 1e3
            if turn < peers[name].rounds and (turn < FEW or spent < patience):
                times[name].append(_time(peers[name], turns[turn + 1]))
            report(title, (turn * len(names) + place + 1) / (rounds * len(names)))
    rows: list[Row] = []
    for name, peer in peers.items():
        first, own = counted[peer.like or names[0]], counted[name]
        row: Row = {
            "peer": name,
            "best": min(times[name]),
            "median": median(times[name]),
        }
        for what in ("edges", "nodes"):
            known = [n for work in own if (n := getattr(work, what)) is not None]
            row[what] = mean(known) if known else None
        row["differs"] = None if peer.bound else disagreement(first, own)
        fair = rows and not row["differs"]
        row["ratio"] = row["best"] / rows[0]["best"] if fair else None
        rows.append(row | peer.facts)
    return {"title": title, "rows": rows}


def add_ratio(rows: list[Row], key: str) -> None:
    """Compares rows from processes of their own to the first one."""
    for row in rows[1:]:
        row["ratio"] = row[key] / rows[0][key] if rows[0][key] > 0 else None


def settle(device: torch.device) -> None:
    """Waits until `device`, which runs behind the host, has done all it was given."""
    if device.type == "cuda" and torch.cuda.is_available():
        torch.cuda.synchronize(device)


def _time(peer: Peer, seeds: Tensor) -> float:
    """Milliseconds per batch; no garbage is collected meanwhile."""
    peer.before()
    gc.disable()
    try:
        settle(peer.device)
        start = time.perf_counter()
        for made in peer.run(seeds):
            del made
        settle(peer.device)
        return (time.perf_counter() - start) / len(seeds) * 1e3
    finally:
        gc.enable()


def disagreement(ours: Sequence[Work], theirs: Sequence[Work]) -> str | None:
    """The difference of two peers beyond sampling noise, in words; None if equal."""
    for what in Work._fields:
        both = zip(ours, theirs, strict=True)
        pairs = [(getattr(a, what), getattr(b, what)) for a, b in both]
        known = [(a, b) for a, b in pairs if a is not None and b is not None]
        if not known:
            continue
        gaps = [b - a for a, b in known]
        noise = stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
        # Few batches say little about their own spread: Student's t needs 24 standard
        # errors of 6 batches, and 7 of 20, where 5 of many are enough.
        errors = ERRORS * (1 + 19 / max(1, len(gaps) - 1))
        expected = mean(a for a, _ in known)
        allowed = errors * noise + SLACK * expected
        if abs(mean(gaps)) > allowed:
            found = f"{mean(b for _, b in known):,.0f} {what} a batch"
            where = f"{expected:,.0f} ± {allowed:,.1f} are expected"
            return f"{found} where {where}, by {len(gaps)} batches"
    return None
