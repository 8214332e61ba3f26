"""Whether results are the same bits here and there, on every backend of a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gttf_sampler.backend import BACKENDS, fast_backend, use_backend
from gttf_sampler.bench import peers
from gttf_sampler.verify import hosts
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
    device: torch.device,
    progress: Progress,
    cases: Mapping[str, Case] = CASES,
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
            if backend == REFERENCE and device.type == "cpu":
                continue  # it would be compared with itself
            with use_backend(backend):
                verdict = compared(partial(case, there), expected)
            found.append(Check(name, backend, verdict))
    return found


def run_host_checks(
    device: torch.device, progress: Progress, left_out: peers.Missing
) -> list[Check]:
    """Loaders of the hosts on every backend of `device`, against torch on the CPU."""
    found, world = [], make_world()
    for host in (hosts.pyg_calls, hosts.dgl_calls):
        calls = host(world, device, left_out)
        if not calls:
            continue
        with use_backend(REFERENCE):
            expected = list(tensors(calls.pop(hosts.HERE)()))
        for name, call in calls.items():
            progress(name)
            for backend in backends_on(device):
                with use_backend(backend):
                    found.append(Check(name, backend, compared(call, expected)))
    return found


def compared(call: Callable[[], Any], expected: list[Tensor]) -> str:
    """Whether a call gives these tensors, in number, dtype, shape and bits."""
    try:
        found = [tensor.cpu() for tensor in tensors(call())]
    except Exception as error:  # one failure must not hide the verdict on the others
        first = (str(error).splitlines() or [""])[0]
        return f"{type(error).__name__}: {first}"
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
