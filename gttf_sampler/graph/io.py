"""Graphs in files, read and written: text, .parquet, .npz, or a CompactAdj directory.

Also embeddings with the ids of their nodes.
"""

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
import torch
from torch import Tensor

from gttf_sampler import _check, _files
from gttf_sampler.graph.cells import COMMENTS, is_missing, whole_numbers
from gttf_sampler.graph.compact import CompactAdj
from gttf_sampler.graph.edgelist import (
    ROLES,
    EdgeList,
    TableOptions,
    choose_columns,
    read_text,
)
from gttf_sampler.graph.exchange import (
    Array,
    columns_of,
    edges_of_frame,
    ids_of,
    values_of,
)

LAYOUTS = "'edge_index' [2, m], 'row' and 'col' [m], or 'indptr' and 'indices'"
TABLES = (".parquet", ".pq")
SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": " ", ".edgelist": " ", ".edges": " "}
WRITTEN = (*SEPARATORS, ".npz", *TABLES)
VECTOR_TEXTS = (".txt", ".tsv", ".emb")
VECTORS = (".npy", ".npz", *VECTOR_TEXTS)
DEFAULTS = TableOptions()


def read_graph(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    direction: str = "in",
    header: bool | None = None,
    separator: str | None = None,
    dates: str | None = None,
) -> CompactAdj:
    """Reads a graph from a directory, an .npz or .parquet file, or text.

    Ids that are no numbers 0 … n - 1 are kept as `node_id`.

    Args:
        path: what `CompactAdj.save` or `write_graph` wrote, or a file of yours: text
            (see `read_edges`), also packed with gzip; .parquet; or .npz with
            'edge_index' [2, m], 'row' and 'col', or 'indptr' and 'indices', or written
            by scipy.
        columns: names of the columns of a table: source, target, and perhaps the
            weight and the time; by default those that have such names.
        direction: see `CompactAdj`; a directory has its own.
        header: of text, see `read_edges`.
        separator: of text, see `read_edges`.
        dates: the format of times for `strptime`, if they are not numbers or ISO 8601.
    """
    file = _check.path("path", path)
    options = TableOptions(columns, header, separator, dates)
    if is_table(file):
        return CompactAdj.from_edges(read_table(file, options), direction=direction)
    _check_no_table(file, options)
    return CompactAdj.open(file) if file.is_dir() else _from_arrays(file, direction)


def read_edges(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    header: bool | None = None,
    separator: str | None = None,
    dates: str | None = None,
) -> EdgeList:
    """Reads the edges of a file, with the ids of nodes there.

    Text has lines `source target [weight]`, with spaces, tabs, commas or ; between.
    Lines that begin with # or % are comments, but for rows of csv such as `#cats,ann`
    below the first line; `.gz` files are unpacked. Ids are integers, or any words if
    one of them is not an integer; in .tsv files and between commas words may have
    spaces. A heading is recognised: known names such as source
    and target, words above numbers, and in csv a first line of words that do not come
    again. It says which columns are read: source and target, or the first two behind
    an index of pandas; weight or amount; time, timestamp or date. A third column of
    numbers without a name is taken for weights. Times are numbers or ISO dates, which
    become seconds since 1970.

    Args:
        path: a file of text, .parquet or .npz; see `read_graph`.
        columns: names in the heading: source, target, and perhaps the weight and the
            time, "-" for none; numbers from "1" on where there is no heading.
        header: whether the first line is a heading; None to recognise one.
        separator: a character, or comma, semicolon, tab, pipe or space.
        dates: the format of times for `strptime`, if they are not numbers or ISO 8601.
    """
    file = _check.path("path", path)
    options = TableOptions(columns, header, separator, dates)
    if file.suffix != ".npz":
        return read_table(file, options)
    _check_no_table(file, options)
    adj = _from_arrays(file, "in")
    ids = np.arange(adj.num_rows) if adj.node_id is None else adj.node_id
    return EdgeList(adj.to_edge_index(), ids, adj.edge_weight, adj.edge_time)


read_edge_list = read_edges
"""`read_edges`, as it was called when it read text alone."""


def is_table(path: str | os.PathLike[str]) -> bool:
    """True for a table of edges: text or .parquet, whose columns can be chosen."""
    file = _check.path("path", path)
    return not file.is_dir() and file.suffix != ".npz"


def read_table(
    file: Path, options: TableOptions = DEFAULTS, values: bool = True
) -> EdgeList:
    """Reads text or .parquet; without weights and times if `values` is False.

    A third column of numbers may be anything, also less than zero: who needs the
    structure alone does not read it.
    """
    if file.suffix in TABLES:
        return _from_parquet(file, options, values)
    return read_text(file, options, values)


def read_structure(path: str | os.PathLike[str]) -> CompactAdj:
    """Reads a graph without the weights and times of a table."""
    if not is_table(path):
        return read_graph(path)
    return CompactAdj.from_edges(read_table(Path(path), values=False))


def _check_no_table(
    file: Path, options: TableOptions, of: str = ".npz or a directory"
) -> None:
    """Refuses options of tables where there is nothing to choose."""
    for name, value in options._asdict().items():
        if value is not None:
            rule = f"must be left out where the graph is {of}"
            _check.fail(name, rule, f"{_check.shown(value)} for {file}")


def _from_parquet(file: Path, options: TableOptions, values: bool) -> EdgeList:
    if not file.is_file():
        _check.fail("path", "must be a file with edges", str(file))
    _check_no_table(file, options._replace(columns=None, dates=None), ".parquet")
    _check.library("pyarrow", file.suffix)
    parquet: Any = import_module("pyarrow.parquet")
    try:
        table = parquet.read_table(file)
    except (OSError, ValueError) as error:
        _check.fail("path", "must be a whole .parquet file", f"{file}: {error}")
    names = list(table.column_names)
    if len(names) < 2:
        _check.fail("path", "must have two columns or more", f"{names} in {file}")
    columns = choose_columns(names, options.columns, headed=True).without_guess()
    found = {role: names[at] for role, at in columns.places.items()}
    read = {role: found[role] for role in found if values or role in ROLES[:2]}
    edges = edges_of_frame(table, **read, dates=options.dates)
    return edges._replace(columns=found)


def _from_arrays(file: Path, direction: str) -> CompactAdj:
    """Reads a graph from named arrays; scipy's A[i, j] is an edge i → j."""
    if not is_zipfile(file):
        _check.fail("path", "must be a whole .npz file", str(file))
    with np.load(file) as arrays:
        names = set(arrays.files)
        if "format" in names:
            _check.library("scipy", f"'{file.name}', which scipy has written,")
            matrix = import_module("scipy.sparse").load_npz(file).tocoo()
            matrix.resize(2 * (max(matrix.shape),))  # one set of nodes
            return CompactAdj.from_scipy(matrix, direction=direction)
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
        adj = CompactAdj.from_edge_index(ends, size, direction=direction, **values)
        ids = ids_of("node_id", arrays["node_id"]) if "node_id" in names else None
        return adj.named(ids)


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
    if suffix in TABLES:
        pyarrow = _check.library("pyarrow", suffix)
        table = pyarrow.table(columns_of(adj, "source", "target"))
        with _files.replacing(file) as (out,):
            import_module("pyarrow.parquet").write_table(table, out)
    elif suffix == ".npz":
        arrays: dict[str, Any] = {"edge_index": adj.to_edge_index().cpu().numpy()}
        arrays["num_nodes"] = np.array(adj.num_rows)
        if adj.node_id is not None:
            arrays["node_id"] = ids_of("node_id", adj.node_id)
        arrays |= values_of(adj)
        with _files.replacing(file) as (out,):
            np.savez(out, **arrays)
    else:
        text = _as_text(columns_of(adj, "source", "target"), SEPARATORS[suffix])
        with _files.replacing(file) as (out,):
            out.write(gzip.compress(text, mtime=0) if packed else text)
    return file


def _as_text(named: dict[str, Array], separator: str) -> bytes:
    """Columns under their names; words that hold a separator are quoted."""
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
        rule = ""
        if word.startswith(COMMENTS):
            rule = f"must not begin with {' or '.join(COMMENTS)} in text: a comment"
        elif word != word.strip() or len(word.splitlines()) != 1:
            rule = "must have no space around them in text, nor line breaks"
        elif separator == " " and '"' in word:
            rule = "must have no quotes in text"
        if rule:
            _check.fail("node_id", rule, repr(word), cure)
    known = [word for word in words if not is_missing(word)]
    if words and whole_numbers(known) is not None:
        rule = "must not be words that are all read as integers in text"
        _check.fail("node_id", rule, repr(words[0]), cure)


def embedding_files(path: str | os.PathLike[str]) -> list[Path]:
    """Returns the files that `write_embeddings` writes for a name."""
    file = _check.path("path", path)
    if file.suffix not in VECTORS:
        _check.fail("path", f"must end in one of {', '.join(VECTORS)}", repr(file.name))
    if not file.absolute().parent.is_dir():
        _check.fail("path", "must be in a directory that is there", str(file))
    return [file, file.with_suffix(".ids.txt")] if file.suffix == ".npy" else [file]


def write_embeddings(
    path: str | os.PathLike[str], embedding: Tensor, node_id: Array
) -> list[Path]:
    """Writes vectors [n, d] with the ids [n] of their nodes; returns the files.

    The end of the name says how: `.npy` is the matrix alone, with the ids in a file
    `.ids.txt` beside it, line by line; `.npz` holds the arrays `embedding` and
    `node_id`; `.txt`, `.tsv` and `.emb` are word2vec's text, a line `n d` and then
    `id x₁ … x_d` per node. What was there before stays until the new file is whole.
    """
    files = embedding_files(path)
    suffix = files[0].suffix
    _check.real("embedding", embedding)
    rows = _check.tensor("embedding", embedding, rank=2).cpu()
    vectors: Array = (rows.float() if rows.dtype == torch.bfloat16 else rows).numpy()
    if not isinstance(node_id, np.ndarray | list | tuple | range):
        rule = "must be an array or a list of ids"
        _check.mistyped("node_id", rule, _check.kind_of(node_id))
    if np.ndim(node_id) != 1 or len(node_id) != len(vectors):
        rule = f"must have one entry per row, {len(vectors)}"
        _check.fail("node_id", rule, f"shape {list(np.shape(node_id))}")
    if not np.isfinite(vectors).all():
        cure = "learn with a smaller rate"
        _check.fail("embedding", "must hold finite numbers", "others, too", cure)
    if suffix in VECTOR_TEXTS and any(len(str(name).split()) != 1 for name in node_id):
        rule = f"must be words without spaces in {suffix}"
        _check.fail("node_id", rule, "others, too", "write .npz or .npy")
    with _files.replacing(*files) as (out, *beside):
        if suffix == ".npy":
            np.save(out, vectors)
            beside[0].write("".join(f"{name}\n" for name in node_id).encode())
        elif suffix == ".npz":
            np.savez(out, embedding=vectors, node_id=node_id)
        else:
            out.write(f"{vectors.shape[0]} {vectors.shape[1]}\n".encode())
            for name, vector in zip(node_id, vectors, strict=True):
                line = f"{name} {' '.join(f'{x:.6g}' for x in vector)}\n"
                out.write(line.encode())
    return files
