"""Source: a graph with everything that is to be cut, and what is known of it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.distributed.book import Book
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.subgraph import EdgeType

Array = np.ndarray[Any, Any]
Report = Callable[[str, int], None]
ONLY = ("", "", "")  # the edge type of a graph that has only one
WANTED = 0.1  # of all nodes; a cache of features has no use for more
PIECE = 1 << 24


class Source(NamedTuple):
    """A graph with everything that is to be cut.

    Attributes:
        adjs: the rows of every relation.
        sizes: how many nodes of each type there are.
        features: (node type, name, values [n, ...]).
    """

    adjs: dict[EdgeType, CompactAdj]
    sizes: dict[str, int]
    features: list[tuple[str, str, Array]]


def source_of(graph: Any, features: Mapping[Any, Any]) -> Source:
    """What is to be cut, checked."""
    if isinstance(graph, Mapping):
        sizes, adjs = _check.node_types(graph), dict(graph)
    else:
        _check.of_type("graph", graph, CompactAdj)
        graph.ensure_sound()
        _check.one_node_set("graph", graph.num_rows, graph.num_cols)
        sizes, adjs = {"": graph.num_rows}, {ONLY: graph}
    found: dict[tuple[str, str], Array] = {}
    for key, values in features.items():
        kind, name = key_of(key)
        _check.known_types("features", [kind], list(sizes), "node types")
        array = _array(f"features[{name}]", values)
        if array.ndim == 0 or len(array) != sizes[kind]:
            rule = f"must have one row per node, {sizes[kind]} in all"
            _check.fail(f"features[{name}]", rule, f"shape {list(array.shape)}")
        if (kind, name) in found:
            _check.fail("features", "must name every feature once", (kind, name))
        found[kind, name] = array
    return Source(adjs, sizes, [(*key, array) for key, array in found.items()])


def key_of(key: Any) -> tuple[str, str]:
    """(node type, name) of a feature; a name alone has the type ""."""
    parts = key if isinstance(key, tuple) else ("", key)
    if len(parts) != 2:
        _check.fail("features", "must be named by (node type, name)", key)
    return parts[0], str(parts[1])


def _array(name: str, values: Any) -> Array:
    """Values as numpy has them, which does not copy them."""
    if not isinstance(values, Tensor):
        try:
            array: Array = np.asanyarray(values)
        except ValueError:  # rows of several lengths
            _check.fail(name, "must be an array of numbers", _check.shown(values))
        if array.dtype.kind not in "biufc":
            _check.mistyped(name, "must hold numbers", f"dtype {array.dtype}")
        return array
    try:
        return _check.dense(name, values).detach().cpu().numpy()
    except TypeError:
        rule, cure = "must have a dtype that numpy knows", "cut it as float16"
        _check.fail(name, rule, values.dtype, cure)


def _pieces(array: Array) -> Iterator[bytes]:
    """The bytes of an array, a bounded piece at a time."""
    step = max(1, PIECE // max(1, array[:1].nbytes))
    for first in range(0, len(array), step):
        yield np.ascontiguousarray(array[first : first + step]).tobytes()


def fingerprint(
    source: Source, books: Mapping[str, Book], parts: int, share: float, tick: Report
) -> int:
    """A checksum of all that the parts are made of."""
    facts = [sorted(source.sizes.items()), list(source.adjs), parts, share]
    crc = zlib.crc32(repr(facts).encode())
    arrays = [a.numpy() for adj in source.adjs.values() for a in adj.arrays().values()]
    for kind, name, values in source.features:
        crc = zlib.crc32(repr((kind, name, values.dtype, values.shape)).encode(), crc)
        arrays.append(values)
    for book in books.values():
        own = book.bounds.numpy() if book.bounds is not None else book.owner
        arrays.append(np.empty(0, np.uint8) if own is None else own)
    for array in arrays:
        for piece in _pieces(array):
            crc = zlib.crc32(piece, crc)
            tick("reading", len(piece))
    return crc


def wanted_nodes(source: Source, name: str, tick: Report) -> Tensor:
    """The nodes that most edges lead to, most first; a tenth of all."""
    size = source.sizes[name]
    counts = torch.zeros(size, dtype=torch.int64)
    for (by, _, _), adj in source.adjs.items():
        if by == name:
            step = PIECE // adj.col.element_size()
            for piece in adj.col.split(step):
                once = counts.new_ones(()).expand(piece.numel())
                counts.scatter_add_(0, piece.to(torch.int64), once)
                tick("counting", piece.numel() * piece.element_size())
    return largest(counts, min(size, max(1000, round(WANTED * size))))


def largest(counts: Tensor, most: int) -> Tensor:
    """The places of the `most` >= 1 largest numbers, largest first, ties in order.

    All of them are not sorted: that would take three times their memory.
    """
    if most >= counts.numel():
        return counts.argsort(descending=True, stable=True)
    low = counts.kthvalue(counts.numel() - most + 1).values
    above = (counts > low).nonzero().view(-1)
    order = counts.index_select(0, above).argsort(descending=True, stable=True)
    equal = (counts == low).nonzero().view(-1)[: most - above.numel()]
    return torch.cat([above.index_select(0, order), equal])
