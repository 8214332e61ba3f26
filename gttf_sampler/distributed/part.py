"""Part: the rows and features that one process holds, in its files.

    header.json              what the graph is, a checksum of every part's header, and
                             the directory of all that follows, cut-0a1b2c3d
      book-0.bin             the part of every node of type 0, unless parts are ranges
      wanted-0.bin           the nodes of type 0 that most edges lead to, most first
      node_id-0.bin          integers that nodes of type 0 are called, unless 0 … n - 1
      name_text-0.bin        or words that they are called, one behind the other
      name_end-0.bin         and where each of these ends
      part-3/header.json     the files of part 3 and their checksums
      part-3/relation-0/     its rows as a CompactAdj: local rows, global columns
      part-3/first-0.bin     where each of these rows begins in the whole graph
      part-3/edge_id-0.bin   the caller's number of every edge, where it has one
      part-3/nodes-0.bin     the nodes whose rows these are, unless they are a range
      part-3/feature-0.npy   its rows of feature 0, in the order of its own nodes, as a
                             FeatureFile

A header is written last and in one step, so that whatever has one is whole. Another
graph is cut into another directory beside the old one, which goes when the new header
is there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gttf_sampler import _check
from gttf_sampler._arrays import (
    HEADER,
    IDS,
    Entry,
    Format,
    Rules,
    are_counts,
    entry_rules,
    is_count,
)
from gttf_sampler.distributed.book import PartitionBook, RowIndex
from gttf_sampler.features import FeatureFile
from gttf_sampler.graph import storage
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.subgraph import EdgeType

SHARED = ("book", "wanted", *storage.NAMES)  # files of all parts, by node type
ONLY = ("", "", "")  # the edge type of a graph that has only one
MOST_PARTS = 1 << 16
CUT = re.compile(r"cut-[0-9a-f]{8}")
OURS = re.compile(
    rf"{CUT.pattern}|(?:part|relation)-\d+"
    rf"|(?:{'|'.join(SHARED)}|nodes|first|edge_id)-\d+\.bin|feature-\d+\.(?:npy|bin)"
    r"|header\.json(?:\.draft)?|\.gttf-.*"
)
DTYPES = {  # of the arrays that headers name
    **dict.fromkeys(("wanted", "nodes", "first"), ("<i8",)),
    **dict.fromkeys(("edge_id", "node_id", "name_end"), IDS),
    **{"book": ("|u1", "<u2"), "name_text": ("|u1",)},
}


def is_ours(name: str) -> bool:
    """True for names that files of a partitioned graph may have."""
    return bool(OURS.fullmatch(name) or storage.OURS.fullmatch(name))


def remove(path: Path) -> None:
    """Removes a file or directory of ours; what is not ours stays, where it is."""
    if not is_ours(path.name):
        return
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for file in path.iterdir():
        remove(file)
    if not any(path.iterdir()):
        path.rmdir()


def whereabouts(folder: Path, part: int) -> str:
    """A text that identifies this copy of a part on any machine; "" if it has none.

    Processes that see the same file in the same kernel share its pages in memory.
    """
    header = WHOLE.sound_header(folder)
    if header is None:
        return ""
    try:
        machine = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        file = folder / header["folder"] / f"part-{part}" / HEADER
        found = file.stat()
        readable = os.access(file, os.R_OK)
    except OSError:
        return ""
    return f"{machine}:{found.st_dev}:{found.st_ino}" if readable else ""


def _whole_rules(header: dict[str, Any]) -> Rules:
    """Rules for every header that `partition` writes."""
    parts, folder = header["parts"], header["folder"]
    yield is_count(parts) and 0 < parts <= MOST_PARTS, f"parts {parts!r}"
    yield bool(CUT.fullmatch(folder)), f"the directory {folder!r}"
    sound = are_counts(header["checks"]) and len(header["checks"]) == parts
    yield sound, "other checksums than of its parts"
    names = [kind["name"] for kind in header["node_types"]]
    sound = len(set(names)) == len(names) and all(type(name) is str for name in names)
    yield sound, f"node types {names!r}"
    for kind in header["node_types"]:
        for holds, what in _kind_rules(kind, parts):
            yield holds, f"{what} of node type {kind['name']!r}"
    for relation in header["relations"]:
        by, name, to = relation["type"]
        sound = type(name) is str and {by, to} <= set(names)
        sound &= relation["direction"] in ("in", "out")
        sound &= are_counts([relation[x] for x in ("num_edges", "max_degree", "cut")])
        sound &= are_counts(relation["own"]) and len(relation["own"]) == parts
        yield sound, f"relation {relation['type']!r}"
    for feature in header["features"]:
        sound = type(feature["name"]) is str and feature["type"] in names
        yield sound and are_counts(feature["shape"]), f"feature {feature['name']!r}"
    share = header["replicate"]
    yield type(share) in (int, float) and 0 <= share <= 1, f"the share {share!r}"
    yield is_count(header["mark"]), f"mark {header['mark']!r}"


def _kind_rules(kind: dict[str, Any], parts: int) -> Rules:
    """Rules for a node type in such a header."""
    size, own, names = kind["num_nodes"], kind["own"], kind.get("names", {})
    yield is_count(size) and size <= _check.MAX_NODES, f"num_nodes {size!r}"
    yield are_counts([*own, kind["replicated"]]) and len(own) == parts, f"own {own!r}"
    yield sum(own) == size, f"{sum(own)} nodes in all parts, not {size}"
    arrays: dict[str, Entry] = {"wanted": kind["wanted"], **names}
    if "bounds" in kind:
        bounds = kind["bounds"]
        sound = are_counts(bounds) and len(bounds) == parts + 1
        sound = sound and (bounds[0], bounds[-1]) == (0, size)
        sound = sound and [b - a for a, b in pairwise(bounds)] == own
        yield sound, f"bounds {bounds!r}"
    else:
        arrays["book"] = kind["book"]
    yield set(names) <= set(storage.NAMES), f"names {list(names)!r}"
    fits: dict[str, Callable[[int], bool]] = {
        "wanted": lambda length: length <= size,
        "name_text": lambda length: True,
    }
    for name, entry in arrays.items():
        length = fits.get(name, lambda length: length == size)
        yield from entry_rules(entry, rf"{name}-\d+\.bin", DTYPES[name], length)


def _part_rules(header: dict[str, Any]) -> Rules:
    """Rules for every header of a part."""
    yield are_counts([header["part"], header["mark"]]), f"part {header['part']!r}"
    pairs = all(are_counts(count) and len(count) == 2 for count in header["counts"])
    yield pairs, f"counts {header['counts']!r}"
    for key, value in header["files"].items():
        name, dash, number = key.partition("-")
        sound = dash == "-" and number.isdecimal()
        if name == "range":
            sound &= are_counts(value) and len(value) == 2 and value[0] <= value[1]
        elif name == "feature":
            sound &= value["file"] == f"{key}.npy" and is_count(value["seal"])
        elif name == "relation" or (name == "first" and type(value) is int):
            sound &= is_count(value)
        elif name in ("nodes", "first", "edge_id"):
            yield from entry_rules(value, rf"{name}-\d+\.bin", DTYPES[name])
        else:
            sound = False
        yield sound, f"{key} {value!r}"


WHOLE = Format(
    name="gttf-partitioned",
    version=3,
    holds="a partitioned graph",
    content="the files that 'partition' wrote",
    cure="run 'gttf partition' again",
    rules=_whole_rules,
)
PART = WHOLE._replace(name="gttf-part", holds="a part of it", rules=_part_rules)


@dataclass(frozen=True, eq=False)
class LocalRows:
    """The rows of one relation that are here."""

    adj: CompactAdj  # a row per node of `rows`, with columns of the whole graph
    rows: RowIndex
    first: Tensor | int  # int64 [k], where rows begin in the whole graph; or the first
    edge_id: Tensor | None  # [m], the caller's numbers; None if these are positions
    whole_edges: int  # of the whole graph
    whole_degree: int  # its longest row

    def whole_positions(self, row: Tensor, count: Tensor, edge: Tensor) -> Tensor:
        """Positions in the whole graph of edges [e], `count` [w] of each row [w]."""
        if isinstance(self.first, int):
            return edge + self.first
        shift = self.first.index_select(0, row) - self.adj.rowptr.index_select(0, row)
        shift = shift.repeat_interleave(count, output_size=edge.numel())
        return shift.add_(edge)

    def local_positions(self, edge: Tensor) -> Tensor:
        """Local positions of those edges that are here, from ascending global ones."""
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
    """The share of a partitioned graph that one process holds."""

    header: dict[str, Any]  # that of the whole graph
    number: int
    books: dict[str, PartitionBook]  # by node type
    rows: dict[str, RowIndex]  # by node type, own ones and replicated ones
    relations: dict[EdgeType, LocalRows]
    features: dict[tuple[str, str], FeatureFile]  # by node type and name, own rows
    wanted: dict[str, Tensor]  # by node type, the nodes most edges lead to, most first
    names: dict[str, dict[str, Tensor]]  # by node type, as `graph.exchange` packs them

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
        header = WHOLE.read_header(folder) if like is None else like.header
        try:
            return _open(folder, header, number, verify, like)
        except ValueError:
            now = WHOLE.sound_header(folder)
            if like is not None or now is None or now["crc32"] == header["crc32"]:
                raise
            # else it has been replaced meanwhile, and there is a new one to open


def _open(
    folder: Path, header: dict[str, Any], number: int, verify: bool, like: Part | None
) -> Part:
    if not 0 <= number < header["parts"]:
        rule = f"must be one of the {header['parts']} parts of {str(folder)!r}"
        _check.fail("part", rule, number, "start as many processes as there are parts")
    home = folder / header["folder"]
    where = home / f"part-{number}"
    own = PART.read_header(where)
    if (own["part"], own["crc32"]) != (number, header["checks"][number]):
        rule = f"must be part {number} of the graph in {str(folder)!r}"
        _check.fail(str(where), rule, f"part {own['part']} of another one")
    files, kinds = _Files(where, own["files"], verify), header["node_types"]
    if like is not None:
        books, wanted, names = like.books, like.wanted, like.names
    else:
        found = {k["name"]: _shared(home, header["parts"], k, verify) for k in kinds}
        books = {name: book for name, (book, _, _) in found.items()}
        wanted = {name: nodes for name, (_, nodes, _) in found.items()}
        names = {name: own for name, (_, _, own) in found.items()}
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


def _shared(
    home: Path, parts: int, kind: dict[str, Any], verify: bool
) -> tuple[PartitionBook, Tensor, dict[str, Tensor]]:
    """The book, the most wanted nodes and the packed names of one node type."""
    size = kind["num_nodes"]
    if "bounds" in kind:
        book = PartitionBook.of_bounds(torch.tensor(kind["bounds"]))
    else:
        owner = WHOLE.numpy(home, kind["book"], verify)
        book = PartitionBook(parts, size, owner=owner)
        if verify:
            book = PartitionBook.of_owners(owner, parts, kind["book"]["file"])
    wanted = WHOLE.ids(home, kind["wanted"], size, "nodes", verify)
    entries = kind.get("names", {}).items()
    names = {name: WHOLE.array(home, entry, verify) for name, entry in entries}
    return book, wanted, names


class _Files(NamedTuple):
    """The files of a part."""

    where: Path  # their directory
    entries: dict[str, Any]  # what the part's header says of each
    verify: bool  # whether to read and check all of them

    def rows(self, kind: int, num_nodes: int, own: Tensor) -> RowIndex:
        """The nodes of one type whose rows are in the part, `own` ones among them."""
        name = f"nodes-{kind}"
        if name in self.entries:
            entry = self.entries[name]
            nodes = PART.ids(self.where, entry, num_nodes, "nodes", self.verify)
            if self.verify:
                ascend = bool((nodes.diff() > 0).all())
                self._need(ascend, f"{name}.bin", "must hold ascending nodes", "others")
        else:
            first, stop = self.entries.get(f"range-{kind}", (0, 0))
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
        edges, longest = entry["num_edges"], entry["max_degree"]
        rule, count = f"must have at most {edges} edges", adj.num_edges
        self._need(count <= edges, folder.name, rule, count)
        if self.verify and rows.size:
            rule, got = f"must have rows of at most {longest} edges", adj.max_degree
            self._need(got <= longest, folder.name, rule, got)
        name, edge_id = f"edge_id-{kind}", None
        if name in self.entries:
            own = self.entries[name]
            edge_id = PART.ids(self.where, own, edges, "edges", self.verify)
            self._need_size(name, edge_id, count, "edge")
        first = self._first(f"first-{kind}", adj, edges)
        return LocalRows(adj, rows, first, edge_id, edges, longest)

    def _first(self, name: str, adj: CompactAdj, edges: int) -> Tensor | int:
        """The start of every row among the `edges` of the whole graph."""
        entry = self._entry(name)
        if isinstance(entry, int):
            sound = entry + adj.num_edges <= edges
            file = name.replace("first", "relation")
            self._need(sound, file, f"must begin among {edges} edges", entry)
            return entry
        first = PART.array(self.where, entry, self.verify)
        self._need_size(name, first, adj.num_rows, "row")
        if self.verify and first.numel():
            last = first + adj.degree
            sound = bool((first[1:] >= last[:-1]).all())
            sound &= int(first[0]) >= 0 and int(last[-1]) <= edges
            rule = f"must say where rows begin among {edges} edges"
            self._need(sound, f"{name}.bin", rule, "other numbers")
        return first

    def feature(self, kind: int, entry: dict[str, Any], size: int) -> FeatureFile:
        """The `size` own rows of one feature."""
        own = self._entry(f"feature-{kind}")
        path = self.where / own["file"]
        rows = FeatureFile(path) if path.is_file() else PART.missing(path)
        same = (rows.seal, list(rows.shape)) == (own["seal"], [size, *entry["shape"]])
        rule = "must hold the rows that this part was written with"
        self._need(same, path.name, rule, "others")
        return rows.validate() if self.verify else rows

    def _entry(self, name: str) -> Any:
        """The entry of a file in the header, which must have one."""
        rule = "must name all files of the part"
        self._need(name in self.entries, HEADER, rule, f"no {name}")
        return self.entries[name]

    def _need_size(self, name: str, array: Tensor, size: int, of: str) -> None:
        rule, got = f"must have one entry per {of}, {size}", array.numel()
        self._need(got == size, f"{name}.bin", rule, got)

    def _need(self, sound: bool, name: str, rule: str, got: object) -> None:
        """Refuses the part, by the name of one of its files, unless it is sound."""
        if not sound:
            PART.refuse(self.where / name, rule, got)
