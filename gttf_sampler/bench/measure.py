"""Interleaved rounds, and whether peers did the same work."""

import gc
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, median, stdev
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler.backend import fast_backend, use_backend
from gttf_sampler.bench.clock import settle
from gttf_sampler.bench.peers import Missing, cure

ERRORS = 5.0  # standard errors that two means of the same law may differ by
SLACK = 0.002  # and the share of the mean that is granted to few batches

WITHOUT_NUMBA = "gttf without numba"

CPU = torch.device("cpu")

Report = Callable[[str, float], None]


class Work(NamedTuple):
    """What a batch holds; None where a peer does not say, or it does not apply."""

    edges: int | None = None
    nodes: int | None = None


@dataclass(frozen=True)
class Peer:
    """One competitor in a task.

    Attributes:
        run: seeds [batches, b] → the batches it makes of them, one by one.
        work: looks at a batch. It runs in the warm-up only.
        bound: this one does less on purpose; its ratio needs no equal work.
        device: where it leaves its batches; the clock waits for that.
    """

    run: Callable[[Tensor], Iterable[Any]]
    work: Callable[[Any], Work] = lambda made: Work()
    bound: bool = False
    device: torch.device = CPU


def each(
    call: Callable[[Tensor], Any], device: torch.device = CPU
) -> Callable[[Tensor], Iterable[Any]]:
    """A function of one batch of seeds [b] on `device`, as a function of all."""
    return lambda seeds: map(call, seeds.to(device))


def beside_torch(found: dict[str, Peer], missing: Missing) -> dict[str, Peer]:
    """The peers with the first of them once more, on the backend of torch alone."""
    (name, first), *rest = found.items()
    on_cpu = first.device.type == "cpu"
    if fast_backend(first.device) is None:
        why = f"without numba 'gttf' is that already; {cure('numba')}"
        if on_cpu:
            missing.add(WITHOUT_NUMBA, why)
        return found

    def run(seeds: Tensor) -> Iterator[Any]:
        with use_backend("torch"):
            yield from first.run(seeds)

    alone = WITHOUT_NUMBA if on_cpu else f"{name}, torch alone"
    again = replace(first, run=run)
    return {name: first, alone: again, **dict(rest)}


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
) -> dict[str, Any]:
    """One group of a result: a row per peer; the first is what others are compared to.

    Every peer takes its turn in every round, another one first each time. A row has the
    best and the median round in milliseconds per batch, the mean work of a batch, and
    how many times as long as the first it took: a ratio only if the work is the same.
    """
    counted = {
        name: [peer.work(made) for made in peer.run(seeds)]
        for name, peer in peers.items()
    }
    gc.collect()
    names = list(peers)
    turns: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for place in range(len(names)):
            name = names[(turn + place) % len(names)]
            turns[name].append(_time(peers[name], seeds))
            report(title, (turn * len(names) + place + 1) / (rounds * len(names)))
    first = names[0]
    rows = []
    for name in names:
        differs = None
        if not peers[name].bound:
            differs = disagreement(counted[first], counted[name])
        ratio = min(turns[name]) / min(turns[first])
        rows.append(
            {
                "peer": name,
                "best": min(turns[name]),
                "median": median(turns[name]),
                "edges": _average([work.edges for work in counted[name]]),
                "nodes": _average([work.nodes for work in counted[name]]),
                "ratio": None if differs or name == first else ratio,
                "differs": differs,
            }
        )
    return {"title": title, "rows": rows}


def _time(peer: Peer, seeds: Tensor) -> float:
    """Milliseconds per batch; no garbage is collected meanwhile."""
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
    """How two peers differ beyond sampling noise on the same batches, or None."""
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
        if abs(mean(gaps)) > errors * noise + SLACK * expected:
            found = mean(b for _, b in known)
            return f"{found:,.0f} {what} where {expected:,.0f} are expected"
    return None


def _average(values: Sequence[int | None]) -> float | None:
    """The mean of the numbers that are known."""
    known = [value for value in values if value is not None]
    return mean(known) if known else None
