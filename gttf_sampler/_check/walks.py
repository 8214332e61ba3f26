"""Checks of what a traversal is given, and of what the functions in it return."""

import operator
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeVar

import torch
from torch import Tensor

from gttf_sampler._check.graphs import known_types, weights
from gttf_sampler._check.tensors import (
    dense,
    fits,
    integers,
    length,
    positions,
    real,
    tensor,
    within,
)
from gttf_sampler._check.values import MAX_STEPS, integer
from gttf_sampler._check.words import fail, kind_of, mistyped, shown
from gttf_sampler._compat import is_compiling

T = TypeVar("T")


def seeds(
    value: Any,
    upper: int,
    device: torch.device,
    name: str = "seeds",
    *,
    sound: bool = False,
) -> Tensor:
    """`value` as int64 node ids [b] on `device`, every one below `upper`.

    Ids that are on an accelerator already are checked there without waiting for it, so
    that a forest needs no host synchronisation; so are those that a compiler sees. If
    they are said to be `sound`, they are not checked there at all. The CPU, where it
    costs little and compiled code relies on it, always looks.
    """
    result = integers(name, value)
    if result.device.type == "cpu" and not is_compiling():
        within(name, result, upper)
    elif result.numel() and not sound:
        wide = result.to(torch.int64)  # bounds of more than 2³¹ nodes, too
        if upper == 0:  # known here
            fail(name, "must be empty where there are no nodes", f"{len(wide)} ids")
        inside = (wide.clamp(0, upper - 1) == wide).all()
        torch._assert_async(inside, f"'{name}' must hold ids in [0, {upper})")
    return result.to(device=device, dtype=torch.int64, copy=True)


def fanouts(
    value: Any, *, allow_all: bool, seeds: int = 1, name: str = "fanouts"
) -> list[int]:
    """`value` as a list of fanouts; `allow_all` admits 0 and -1 (all neighbours)."""
    cure = "" if allow_all else "'sample_rooted' takes -1 and 0"
    if isinstance(value, Tensor):
        value = real(name, tensor(name, value)).tolist()
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        mistyped(name, "must be a list of integers", shown(value))
    if _is_long(value):
        fail(name, f"must not have more than {MAX_STEPS} entries", shown(value))
    entries: list[int] = []
    for fanout in value:
        try:
            entries.append(integer(name, fanout))
        except TypeError:
            mistyped(name, "must be a list of integers", shown(value))
    if allow_all:
        return [max(fanout, -1) for fanout in entries]
    if any(fanout < 1 for fanout in entries):
        fail(name, "must hold positive integers", entries, cure)
    widths = accumulate(entries, operator.mul, initial=max(1, seeds))
    fits(name, 16 * sum(widths))  # a node and an edge each
    return entries


def _is_long(value: Sequence[Any]) -> bool:
    """True if there are too many entries to look at, as in `range(10**30)`."""
    try:
        return len(value) > MAX_STEPS
    except OverflowError:
        return True


def typed_fanouts(value: Any, edge_types: list[Any]) -> dict[Any, list[int]]:
    """`value` as one list of fanouts per edge type, all of one length."""
    if not isinstance(value, Mapping):
        return dict.fromkeys(edge_types, fanouts(value, allow_all=True))
    known_types("fanouts", value, edge_types, "edge types")
    missing = [kind for kind in edge_types if kind not in value]
    if missing:
        fail("fanouts", "must name every edge type", f"none for {missing[0]}")
    hops = {
        kind: fanouts(value[kind], allow_all=True, name=f"fanouts[{', '.join(kind)}]")
        for kind in edge_types
    }
    lengths = {len(entry) for entry in hops.values()}
    if len(lengths) > 1:
        fail("fanouts", "must have one length for all edge types", sorted(lengths))
    return hops


def bias_weights(value: Any, entries: int, name: str = "bias") -> Tensor:
    """Checks what a BiasFn returned: one weight per entry of the neighbourhood."""
    if not isinstance(value, Tensor):
        mistyped(name, "must return a tensor", kind_of(value))
    dense(name, value)
    if value.shape != (entries,):
        rule = f"must return one weight per neighbour, shape [{entries}]"
        fail(name, rule, f"shape {list(value.shape)}")
    if value.dtype is torch.bool:  # a mask is a bias, too
        return value.to(torch.float32)
    if value.device.type == "cpu":
        return weights(name, value, entries)
    sound = (value.detach().double() >= 0).logical_and_(value.isfinite()).all()
    torch._assert_async(sound, f"'{name}' must return finite weights >= 0")
    return value.detach()


def drawn_edges(value: Any, walkers: int, fanout: int, edges: int) -> Tensor:
    """Checks what a bias drew by itself: positions of edges, or -1."""
    if not isinstance(value, Tensor):
        mistyped("bias", "must draw a tensor", kind_of(value))
    dense("bias", value)
    if value.shape != (walkers, fanout):
        rule = f"must draw positions of shape [{walkers}, {fanout}]"
        fail("bias", rule, f"shape {list(value.shape)}")
    return positions("bias", value, edges)


def traversed(forest: T | None) -> T:
    """`forest`, which must be there before there can be a result."""
    if forest is None:
        cure = "pass it to 'traverse' as 'accumulate' first"
        fail("result", "needs a traversal", "none", cure)
    return forest


def law(value: Any, edges: int, trees: int) -> None:
    """Refuses a law whose arrays do not fit the graph and the seeds.

    Compiled code reads them by their addresses. On accelerators, where it does not,
    nobody waits for an answer.
    """
    sizes = {"time": edges, "time_max": trees, "time_min": trees}
    for name, size in sizes.items():
        array = getattr(value, name)
        if array is not None:
            of = "edge" if name == "time" else "seed"
            length(f"law.{name}", dense(f"law.{name}", array), size, of)
    if (value.time is None) != (value.time_max is None):
        fail("law.time_max", "must be given where 'law.time' is, and only there", value)
    if value.excluded_edges is None:
        return
    hidden = integers("law.excluded_edges", value.excluded_edges)
    if hidden.numel() and value.cumulative_weight is not None:
        fail(
            "law.excluded_edges",
            "must not be given beside 'law.cumulative_weight'",
            hidden,
        )
    if hidden.device.type == "cpu":
        within("law.excluded_edges", hidden, edges, "edges")
        if not bool((hidden[1:] > hidden[:-1]).all()):
            fail("law.excluded_edges", "must ascend", hidden, "sort it")
