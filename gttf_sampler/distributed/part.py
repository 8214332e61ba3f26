"""Part: the rows and features that one process holds, memory-mapped."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._arrays import HEADER, GoneError
from gttf_sampler.distributed import layout
from gttf_sampler.distributed.book import PartitionBook, RowIndex
from gttf_sampler.features import FeatureFile
from gttf_sampler.graph import storage
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.graph.names import check_one_per_node
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
        whole_edges, whole_degree: how many edges the whole graph has, and its longest
            row.
    """

    adj: CompactAdj
    rows: RowIndex
    first: Tensor | int
    edge_id: Tensor | None
    whole_edges: int
    whole_degree: int

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
    """The share of a partitioned graph that one process holds.

    Attributes:
        header: that of the whole graph.
        number: of this part.
        books: the part of every node, per node type.
        rows: the rows that are here, per node type: own ones and replicated ones.
        relations: the rows of every relation.
        features: own rows [k, ...] by (node type, name), in the order of own nodes,
            which stay on disk.
        wanted: per node type, the nodes that most edges lead to, most first.
        names: per node type, the ids that nodes have elsewhere, as `graph.names` packs.
    """

    header: dict[str, Any]
    number: int
    books: dict[str, PartitionBook]
    rows: dict[str, RowIndex]
    relations: dict[EdgeType, LocalRows]
    features: dict[tuple[str, str], FeatureFile]
    wanted: dict[str, Tensor]
    names: dict[str, dict[str, Tensor]]

    def relation(self, number: int) -> LocalRows:
        """The rows of a relation by its number, as other processes call it."""
        if not 0 <= number < len(self.relations):
            many = len(self.relations)
            raise ValueError(f"a relation must be one of {many} (got {number})")
        return list(self.relations.values())[number]

    def row_type(self, number: int) -> str:
        """The node type of the rows of a relation."""
        return list(self.relations)[number][2]


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
    while True:
        header = layout.WHOLE.read_header(folder) if like is None else like.header
        try:
            return _open(folder, header, number, verify, like)
        except ValueError:
            now = layout.WHOLE.sound_header(folder)
            if like is not None or now is None or now["crc32"] == header["crc32"]:
                raise
            # else it has been replaced meanwhile, and there is a new one to open


def _open(
    folder: Path, header: dict[str, Any], number: int, verify: bool, like: Part | None
) -> Part:
    """Opens a part of the graph that a header describes."""
    if not 0 <= number < header["parts"]:
        rule = f"must be one of the {header['parts']} parts of {str(folder)!r}"
        _check.fail("part", rule, number, "start as many processes as there are parts")
    home = layout.home_of(folder, header)
    where = layout.part_folder(home, number)
    own = layout.PART.read_header(where)
    if (own["part"], own["crc32"]) != (number, header["checks"][number]):
        rule = f"must be part {number} of the graph in {str(folder)!r}"
        _check.fail(str(where), rule, f"part {own['part']} of another one")
    files, kinds = _Files(where, own["files"], verify), header["node_types"]
    if like is not None:
        books, wanted, names = like.books, like.wanted, like.names
    else:
        parts = header["parts"]
        books = {k["name"]: _book(home, parts, k, verify) for k in kinds}
        wanted = {k["name"]: _wanted(home, k, verify) for k in kinds}
        names = {k["name"]: _names(home, k, verify) for k in kinds}
    rows = {
        k["name"]: files.rows(kind, k["num_nodes"], books[k["name"]].nodes_of(number))
        for kind, k in enumerate(kinds)
    }
    relations: dict[EdgeType, LocalRows] = {}
    for kind, entry in enumerate(header["relations"]):
        by, name, to = entry["type"]
        num_cols = books[by].num_nodes
        relations[by, name, to] = files.relation(kind, entry, rows[to], num_cols)
    own_sizes = {kind["name"]: kind["own"][number] for kind in kinds}
    features = {
        (f["type"], f["name"]): files.feature(kind, f, own_sizes[f["type"]])
        for kind, f in enumerate(header["features"])
    }
    return Part(header, number, books, rows, relations, features, wanted, names)


def _book(
    folder: Path, parts: int, entry: dict[str, Any], verify: bool
) -> PartitionBook:
    """The partition book of one node type."""
    if "bounds" in entry:
        return PartitionBook.of_bounds(torch.tensor(entry["bounds"]))
    try:
        owner = layout.WHOLE.numpy(folder, entry["book"], verify)
    except GoneError as gone:
        layout.WHOLE.missing(gone.args[0])
    if not verify:
        return PartitionBook(parts, entry["num_nodes"], owner=owner)
    return PartitionBook.of_owners(owner, parts, entry["book"]["file"])


def _wanted(folder: Path, entry: dict[str, Any], verify: bool) -> Tensor:
    """The nodes of one type that most edges lead to."""
    found = layout.WHOLE.array(folder, entry["wanted"], verify)
    if verify:
        _within(folder / entry["wanted"]["file"], found, entry["num_nodes"], "nodes")
    return found


def _names(folder: Path, entry: dict[str, Any], verify: bool) -> dict[str, Tensor]:
    """The packed ids that nodes of one type have elsewhere; none if they have none."""
    told = entry.get("names", {})
    found = {name: layout.WHOLE.array(folder, told[name], verify) for name in told}
    for name in ("node_id", "name_end"):
        if name in found:
            file, cure = str(folder / told[name]["file"]), "run 'gttf partition' again"
            check_one_per_node(found[name].numel(), entry["num_nodes"], file, cure)
    return found


class _Files(NamedTuple):
    """The files of a part.

    Attributes:
        where: their directory.
        told: what the part's header says of each.
        verify: whether to read and check all of them.
    """

    where: Path
    told: dict[str, Any]
    verify: bool

    def array(self, name: str) -> Tensor:
        """One of the arrays."""
        return layout.PART.array(self.where, self._entry(name), self.verify)

    def rows(self, kind: int, num_nodes: int, own: Tensor) -> RowIndex:
        """The nodes of one type whose rows are in the part, `own` ones among them."""
        name = f"nodes-{kind}"
        if name in self.told:
            nodes = self.array(name)
            if self.verify:
                _within(self.where / f"{name}.bin", nodes, num_nodes, "nodes")
                ascend = bool((nodes.diff() > 0).all())
                self._need(ascend, f"{name}.bin", "must hold ascending nodes", "others")
        else:
            first, stop = self.told.get(f"range-{kind}", (0, 0))
            rule = f"must be nodes of {num_nodes}"
            self._need(stop <= num_nodes, name, rule, (first, stop))
            nodes = torch.arange(first, stop)
        found = RowIndex(nodes, num_nodes)
        if self.verify:
            every = bool(found.locate(own)[0].all())
            self._need(every, name, "must hold all nodes of the part", "fewer")
        return found

    def relation(
        self, kind: int, entry: dict[str, Any], rows: RowIndex, num_cols: int
    ) -> LocalRows:
        """The rows of one relation, whose columns are nodes of `num_cols`."""
        folder = self.where / f"relation-{kind}"
        same = storage.GRAPH.read_header(folder)["crc32"] == self._entry(folder.name)
        rule = "must be the rows that this part was written with"
        self._need(same, folder.name, rule, "others")
        adj = CompactAdj.open(folder, verify=self.verify)
        sizes = {"num_rows": rows.size, "num_cols": num_cols}
        for name, right in (*sizes.items(), ("direction", entry["direction"])):
            got = getattr(adj, name)
            self._need(got == right, folder.name, f"must have {name} {right}", got)
        first = self._entry(f"first-{kind}")
        if not isinstance(first, int):
            first = self.array(f"first-{kind}")
        named = f"edge_id-{kind}" in self.told
        edge_id = self.array(f"edge_id-{kind}") if named else None
        whole = entry["num_edges"], entry["max_degree"]
        found = LocalRows(adj, rows, first, edge_id, *whole)
        self._check_edges(kind, found)
        return found

    def _check_edges(self, kind: int, here: LocalRows) -> None:
        """Refuses rows that are no rows of the whole graph, by their edges."""
        adj, first, edge_id, edges = (
            here.adj,
            here.first,
            here.edge_id,
            here.whole_edges,
        )
        name, count, rows = f"relation-{kind}", adj.num_edges, adj.num_rows
        self._need(count <= edges, name, f"must have at most {edges} edges", count)
        if edge_id is not None:
            file, got = f"edge_id-{kind}.bin", edge_id.numel()
            rule = f"must have one entry per edge, {count}"
            self._need(got == count, file, rule, got)
            if self.verify:
                _within(self.where / file, edge_id, edges, "edges")
        if self.verify and rows:
            rule = f"must have rows of at most {here.whole_degree} edges"
            fits = adj.max_degree <= here.whole_degree
            self._need(fits, name, rule, adj.max_degree)
        if isinstance(first, int):
            rule = f"must begin among {edges} edges"
            self._need(first + count <= edges, name, rule, first)
            return
        file, got = f"first-{kind}.bin", first.numel()
        self._need(got == rows, file, f"must have one entry per row, {rows}", got)
        if self.verify and rows:
            last = first + adj.degree
            sound = bool((first[1:] >= last[:-1]).all())
            sound &= int(first[0]) >= 0 and int(last[-1]) <= edges
            rule = f"must say where rows begin among {edges} edges"
            self._need(sound, file, rule, "other numbers")

    def feature(self, kind: int, entry: dict[str, Any], size: int) -> FeatureFile:
        """The `size` own rows of one feature."""
        told = self._entry(f"feature-{kind}")
        path = self.where / told["file"]
        rows = FeatureFile(path) if path.is_file() else layout.PART.missing(path)
        same = (rows.seal, list(rows.shape)) == (told["seal"], [size, *entry["shape"]])
        rule = "must hold the rows that this part was written with"
        self._need(same, path.name, rule, "others")
        return rows.validate() if self.verify else rows

    def _entry(self, name: str) -> Any:
        """The entry of a file in the header, which must have one."""
        rule = "must name all files of the part"
        self._need(name in self.told, HEADER, rule, f"no {name}")
        return self.told[name]

    def _need(self, sound: bool, name: str, rule: str, got: object) -> None:
        """Refuses the part, by the name of one of its files, unless it is sound."""
        if not sound:
            layout.PART.refuse(self.where / name, rule, got)


def _within(file: Path, ids: Tensor, upper: int, what: str) -> None:
    """Refuses ids of a file that are not in [0, upper)."""
    try:
        _check.within(str(file), ids, upper, what)
    except ValueError as error:
        raise ValueError(f"{error}; {layout.PART.cure}") from None
