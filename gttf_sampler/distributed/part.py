"""Part: the rows and features that one process holds, opened by memory map."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler.distributed import layout
from gttf_sampler.distributed.book import Book
from gttf_sampler.distributed.rowset import RowSet
from gttf_sampler.features import FeatureFile
from gttf_sampler.graph import storage
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.subgraph import EdgeType


@dataclass(frozen=True, eq=False)
class LocalRows:
    """The rows of one relation that are here.

    Attributes:
        adj: a row per node of `rows`, with columns by their ids in the whole graph.
        rows: the nodes whose rows these are.
        first: int64 [k], where each row begins in the whole graph; a number if the rows
            stand together there.
        edge_id: [m], the caller's number of every edge; None if it is the position in
            the whole graph.
    """

    adj: CompactAdj
    rows: RowSet
    first: Tensor | int
    edge_id: Tensor | None

    def whole_positions(self, row: Tensor, count: Tensor, edge: Tensor) -> Tensor:
        """Positions in the whole graph of edges [e], `count` [w] of each row [w]."""
        if isinstance(self.first, int):
            return edge + self.first
        shift = self.first.index_select(0, row) - self.adj.rowptr.index_select(0, row)
        shift = shift.repeat_interleave(count, output_size=edge.numel())
        return shift.add_(edge)

    def local_positions(self, edge: Tensor) -> Tensor:
        """Of ascending positions in the whole graph, those that are here, as local."""
        if isinstance(self.first, int):
            local = edge - self.first
            return local[(local >= 0) & (local < self.adj.num_edges)]
        row = torch.searchsorted(self.first, edge, right=True).sub_(1)
        edge, row = edge[row >= 0], row[row >= 0]
        local = edge - self.first.index_select(0, row)
        start, count = self.adj.row_range(row)
        return (start + local)[local < count]


@dataclass(frozen=True, eq=False)
class Part:
    """What one process holds of a partitioned graph.

    Attributes:
        header: that of the whole graph.
        number: of this part.
        books: who has what, per node type.
        rows: which rows are here, per node type: own ones and replicated ones.
        relations: the rows of every relation.
        features: own rows [k, ...] by (node type, name), in the order of own nodes,
            which stay on disk.
        wanted: per node type, the nodes that most edges lead to, most first.
        names: per node type, what nodes are called, as `graph.names` packs it.
    """

    header: dict[str, Any]
    number: int
    books: dict[str, Book]
    rows: dict[str, RowSet]
    relations: dict[EdgeType, LocalRows]
    features: dict[tuple[str, str], FeatureFile]
    wanted: dict[str, Tensor]
    names: dict[str, dict[str, Tensor]]


def open_part(
    path: str | os.PathLike[str],
    number: int,
    verify: bool = True,
    like: Part | None = None,
) -> Part:
    """Opens one part of a partitioned graph; `verify` reads and checks all of it.

    What is the same in all parts is taken from another one that is open, `like`.
    """
    folder = _check.path("path", path)
    header = layout.read_header(folder, layout.WHOLE)
    if not 0 <= number < header["parts"]:
        rule = f"must be one of the {header['parts']} parts of {str(folder)!r}"
        _check.fail("part", rule, number, "start as many processes as there are parts")
    where = layout.part_folder(folder, number)
    own = layout.read_header(where, layout.PART)
    if (own["part"], own["crc32"]) != (number, header["checks"][number]):
        rule = f"must be part {number} of the graph in {str(folder)!r}"
        _check.fail(str(where), rule, f"part {own['part']} of another one")
    files, kinds = own["files"], header["node_types"]
    if like is not None:
        shared = like.books, like.wanted, like.names
    else:
        shared = (
            {k["name"]: _book(folder, header["parts"], k, verify) for k in kinds},
            {k["name"]: layout.read_array(folder, k["wanted"], verify) for k in kinds},
            {k["name"]: _names(folder, k, verify) for k in kinds},
        )
    rows = {
        k["name"]: RowSet(_nodes(where, kind, files, verify), k["num_nodes"])
        for kind, k in enumerate(kinds)
    }
    relations = {}
    for kind, entry in enumerate(header["relations"]):
        edge_type: EdgeType = tuple(entry["type"])
        here = rows[edge_type[2]]
        relations[edge_type] = _relation(where, kind, files, here, verify)
    own_sizes = {kind["name"]: kind["own"][number] for kind in kinds}
    features = {
        (entry["type"], entry["name"]): _feature(
            where, files[f"feature-{kind}"], entry, own_sizes[entry["type"]], verify
        )
        for kind, entry in enumerate(header["features"])
    }
    books, wanted, names = shared
    return Part(header, number, books, rows, relations, features, wanted, names)


def _book(folder: Path, parts: int, entry: dict[str, Any], verify: bool) -> Book:
    """The book of one node type."""
    if "bounds" in entry:
        return Book.of_bounds(torch.tensor(entry["bounds"]))
    about = entry["book"]
    dtype = np.dtype(about["dtype"])
    as_bytes = {**about, "dtype": "|u1", "length": about["length"] * dtype.itemsize}
    plain = layout.read_array(folder, as_bytes, verify).numpy().view(dtype)
    if not verify:
        return Book(parts, entry["num_nodes"], owner=plain)
    return Book.of_owners(plain, parts, about["file"])


def _names(folder: Path, entry: dict[str, Any], verify: bool) -> dict[str, Tensor]:
    """What the nodes of one type are called, as it was packed; nothing if by number."""
    told = entry.get("names", {})
    found = {name: layout.read_array(folder, told[name], verify) for name in told}
    for name in ("node_id", "name_end"):
        if name in found and found[name].numel() != entry["num_nodes"]:
            rule = f"must hold one entry per node, {entry['num_nodes']}"
            file = str(folder / told[name]["file"])
            _check.fail(file, rule, found[name].numel(), "run 'gttf partition' again")
    return found


def _nodes(where: Path, kind: int, files: dict[str, Any], verify: bool) -> Tensor:
    """The nodes of one type whose rows are in a part."""
    if f"nodes-{kind}" in files:
        return layout.read_array(where, files[f"nodes-{kind}"], verify)
    return torch.arange(*files.get(f"range-{kind}", (0, 0)))


def _relation(
    where: Path, kind: int, files: dict[str, Any], rows: RowSet, verify: bool
) -> LocalRows:
    """The rows of one relation."""
    folder = where / f"relation-{kind}"
    if storage.header_of(folder)["crc32"] != files[folder.name]:
        rule = "must be the rows that this part was written with"
        _check.fail(str(folder), rule, "others", "run 'gttf partition' again")
    adj = CompactAdj.open(folder, verify=verify)
    first = files[f"first-{kind}"]
    if not isinstance(first, int):
        first = layout.read_array(where, first, verify)
    edge_id = None
    if f"edge_id-{kind}" in files:
        edge_id = layout.read_array(where, files[f"edge_id-{kind}"], verify)
    if adj.num_rows != rows.size:
        rule = f"must have one row per node, {rows.size} in all"
        _check.fail(str(folder), rule, adj.num_rows, "run 'gttf partition' again")
    return LocalRows(adj, rows, first, edge_id)


def _feature(
    where: Path, file: dict[str, Any], entry: dict[str, Any], size: int, verify: bool
) -> FeatureFile:
    """The `size` own rows of one feature."""
    path = where / file["file"]
    rows = FeatureFile(path) if path.is_file() else layout.missing(path)
    if rows.seal != file["seal"] or list(rows.shape) != [size, *entry["shape"]]:
        rule = "must hold the rows that this part was written with"
        _check.fail(str(path), rule, "others", "run 'gttf partition' again")
    return rows.validate() if verify else rows
