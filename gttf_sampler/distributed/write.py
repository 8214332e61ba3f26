"""partition(): a graph and its features, cut into parts on disk.

A Source is a graph with its features before it is cut; `write_part` writes one part.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check, _files
from gttf_sampler._arrays import HEADER, Pieces, as_numpy, chunks, write_array
from gttf_sampler._backends import ops
from gttf_sampler.distributed.book import PartitionBook, RowIndex, books_of
from gttf_sampler.distributed.part import (
    MOST_PARTS,
    ONLY,
    PART,
    SHARED,
    WHOLE,
    is_ours,
    remove,
)
from gttf_sampler.features import FeatureFile
from gttf_sampler.features.read import count_reached, largest
from gttf_sampler.features.write import ENCODINGS, Report, write
from gttf_sampler.graph import storage
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.graph.exchange import check_one_per_node, packed
from gttf_sampler.subgraph import EdgeType

Array = np.ndarray[Any, Any]
Values = Array | FeatureFile | Tensor  # a tensor only where numpy has no such numbers
LARGEST = {"b": 1, "i": 8, "u": 8, "f": 8, "c": 16}  # bytes of a number
WANTED = 0.1  # of all nodes; a cache of features has no use for more
PIECE = 1 << 24  # bytes that are read or written at a time
EDGES = 1 << 21  # so many edges


def partition(
    graph: CompactAdj | Mapping[EdgeType, CompactAdj],
    path: str | os.PathLike[str],
    parts: int,
    *,
    method: Any = "range",
    features: Mapping[Any, Any] | None = None,
    replicate: float = 0.0,
    stored: Any = None,
    overwrite: bool = False,
    report: Report | None = None,
) -> dict[str, Any]:
    """Cuts a graph into parts, one per process, in a directory that processes open.

    >>> import tempfile
    >>> from gttf_sampler import CompactAdj
    >>> from gttf_sampler.distributed import partition
    >>> ring = CompactAdj.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     facts = partition(ring, folder, parts=2)
    >>> facts["nodes"], facts["cut"]
    ([2, 2], 0.5)

    Rows are read piece by piece, so that a graph that is memory-mapped need not fit
    into memory. Parts that an interrupted call has finished, the next one keeps. A
    graph that is replaced stays whole until the new one is, which takes its place in
    one step; a process that has it open goes on with it.

    Args:
        graph: the rows, or those of every edge type (source, relation, target).
        path: a directory, which is made; one that holds something else is refused.
        parts: how many.
        method: "range" makes ranges of ids with equal numbers of rows and edges,
            "hash" draws by id, "metis" looks for few edges between parts (with
            pymetis); or the part of every node [n], per node type if there are types.
        features: values [n, ...] by name, or by (node type, name) if there are types:
            tensors, arrays (also memory-mapped) or a `FeatureFile`. Every part gets its
            rows in feature files of its own.
        replicate: the share of nodes whose rows every part gets: those that most edges
            lead to.
        stored: "float16", "bfloat16" or "int8" to store floats in less disk, as a
            `FeatureFile` does; rows are read in the dtype that they have here.
        overwrite: whether to replace another partitioned graph.
        report: called with what is being done, and the bytes read since the last call.

    Returns:
        nodes and edges per part, their balance (largest over mean), and the share of
        edges that are cut.
    """
    parts = _check.count("parts", parts)
    if parts > MOST_PARTS:
        _check.fail("parts", f"must not exceed {MOST_PARTS}", parts)
    if not 0 <= _check.number("replicate", replicate) <= 1:
        _check.fail("replicate", "must be a share in [0, 1]", replicate)
    source = source_of(graph, features or {}, stored)
    tick = report or (lambda what, done: None)
    folder = _check.path("path", path)
    books = books_of(method, source.adjs, source.sizes, parts)
    name = method if isinstance(method, str) else "given"
    mark = fingerprint(source, books, parts, replicate, tick)
    facts = {"parts": parts, "method": name, "replicate": replicate, "mark": mark}
    _check_free(folder, mark, overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    with _files.locked(folder):  # another call that cuts the same graph finds it done
        if (done := _check_free(folder, mark, overwrite)) is None:
            _check_apart(folder, source)
            sizes = source.sizes
            wanted = {n: wanted_nodes(source, n, replicate, tick) for n in sizes}
            cut = Cut(source, books, wanted, replicate, mark, tick)
            done = _cut(folder, cut, facts)
        for file in folder.iterdir():
            if file.name not in (HEADER, done["folder"]):
                remove(file)  # it was there before
    return facts_of(done)


def _cut(folder: Path, cut: Cut, facts: dict[str, Any]) -> dict[str, Any]:
    """Writes all parts beside what is there, then the header that takes its place."""
    home, source = folder / f"cut-{cut.mark:08x}", cut.source
    home.mkdir(exist_ok=True)
    parts = range(facts["parts"])
    written = [write_part(home / f"part-{part}", part, cut) for part in parts]
    header = {
        "folder": home.name,
        **facts,
        "node_types": _typed_nodes(home, cut),
        "relations": [
            {
                "type": list(kind),
                "num_edges": adj.num_edges,
                "max_degree": adj.max_degree,
                "direction": adj.direction,
                "arrays": list(adj.arrays()),
                "own": [counts[number][0] for _, counts in written],
                "cut": sum(counts[number][1] for _, counts in written),
            }
            for number, (kind, adj) in enumerate(source.adjs.items())
        ],
        "features": [
            {"type": kind, "name": name, "shape": list(values.shape[1:])}
            for (kind, name), values in source.features.items()
        ],
        "checks": [crc for crc, _ in written],
    }
    _files.sync_folder(home)
    WHOLE.write_header(folder, header)
    return header


def facts_of(header: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes, balance and cut of a partitioned graph, from its header."""
    kinds, relations = header["node_types"], header["relations"]
    nodes = [sum(own) for own in zip(*(kind["own"] for kind in kinds), strict=True)]
    edges = [sum(own) for own in zip(*(r["own"] for r in relations), strict=True)]
    every = sum(edges)
    return {
        "parts": header["parts"],
        "method": header["method"],
        "nodes": nodes,
        "edges": edges,
        "balance": max(edges) * len(edges) / every if every else 1.0,
        "cut": sum(r["cut"] for r in relations) / every if every else 0.0,
        "replicated": sum(kind["replicated"] for kind in kinds),
        "features": [f"{f['type']}.{f['name']}".strip(".") for f in header["features"]],
    }


def _check_free(folder: Path, mark: int, overwrite: bool) -> dict[str, Any] | None:
    """The header of the same partition that is there already; refuses another one."""
    if WHOLE.is_in(folder):
        header = WHOLE.sound_header(folder)
        if header is not None and header["mark"] == mark:
            return header
        if not overwrite:
            rule = "must not hold another partitioned graph"
            _check.fail("path", rule, str(folder), "pass overwrite=True to replace it")
    _files.check_folder(folder, is_ours, "a partitioned graph")
    return None


def _check_apart(folder: Path, source: Source) -> None:
    for values in source.features.values():
        file = getattr(values, "path", getattr(values, "filename", None))
        if file and folder.resolve() in Path(file).resolve().parents:
            rule = "must not hold what is being cut"
            _check.fail("path", rule, str(folder), "cut it into another directory")


def _typed_nodes(folder: Path, cut: Cut) -> list[dict[str, Any]]:
    """Node types as the header declares them; writes the arrays that it names."""
    for name in SHARED:  # of a call that was killed; maps stay as they are
        for file in folder.glob(f"{name}-*.bin"):
            file.unlink()
    entries = []
    for number, (name, size) in enumerate(cut.source.sizes.items()):
        book, wanted = cut.books[name], cut.wanted[name].numpy()
        entry: dict[str, Any] = {"name": name, "num_nodes": size, "own": book.sizes()}
        entry["replicated"] = cut.everywhere(name).numel()
        if book.bounds is not None:
            entry["bounds"] = book.bounds.tolist()
        else:
            entry["book"] = write_array(folder / f"book-{number}.bin", book.owner)
        entry["wanted"] = write_array(folder / f"wanted-{number}.bin", wanted)
        entry["names"] = {
            array: write_array(folder / f"{array}-{number}.bin", packed_ids.numpy())
            for array, packed_ids in cut.source.names[name].items()
        }
        entries.append(entry)
    return entries


class Source(NamedTuple):
    """A graph with everything that is to be cut."""

    adjs: dict[EdgeType, CompactAdj]
    sizes: dict[str, int]  # nodes of each type
    features: dict[tuple[str, str], Values]  # [n, ...] by node type and name
    stored: str | None  # how floats are stored, one of ENCODINGS; None as they are
    names: dict[str, dict[str, Tensor]]  # by node type, as `graph.exchange` packs them

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
    return Source(adjs, sizes, found, stored, _names(adjs, sizes))


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
    return here if here.dtype == torch.bfloat16 else as_numpy(name, here)


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
    if named := [(kind, list(own)) for kind, own in source.names.items() if own]:
        facts.append(named)
    crc = zlib.crc32(repr(facts).encode())
    arrays = [a.numpy() for adj in source.adjs.values() for a in adj.arrays().values()]
    for (kind, name), values in source.features.items():
        crc = zlib.crc32(repr((kind, name, values.dtype, values.shape)).encode(), crc)
        if isinstance(values, FeatureFile):
            crc = zlib.crc32(str(values.seal).encode(), crc)
        elif isinstance(values, Tensor):
            arrays.append(values.view(torch.int16).numpy())
        else:
            arrays.append(values)
    arrays += [a.numpy() for own in source.names.values() for a in own.values()]
    for book in books.values():
        arrays.append(book.owner if book.bounds is None else book.bounds.numpy())
    for array in arrays:
        for piece in chunks(array):
            crc = zlib.crc32(np.ascontiguousarray(piece).data, crc)
            tick("reading", piece.nbytes)
    return crc


def wanted_nodes(source: Source, name: str, share: float, tick: Report) -> Tensor:
    """The nodes that most edges lead to, most first; a tenth, or a `share` of all."""
    size = source.sizes[name]
    adjs = [adj for (by, _, _), adj in source.adjs.items() if by == name]
    most = min(size, max(1000, round(max(WANTED, share) * size)))
    return largest(count_reached(adjs, size, tick), most)


class Cut(NamedTuple):
    """Everything that parts are cut from."""

    source: Source
    books: Mapping[str, PartitionBook]
    wanted: Mapping[str, Tensor]  # by node type, see `wanted_nodes`
    share: float  # of nodes whose rows all parts get
    mark: int  # a checksum of all this; a part that has it need not be written again
    tick: Report

    def everywhere(self, name: str) -> Tensor:
        """The nodes of a type whose rows all parts get, ascending."""
        most = round(self.share * self.source.sizes[name])
        return self.wanted[name][:most].sort().values


def write_part(folder: Path, part: int, cut: Cut) -> tuple[int, list[tuple[int, int]]]:
    """Writes a part, unless it is there already; a failure leaves nothing of it.

    Returns the checksum of its header, and per relation how many edges its own nodes
    have and how many of those lead to other parts.
    """
    header = PART.sound_header(folder)
    if header is not None and (header["mark"], header["part"]) == (cut.mark, part):
        return int(header["crc32"]), [tuple(count) for count in header["counts"]]
    remove(folder)  # of a call that was killed; maps of it stay
    folder.mkdir(exist_ok=True)
    try:
        return _write(folder, part, cut)
    except BaseException:
        remove(folder)
        raise


def _write(folder: Path, part: int, cut: Cut) -> tuple[int, list[tuple[int, int]]]:
    """Writes all files of a part, the header last."""
    source = cut.source
    files: dict[str, Any] = {}
    rows: dict[str, RowIndex] = {}
    for number, (name, book) in enumerate(cut.books.items()):
        nodes = book.nodes_of(part)
        if (others := cut.everywhere(name)).numel():
            nodes = torch.cat([nodes, others]).unique()
        rows[name] = RowIndex(nodes, book.num_nodes)
        if not rows[name].is_range:
            file = folder / f"nodes-{number}.bin"
            files[file.stem] = write_array(file, nodes.numpy())
        elif nodes.numel():
            files[f"range-{number}"] = [int(nodes[0]), int(nodes[-1]) + 1]
    counts = []
    for number, kind in enumerate(source.adjs):
        some = _Rows(cut, kind, part, rows[kind[2]])
        counts.append(some.write(folder, number, files))
    for number, ((name, _), values) in enumerate(source.features.items()):
        file = folder / f"feature-{number}.npy"
        rows_of = _feature_rows(values, cut.books[name].nodes_of(part), cut.tick)
        about = write(file, rows_of, source.stored_as(values))
        files[file.stem] = {"file": file.name, "seal": about.seal()}
    content = {"part": part, "mark": cut.mark, "counts": counts, "files": files}
    return PART.write_header(folder, content), counts


class _Rows:
    """Some rows of a relation, to be copied in pieces of a bounded size."""

    def __init__(self, cut: Cut, kind: EdgeType, part: int, rows: RowIndex) -> None:
        self.adj, self.tick = cut.source.adjs[kind], cut.tick
        self.rows, self.part, self.by = rows, part, cut.books[kind[0]]
        self.start, self.count = self.adj.row_range(rows.nodes)
        ends = torch.cat([self.count.new_zeros(1), self.count.cumsum(0)])
        self.rowptr, self.total = ends, int(ends[-1])
        away = cut.books[kind[2]].lies_elsewhere(rows.nodes, part)
        self.own = ~away if bool(away.any()) else None  # None: all of them

    def write(
        self, folder: Path, number: int, files: dict[str, Any]
    ) -> tuple[int, int]:
        """Writes all arrays; returns how many own edges there are, and are cut."""
        cut: list[int] = []
        arrays: dict[str, Tensor | Pieces] = {"rowptr": self.rowptr}
        for name, array in self.adj.arrays().items():
            dtype = as_numpy(name, array[:0]).dtype
            pieces = self._pieces(array, cut if name == "col" else None)
            arrays.setdefault(name, Pieces(dtype, self.total, pieces))
        names = arrays.pop("edge_id", None)
        facts = {"num_cols": self.adj.num_cols, "direction": self.adj.direction}
        where = folder / f"relation-{number}"
        files[where.name] = storage.save(where, arrays, facts)
        first = folder / f"first-{number}.bin"
        if not self.rows.is_range:
            files[first.stem] = write_array(first, self.start.numpy())
        else:  # rows that stand together begin where the first one does
            files[first.stem] = int(self.start[0]) if self.start.numel() else 0
        if isinstance(names, Pieces):
            file = folder / f"edge_id-{number}.bin"
            files[file.stem] = write_array(file, names)
        own = self.count if self.own is None else self.count[self.own]
        return int(own.sum()), sum(cut)

    def _bounds(self) -> Iterator[tuple[int, int]]:
        """Ranges of rows, each with a bounded number of edges, or one row."""
        first = 0
        while first < self.rows.size:
            limit = int(self.rowptr[first]) + EDGES
            stop = int(torch.searchsorted(self.rowptr, limit, right=True)) - 1
            stop = max(stop, first + 1)
            yield first, stop
            first = stop

    def _pieces(self, array: Tensor, cut: list[int] | None) -> Iterator[Array]:
        """The entries of the rows, in order; counts those that lead elsewhere."""
        for first, stop in self._bounds():
            count = self.count[first:stop]
            size = int(self.rowptr[stop] - self.rowptr[first])
            if self.rows.is_range:
                start = int(self.start[first])
                piece = array[start : start + size]
            else:
                _, edge = ops.expand(self.start[first:stop], count, size)
                piece = array.index_select(0, edge)
            if cut is not None:
                away = self.by.lies_elsewhere(piece, self.part)
                if self.own is not None:
                    own = self.own[first:stop]
                    away &= own.repeat_interleave(count, output_size=size)
                cut.append(int(away.count_nonzero()))
            self.tick("writing", piece.numel() * piece.element_size())
            yield piece.numpy()


def _feature_rows(values: Values, nodes: Tensor, tick: Report) -> Iterator[Tensor]:
    """The rows of some nodes, a bounded piece at a time."""
    none = rows_at(values, nodes[:0])
    yield none  # which tells what rows are where there are none
    width = none.shape[1:].numel() * none.element_size()
    for some in nodes.split(max(1, PIECE // max(1, width))):
        piece = rows_at(values, some)
        tick("writing", piece.nbytes)
        yield piece
