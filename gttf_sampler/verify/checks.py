"""The same draws here and on a device, compared bit by bit, and a report of them."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gttf_sampler.backend import BACKENDS, fast_backend, use_backend
from gttf_sampler.bench import machine
from gttf_sampler.bench.hosts import hosts
from gttf_sampler.verify.cases import CASES, Case, make_world

SAME = "same"
REFERENCE = "torch"

Progress = Callable[[str], None]


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
    device: torch.device, checks: list[Check], left_out: machine.Missing, seconds: float
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
        *(f"\nLeft out: {entry['peer']}, {entry['why']}." for entry in left_out),
    ]


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
