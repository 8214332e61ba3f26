"""Graphs in files: which format a name stands for, read and written."""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np

from gttf_sampler import _check, _files
from gttf_sampler.graph.cells import is_missing, whole_numbers
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.graph.edgelist import EdgeList, read_text
from gttf_sampler.graph.frames import columns_of, edges_of_frame
from gttf_sampler.graph.names import Array, ids_of
from gttf_sampler.graph.text import COMMENTS, NONE, Asked, roles_of

LAYOUTS = "'edge_index' [2, m], 'row' and 'col' [m], or 'indptr' and 'indices'"
TABLES = (".parquet", ".pq")
SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": " ", ".edgelist": " ", ".edges": " "}
PLAIN = Asked()
WRITTEN = (*SEPARATORS, ".npz", *TABLES)


def read_graph(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    direction: str = "in",
    header: bool | None = None,
    separator: str | None = None,
    dates: str | None = None,
) -> CompactAdj:
    """The graph in a directory, an .npz or .parquet file, or a text file of edges.

    Ids that are no numbers 0 … n - 1 are kept as `node_id`.

    Args:
        path: what `CompactAdj.save` or `write_graph` wrote, or a file of yours: text
            (see `read_edge_list`), also packed with gzip; .parquet; or .npz with
            'edge_index' [2, m], 'row' and 'col', or 'indptr' and 'indices', or written
            by scipy.
        columns: names of the columns of a table: source, target, and perhaps the
            weight and the time; by default those that have such names.
        direction: see `CompactAdj`; a directory has its own.
        header: of text, see `read_edge_list`.
        separator: of text, see `read_edge_list`.
        dates: the format of times for `strptime`, if they are not numbers or ISO 8601.
    """
    file, asked = _check.path("path", path), Asked(columns, header, separator, dates)
    if file.is_dir():
        _check_no_table(file, asked)
        return CompactAdj.open(file)
    if file.suffix == ".npz":
        _check_no_table(file, asked)
        return _from_arrays(file, direction)
    return CompactAdj.from_edges(read_table(file, asked), direction=direction)


def read_edges(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    header: bool | None = None,
    separator: str | None = None,
    dates: str | None = None,
) -> EdgeList:
    """The edges of a file, with the ids that nodes have there; see `read_graph`."""
    file, asked = _check.path("path", path), Asked(columns, header, separator, dates)
    if file.suffix != ".npz":
        return read_table(file, asked)
    _check_no_table(file, asked)
    adj = _from_arrays(file, "in")
    ids = np.arange(adj.num_rows) if adj.node_id is None else adj.node_id
    return EdgeList(adj.to_edge_index(), ids, adj.edge_weight, adj.edge_time)


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a file of edges whose columns one may take or leave."""
    file = _check.path("path", path)
    return not file.is_dir() and file.suffix != ".npz"


def read_table(file: Path, asked: Asked = PLAIN, values: bool = True) -> EdgeList:
    """The edges of text or .parquet; without weights and times if `values` is False.

    A third column of numbers may be anything, also less than zero: who needs the
    structure alone does not read it.
    """
    if file.suffix in TABLES:
        return _from_table(file, asked, values)
    return read_text(file, asked, values)


def read_structure(path: str | os.PathLike[str]) -> CompactAdj:
    """A graph for whoever needs no weights; named arrays of other files stay."""
    if not is_table(path):
        return read_graph(path)
    return CompactAdj.from_edges(read_table(Path(path), values=False))


def _check_no_table(file: Path, asked: Asked) -> None:
    """Refuses columns where there are none to choose."""
    for name, value in asked._asdict().items():
        if value is not None:
            rule = "must be left out where the graph is .npz or a directory"
            _check.fail(name, rule, f"{_check.shown(value)} for {file}")


def write_graph(path: str | os.PathLike[str], adj: CompactAdj) -> Path:
    """Writes the edges of a graph with the ids of its nodes; `read_graph` reads them.

    The end of the name says how: .csv, .tsv and .txt are text, packed if .gz follows;
    .parquet and .npz are tables. Nodes without edges are kept by .npz alone.
    """
    file = _check.path("path", path)
    packed = file.suffix == ".gz"
    suffix = Path(file.stem).suffix if packed else file.suffix
    if suffix not in WRITTEN or (packed and suffix not in SEPARATORS):
        rule = f"must end in one of {', '.join(WRITTEN)}, text also in .gz"
        _check.fail("path", rule, repr(file.name))
    _check.one_node_set("adj", adj.num_rows, adj.num_cols)
    named = columns_of(adj, "source", "target")
    if suffix in TABLES:
        pyarrow = _check.library("pyarrow", suffix)
        table = pyarrow.table(named)
        with _files.replacing(file) as (out,):
            import_module("pyarrow.parquet").write_table(table, out)
        return file
    if suffix == ".npz":
        arrays: dict[str, Any] = {"edge_index": adj.to_edge_index().cpu().numpy()}
        arrays["num_nodes"] = np.array(adj.num_rows)
        if adj.node_id is not None:
            arrays["node_id"] = ids_of("node_id", adj.node_id)
        for name in ("weight", "time"):
            if name in named:
                arrays[name] = named[name]
        with _files.replacing(file) as (out,):
            np.savez(out, **arrays)
        return file
    text = _as_text(named, SEPARATORS[suffix])
    with _files.replacing(file) as (out,):
        out.write(gzip.compress(text, mtime=0) if packed else text)
    return file


def _as_text(named: dict[str, Array], separator: str) -> bytes:
    """Lines of columns, under their names; words that hold a separator are quoted."""
    words = np.unique(np.concatenate([named["source"], named["target"]]))
    if words.dtype.kind == "U":
        _check_words(words.tolist(), separator)
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator="\n")
    writer.writerow(named)
    writer.writerows(zip(*(column.tolist() for column in named.values()), strict=True))
    return out.getvalue().encode()


def _check_words(words: list[str], separator: str) -> None:
    """Refuses ids that would not be read as they are."""
    if separator == " " and any(len(word.split()) != 1 for word in words):
        cure = "write .csv, .tsv or .parquet"
        _check.fail("node_id", "must be words without spaces", "others", cure)
    cure = "write .parquet or .npz"
    for word in words:
        if word.startswith(COMMENTS):
            rule = f"must not begin with {' or '.join(COMMENTS)} in text: a comment"
            _check.fail("node_id", rule, repr(word), cure)
        if word != word.strip() or len(word.splitlines()) != 1:
            rule = "must have no space around them in text, nor line breaks"
            _check.fail("node_id", rule, repr(word), cure)
        if separator == " " and '"' in word:
            _check.fail("node_id", "must have no quotes in text", repr(word), cure)
    known = [word for word in words if not is_missing(word)]
    if words and whole_numbers(known) is not None:
        rule = "must not be words that are all read as integers in text"
        _check.fail("node_id", rule, repr(words[0]), cure)


def _from_table(file: Path, asked: Asked, values: bool) -> EdgeList:
    """The edges of a .parquet file."""
    if not file.is_file():
        _check.fail("path", "must be a file with edges", str(file))
    for name, value in (("header", asked.header), ("separator", asked.separator)):
        if value is not None:
            got = f"{_check.shown(value)} for {file}"
            _check.fail(name, "must be left out where the graph is .parquet", got)
    _check.library("pyarrow", file.suffix)
    parquet: Any = import_module("pyarrow.parquet")
    try:
        table = parquet.read_table(file)
    except (OSError, ValueError) as error:
        _check.fail("path", "must be a whole .parquet file", f"{file}: {error}")
    names = list(table.column_names)
    if len(names) < 2:
        _check.fail("path", "must have two columns or more", f"{names} in {file}")
    if asked.columns is None:
        roles = roles_of(names, None, headed=True)
        roles = roles._replace(weight=None if roles.guessed else roles.weight)
        places = {
            "source": roles.ends[0],
            "target": roles.ends[1],
            "weight": roles.weight,
            "time": roles.time,
        }
        found = {role: names[at] for role, at in places.items() if at is not None}
    else:
        rest = (name for name in asked.columns)
        found = dict(zip(("source", "target", "weight", "time"), rest, strict=False))
        found = {role: name for role, name in found.items() if name != NONE}
    read = found if values else {role: found[role] for role in ("source", "target")}
    edges = edges_of_frame(
        table,
        read["source"],
        read["target"],
        read.get("weight"),
        read.get("time"),
        asked.dates,
    )
    return edges._replace(columns=found)


def _from_scipy(file: Path) -> tuple[Array, int]:
    """The edges and the number of nodes of what `scipy.sparse.save_npz` has written."""
    _check.library("scipy", f"'{file.name}', which scipy has written,")
    matrix = import_module("scipy.sparse").load_npz(file).tocoo()
    return np.stack([matrix.row, matrix.col]).astype(np.int64), max(matrix.shape)


def _from_arrays(file: Path, direction: str) -> CompactAdj:
    """A graph from named arrays; a matrix of scipy has an edge i → j for A[i, j]."""
    if not is_zipfile(file):
        _check.fail("path", "must be a whole .npz file", str(file))
    with np.load(file) as arrays:
        names = set(arrays.files)
        if "format" in names:
            return CompactAdj.from_edge_index(*_from_scipy(file), direction=direction)
        if {"indptr", "indices"} <= names:
            rows = arrays["indptr"], arrays["indices"]
            return CompactAdj.from_csr(*rows, direction=direction)
        if "edge_index" in names:
            ends = arrays["edge_index"]
        elif {"row", "col"} <= names:
            ends = np.stack([arrays["row"], arrays["col"]]).astype(np.int64)
        else:
            _check.fail(file.name, f"must hold {LAYOUTS}", sorted(names))
        size = int(arrays["num_nodes"]) if "num_nodes" in names else None
        values = {
            f"edge_{word}": arrays[name]
            for word in ("weight", "time")
            for name in (word, f"edge_{word}")  # ours, and what attributes are called
            if name in names
        }
        adj = CompactAdj.from_edge_index(
            ends,
            size,
            direction=direction,
            **values,
        )
        ids = ids_of("node_id", arrays["node_id"]) if "node_id" in names else None
        return adj.named(ids)
