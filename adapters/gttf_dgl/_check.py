"""Checks of what the caller passes; errors are worded as in the engine."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import torch
from dgl import DGLError, DGLGraph
from torch import Tensor

from gttf_sampler import EdgeWeightBias, TemporalBias

EdgeType = tuple[str, str, str]

EDGE_DIRS = ("in", "out")
INTEGERS = (torch.int32, torch.int64)


class GraphError(DGLError, ValueError):
    """What DGL raises as a DGLError, and the engine as a ValueError."""


def fail(name: str, rule: str, got: object, cure: str = "") -> NoReturn:
    """Raises the ValueError that every value check ends in."""
    tail = f"; {cure}" if cure else ""
    raise ValueError(f"'{name}' {rule} (got {got}){tail}")


def fail_like_dgl(name: str, rule: str, got: object) -> NoReturn:
    """The same where scripts may expect a DGLError."""
    raise GraphError(f"'{name}' {rule} (got {got})")


def mistyped(name: str, rule: str, got: object) -> NoReturn:
    """Raises the TypeError that every type check ends in."""
    raise TypeError(f"'{name}' {rule} (got {got})")


def one_of(name: str, value: Any, options: Sequence[str]) -> str:
    """`value`, which must be one of `options`."""
    if value not in options:
        fail(name, f"must be one of {', '.join(map(repr, options))}", repr(value))
    return str(value)


def graph(value: Any) -> DGLGraph:
    """`value`, which must be a DGLGraph that is not a block."""
    if not isinstance(value, DGLGraph):
        mistyped("g", "must be a DGLGraph", type(value).__name__)
    if value.is_block:
        fail("g", "must be a graph to sample from", "a block")
    return value


def fanouts(value: Any) -> list[Any]:
    """`value` as a list with one number or mapping per layer, farthest first."""
    if hasattr(value, "tolist"):  # a tensor or an array
        value = value.tolist()
    if not isinstance(value, Sequence) or isinstance(value, str):
        mistyped("fanouts", "must be a list with one entry per layer", repr(value))
    if not value:
        fail("fanouts", "must have one entry per layer", "none")
    for entry in value:
        for number in entry.values() if isinstance(entry, Mapping) else [entry]:
            whole = hasattr(number, "__index__") and not isinstance(number, bool)
            if isinstance(number, Tensor):
                whole = number.numel() == 1 and number.dtype in INTEGERS
            if not whole or number < -1:
                rule = "must hold integers >= 0, or -1 for all neighbours"
                fail("fanouts", rule, repr(number))
    return list(value)


def layer_fanouts(g: DGLGraph, value: Any) -> list[int]:
    """The fanouts of one layer, in the order of the edge types of `g`."""
    if not isinstance(value, Mapping):
        return [int(value)] * len(g.canonical_etypes)
    named = {edge_type("fanouts", g, kind): n for kind, n in value.items()}
    missing = [kind for kind in g.canonical_etypes if kind not in named]
    if missing:
        fail_like_dgl("fanouts", f"must name every edge type, also {missing[0]}", value)
    return [int(named[kind]) for kind in g.canonical_etypes]


def integer(name: str, value: Any) -> int:
    """`value` as a Python integer."""
    if isinstance(value, bool | Tensor) or not hasattr(value, "__index__"):
        mistyped(name, "must be an integer", repr(value))
    return int(value.__index__())


def count(name: str, value: Any) -> int:
    """`value` as an integer >= 0."""
    number = integer(name, value)
    if number < 0:
        fail(name, "must not be negative", number)
    return number


def randomness(value: Any) -> torch.Generator | int | None:
    """`value` as a generator, an integer or None."""
    if value is None or isinstance(value, torch.Generator):
        return value
    if isinstance(value, bool | Tensor) or not hasattr(value, "__index__"):
        rule = "must be a torch.Generator, an integer or None"
        mistyped("generator", rule, repr(value))
    return int(value.__index__())


def edge_type(name: str, g: DGLGraph, value: Any) -> EdgeType:
    """`value` as one of the canonical edge types of `g`."""
    if value in g.canonical_etypes:
        return (value[0], value[1], value[2])
    found = [kind for kind in g.canonical_etypes if kind[1] == value]
    if len(found) != 1:
        rule = "must name one edge type of the graph: " + _listed(g.canonical_etypes)
        fail_like_dgl(name, rule, repr(value))
    return (found[0][0], found[0][1], found[0][2])


def seeds(g: DGLGraph, value: Any) -> dict[str, Tensor]:
    """The ids of every node type of `g`, in their order, int64 on its device."""
    if not isinstance(value, Mapping):
        if len(g.ntypes) > 1:
            rule = "must map node types to ids, as there are several types"
            fail_like_dgl("seed_nodes", rule, type(value).__name__)
        value = {g.ntypes[0]: value}
    unknown = [name for name in value if name not in g.ntypes]
    if unknown:
        rule = "must name node types of the graph: " + _listed(g.ntypes)
        fail_like_dgl("seed_nodes", rule, repr(unknown[0]))
    none = torch.empty(0, dtype=torch.int64, device=g.device)
    return {
        name: ids("seed_nodes", value.get(name, none), g.num_nodes(name), g.device)
        for name in g.ntypes
    }


def ids(
    name: str, value: Any, upper: int, device: torch.device, of: str = "nodes"
) -> Tensor:
    """`value` as int64 ids [k] on `device`, which must lie in [0, upper)."""
    if not isinstance(value, Tensor):
        try:
            value = torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError):
            mistyped(name, "must be a tensor of ids", type(value).__name__)
        if value.numel() == 0:  # an empty list has no dtype of its own
            value = value.to(torch.int64)
    if value.dtype == torch.bool:
        mistyped(name, "must hold ids, use mask.nonzero().view(-1)", value.dtype)
    if value.dtype not in INTEGERS:
        mistyped(name, "must have dtype int32 or int64", value.dtype)
    if value.dim() != 1:
        fail(name, "must have 1 dimension", f"shape {list(value.shape)}")
    if value.numel():
        low, high = (int(bound) for bound in value.aminmax())
        if low < 0:
            fail(name, "must not hold negative ids", low)
        if high >= upper:
            fail(name, f"must hold ids below the number of {of} {upper}", high)
    result: Tensor = value.to(device=device, dtype=torch.int64)
    return result


def weights(name: str, column: str, value: Tensor, boolean: bool) -> Tensor:
    """Edge data as weights [m]: finite and not negative, or boolean for a mask."""
    title = f"{name}[{column}]"
    if value.dim() > 1 and value.shape[1:].numel() == 1:
        value = value.view(-1)
    if value.dim() != 1:
        shape = list(value.shape[1:])
        fail(title, "must be one number per edge", f"shape {shape} per edge")
    if boolean and value.dtype != torch.bool:
        mistyped(title, "must be boolean", value.dtype)
    if value.dtype == torch.bool:
        return value.to(torch.float32)
    if value.dtype.is_complex:
        mistyped(title, "must hold real numbers", value.dtype)
    if value.numel():
        low, high = (float(bound) for bound in value.aminmax())
        if not low >= 0 or high == float("inf"):  # NaN fails the first, too
            got = low if not low >= 0 else high
            fail(title, "must hold finite numbers that are not negative", got)
    return value.detach()


def one_column(prob: Any, mask: Any) -> None:
    """Names of edge data, of which one may be given."""
    for name, value in (("prob", prob), ("mask", mask)):
        if value is not None and not isinstance(value, str):
            mistyped(name, "must be the name of edge data", type(value).__name__)
    if prob is not None and mask is not None:
        cure = "multiply the two and pass the product as 'prob'"
        fail("mask", "must not be given beside 'prob'", repr(mask), cure)


def yes_or_no(name: str, value: Any) -> None:
    """Refuses what is neither True nor False, or one of their numbers."""
    if value not in (False, True):
        mistyped(name, "must be True or False", repr(value))


def device(name: str, value: Any) -> Any:
    """`value`, which must be None or name a device."""
    try:
        return value if value is None else torch.device(value)
    except (RuntimeError, TypeError):
        mistyped(name, "must be a device", repr(value))


def bias(value: Any, whole_trees: bool, prob: str | None) -> Any:
    """`value` as a bias, one per edge type, or None."""
    for part in value.values() if isinstance(value, Mapping) else [value]:
        if part is not None and (not callable(part) or isinstance(part, type)):
            rule = "must be a function or an object that can be called"
            mistyped("bias", rule, repr(part))
        for factor in factors(part):
            if isinstance(factor, TemporalBias):
                fail("bias", "must not need times, which rows here lack", repr(factor))
            weighted = getattr(factor, "weighted", isinstance(factor, EdgeWeightBias))
            if weighted and prob is not None:
                rule = "must not use weights beside 'prob', which draws by them already"
                fail("bias", rule, repr(factor))
            if weighted and prob is None:
                rule, cure = "needs edge weights", "name them with 'prob' instead"
                fail("bias", rule, repr(factor), cure)
        if getattr(part, "per_root", False) and not whole_trees:
            rule = "must not treat seeds differently where every layer is sampled anew"
            fail("bias", rule, repr(part), "pass rooted=True")
        if getattr(part, "one_type", False) and not whole_trees:
            rule = "must not look back where every layer is sampled anew"
            fail("bias", rule, repr(part), "pass rooted=True")
    return value


def factors(part: Any) -> list[Any]:
    """A bias, or what it is the product of."""
    if hasattr(part, "left") and hasattr(part, "right"):
        return [*factors(part.left), *factors(part.right)]
    return [part]


def _listed(names: Iterable[Any]) -> str:
    """Names as a person lists them."""
    return ", ".join(map(repr, names))
