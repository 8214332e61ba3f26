"""Checks of what the caller passes; errors are worded as in the engine."""

import math
from collections.abc import Collection, Mapping, Sequence
from numbers import Number
from typing import Any, NoReturn

import numpy as np
import torch
from dgl import DGLError, DGLGraph
from torch import Tensor

from gttf_sampler._check import (
    MAX_STEPS,
    dense,
    device_or_none,
    fail,
    integer,
    integers,
    mistyped,
    model,
    one_of,
    randomness,
    real,
    shown,
    steps,
    within,
)
from gttf_sampler._check import weights as weights_of
from gttf_sampler.bias.base import as_bias
from gttf_sampler.features import RowSource

__all__ = [  # of the engine's checks, those that fit DGL's arguments as they are
    "device_or_none",
    "fail",
    "integer",
    "mistyped",
    "model",
    "one_of",
    "randomness",
    "real",
]

EdgeType = tuple[str, str, str]
Nodes = dict[str, Tensor]  # ids per node type
Files = dict[tuple[str | None, str], RowSource]  # by node type, if any, and name

EDGE_DIRS = ("in", "out")
OF_NODES = ("prefetch_node_feats", "prefetch_labels", "prefetch_ndata")
OF_EDGES = ("prefetch_edge_feats", "prefetch_edata")


class GraphError(DGLError, ValueError):
    """An error that is a DGLError, as of DGL, and a ValueError, as of the engine."""


def fail_like_dgl(name: str, rule: str, got: object) -> NoReturn:
    """Raises the error of value checks where scripts may expect a DGLError."""
    raise GraphError(f"'{name}' {rule} (got {got})")


def graph(value: Any) -> DGLGraph:
    """`value`, which must be a DGLGraph that is not a block."""
    if not isinstance(value, DGLGraph):
        mistyped("g", "must be a DGLGraph", type(value).__name__)
    if value.is_block:
        fail("g", "must be a graph to sample from", "a block")
    return value


def fanouts(value: Any, name: str = "fanouts") -> list[Any]:
    """`value` as a list with one integer or mapping per layer, farthest first."""
    if isinstance(value, Tensor):
        real(name, value)
    if isinstance(value, Tensor | np.ndarray):
        value = value.tolist()
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        mistyped(name, "must be a list with one entry per layer", shown(value))
    if isinstance(value, range):
        value = value[: MAX_STEPS + 1]
    if len(value) > MAX_STEPS:
        fail(name, f"must not have more than {MAX_STEPS} entries", len(value))
    if not value:
        fail(name, "must have one entry per layer", "none")
    return [
        {kind: _fanout(name, number) for kind, number in entry.items()}
        if isinstance(entry, Mapping)
        else _fanout(name, entry)
        for entry in value
    ]


def _fanout(name: str, given: Any) -> int:
    """One fanout; as in DGL it may be a float, or an array with one element."""
    number, whole = given, False
    if isinstance(number, Tensor):
        dense(name, number)
    if isinstance(number, Tensor | np.ndarray):
        number = number.item() if math.prod(number.shape) == 1 else None
    if isinstance(number, float | np.floating):
        whole = float(number).is_integer()
    elif not isinstance(number, bool | np.bool_ | type):
        whole = hasattr(number, "__index__")
    if not whole or number < -1:
        fail(name, "must hold integers >= 0, or -1 for all neighbours", shown(given))
    return int(number)


def layer_fanouts(g: DGLGraph, value: Any, name: str = "fanouts") -> list[int]:
    """The fanouts of one layer, in the order of the edge types of `g`."""
    if not isinstance(value, Mapping):
        return [value] * len(g.canonical_etypes)
    named = {edge_type(name, g, kind): n for kind, n in value.items()}
    missing = [kind for kind in g.canonical_etypes if kind not in named]
    if missing:
        fail_like_dgl(name, f"must name every edge type, also {missing[0]}", value)
    return [named[kind] for kind in g.canonical_etypes]


def length(name: str, value: Any) -> int:
    """`value` as a number of steps, also from a tensor of one number."""
    if isinstance(value, Tensor) and dense(name, value).numel() == 1:
        value = value.view(())
    return steps(name, value)


def one_type(g: DGLGraph) -> bool:
    """True if a graph has one node type and one edge type."""
    return len(g.ntypes) == 1 and len(g.canonical_etypes) == 1


def homogeneous(g: Any) -> None:
    """Refuses a graph with several types."""
    if not one_type(graph(g)):
        rule = "must have one node type and one edge type"
        fail_like_dgl("g", rule, f"{g.ntypes} and {g.canonical_etypes}")


def known(name: str, value: Any, names: Collection[Any], of: str) -> None:
    """Refuses what is not among these names of the graph's."""
    if value not in names:
        rule = f"must name {of} of the graph: {', '.join(map(repr, names))}"
        fail_like_dgl(name, rule, shown(value))


def edge_type(name: str, g: DGLGraph, value: Any) -> EdgeType:
    """`value` as one of the canonical edge types of `g`."""
    if not isinstance(value, str | tuple):
        mistyped(name, "must name an edge type", shown(value))
    if value in g.canonical_etypes:
        return (value[0], value[1], value[2])
    found = [kind for kind in g.canonical_etypes if kind[1] == value]
    if len(found) != 1:
        known(name, value, g.canonical_etypes, "one edge type")
    return (found[0][0], found[0][1], found[0][2])


def seeds(
    g: DGLGraph,
    value: Any,
    title: str = "seed_nodes",
    device: torch.device | None = None,
) -> Nodes:
    """The ids of every node type of `g`, int64 on `device`, by default the graph's.

    Ids on an accelerator are checked by the engine, which does not wait for it.
    """
    device = device or g.device
    if not isinstance(value, Mapping):
        if len(g.ntypes) > 1:
            rule = "must map node types to ids, as there are several types"
            fail_like_dgl(title, rule, type(value).__name__)
        value = {g.ntypes[0]: value}
    for name in value:
        known(title, name, g.ntypes, "node types")
    none = torch.empty(0, dtype=torch.int64, device=device)
    found = {}
    for name in g.ntypes:
        part = value.get(name, none)
        if isinstance(part, Tensor) and part.device.type == device.type != "cpu":
            part = integers(title, part).to(device=device, dtype=torch.int64)
        else:
            part = ids(title, part, g.num_nodes(name), device)
        found[name] = part
    return found


def ids(
    name: str, value: Any, upper: int, device: torch.device, of: str = "nodes"
) -> Tensor:
    """`value` as int64 ids [k] on `device`, which must lie in [0, upper)."""
    found = within(name, integers(name, value), upper, of)
    return found.to(device=device, dtype=torch.int64)


def several(value: Any) -> Any:
    """`value` with lone numbers as lists of one; DGL takes both."""
    if isinstance(value, Mapping):
        return {name: several(part) for name, part in value.items()}
    if isinstance(value, Tensor):
        return value.view(1) if value.dim() == 0 and not value.is_nested else value
    if isinstance(value, np.ndarray):
        return value.reshape(1) if value.ndim == 0 else value
    return [value] if hasattr(value, "__index__") else value


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
    return weights_of(title, value, value.numel())


def one_column(prob: Any, mask: Any) -> None:
    """Checks the names of edge data, of which one may be given."""
    for name, value in (("prob", prob), ("mask", mask)):
        if value is not None and not isinstance(value, str):
            mistyped(name, "must be the name of edge data", type(value).__name__)
    if prob is not None and mask is not None:
        cure = "multiply the two and pass the product as 'prob'"
        fail("mask", "must not be given beside 'prob'", repr(mask), cure)


def columns(name: str, value: Any) -> Any:
    """`value`, which must name node or edge data, perhaps per type."""
    if value is None:
        return value
    for part in value.values() if isinstance(value, Mapping) else [value]:
        names = isinstance(part, list | tuple | set | frozenset)
        if not names or not all(isinstance(column, str) for column in part):
            mistyped(name, "must be a list of names of data", shown(part))
    return value


def prefetched(g: DGLGraph, sampler: Any) -> None:
    """Refuses data that the graph lacks, or of no type where it has many."""
    for name in (*OF_NODES, *OF_EDGES):
        value = getattr(sampler, name, None)
        if not value:
            continue
        of_edges = name in OF_EDGES
        views, types = (g.edges, g.etypes) if of_edges else (g.nodes, g.ntypes)
        if not isinstance(value, Mapping):
            if len(types) > 1:
                rule = "must map types to names of data, as there are several types"
                fail_like_dgl(name, rule, shown(value))
            value = {types[0]: value}
        for kind, columns in value.items():
            if not of_edges or kind not in g.canonical_etypes:
                known(name, kind, types, "types")
            data = views[kind].data
            for column in columns:
                known(name, column, data, "data")


def yes_or_no(name: str, value: Any) -> bool:
    """`value` as a boolean, also from 0 or 1."""
    if not isinstance(value, Number | np.bool_) or value not in (False, True):
        mistyped(name, "must be True or False", shown(value))
    return bool(value)


def bias(value: Any, whole_trees: bool, prob: str | None) -> Any:
    """`value` as a bias, one per edge type, or None."""
    for part in value.values() if isinstance(value, Mapping) else [value]:
        found = as_bias(part)
        if found is None:
            continue
        for factor in found.factors:
            if factor.needs_times:
                fail("bias", "must not need times, which rows here lack", repr(factor))
            if factor.needs_weights and prob is not None:
                rule = "must not use weights beside 'prob', which draws by them already"
                fail("bias", rule, repr(factor))
            if factor.needs_weights:
                cure = "name them with 'prob' instead"
                fail("bias", "needs edge weights", repr(factor), cure)
        odd = (found.separates_trees, "treat seeds differently")
        for wrong, does in (odd, (found.looks_back, "look back")):
            if wrong and not whole_trees:
                rule = f"must not {does} where every layer is sampled anew"
                fail("bias", rule, repr(part), "pass rooted=True")
    return value


def files(features: Any) -> Files:
    """Feature files by node type and name; the type is None if there is but one."""
    if features is None:
        return {}
    if not isinstance(features, Mapping):
        rule = "must map names to feature files, or node types to such mappings"
        mistyped("features", rule, shown(features))
    found: Files = {}
    for key, value in features.items():
        typed = isinstance(value, Mapping)
        for name, file in value.items() if typed else [(key, value)]:
            if isinstance(file, Tensor) or not isinstance(file, RowSource):
                cure = "put tensors into the graph's ndata"
                mistyped("features", "must hold feature files", shown(file), cure)
            found[key if typed else None, name] = file
    return found


def without_files(names: Any, features: Files) -> tuple[Any, Files]:
    """The names to prefetch from the graph, and the files of the others."""
    if not names or not features:
        return names, {}
    typed = names if isinstance(names, Mapping) else {None: names}
    asked = [(kind, name) for kind, own in typed.items() for name in own]
    files = {key: features[key] for key in asked if key in features}
    rest: Any = {
        kind: [name for name in own if (kind, name) not in files]
        for kind, own in typed.items()
    }
    return rest if isinstance(names, Mapping) else rest[None], files


def files_fit(g: DGLGraph, files: Files) -> None:
    """Refuses feature files that do not have a row per node."""
    for (kind, name), file in files.items():
        if kind is not None:
            known("features", kind, g.ntypes, "node types")
        if len(file) != g.num_nodes(kind):
            rule = f"must have one row per node, {g.num_nodes(kind)} in all"
            fail(f"features[{name!r}]", rule, len(file))
