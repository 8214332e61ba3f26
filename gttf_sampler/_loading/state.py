"""States of loaders: plain dictionaries, and whether one fits the loader it is for."""

import re
import zlib
from collections.abc import Iterable
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.graph.compact import CompactAdj

VERSION = 2
SPOT = 1 << 16  # entries of a tensor by which a loader knows it again
PART = 1 << 22  # entries of a tensor that are read together
RESTORED = "must be what 'state_dict()' of such a loader has given"


def checked(state: Any, mine: dict[str, Any], also: tuple[str, ...]) -> dict[str, Any]:
    """A copy of a state, which must be of a loader like this one.

    Args:
        state: as the user gives it.
        mine: what this loader is known by: name → value.
        also: names of everything else that a state holds.
    """
    if not isinstance(state, dict):
        _check.mistyped("state_dict", RESTORED, _check.shown(state))
    if "version" not in state:
        _check.fail("state_dict", RESTORED, f"the keys {sorted(map(str, state))[:4]}")
    if state["version"] != VERSION:
        cure = "load it with the version of gttf-sampler that has written it"
        rule = f"must have version {VERSION}"
        _check.fail("state_dict", rule, f"version {state['version']}", cure)
    for name, value in mine.items():
        if name not in state:
            _check.fail("state_dict", RESTORED, f"none with {name!r}")
        if state[name] != value:
            rule = f"must be of a loader with {name} {value}, like this one"
            _check.fail("state_dict", rule, f"{name} {state[name]}")
    missing = [name for name in also if name not in state]
    if missing:
        _check.fail("state_dict", RESTORED, f"none with {missing[0]!r}")
    return dict(state)


def same_number(now: list[Tensor], then: list[Tensor]) -> None:
    """Refuses a state of samplers with more or fewer generators than these."""
    if len(now) != len(then):
        rule = f"must be of samplers with {len(now)} generators, like these"
        _check.fail("state_dict", rule, len(then))


def described(value: Any, most: int | None = None) -> Any:
    """A setting as plain numbers and words, the same in every process.

    Args:
        value: numbers and words stay, containers keep their form, tensors and graphs
            become checksums, functions and biases what they are called.
        most: entries of a tensor that are read for its checksum; None reads all.
    """
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(name): described(part, most) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [described(part, most) for part in value]
    if isinstance(value, Tensor):
        return f"{list(value.shape)}, checksum {checksum([value], most):08x}"
    if isinstance(value, CompactAdj):
        return described_graph(value, most)
    name = getattr(value, "__qualname__", None)
    if name is None:
        name = re.sub(" at 0x[0-9a-f]+", "", repr(value))
    own = getattr(value, "__dict__", {})
    held = [part for part in own.values() if isinstance(part, Tensor)]
    return f"{name}, checksum {checksum(held, most):08x}" if held else name


def described_graph(adj: CompactAdj, most: int | None = None) -> str:
    """The sizes of a graph, and the checksum of its arrays."""
    arrays = adj.arrays().values()
    sizes = f"{adj.num_rows:,} nodes, {adj.num_edges:,} edges"
    return f"{sizes}, checksum {checksum(arrays, most):08x}"


def checksum(tensors: Iterable[Tensor], most: int | None = None) -> int:
    """The CRC-32 of some tensors; with `most`, of so many evenly spaced entries."""
    found = 0
    for tensor in tensors:
        flat = tensor.detach().reshape(-1)
        if most is not None and flat.numel() > most:
            flat = flat[:: -(-flat.numel() // most)]
        for part in flat.split(PART):
            words = part.cpu().contiguous().view(torch.uint8).numpy()
            found = zlib.crc32(words, found)
    return found
