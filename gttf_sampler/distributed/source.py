"""Source: a graph and its features before they are cut, with their fingerprint."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.distributed.book import PartitionBook
from gttf_sampler.features import FeatureFile
from gttf_sampler.features.access import count_reached, largest
from gttf_sampler.features.encoding import ENCODINGS
from gttf_sampler.features.write import Report
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.graph.names import check_one_per_node, packed
from gttf_sampler.subgraph import EdgeType

Array = np.ndarray[Any, Any]
Values = Array | FeatureFile | Tensor  # a tensor only where numpy has no such numbers
ONLY = ("", "", "")  # the edge type of a graph that has only one
LARGEST = {"b": 1, "i": 8, "u": 8, "f": 8, "c": 16}  # bytes of a number
WANTED = 0.1  # of all nodes; a cache of features has no use for more
PIECE = 1 << 24


class Feature(NamedTuple):
    """Values [n, ...] of the nodes of one type."""

    kind: str
    name: str
    values: Values


class Source(NamedTuple):
    """A graph with everything that is to be cut.

    Attributes:
        adjs: the rows of every relation.
        sizes: how many nodes of each type there are.
        features: values of nodes, by type and name.
        stored: how floats are stored: "float16", "bfloat16", "int8"; None as they are.
        names: per node type, the ids that nodes have elsewhere, as `graph.names` packs.
    """

    adjs: dict[EdgeType, CompactAdj]
    sizes: dict[str, int]
    features: list[Feature]
    stored: str | None
    names: dict[str, dict[str, Tensor]]

    def stored_as(self, values: Values) -> str | None:
        """The encoding of one feature's rows; None as they are."""
        dtype = rows_at(values, torch.empty(0, dtype=torch.int64)).dtype
        if not dtype.is_floating_point:
            return None
        if self.stored is None and isinstance(values, FeatureFile):
            return values.stored
        return self.stored


def rows_at(values: Values, ids: Tensor) -> Tensor:
    """The rows of ids, int64 [k]."""
    if isinstance(values, FeatureFile):
        return values.rows(ids)
    if isinstance(values, Tensor):
        return values.index_select(0, ids)
    native = values.dtype.newbyteorder("=")
    return torch.from_numpy(np.ascontiguousarray(values[ids.numpy()], native))


def source_of(graph: Any, features: Mapping[Any, Any], stored: Any = None) -> Source:
    """Checks a graph and its features, and puts them together."""
    if isinstance(graph, Mapping):
        sizes, adjs = _check.node_types(graph), dict(graph)
    else:
        _check.of_type("graph", graph, CompactAdj)
        graph.ensure_sound()
        _check.one_node_set("graph", graph.num_rows, graph.num_cols)
        sizes, adjs = {"": graph.num_rows}, {ONLY: graph}
    if stored is not None:
        _check.one_of("stored", stored, ENCODINGS)
    found: dict[tuple[str, str], Values] = {}
    for key, values in features.items():
        kind, name = key_of(key)
        _check.known_types("features", [kind], list(sizes), "node types")
        array = _array(f"features[{name}]", values)
        if not array.shape or len(array) != sizes[kind]:
            rule = f"must have one row per node, {sizes[kind]} in all"
            _check.fail(f"features[{name}]", rule, f"shape {list(array.shape)}")
        if (kind, name) in found:
            _check.fail("features", "must name every feature once", (kind, name))
        found[kind, name] = array
    listed = [Feature(*key, values) for key, values in found.items()]
    return Source(adjs, sizes, listed, stored, _names(adjs, sizes))


def _names(
    adjs: Mapping[EdgeType, CompactAdj], sizes: Mapping[str, int]
) -> dict[str, dict[str, Tensor]]:
    """Packed ids of each node type: those of relations to it, which must agree."""
    found: dict[str, Any] = {}
    for (_, _, kind), adj in adjs.items():
        if adj.node_id is not None:
            check_one_per_node(len(adj.node_id), adj.num_rows)
            known = found.setdefault(kind, adj.node_id)
            if known is not adj.node_id and not np.array_equal(known, adj.node_id):
                rule = "must be the same in all relations to one node type"
                _check.fail("node_id", rule, f"others for {kind!r}")
    return {kind: packed(found.get(kind)) for kind in sizes}


def key_of(key: Any) -> tuple[str, str]:
    """(node type, name) of a feature; a name alone has the type ""."""
    parts = key if isinstance(key, tuple) else ("", key)
    if len(parts) != 2:
        _check.fail("features", "must be named by (node type, name)", key)
    return parts[0], str(parts[1])


def _array(name: str, values: Any) -> Values:
    """Values as numpy has them, not copied; files of rows and bfloat16 stay theirs."""
    if isinstance(values, FeatureFile):
        return values
    if not isinstance(values, Tensor):
        try:
            array: Array = np.asanyarray(values)
        except ValueError:  # rows of several lengths
            _check.fail(name, "must be an array of numbers", _check.shown(values))
        if array.dtype.kind not in "biufc":
            _check.mistyped(name, "must hold numbers", f"dtype {array.dtype}")
        if array.dtype.itemsize > LARGEST[array.dtype.kind]:
            _check.mistyped(name, "must have a dtype that torch knows", array.dtype)
        return array
    here = _check.dense(name, values).detach().cpu()
    if here.dtype == torch.bfloat16:
        return here
    try:
        return here.numpy()
    except TypeError:
        rule, cure = "must have a dtype that numpy knows", "cut it as float16"
        _check.fail(name, rule, values.dtype, cure)


def _pieces(array: Array) -> Iterator[bytes]:
    """The bytes of an array, a bounded piece at a time."""
    step = max(1, PIECE // max(1, array[:1].nbytes))
    for first in range(0, len(array), step):
        yield np.ascontiguousarray(array[first : first + step]).tobytes()


def fingerprint(
    source: Source,
    books: Mapping[str, PartitionBook],
    parts: int,
    share: float,
    tick: Report,
) -> int:
    """A checksum of all that the parts are made of."""
    facts = [sorted(source.sizes.items()), list(source.adjs), parts, share]
    facts.append(source.stored)
    if named := [(kind, list(told)) for kind, told in source.names.items() if told]:
        facts.append(named)
    crc = zlib.crc32(repr(facts).encode())
    arrays = [a.numpy() for adj in source.adjs.values() for a in adj.arrays().values()]
    for kind, name, values in source.features:
        crc = zlib.crc32(repr((kind, name, values.dtype, values.shape)).encode(), crc)
        if isinstance(values, FeatureFile):
            crc = zlib.crc32(str(values.seal).encode(), crc)
        elif isinstance(values, Tensor):
            arrays.append(values.view(torch.int16).numpy())
        else:
            arrays.append(values)
    arrays += [a.numpy() for told in source.names.values() for a in told.values()]
    for book in books.values():
        arrays.append(book.owner if book.bounds is None else book.bounds.numpy())
    for array in arrays:
        for piece in _pieces(array):
            crc = zlib.crc32(piece, crc)
            tick("reading", len(piece))
    return crc


def wanted_nodes(source: Source, name: str, share: float, tick: Report) -> Tensor:
    """The nodes that most edges lead to, most first; a tenth, or a `share` of all."""
    size = source.sizes[name]
    adjs = [adj for (by, _, _), adj in source.adjs.items() if by == name]
    most = min(size, max(1000, round(max(WANTED, share) * size)))
    return largest(count_reached(adjs, size, tick), most)
