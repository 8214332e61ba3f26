"""Checks of what the caller passes: the only place that words errors."""

import operator
import os
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from numbers import Real
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from torch import Tensor

from gttf_sampler._backends import memory

T = TypeVar("T")

INTEGERS = (torch.int32, torch.int64)
REALS = (
    *(*INTEGERS, torch.uint8, torch.int8, torch.int16),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
)
MAX_SIZE = (1 << 63) - 1
MAX_STEPS = 1 << 20
MAX_DEGREE = (1 << 31) - 1
MAX_NODES = 1 << 46  # so that what is made of two ids stays below 2⁶³
SMALL = 1 << 28  # bytes that are not worth asking for how many there are


def fail(name: str, rule: str, got: object, cure: str = "") -> NoReturn:
    """Raises the ValueError that every value check ends in."""
    raise ValueError(_sentence(name, rule, got, cure))


def mistyped(name: str, rule: str, got: object, cure: str = "") -> NoReturn:
    """Raises the TypeError that every type check ends in."""
    raise TypeError(_sentence(name, rule, got, cure))


def _sentence(name: str, rule: str, got: object, cure: str) -> str:
    """What went wrong: argument, rule, value received, and the cure if there is one."""
    try:
        received = str(got)
    except ValueError:  # Python does not write integers of thousands of digits
        received = kind_of(got)
    return f"'{name}' {rule} (got {received})" + (f"; {cure}" if cure else "")


def shown(value: object, most: int = 60) -> str:
    """`value` as Python writes it; what it is, if that is long or impossible."""
    try:
        text = repr(value)
    except Exception:  # of an object that was not meant to be printed
        text = ""
    if text and len(text) <= most and "\n" not in text:
        return text
    return kind_of(value)


def kind_of(value: object) -> str:
    """What `value` is, in two or three words."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return type(value).__name__


def versions() -> None:
    """Refuses a torch that is too old, or that was not built for this numpy."""
    torch_version, numpy_version = torch.__version__, np.__version__
    if not hasattr(torch, "uint16"):
        raise ImportError(
            f"'torch' must be 2.3 or newer (got {torch_version}); "
            "pip install 'torch>=2.3'"
        )
    try:
        torch.from_numpy(np.empty(0))
    except RuntimeError as err:
        raise ImportError(
            f"'numpy' must be one that torch was built for (got numpy {numpy_version} "
            f"and torch {torch_version}); pip install 'numpy<2', or a newer torch"
        ) from err


def one_of(name: str, value: str, options: Collection[str]) -> str:
    """`value`, which must be one of `options`."""
    if not isinstance(value, str) or value not in options:
        fail(name, f"must be one of {', '.join(map(repr, options))}", shown(value))
    return value


def size(name: str, value: Any) -> int:
    """`value` as a count, which must be an integer >= 0."""
    return at_least(0, name, value)


def addressable(name: str, number: int) -> int:
    """`number`, which must be one that arrays can be counted with."""
    if number > MAX_SIZE:
        fail(name, "must be below 2**63", number)
    return number


def nodes(name: str, value: Any) -> int:
    """`value` as a number of nodes."""
    number = size(name, value)
    if number > MAX_NODES:
        fail(name, f"must not exceed {MAX_NODES:,}", number)
    return number


def integer(name: str, value: Any) -> int:
    """`value` as a Python integer, from anything that is a single integer."""
    try:
        if isinstance(value, bool):
            raise TypeError
        if isinstance(value, Tensor):
            odd = dense(name, value).dim() or value.dtype is torch.bool
            if odd:
                raise TypeError
        return int(value.__index__())
    except (AttributeError, TypeError, ValueError, RuntimeError):
        mistyped(name, "must be an integer", shown(value))


def at_least(least: int, name: str, value: Any) -> int:
    """`value` as an integer >= `least`."""
    number = integer(name, value)
    if number < least:
        rule = f"must be at least {least}" if least else "must not be negative"
        fail(name, rule, number)
    return addressable(name, number)


def count(name: str, value: Any) -> int:
    """`value` as an integer >= 1."""
    return at_least(1, name, value)


def steps(name: str, value: Any, least: int = 0) -> int:
    """`value` as the length of a walk, which is written out step by step."""
    number = at_least(least, name, value)
    if number > MAX_STEPS:
        fail(name, f"must not exceed {MAX_STEPS} steps", number)
    return number


def positive(name: str, value: float) -> float:
    """`value`, which must be a finite number > 0."""
    result = number(name, value)
    if not 0 < result < float("inf"):
        fail(name, "must be finite and greater than 0", value)
    if 1 / result == float("inf"):
        fail(name, "must be large enough to have an inverse", value)
    return result


def number(name: str, value: Any) -> float:
    """`value` as a float; inf if it is an integer too large for one."""
    if not isinstance(value, Real) or isinstance(value, bool):
        mistyped(name, "must be a number", shown(value))
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def finite(name: str, value: Any) -> float:
    """`value` as a float, which must be finite."""
    result = number(name, value)
    if not abs(result) < float("inf"):
        fail(name, "must be finite", value)
    return result


def scale(name: str, value: Any) -> float | Tensor:
    """`value` as a number > 0, or as a tensor [] that may have a gradient."""
    if not isinstance(value, Tensor):
        return positive(name, value)
    dense(name, value)
    if value.dim() or value.dtype not in REALS or not value.is_floating_point():
        got = f"{value.dtype} of shape {list(value.shape)}"
        fail(name, "must be a number or a floating-point tensor of shape []", got)
    if value.device.type == "cpu":
        positive(name, float(value.detach()))
    return value


def yes_or_no(name: str, value: Any) -> bool:
    """`value`, which must be True or False."""
    if not isinstance(value, bool | np.bool_):
        mistyped(name, "must be True or False", shown(value))
    return bool(value)


def of_type(name: str, value: Any, kind: type) -> None:
    """Refuses what is not an instance of `kind`."""
    if not isinstance(value, kind):
        cure = "make one first" if value is kind else ""
        mistyped(name, f"must be a {kind.__name__}", kind_of(value), cure)


def path(name: str, value: Any) -> Path:
    """`value` as a path, which may lead nowhere."""
    if not isinstance(value, str | os.PathLike) or isinstance(value, type):
        mistyped(name, "must be a path", shown(value))
    text = os.fspath(value)
    if not isinstance(text, str) or not text or "\0" in text:
        fail(name, "must be a path that a file can have", repr(text))
    return Path(text)


def device(name: str, value: Any) -> torch.device:
    """`value` as a device that is there."""
    try:
        found = torch.device(value)
    except (RuntimeError, TypeError, ValueError):
        mistyped(name, "must be a device", shown(value))
    try:
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, NotImplementedError):
        fail(name, "must be a device that is there", repr(str(found)))
    return found


def device_or_none(name: str, value: Any) -> torch.device | None:
    """`value` as a device with memory to put batches in; None if it is None."""
    found = None if value is None else device(name, value)
    if found is not None and found.type == "meta":
        fail(name, "must be a device with memory", "'meta'")
    return found


def functions(name: str, value: Any, many: bool = False) -> Sequence[Any]:
    """`value` as a list of callables: none, one, or, if allowed, many."""
    if value is None:
        return []
    entries = list(value) if many and isinstance(value, list | tuple) else [value]
    for entry in entries:
        if not callable(entry) or isinstance(entry, type):
            rule = "must be a function or an object that can be called"
            kind = getattr(entry, "__name__", "")
            cure = f"make one: {kind}(...)" if isinstance(entry, type) else ""
            mistyped(name, rule, shown(entry), cure)
    stateful = [id(entry) for entry in entries if hasattr(entry, "begin")]
    if len(set(stateful)) < len(stateful):
        fail(name, "must not hold the same object twice", shown(entries))
    return entries


def randomness(value: Any) -> torch.Generator | int | None:
    """`value` as a generator, a seed or None."""
    if value is None or isinstance(value, torch.Generator):
        return value
    if isinstance(value, bool | Tensor) or not hasattr(value, "__index__"):
        rule = "must be a torch.Generator, an integer or None"
        mistyped("generator", rule, shown(value))
    return integer("generator", value)


def dense(name: str, value: Any) -> Tensor:
    """`value`, which must be a tensor whose numbers stand in memory as they are."""
    if not isinstance(value, Tensor):
        mistyped(name, "must be a tensor", shown(value))
    odd: object = None
    cure = ""
    if value.is_nested:
        odd, cure = "a nested tensor", "pad it: x.to_padded_tensor(0)"
    elif value.layout is not torch.strided:
        odd, cure = value.layout, "make it one: x.to_dense()"
    elif value.is_quantized:
        odd, cure = value.dtype, "make it one: x.dequantize()"
    elif str(value.dtype).startswith("torch.bits"):  # torch cannot even copy them
        odd = value.dtype
    elif value.is_meta:
        odd = "one on the device 'meta', which has no numbers"
    if odd is not None:
        mistyped(name, "must be a dense tensor", odd, cure)
    return value


def as_dense(name: str, value: Any) -> Tensor:
    """`value` as a dense tensor of any rank, without its gradient."""
    if isinstance(value, Tensor):
        return dense(name, value).detach().resolve_neg()
    given = value
    if isinstance(value, range):
        return _as_range(name, value)
    if isinstance(value, np.ma.MaskedArray):
        cure = "fill its gaps: x.filled(...)"
        mistyped(name, "must be an array without a mask", kind_of(value), cure)
    if isinstance(value, np.ndarray):
        plain = value.flags.writeable and all(s >= 0 for s in value.strides)
        if not plain or not value.dtype.isnative:  # what torch cannot share
            value = value.astype(value.dtype.newbyteorder("="))
    try:
        result = torch.as_tensor(value, device="cpu")
    except (TypeError, ValueError, RuntimeError, OverflowError):
        plain = isinstance(given, list | tuple)
        mistyped(name, "must be a tensor", shown(given) if plain else kind_of(given))
    # an empty list has no dtype of its own
    return result if result.numel() else result.to(torch.int64)


def _as_range(name: str, value: range) -> Tensor:
    """`value` as a tensor [k], without looking at every number."""
    try:
        fits(name, 8 * len(value))
        return torch.arange(value.start, value.stop, value.step, device="cpu")
    except (TypeError, RuntimeError, OverflowError):
        mistyped(name, "must be a tensor", shown(value))


def tensor(name: str, value: Any, rank: int | None = 1) -> Tensor:
    """`value` as a tensor of the given rank; None for any."""
    result = as_dense(name, value)
    if rank is not None and result.dim() != rank:
        cure = f"write [{value}]" if result.dim() == 0 and rank == 1 else ""
        rule = f"must have {rank} dimension(s)"
        fail(name, rule, f"shape {list(result.shape)}", cure)
    return result


def integers(name: str, value: Any, rank: int | None = 1) -> Tensor:
    """`value` as an int32 or int64 tensor of the given rank; None for any."""
    result = tensor(name, value, rank)
    if result.dtype not in INTEGERS:
        mask = result.dtype == torch.bool and rank == 1
        cure = "turn a mask into ids with mask.nonzero().view(-1)" if mask else ""
        mistyped(name, "must have dtype int32 or int64", result.dtype, cure)
    return result


def within(name: str, value: Tensor, upper: int, what: str = "nodes") -> Tensor:
    """`value`, whose entries must lie in [0, upper)."""
    if value.numel():
        low, high = (int(bound) for bound in value.aminmax())
        if low < 0:
            fail(name, "must not hold negative ids", low)
        if high >= upper:
            fail(name, f"must hold ids below the number of {what} {upper}", high)
    return value


def positions(name: str, value: Any, edges: int) -> Tensor:
    """`value` as positions of edges, of any shape; -1 for none."""
    result = integers(name, value, rank=None)
    if result.device.type == "cpu" and result.numel():
        low, high = (int(bound) for bound in result.aminmax())
        if low < -1 or high >= edges:
            rule = f"must hold positions below the number of edges {edges}, or -1"
            fail(name, rule, high if high >= edges else low)
    return result


def pairs(
    left: tuple[str, Any], right: tuple[str, Any], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Two integer arguments as tensors of one shape."""
    found = [integers(*argument, rank=None).to(device) for argument in (left, right)]
    try:
        first, second = torch.broadcast_tensors(*found)
    except RuntimeError:
        shapes = [list(entry.shape) for entry in found]
        fail(right[0], f"must have a shape that fits {left[0]!r}", shapes)
    return first, second


def length(name: str, value: Tensor, expected: int, of: str) -> Tensor:
    """`value`, which must have one entry per element of `of`."""
    if value.numel() != expected:
        fail(name, f"must have one entry per {of}, {expected} in all", value.numel())
    return value


def edge_ids(value: Any, edges: int) -> Tensor:
    """`value` as one position in the caller's edge order per edge."""
    result = length("edge_id", integers("edge_id", value), edges, "edge")
    within("edge_id", result, edges, "edges")
    named = torch.zeros(edges, dtype=torch.bool, device=result.device)
    if not bool(named.index_fill_(0, result.to(torch.int64), True).all()):
        fail("edge_id", "must name every edge once", "a repeated id")
    return result


def scipy_matrix(name: str, value: Any) -> None:
    """Refuses what is not a sparse matrix, without importing scipy."""
    whole = hasattr(value, "tocoo") and hasattr(value, "format")
    if not whole or isinstance(value, type):
        mistyped(name, "must be a scipy sparse matrix or array", kind_of(value))
    if len(value.shape) != 2:
        fail(name, "must have 2 dimension(s)", f"shape {list(value.shape)}")


def scipy_rows(name: str, value: Any) -> None:
    """Refuses compressed rows that scipy would follow out of its arrays."""
    if value.format not in ("csr", "csc", "bsr"):
        return
    across, along = value.shape[::-1] if value.format == "csc" else value.shape
    if value.format == "bsr":
        across, along = (
            side // block
            for side, block in zip((across, along), value.blocksize, strict=True)
        )
    rows = row_pointer(f"{name}.indptr", value.indptr, len(value.indices))
    if rows.numel() != across + 1:
        rule = f"must have one entry more than there are rows, {across + 1} in all"
        fail(f"{name}.indptr", rule, rows.numel())
    within(f"{name}.indices", integers(f"{name}.indices", value.indices), along)


def one_device(arrays: Mapping[str, Tensor]) -> None:
    """Refuses arrays of one graph that are in different places."""
    devices = {name: str(array.device) for name, array in arrays.items()}
    if len(set(devices.values())) > 1:
        fail("device", "must be the same for all arrays", devices)


def differentiable(name: str, value: Any, expected: int, of: str) -> Tensor:
    """`value` as it is, with its gradient: one entry per element of `of`."""
    tensor(name, real(name, dense(name, value)))
    return length(name, value, expected, of)


def floats(name: str, value: Any) -> Tensor:
    """`value` as it is, with its gradient, which must hold floats."""
    if not real(name, found := dense(name, value)).is_floating_point():
        mistyped(name, "must hold floats", found.dtype)
    return found


def looked_up(name: str, value: Any, node: Tensor) -> Tensor:
    """What an embedding gave for nodes [...], as vectors [..., d]."""
    found = floats(name, value)
    if found.shape[:-1] != node.shape:
        shape = ", ".join(map(str, [*node.shape, "d"]))
        rule = f"must give one vector per node, shape [{shape}]"
        fail(name, rule, f"shape {list(found.shape)}")
    return found


def cpu_generator(name: str, value: Any) -> torch.Generator | None:
    """`value`, which must be a torch.Generator or None."""
    if value is not None and not isinstance(value, torch.Generator):
        mistyped(name, "must be a torch.Generator or None", shown(value))
    return value


def real(name: str, value: Any) -> Tensor:
    """`value`, whose dtype must be one that torch can sort and compare."""
    found = dense(name, value)
    if found.dtype not in REALS:
        mistyped(name, "must hold integers or floats", found.dtype)
    return found


def weights(name: str, value: Any, edges: int) -> Tensor:
    """`value` as one finite weight >= 0 per edge; integers are fine."""
    result = length(name, real(name, tensor(name, value)), edges, "edge")
    if result.numel():
        low, high = (float(bound) for bound in result.aminmax())
        if low != low:  # aminmax propagates NaN
            fail(name, "must not hold NaN", "NaN")
        if low < 0:
            fail(name, "must not hold negative weights", low)
        if high == float("inf"):
            fail(name, "must hold finite weights", high)
    return result


def times(name: str, value: Any, entries: int, of: str) -> Tensor:
    """`value` as one integer or float time without NaN per element of `of`."""
    result = length(name, real(name, tensor(name, value)), entries, of)
    if result.is_floating_point() and bool(result.isnan().any()):
        fail(name, "must not hold NaN", "NaN")
    return result


def row_pointer(name: str, value: Any, edges: int) -> Tensor:
    """`value` as the int64 row pointer of `edges` edges."""
    result = integers(name, value).to(torch.int64)
    if result.numel() == 0:
        fail(name, "must have one entry more than there are rows", "no entry")
    first, last = int(result[0]), int(result[-1])
    if first != 0:
        fail(name, "must start at 0", first)
    if last != edges:
        fail(name, f"must end at the number of edges {edges}", last)
    degree = result.diff()
    if degree.numel():
        low, high = (int(bound) for bound in degree.aminmax())
        if low < 0:
            fail(name, "must not decrease", f"a step of {low}")
        if high > MAX_DEGREE:
            fail(name, f"must keep every degree at or below {MAX_DEGREE}", high)
    return result


def seeds(value: Any, upper: int, device: torch.device, name: str = "seeds") -> Tensor:
    """`value` as int64 node ids [b] on `device`, every one below `upper`.

    Ids that are on an accelerator already are checked there without waiting for it, so
    that a forest needs no host synchronisation.
    """
    result = integers(name, value)
    if result.device.type == "cpu":
        within(name, result, upper)
    elif result.numel():
        inside = ((result >= 0) & (result < upper)).all()
        torch._assert_async(inside, f"'{name}' must hold ids in [0, {upper})")
    return result.to(device=device, dtype=torch.int64, copy=True)


def _is_long(value: Sequence[Any]) -> bool:
    """Whether there are too many entries to look at, as in `range(10**30)`."""
    try:
        return len(value) > MAX_STEPS
    except OverflowError:
        return True


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


def fits(name: str, nbytes: int) -> None:
    """Refuses what asks for more memory than there is."""
    if nbytes < SMALL:
        return
    room = memory.room()
    if room is not None and nbytes > room:
        rule = f"must ask for no more than fits into memory, {room:,} bytes now"
        fail(name, rule, f"{nbytes:,} bytes")


def bias_weights(value: Any, entries: int, name: str = "bias") -> Tensor:
    """What a BiasFn returned, as one weight per entry of the neighbourhood."""
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
    """What a bias drew by itself, as positions of edges or -1."""
    if not isinstance(value, Tensor):
        mistyped("bias", "must draw a tensor", kind_of(value))
    dense("bias", value)
    if value.shape != (walkers, fanout):
        rule = f"must draw positions of shape [{walkers}, {fanout}]"
        fail("bias", rule, f"shape {list(value.shape)}")
    return positions("bias", value, edges)


def one_node_set(name: str, num_rows: int, num_cols: int) -> None:
    """Refuses a bipartite graph where nodes must be of one kind."""
    if num_rows != num_cols:
        rule = "must have one set of nodes here"
        cure = "give 'sample_rooted' a mapping of edge types"
        fail(name, rule, f"{num_rows} rows and {num_cols} columns", cure)


def known_types(name: str, value: Any, known: list[Any], of: str) -> None:
    """Refuses keys of a mapping that are not among the `known` types."""
    for key in value:
        if key not in known:
            fail(name, f"must use the {of} of 'adj', {known}", repr(key))


def mapping(name: str, value: Any) -> None:
    """Refuses what has no keys and values."""
    if not isinstance(value, Mapping):
        mistyped(name, "must be a mapping of edge types", kind_of(value))


def node_types(adjs: Any) -> dict[str, int]:
    """The node types of all relations and how many nodes each has."""
    sizes: dict[str, int] = {}
    if not adjs:
        fail("adj", "must hold at least one edge type", "none")
    for kind, adj in adjs.items():
        if not isinstance(kind, tuple) or len(kind) != 3:
            rule = "must have keys (source, relation, target)"
            fail("adj", rule, repr(kind))
        if not hasattr(adj, "ensure_sound") or isinstance(adj, type):
            rule = "must map edge types to CompactAdj"
            mistyped("adj", rule, kind_of(adj))
        adj.ensure_sound()
        if adj.direction != "in":
            rule = "must have direction 'in' in a mapping: rows are target nodes"
            fail("adj", rule, f"{adj.direction!r} in {kind}")
        for node_type, count in ((kind[0], adj.num_cols), (kind[2], adj.num_rows)):
            if sizes.setdefault(node_type, count) != count:
                rule = f"must agree on the number of {node_type!r} nodes"
                fail("adj", rule, f"{sizes[node_type]} and {count} in {kind}")
    devices = {str(adj.device) for adj in adjs.values()}
    if len(devices) > 1:
        fail("adj", "must have all relations on one device", sorted(devices))
    return sizes


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


def sampled_from(node: Tensor, num_rows: int) -> None:
    """Refuses a graph that cannot be the one the nodes of a subgraph came from."""
    if node.device.type == "cpu" and node.numel() and int(node.max()) >= num_rows:
        rule = "must be the graph that the subgraph was sampled from"
        fail("adj", rule, f"{num_rows} nodes, node {int(node.max())} was sampled")


def traversed(forest: T | None) -> T:
    """`forest`, which must be there before there can be a result."""
    if forest is None:
        cure = "pass it to 'traverse' as 'accumulate' first"
        fail("result", "needs a traversal", "none", cure)
    return forest
