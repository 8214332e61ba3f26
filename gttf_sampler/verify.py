"""`gttf verify`: the same draws here and on a device, compared bit by bit, and timed.

The cases are calls of the engine in every mode, on a graph that is awkward on purpose.
Times are of batches of an ordinary size, beside what docs/gpu.md predicts for an A100.
"""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gttf_sampler import (
    CompactAdj,
    EdgeWeightBias,
    ExcludeBias,
    Node2VecBias,
    NoRevisitBias,
    RootedAdjAcc,
    TemporalBias,
    TransitionAcc,
    gather_rows,
    sample_rooted,
    traverse,
)
from gttf_sampler._backends.ops import BACKENDS, fast_backend, use_backend
from gttf_sampler.bench import machine
from gttf_sampler.bench.hosts import hosts
from gttf_sampler.objectives import NegativeSampler

SAME, REFERENCE = "same", "torch"
NODES, EDGES, SEEDS = 2_000, 30_000, 64
HUB, OTHERS = slice(1, 3), slice(2, 6)  # of the seeds
MANY = 1_030  # draws, more than a kernel holds in registers
KINDS = [("a", "r", "a"), ("a", "to", "b"), ("b", "of", "a")]


class World(NamedTuple):
    """The graphs and seeds that the calls draw from, all on one device.

    Attributes:
        rows: edges into each node, with weights.
        timed: the same with times.
        out: edges out of each node, with weights.
        typed: three relations between two node types.
        seeds: [64], some of them twice.
        times: of the seeds.
        hidden: positions of edges.
        device: of all of this.
    """

    rows: CompactAdj
    timed: CompactAdj
    out: CompactAdj
    typed: dict[tuple[str, str, str], CompactAdj]
    seeds: Tensor
    times: Tensor
    hidden: Tensor
    device: torch.device

    def to(self, device: torch.device) -> World:
        """The world on another device."""
        names = ("rows", "timed", "out", "seeds", "times", "hidden")
        moved = {name: getattr(self, name).to(device) for name in names}
        typed = {kind: adj.to(device) for kind, adj in self.typed.items()}
        return self._replace(**moved, typed=typed, device=device)


def make_world() -> World:
    """A graph with a hub, loops, multi-edges and nodes without edges, on the CPU."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(NODES - 100, (2, EDGES), generator=generator)
    ends[1, : EDGES // 10] = 7  # a hub
    ends[:, -50:] = ends[:, :50]  # edges that are there twice
    ends[1, -90:-50] = ends[0, -90:-50]  # loops
    weight = torch.randint(0, 17, (EDGES,), generator=generator) / 16
    time = torch.randint(0, 1000, (EDGES,), generator=generator)
    build = CompactAdj.from_edge_index
    typed = {
        kind: build(part, (NODES, NODES))
        for kind, part in zip(KINDS, ends.chunk(3, dim=1), strict=True)
    }
    seeds = torch.randint(NODES, (SEEDS,), generator=generator)
    seeds[:3] = torch.tensor([7, 7, NODES - 1])  # the hub twice, a node without edges
    return World(
        build(ends, NODES, edge_weight=weight),
        build(ends, NODES, edge_weight=weight, edge_time=time),
        build(ends, NODES, direction="out", edge_weight=weight),
        typed,
        seeds,
        torch.randint(0, 1100, (SEEDS,), generator=generator),
        torch.arange(0, EDGES, 3),
        torch.device("cpu"),
    )


Case = Callable[[World], Any]
Progress = Callable[[str], None]


def _forest(fanouts: list[int], bias: Any = None, **how: Any) -> Case:
    """A call of `traverse`."""

    def call(world: World) -> Any:
        drawn = traverse(world.out, world.seeds, fanouts, bias, generator=11, **how)
        return [*drawn.nodes, *drawn.edges]

    return call


def _rooted(fanouts: list[int], bias: Any = None, times: int = 1, **how: Any) -> Case:
    """Calls of `sample_rooted`, one after the other; `bias` is made for the world."""

    def call(world: World) -> Any:
        own = None if bias is None else bias(world)
        adj = world.timed if own is not None and own.needs_times else world.rows
        given = {**how, "bias": own, "generator": 12}
        return [sample_rooted(adj, world.seeds, fanouts, **given) for _ in range(times)]

    return call


def _typed(fanouts: Any, **how: Any) -> Case:
    """A call of `sample_rooted` on three relations."""

    def call(world: World) -> Any:
        seeds = {"a": world.seeds, "b": world.seeds[:7]}
        return sample_rooted(world.typed, seeds, fanouts, generator=13, **how)

    return call


def _from(part: slice, draw: Case) -> Case:
    """A call from some of the seeds, along edges into nodes."""
    return lambda world: draw(world._replace(seeds=world.seeds[part], out=world.rows))


def _times(**how: Any) -> Callable[[World], Any]:
    """Admits edges that are not later than their seed."""
    return lambda world: TemporalBias(world.times, **how)


def _accumulated(world: World) -> Any:
    """The records of accumulators of a forest."""
    record, power = RootedAdjAcc(), TransitionAcc(2)
    how: dict[str, Any] = {"generator": 14}
    traverse(world.out, world.seeds, [3, 2], NoRevisitBias(), [record, power], **how)
    return record.result(), power.result().to_dense()


def _around(world: World) -> Any:
    """All edges among the nodes of a sample, and the reverses of its own."""
    found = sample_rooted(world.rows, world.seeds, [4, 3], generator=15)
    return found.induced(world.rows), found.bidirectional()


def _gathered(dtype: torch.dtype) -> Case:
    """Rows of features."""

    def call(world: World) -> Any:
        x = torch.arange(NODES * 5).view(NODES, 5).to(dtype).to(world.device)
        return gather_rows(x, world.seeds)

    return call


def _weight(world: World) -> Any:
    return EdgeWeightBias()


def _hidden(world: World) -> Any:
    return ExcludeBias(world.hidden)


CASES: dict[str, Case] = {
    "forest": _forest([5, 3, 2]),
    "forest, distinct": _forest([5, 3], replace=False),
    "forest, weighted": _forest([4, 3], EdgeWeightBias()),
    "forest, weighted, distinct": _forest([4, 3], EdgeWeightBias(), replace=False),
    "forest, many, distinct": _from(HUB, _forest([MANY], replace=False)),
    "forest, no revisit": _forest([3, 3], NoRevisitBias()),
    "walk": _forest([1] * 20),
    "walk, weighted": _forest([1] * 20, EdgeWeightBias()),
    "node2vec": _forest([1] * 6, Node2VecBias(0.25, 4.0)),
    "node2vec, near": _forest([1] * 6, Node2VecBias(4.0, 0.25)),
    "node2vec, branching": _forest([2, 2, 2], Node2VecBias(0.5, 2.0)),
    "node2vec, weighted": _forest([1] * 6, Node2VecBias(2.0, 0.5, weighted=True)),
    "rooted": _rooted([10, 5]),
    "rooted, three hops": _rooted([5, 4, 3]),
    "rooted, all": _from(HUB, _rooted([-1, 3])),
    "rooted, then all": _rooted([3, -1]),
    "rooted, replace": _rooted([10, 5], replace=True),
    "rooted, many": _from(HUB, _rooted([MANY])),
    "rooted, all, disjoint": _from(HUB, _rooted([-1, 3], disjoint=True)),
    "rooted, disjoint": _rooted([5, 4], disjoint=True),
    "rooted, disjoint, replace": _rooted([5, 4], disjoint=True, replace=True),
    "padded": _rooted([5, 4], padded=True),
    "padded, twice": _rooted([5, 4], padded=True, times=2),
    "padded, replace": _rooted([5, 4], padded=True, replace=True),
    "padded, disjoint": _rooted([5, 4], padded=True, disjoint=True),
    "weighted": _rooted([10, 5], _weight),
    "weighted, replace": _rooted([10, 5], _weight, replace=True),
    "weighted, disjoint": _rooted([5, 4], _weight, disjoint=True),
    "weighted, all": _from(OTHERS, _rooted([-1, 3], _weight)),
    "temporal": _rooted([5, 4], _times(), disjoint=True),
    "temporal, replace": _rooted([5, 4], _times(), disjoint=True, replace=True),
    "temporal, last": _rooted([5, 4], _times(strategy="last"), disjoint=True),
    "temporal, window": _rooted([5, 4], _times(window=200), disjoint=True),
    "temporal, weighted": _rooted([5, 4], _times(weighted=True), disjoint=True),
    "hidden": _rooted([10, 5], _hidden),
    "hidden, replace": _rooted([10, 5], _hidden, replace=True),
    "hidden, disjoint": _rooted([5, 4], _hidden, disjoint=True),
    "hidden, weighted": _rooted([10, 5], lambda w: _hidden(w) * _weight(w)),
    "typed": _typed([5, 4]),
    "typed, replace": _typed([5, 4], replace=True),
    "typed, disjoint": _typed([5, 4], disjoint=True),
    "typed, padded": _typed([5, 4], padded=True),
    "typed, own fanouts": _typed(
        {KINDS[0]: [3, 2], KINDS[1]: [0, 4], KINDS[2]: [5, 1]}
    ),
    "accumulators": _accumulated,
    "induced, bidirectional": _around,
    "negatives": lambda w: NegativeSampler(w.rows, 0.75).draw((40, 5), generator=16),
    "gather float32": _gathered(torch.float32),
    "gather bfloat16": _gathered(torch.bfloat16),
    "gather float16": _gathered(torch.float16),
}


def _batch(fanouts: list[int], **how: Any) -> Callable[[CompactAdj, Tensor], Any]:
    """A call of `sample_rooted` on a graph and seeds."""
    return lambda adj, seeds: sample_rooted(adj, seeds, fanouts, generator=1, **how)


def _walks(fanouts: list[int], bias: Any = None) -> Callable[[CompactAdj, Tensor], Any]:
    """A call of `traverse` on a graph and seeds."""
    how: dict[str, Any] = {"generator": 1, "validate": False}
    return lambda adj, seeds: traverse(adj, seeds, fanouts, bias, **how)


class Timed(NamedTuple):
    """A batch whose time is predicted.

    Attributes:
        call: of a graph and seeds.
        predicted: microseconds on an A100, by the model of docs/gpu.md.
    """

    call: Callable[[CompactAdj, Tensor], Any]
    predicted: int


TIMED = {
    "`sample_rooted` [15, 10], the default": Timed(_batch([15, 10]), 183),
    "with replacement": Timed(_batch([15, 10], replace=True), 185),
    "`padded=True`": Timed(_batch([15, 10], padded=True), 162),
    "forest [15, 10]": Timed(_walks([15, 10]), 52),
    "uniform walk of 20 steps": Timed(_walks([1] * 20), 92),
    "node2vec walk of 20 steps": Timed(_walks([1] * 20, Node2VecBias(0.5, 2)), 307),
}
ROUNDS = 9  # of every batch that is timed


class Check(NamedTuple):
    """One call on one backend.

    Attributes:
        name: of the call.
        backend: that has drawn it on the device.
        verdict: "same", or how it was not.
    """

    name: str
    backend: str
    verdict: str


def backends_on(device: torch.device) -> list[str]:
    """The names of `set_backend` that run something of their own on `device`."""
    found: dict[Any, str] = {}
    for name in BACKENDS:
        if name == "auto":
            continue
        try:
            with use_backend(name):
                code = fast_backend(device)
        except (ImportError, RuntimeError, ValueError):  # not here, or not for this
            continue
        if code is not None or name == REFERENCE:  # others fall back to the reference
            found.setdefault(code, name)
    return list(found.values())


def run_checks(
    device: torch.device, progress: Progress, cases: Mapping[str, Case] = CASES
) -> list[Check]:
    """Every case on every backend of `device`, against torch on the CPU."""
    here = make_world()
    there = here.to(device)
    found = []
    for name, case in cases.items():
        progress(name)
        with use_backend(REFERENCE):
            expected = list(tensors(case(here)))
        for backend in backends_on(device):
            if backend != REFERENCE or device.type != "cpu":  # not with itself
                with use_backend(backend):
                    verdict = compared(partial(case, there), expected)
                found.append(Check(name, backend, verdict))
    return found


def run_host_checks(
    device: torch.device, progress: Progress, left_out: machine.Missing
) -> list[Check]:
    """Loaders of the hosts on every backend of `device`, against torch on the CPU."""
    found, world = [], make_world()
    for host in hosts(left_out):
        calls = host.checks(world.rows, world.seeds, device, left_out)
        if not calls:
            continue
        with use_backend(REFERENCE):
            expected = list(tensors(calls.pop(next(iter(calls)))()))
        for name, call in calls.items():
            progress(name)
            for backend in backends_on(device):
                with use_backend(backend):
                    found.append(Check(name, backend, compared(call, expected)))
    return found


class Time(NamedTuple):
    """The time of a batch on one backend.

    Attributes:
        name: of the batch, in `TIMED`.
        backend: that drew it.
        microseconds: the median.
        kernels: of this package, that were started; None for a backend without any.
        waits: of the host for the device, as far as torch tells of them.
    """

    name: str
    backend: str
    microseconds: float
    kernels: int | None
    waits: int


def timed_graph() -> tuple[CompactAdj, Tensor]:
    """The graph and the seeds of `TIMED`, on the CPU."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(200_000, (2, 3_000_000), generator=generator)
    return CompactAdj.from_edge_index(ends, 200_000), torch.arange(1024)


def run_times(device: torch.device, progress: Progress) -> list[Time]:
    """The time of every batch of `TIMED` on every backend of `device`."""
    adj, seeds = timed_graph()
    adj, seeds = adj.to(device), seeds.to(device)
    found = []
    for name, batch in TIMED.items():
        progress(name)
        for backend in backends_on(device):
            with use_backend(backend):
                found.append(_time(name, backend, partial(batch.call, adj, seeds)))
    return found


def _time(name: str, backend: str, call: Callable[[], Any]) -> Time:
    """The time of a call, once everything that it needs is there."""
    real = torch.cuda.is_available()
    finish: Any = torch.cuda.synchronize if real else int  # nothing to wait for
    call()
    with ExitStack() as stack:
        kernels = waits = None
        if backend == "triton":
            launch = import_module("gttf_sampler._backends.triton.launch")
            kernels = stack.enter_context(launch.counting())
        if real:
            waits = stack.enter_context(warnings.catch_warnings(record=True))
            warnings.filterwarnings("ignore", "Synchronization debug mode")
            warnings.filterwarnings("always", "called a synchronizing")
            stack.callback(torch.cuda.set_sync_debug_mode, "default")
            torch.cuda.set_sync_debug_mode("warn")
        call()
    times = []
    for _ in range(ROUNDS):
        finish()
        start = time.perf_counter()
        call()
        finish()
        times.append(time.perf_counter() - start)
    started = None if kernels is None else len(kernels)
    return Time(name, backend, median(times) * 1e6, started, len(waits or []))


def compared(call: Callable[[], Any], expected: list[Tensor]) -> str:
    """Compares the tensors of a call by number, dtype, shape and bits."""
    try:
        found = [tensor.cpu() for tensor in tensors(call())]
    except Exception as error:  # one failure must not hide the verdict on the others
        return f"{type(error).__name__}: {machine.first_line(error)}"
    if len(found) != len(expected):
        return f"{len(found)} tensors where {len(expected)} are expected"
    for place, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            shapes = (f"{t.dtype} {list(t.shape)}" for t in (ours, theirs))
            return "tensor {}: {} where {} is expected".format(place, *shapes)
        if not torch.equal(ours, theirs):
            wrong = int((ours != theirs).sum())
            return f"tensor {place}: {wrong} of {ours.numel()} entries differ"
    return SAME


def tensors(value: Any) -> Iterator[Tensor]:
    """The tensors of a result, in a fixed order; numbers in lists are one of them."""
    if isinstance(value, Tensor):
        yield value.detach()
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from tensors(value[key])
    elif isinstance(value, list | tuple):
        numbers = [part for part in value if isinstance(part, int)]
        if numbers:
            yield torch.tensor(numbers)
        for part in value:
            yield from tensors(part)
    elif hasattr(value, "__dataclass_fields__"):
        fields = [name for name in value.__dataclass_fields__ if name[0] != "_"]
        yield from tensors([getattr(value, name) for name in fields])


def report(
    device: torch.device,
    checks: list[Check],
    times: list[Time],
    left_out: machine.Missing,
    seconds: float,
) -> list[str]:
    """The lines of a report in Markdown, to be pasted into an issue."""
    passed = sum(check.verdict == SAME for check in checks)
    verdict = "passed" if passed == len(checks) else "FAILED"
    found = machine.describe()
    packages = ", ".join(f"{name} {v}" for name, v in found["packages"].items())
    facts = {
        "gttf": found["gttf"],
        "device": _device_name(device),
        "backends": f"{', '.join(backends_on(device))}; compared with torch on the CPU",
        "torch": f"{torch.__version__}, CUDA {torch.version.cuda or 'none'}",
        "packages": packages or "none",
        "python": f"{platform.python_version()}, {platform.platform(terse=True)}",
        "cpu": found["cpu"],
        "checks": f"{passed} of {len(checks)} gave the same bits",
        "took": f"{seconds:.0f} s",
    }
    backends = list(dict.fromkeys(check.backend for check in checks))
    rows: dict[str, dict[str, str]] = {}
    for check in checks:
        rows.setdefault(check.name, {})[check.backend] = check.verdict
    cells = ([name, *(row.get(b, "") for b in backends)] for name, row in rows.items())
    return [
        f"## gttf verify --device {device}: {verdict}",
        *("", *_table(("", ""), facts.items())),
        *("", *_table(("bits", *backends), cells)),
        *_times_table(device, times),
        *(f"\nLeft out: {entry['peer']}, {entry['why']}." for entry in left_out),
    ]


def _times_table(device: torch.device, times: list[Time]) -> list[str]:
    """The times, beside those that an A100 should take."""
    if not times:
        return []
    gpu = device.type == "cuda"
    head = ["1,024 seeds, 3 M edges", "backend", "µs"]
    head += ["kernels", "waits", "A100, model, µs"] if gpu else []
    rows = []
    for name, backend, microseconds, kernels, waits in times:
        row = [name, backend, f"{microseconds:,.0f}"]
        if gpu:
            model = TIMED[name].predicted if backend == "triton" else ""
            row += ["" if kernels is None else str(kernels), str(waits), str(model)]
        rows.append(row)
    return ["", *_table(head, rows)]


def _device_name(device: torch.device) -> str:
    """The name, architecture and memory of a device, as far as torch tells."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return str(device)
    told = torch.cuda.get_device_properties(device)
    size = told.total_memory / 2**30
    return f"{told.name}, sm_{told.major}{told.minor}, {size:.0f} GiB"


def _table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> list[str]:
    """Rows of Markdown; what would end a cell is left out of it."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return [
        "| " + " | ".join(str(c).replace("|", "/") for c in line) + " |"
        for line in lines
    ]
