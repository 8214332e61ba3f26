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
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.graph.edgelist import COMMENTS, EdgeList, read_edge_list
from gttf_sampler.graph.frames import columns_of, edges_of_frame
from gttf_sampler.graph.names import Array, ids_of

LAYOUTS = "'edge_index' [2, m], 'row' and 'col' [m], or 'indptr' and 'indices'"
TABLES = (".parquet", ".pq")
SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": " ", ".edgelist": " ", ".edges": " "}
WRITTEN = (*SEPARATORS, ".npz", *TABLES)


def read_graph(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    direction: str = "in",
) -> CompactAdj:
    """The graph in a directory, an .npz or .parquet file, or a text file of edges.

    Ids that are no numbers 0 … n - 1 are kept as `node_id`.

    Args:
        path: what `CompactAdj.save` or `write_graph` wrote, or a file of yours: text
            (see `read_edge_list`), also packed with gzip; .parquet; or .npz with
            'edge_index' [2, m], 'row' and 'col', or 'indptr' and 'indices', or written
            by scipy.
        columns: names of the columns of a table: source, target, and perhaps the
            weight and the time; by default the first two, and 'weight' and 'time'.
        direction: see `CompactAdj`; a directory has its own.
    """
    file = _check.path("path", path)
    if file.is_dir():
        return CompactAdj.open(file)
    if file.suffix == ".npz":
        return _from_arrays(file, direction)
    return CompactAdj.from_edges(read_edges(file, columns), direction=direction)


def read_edges(
    path: str | os.PathLike[str], columns: Sequence[str] | None = None
) -> EdgeList:
    """The edges of a file, with the ids that nodes have there; see `read_graph`."""
    file = _check.path("path", path)
    if file.suffix in TABLES:
        return _from_table(file, columns)
    if file.suffix != ".npz":
        return read_edge_list(file, columns)
    adj = _from_arrays(file, "in")
    ids = np.arange(adj.num_rows) if adj.node_id is None else adj.node_id
    return EdgeList(adj.to_edge_index(), ids, adj.edge_weight, adj.edge_time)


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
    if words and all(map(_is_integer, words)):
        rule = "must not be words that are all read as integers in text"
        _check.fail("node_id", rule, repr(words[0]), cure)


def _is_integer(word: str) -> bool:
    """Whether a word alone is read as a number."""
    try:
        np.loadtxt(
            [word], np.int64, comments=None, delimiter=SEPARATORS[".csv"], ndmin=1
        )
    except (ValueError, OverflowError):
        return False
    return True


def _from_table(file: Path, columns: Sequence[str] | None) -> EdgeList:
    """The edges of a .parquet file."""
    if not file.is_file():
        _check.fail("path", "must be a file with edges", str(file))
    _check.library("pyarrow", file.suffix)
    parquet: Any = import_module("pyarrow.parquet")
    try:
        table = parquet.read_table(file)
    except (OSError, ValueError) as error:
        _check.fail("path", "must be a whole .parquet file", f"{file}: {error}")
    names = list(table.column_names) if columns is None else list(columns)
    if len(names) < 2:
        _check.fail("path", "must have two columns or more", f"{names} in {file}")
    if columns is None:
        rest = [name if name in names[2:] else None for name in ("weight", "time")]
    else:
        rest = [*names[2:4], None, None][:2]
    return edges_of_frame(table, names[0], names[1], *rest)


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
        adj = CompactAdj.from_edge_index(
            ends,
            size,
            direction=direction,
            edge_weight=arrays["weight"] if "weight" in names else None,
            edge_time=arrays["time"] if "time" in names else None,
        )
        ids = ids_of("node_id", arrays["node_id"]) if "node_id" in names else None
        return adj.named(ids)
