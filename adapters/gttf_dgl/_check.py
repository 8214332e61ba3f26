"""Checks of what the caller passes; errors are worded as in the engine."""

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Number
from typing import Any, NoReturn

import numpy as np
import torch
from dgl import DGLError, DGLGraph
from torch import Tensor

from gttf_sampler import EdgeWeightBias, TemporalBias

EdgeType = tuple[str, str, str]

EDGE_DIRS = ("in", "out")
INTEGERS = (torch.int32, torch.int64)
REALS = (
    *(*INTEGERS, torch.uint8, torch.int8, torch.int16),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
)
MAX_STEPS = 1 << 20  # of a walk, which is written out


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


def shown(value: object) -> str:
    """`value` as Python writes it; what it is, if that is long."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    try:
        text = repr(value)
    except Exception:  # of an object that was not meant to be printed
        return type(value).__name__
    return text if len(text) <= 60 and "\n" not in text else type(value).__name__


def dense(name: str, value: Tensor) -> Tensor:
    """`value`, which must be a tensor whose numbers stand in memory as they are."""
    odd: object = None
    if value.is_nested:
        odd = "a nested tensor"
    elif value.layout is not torch.strided:
        odd = value.layout
    elif value.is_quantized:
        odd = value.dtype
    elif value.is_meta:
        odd = "one on the device 'meta', which has no numbers"
    if odd is not None:
        mistyped(name, "must be a dense tensor", odd)
    return value


def real(name: str, value: Tensor) -> Tensor:
    """`value`, which must hold numbers that can be compared."""
    if dense(name, value).dtype not in REALS:
        mistyped(name, "must hold real numbers", value.dtype)
    return value


def one_of(name: str, value: Any, options: Sequence[str]) -> str:
    """`value`, which must be one of `options`."""
    if not isinstance(value, str) or value not in options:
        fail(name, f"must be one of {', '.join(map(repr, options))}", shown(value))
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
    if isinstance(value, Tensor):
        real("fanouts", value)
    if isinstance(value, Tensor | np.ndarray):
        value = value.tolist()
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        mistyped("fanouts", "must be a list with one entry per layer", shown(value))
    if isinstance(value, range):
        value = list(value[: MAX_STEPS + 1])
    if len(value) > MAX_STEPS:
        fail("fanouts", f"must not have more than {MAX_STEPS} entries", len(value))
    if not value:
        fail("fanouts", "must have one entry per layer", "none")
    for entry in value:
        for number in entry.values() if isinstance(entry, Mapping) else [entry]:
            if not _is_whole(number) or number < -1:
                rule = "must hold integers >= 0, or -1 for all neighbours"
                fail("fanouts", rule, shown(number))
    return list(value)


def _is_whole(number: Any) -> bool:
    """Whether a value is one whole number, which DGL also takes as a float."""
    if isinstance(number, Tensor):
        dense("fanouts", number)
        if number.dtype not in (*INTEGERS, torch.float32, torch.float64):
            return False
    if isinstance(number, Tensor | np.ndarray):
        if math.prod(number.shape) != 1:
            return False
        number = number.item()
    if isinstance(number, bool | np.bool_ | type):
        return False
    whole = isinstance(number, float | np.floating) and float(number).is_integer()
    return whole or hasattr(number, "__index__")


def layer_fanouts(g: DGLGraph, value: Any) -> list[int]:
    """The fanouts of one layer, in the order of the edge types of `g`."""
    if not isinstance(value, Mapping):
        return [int(value)] * len(g.canonical_etypes)
    named = {edge_type("fanouts", g, kind): n for kind, n in value.items()}
    missing = [kind for kind in g.canonical_etypes if kind not in named]
    if missing:
        fail_like_dgl("fanouts", f"must name every edge type, also {missing[0]}", value)
    return [int(named[kind]) for kind in g.canonical_etypes]


def integer(name: str, value: Any, rule: str = "must be an integer") -> int:
    """`value` as a Python integer."""
    try:
        if isinstance(value, bool | Tensor | type):
            raise TypeError
        return int(value.__index__())
    except (AttributeError, TypeError):
        mistyped(name, rule, shown(value))


def count(name: str, value: Any) -> int:
    """`value` as an integer >= 0, also from a tensor of one number."""
    if isinstance(value, Tensor):
        whole = dense(name, value).dtype in INTEGERS and value.numel() == 1
        value = value.item() if whole else value
    number = integer(name, value)
    if number < 0:
        fail(name, "must not be negative", number)
    if number > MAX_STEPS:
        fail(name, f"must not exceed {MAX_STEPS} steps", number)
    return number


def randomness(value: Any) -> torch.Generator | int | None:
    """`value` as a generator, an integer or None."""
    if value is None or isinstance(value, torch.Generator):
        return value
    return integer("generator", value, "must be a torch.Generator, an integer or None")


def edge_type(name: str, g: DGLGraph, value: Any) -> EdgeType:
    """`value` as one of the canonical edge types of `g`."""
    if not isinstance(value, str | tuple):
        mistyped(name, "must name an edge type", shown(value))
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
    value = _integers(name, value)
    if value.numel():
        low, high = (int(bound) for bound in value.aminmax())
        if low < 0:
            fail(name, "must not hold negative ids", low)
        if high >= upper:
            fail(name, f"must hold ids below the number of {of} {upper}", high)
    result: Tensor = value.to(device=device, dtype=torch.int64)
    return result


def some_ids(name: str, value: Any, upper: int, device: torch.device) -> Tensor:
    """`value` as int64 ids [k] on `device`, without those outside [0, upper).

    DGL passes over ids that its graph does not have: `reverse_id` makes such ids.
    """
    named = _integers(name, value).to(device=device, dtype=torch.int64)
    kept: Tensor = named[(named >= 0) & (named < upper)]
    return kept


def _integers(name: str, value: Any) -> Tensor:
    """`value` as a tensor [k] of int32 or int64."""
    if not isinstance(value, Tensor):
        try:
            value = _made(value)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            mistyped(name, "must be a tensor of ids", shown(value))
        if value.numel() == 0:  # an empty list has no dtype of its own
            value = value.to(torch.int64)
    dense(name, value)
    if value.dtype == torch.bool:
        mistyped(name, "must hold ids, use mask.nonzero().view(-1)", value.dtype)
    if value.dtype not in INTEGERS:
        mistyped(name, "must have dtype int32 or int64", value.dtype)
    if value.dim() != 1:
        fail(name, "must have 1 dimension", f"shape {list(value.shape)}")
    result: Tensor = value
    return result


def _made(value: Any) -> Tensor:
    """A tensor of what is none, without looking at every number of a range."""
    if isinstance(value, range):
        return torch.arange(value.start, value.stop, value.step)
    return torch.as_tensor(value)


def starts(value: Any, upper: int, device: torch.device) -> Tensor:
    """`value` as the nodes where walks start: a number, or several."""
    if not isinstance(value, Tensor) and hasattr(value, "__index__"):
        value = [value]
    if isinstance(value, Tensor) and value.dim() == 0:
        value = value.view(1)
    try:
        return ids("nodes", value, upper, device)
    except ValueError as error:
        raise GraphError(str(error)) from None


def weights(name: str, column: str, value: Tensor, boolean: bool) -> Tensor:
    """Edge data as weights [m]: finite and not negative, or boolean for a mask."""
    title = f"{name}[{column}]"
    dense(title, value)
    if value.dim() > 1 and value.shape[1:].numel() == 1:
        value = value.view(-1)
    if value.dim() != 1:
        shape = list(value.shape[1:])
        fail(title, "must be one number per edge", f"shape {shape} per edge")
    if boolean and not value.dtype.is_complex:
        value = value != 0  # DGL takes any numbers as a mask
    if value.dtype == torch.bool:
        return value.to(torch.float32)
    real(title, value)
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


def columns(name: str, value: Any) -> Any:
    """`value`, which must name node or edge data, perhaps per type."""
    for part in value.values() if isinstance(value, Mapping) else [value]:
        if part is None:
            continue
        names = isinstance(part, list | tuple | set | frozenset)
        if not names or not all(isinstance(column, str) for column in part):
            mistyped(name, "must be a list of names of data", shown(part))
    return value


def yes_or_no(name: str, value: Any) -> None:
    """Refuses what is neither True nor False, or one of their numbers."""
    if not isinstance(value, Number | np.bool_) or value not in (False, True):
        mistyped(name, "must be True or False", shown(value))


def device(name: str, value: Any) -> Any:
    """`value`, which must be None or name a device."""
    try:
        found = value if value is None else torch.device(value)
    except (RuntimeError, TypeError, ValueError):
        mistyped(name, "must be a device", shown(value))
    try:
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, NotImplementedError):
        fail(name, "must be a device that is there", repr(str(found)))
    if found is not None and found.type == "meta":
        fail(name, "must be a device with memory", "'meta'")
    return found


def bias(value: Any, whole_trees: bool, prob: str | None) -> Any:
    """`value` as a bias, one per edge type, or None."""
    for part in value.values() if isinstance(value, Mapping) else [value]:
        if part is not None and (not callable(part) or isinstance(part, type)):
            rule = "must be a function or an object that can be called"
            mistyped("bias", rule, shown(part))
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
